"""JSON for the console: the gateway's state, live and recent requests, one request in full."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.explain import engine_times, token_steps
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.collectors import safely
from sluicegate.gateway.telemetry.finished import Finished
from sluicegate.gateway.telemetry.metrics import SUCCESS
from sluicegate.gateway.telemetry.series import SLICE_S
from sluicegate.gateway.telemetry.span_builder import GUARDS, SpanFact, spans_of

HISTOGRAMS = {
    "first": semconv.METRIC_TIME_TO_FIRST_TOKEN,
    "token": semconv.METRIC_INTER_TOKEN,
    "total": semconv.METRIC_REQUEST_DURATION,
    "queue": semconv.METRIC_QUEUE_TIME,
    "prefill": semconv.METRIC_PREFILL_TIME,
    "held": semconv.METRIC_HOLD_TIME,
}


class Views:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def overview(self) -> dict[str, Any]:
        """Numbers since the start, and the last half hour in slices."""
        runtime = self._runtime
        families = {family.name: family for family in runtime.metrics.registry.collect()}
        [(_, generator)] = [runtime.pipeline.stages.generate]
        return {
            **self.now(),
            "state": runtime.progress.state,
            "started_s": runtime.started_s,
            "content": runtime.shows_content,
            "exports": runtime.trace_sink.exporter is not None,
            "models": [_model(name, model) for name, model in runtime.models.items()],
            "engine": dict(safely(generator.stats, "the generator")),
            "lag": dict(runtime.lag.stats()),
            "histograms": {name: _histogram(families.get(metric)) for name, metric in HISTOGRAMS.items()},
            "goodput": _goodput(families.get(semconv.METRIC_GOODPUT.removesuffix("_total"))),
            "verdicts": _verdicts(families.get(semconv.METRIC_VERDICTS.removesuffix("_total"))),
            "caches": {name: dict(cache.stats()) for name, cache in runtime.caches},
            "slice_s": SLICE_S,
            "series": runtime.trace_sink.series.as_json(),
            "objectives": _objectives(runtime),
        }

    def now(self) -> dict[str, Any]:
        return {"now_s": time.time(), "seen": self._runtime.trace_sink.seen, "live": [*self.live()]}

    def live(self) -> Iterator[dict[str, Any]]:
        """Requests that have begun and not ended, oldest first."""
        for exchange in list(self._runtime.live.by_id.values()):
            yield _live(exchange)

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Newest first."""
        found = []
        for done in self._runtime.trace_sink.recent():
            found.append(summary(done))
            if len(found) >= limit:
                break
        return found

    def one(self, name: str) -> dict[str, Any] | None:
        done = self._runtime.trace_sink.find(name)
        return None if done is None else whole(done)


def summary(done: Finished) -> dict[str, Any]:
    """One line of a list; nothing in it is content."""
    return {
        "id": done.asked.id,
        "trace": f"{done.ids.trace_id:032x}",
        "sampled": done.ids.sampled,
        "at_s": done.began_ns / 1e9,
        "model": done.model or done.asked.model,
        "tenant": done.caller.tenant,
        "key": done.caller.key_id,
        "output": done.asked.output,
        "stream": done.asked.stream,
        "ms": done.duration_s * 1e3,
        "first_ms": None if done.first_s is None else done.first_s * 1e3,
        "prompt_tokens": done.usage.prompt_tokens,
        "cached_tokens": done.usage.cached_tokens,
        "completion_tokens": done.usage.completion_tokens,
        "ended": done.error or ",".join(done.finish_reasons) or SUCCESS,
        "failed": done.error is not None,
        "cached": done.cached,
        "verdicts": [
            [decision.slot, decision.stage, decision.outcome]
            for decision in done.decisions
            if decision.slot in GUARDS and decision.outcome != "pass"
        ],
    }


def whole(done: Finished) -> dict[str, Any]:
    """One request: its spans, where text was held, and what the operator opted in to."""
    line = done.timeline
    found = {
        **summary(done),
        "version": done.version,
        "spans": [_span(span) for span in spans_of(done)],
        "holds": [
            {
                "choice": hold.choice,
                "at_ms": (hold.began_s - done.began_s) * 1e3,
                "ms": (hold.ended_s - hold.began_s) * 1e3,
                "characters": hold.characters,
            }
            for hold in done.holds
        ],
    }
    if line is not None:
        found["engine"] = engine_times(line)
        found["tokens"] = token_steps(line)
    if done.content is not None:
        found["messages"] = [{"role": role, "text": text} for role, text in done.content.messages]
        found["answers"] = [{"text": text, "ended": ended} for text, ended in done.content.answers]
    return found


def _span(span: SpanFact) -> dict[str, Any]:
    hidden = (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.INPUT_VALUE, semconv.OUTPUT_VALUE)
    return {
        "name": span.name,
        "parent": span.parent,
        "at_ms": span.began_s * 1e3,
        "ms": (span.ended_s - span.began_s) * 1e3,
        "slot": span.attributes.get(semconv.STAGE_SLOT, "request"),
        "failed": span.failed,
        "attributes": {name: value for name, value in span.attributes.items() if name not in hidden},
        "events": [
            {"name": event.name, "at_ms": event.at_s * 1e3, "attributes": dict(event.attributes)}
            for event in span.events
        ],
    }


def _live(exchange: Exchange) -> dict[str, Any]:
    line = exchange.timeline
    return {
        "id": exchange.request.id,
        "model": exchange.model.name if exchange.model else exchange.request.model,
        "tenant": exchange.caller.tenant,
        "ms": (time.perf_counter() - exchange.entry.started_at) * 1e3,
        "stage": _doing(exchange),
        "tokens": line.tokens if line is not None else 0,
        "prompt_tokens": exchange.usage.prompt_tokens,
    }


def _doing(exchange: Exchange) -> str:
    line = exchange.timeline
    if line is None:
        return exchange.decisions[-1].slot if exchange.decisions else "admit"
    if line.started_s is None:
        return "queue"
    return "prefill" if line.first_token_s is None else "decode"


def _model(name: str, model: Any) -> dict[str, Any]:
    return {"name": name, "version": model.version, "context": model.context_length, "vocabulary": model.vocab_size}


def _histogram(family: Metric | None) -> dict[str, Any]:
    """Counts between bounds, over all labels."""
    reached: dict[float, float] = {}
    total = 0.0
    for sample in family.samples if family is not None else ():
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            reached[bound] = reached.get(bound, 0.0) + float(sample.value)
        elif sample.name.endswith("_sum"):
            total += float(sample.value)
    bounds = sorted(reached)
    counts = [reached[b] - (reached[bounds[at - 1]] if at else 0.0) for at, b in enumerate(bounds)]
    return {"bounds_s": bounds[:-1], "counts": counts, "count": sum(counts), "sum_s": total}


def _goodput(family: Metric | None) -> dict[str, float]:
    found = {"met": 0.0, "missed": 0.0}
    for sample in family.samples if family is not None else ():
        if sample.name.endswith("_total"):
            found["met" if sample.labels["met"] == "true" else "missed"] += float(sample.value)
    return found


def _verdicts(family: Metric | None) -> list[list[Any]]:
    samples = family.samples if family is not None else ()
    return [[s.labels["rail"], s.labels["verdict"], s.value] for s in samples if s.name.endswith("_total")]


def _objectives(runtime: Runtime) -> dict[str, float]:
    objectives = runtime.settings.telemetry
    return {"first_s": objectives.slo_first_s, "token_s": objectives.slo_token_s, "total_s": objectives.slo_total_s}
