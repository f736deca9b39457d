"""JSON for the console: the gateway's state, live and recent requests, one request in full."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from prometheus_client.metrics_core import Metric

from sluicegate.gateway.history import HistoryFilter
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.collectors import safely
from sluicegate.gateway.telemetry.series import SLICE_S
from sluicegate.plugins import HealthReporter, LoadReporter, offers

HISTOGRAMS = {
    "first": semconv.METRIC_TIME_TO_FIRST_TOKEN,
    "token": semconv.METRIC_INTER_TOKEN,
    "total": semconv.METRIC_REQUEST_DURATION,
    "queue": semconv.METRIC_QUEUE_TIME,
    "prefill": semconv.METRIC_PREFILL_TIME,
    "held": semconv.METRIC_HOLD_TIME,
}


class ConsoleViews:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def overview(self) -> dict[str, Any]:
        """Return figures since the start, and the last half hour in slices."""
        runtime = self._runtime
        families = {family.name: family for family in runtime.metrics.registry.collect()}
        [(_, generator)] = [runtime.pipeline.stages.generate]
        readiness = runtime.readiness
        return {
            **self.now(),
            "state": runtime.progress.state,
            "readiness": readiness.state,
            "troubles": [
                {"part": part, "reason": one.reason} for part, found in readiness.troubles.items() for one in found
            ],
            "started_s": runtime.started_s,
            "content": runtime.shows_content,
            "survives": runtime.history.survives,
            "currency": runtime.accounts.settings.currency,
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

    def models(self) -> list[dict[str, Any]]:
        """Return what is served, and how it is: load, servers with their breakers, the engine's figures."""
        runtime = self._runtime
        [(_, generator)] = [runtime.pipeline.stages.generate]
        found = []
        for name, model in runtime.models.items():
            served = name in generator.models
            line: dict[str, Any] = {**_model(name, model), "remote": model.remote, "base": model.base}
            line["route"] = name in runtime.routes.routes
            if served and isinstance(generator, LoadReporter):
                line["load"] = asdict(generator.load(name))
            line["servers"] = (
                [asdict(s) for s in generator.health(name)] if served and offers(generator, HealthReporter) else []
            )
            found.append(line)
        return found

    def now(self) -> dict[str, Any]:
        return {"now_s": time.time(), "seen": self._runtime.trace_sink.seen, "live": [*self.live()]}

    def live(self) -> Iterator[dict[str, Any]]:
        """Yield the requests that have begun and not ended, oldest first."""
        for exchange in list(self._runtime.live.by_id.values()):
            yield _live(exchange)

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return at most `limit` requests that have ended, newest first, from memory."""
        found = []
        for done in self._runtime.trace_sink.recent():
            found.append(self._runtime.history.line(done))
            if len(found) >= limit:
                break
        return found

    def figures(self, wanted: HistoryFilter) -> dict[str, Any]:
        """Return the figures of the requests that the filters name. Blocks: to be called off the event loop."""
        runtime = self._runtime
        return {
            **runtime.history.figures(wanted),
            "currency": runtime.accounts.settings.currency,
            "survives": runtime.history.survives,
            "lost": runtime.history.lost,
        }


def _live(exchange: Exchange) -> dict[str, Any]:
    line = exchange.timeline
    return {
        "id": exchange.request.id,
        "model": exchange.model.name if exchange.model else exchange.request.model,
        "tenant": exchange.caller.tenant,
        "key": exchange.caller.key_id,
        "route": exchange.entry.route,
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
    """Return counts between bounds, over all labels."""
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
