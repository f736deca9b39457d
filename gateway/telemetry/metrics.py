"""Prometheus metrics, and the recorder that feeds them. One registry per gateway: two may live in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.exposition import choose_encoder

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.collectors import Buckets, LabelledCounts, Stats, StatsCollector, VllmAliases
from sluicegate.gateway.telemetry.labels import Labels
from sluicegate.plugins import Capacity, Decision, Outcome

MODEL = semconv.REQUEST_MODEL.replace(".", "_")
SUCCESS = "success"
"""Outcome of a request without choices: embeddings, moderations."""
STOPPED = ("block", "escalate", "failed")
JUDGED = frozenset(("screen", "moderate", "recall"))
"""Slots whose outcomes are counted."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a request must keep to count as goodput, in seconds: first text, further tokens on average, all."""

    first_s: float = 1.0
    token_s: float = 0.1
    total_s: float = 30.0

    def met(self, outcome: Outcome, per_token_s: float | None) -> bool:
        """Return whether a request met the objective. A caller who hangs up counts by how long it waited until then."""
        left = outcome.error == "cancelled"
        first = outcome.time_to_first_chunk_s
        if first is None and left:
            first = outcome.duration_s
        return (
            (outcome.error is None or left)
            and (first is None or first <= self.first_s)
            and (per_token_s is None or per_token_s <= self.token_s)
            and outcome.duration_s <= self.total_s
        )


class Metrics:
    """What operators watch. Thread-safe as `prometheus_client` is; one thread calls `observe` and `count_response`."""

    def __init__(self, objectives: Objectives = Objectives(), label_values: int = 100) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._objectives = objectives
        self._models, self._outcomes, self._stages = Labels(label_values), Labels(label_values), Labels(label_values)
        self._verdict_names, self._results = Labels(label_values), Labels(label_values)
        self._responses = self._counts(semconv.METRIC_HTTP_RESPONSES, "Answers over HTTP, by status.", "status")
        self._requests = self._counts(semconv.METRIC_REQUESTS, "Requests by how they ended.", MODEL, "outcome")
        self._goodput = self._counts(
            semconv.METRIC_GOODPUT, "Requests served, by whether they kept the service level objectives.", MODEL, "met"
        )
        self._duration = self._buckets(
            semconv.METRIC_REQUEST_DURATION,
            "Seconds from a request's arrival to its last byte.",
            semconv.DURATION_BUCKETS_S,
            MODEL,
        )
        self._first = self._buckets(
            semconv.METRIC_TIME_TO_FIRST_TOKEN,
            "Seconds from a request's arrival to the first released text, after rails.",
            semconv.FIRST_TOKEN_BUCKETS_S,
            MODEL,
        )
        self._per_token = self._buckets(
            semconv.METRIC_TIME_PER_OUTPUT_TOKEN,
            "Seconds for each output token after the first, mean of a request, as released.",
            semconv.TOKEN_TIME_BUCKETS_S,
            MODEL,
        )
        self._gaps = self._buckets(
            semconv.METRIC_INTER_TOKEN,
            "Seconds between two released pieces of text.",
            semconv.TOKEN_TIME_BUCKETS_S,
            MODEL,
        )
        self._queue = self._buckets(
            semconv.METRIC_QUEUE_TIME,
            "Seconds from submission to the first forward pass.",
            semconv.STAGE_BUCKETS_S,
            MODEL,
        )
        self._prefill = self._buckets(
            semconv.METRIC_PREFILL_TIME, "Seconds from there to the first token.", semconv.STAGE_BUCKETS_S, MODEL
        )
        self._held = self._buckets(
            semconv.METRIC_HOLD_TIME,
            "Seconds that text of a request waited for a rail, the longest time of each request.",
            semconv.STAGE_BUCKETS_S,
            MODEL,
        )
        self._tokens = self._buckets(
            semconv.METRIC_TOKEN_USAGE,
            "Tokens of a request by type.",
            semconv.TOKEN_BUCKETS,
            MODEL,
            "gen_ai_token_type",
        )
        self._cached = self._counts(
            semconv.METRIC_CACHED_TOKENS, "Prompt tokens that the prefix cache saved computing.", MODEL
        )
        self._stage = self._buckets(
            semconv.METRIC_STAGE_DURATION,
            "Seconds spent in a stage of the pipeline.",
            semconv.STAGE_BUCKETS_S,
            "slot",
            "stage",
        )
        self._verdicts = self._counts(semconv.METRIC_VERDICTS, "Verdicts of rails.", "rail", "verdict")
        self._refusals = self._counts(
            semconv.METRIC_REFUSALS, "Requests that a rail stopped, by rail and side.", "rail", "target"
        )
        self._lookups = self._counts(semconv.METRIC_CACHE_LOOKUPS, "Look-ups in the response cache.", "result")
        self.false_positives = self._counter(
            semconv.METRIC_FALSE_POSITIVES, "Refusals that somebody reported as wrong.", "rail"
        )
        self.invalid_answers = self._counter(
            semconv.METRIC_INVALID_ANSWERS,
            "Structured answers that the independent validator refused; each is a bug.",
        )

    def watch(self, stats: Stats, prefix: str = "") -> None:
        """Expose a part's numbers as `sluicegate_<prefix><name>`, read at scrape time; `..._total` are counters."""
        self.registry.register(StatsCollector(stats, prefix))

    def alias(self, stats: Stats, model: Callable[[], str], capacity: Callable[[], Capacity] | None = None) -> None:
        """Expose the generator's numbers once more, under the names that inference gateways look for."""
        self.registry.register(VllmAliases(stats, model, capacity))

    def count_response(self, status: int) -> None:
        """Count the answer to a request over HTTP, whether or not it came as far as to have an outcome."""
        self._responses.inc(str(status))

    def observe(self, outcome: Outcome) -> None:
        model = self._models[outcome.model]
        trace_id = outcome.trace_id or ""
        ended = outcome.error or (outcome.answers[0].finish_reason if outcome.answers else SUCCESS)
        self._requests.inc(model, self._outcomes[ended])
        self._duration.trace(outcome.duration_s, trace_id, model)
        if outcome.time_to_first_chunk_s is not None:
            self._first.trace(outcome.time_to_first_chunk_s, trace_id, model)
        per_token_s = _per_token(outcome)
        if per_token_s is not None:
            self._per_token.trace(per_token_s, trace_id, model)
            self._gaps.add(outcome.gaps_s, model)
        if not outcome.by_caller:
            met = "true" if self._objectives.met(outcome, per_token_s) else "false"
            self._goodput.inc(model, met)
        self._tokens.observe(outcome.usage.prompt_tokens, model, "input")
        self._tokens.observe(outcome.usage.completion_tokens, model, "output")
        self._observe_engine(outcome, model)
        for decision in outcome.decisions:
            stage = self._stages[decision.stage]
            self._stage.observe(decision.duration_s, decision.slot, stage)
            if decision.slot in JUDGED:
                self._observe_judgement(decision, stage)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return (body, content type): OpenMetrics, with exemplars, where the client asks for it; else Prometheus
        text."""
        encode, kind = choose_encoder(accept)
        return encode(self.registry), kind

    def _observe_engine(self, outcome: Outcome, model: str) -> None:
        if outcome.usage.cached_tokens:
            self._cached.inc(model, by=outcome.usage.cached_tokens)
        if outcome.held_s:
            self._held.observe(outcome.held_s, model)
        line = outcome.timeline
        if line is not None and line.started_s is not None:
            self._queue.observe(line.started_s - line.queued_s, model)
            if line.first_token_s is not None:
                self._prefill.observe(line.first_token_s - line.started_s, model)

    def _observe_judgement(self, decision: Decision, stage: str) -> None:
        if decision.slot != "recall":
            self._verdicts.inc(stage, self._verdict_names[decision.outcome])
            if decision.outcome in STOPPED:
                target = "input" if decision.slot == "screen" else "output"
                self._refusals.inc(stage, target)
        else:
            self._lookups.inc(self._results[decision.outcome])

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _counts(self, name: str, documentation: str, *labels: str) -> LabelledCounts:
        made = LabelledCounts(name, documentation, labels)
        self.registry.register(made)
        return made

    def _buckets(self, name: str, documentation: str, bounds: Sequence[float], *labels: str) -> Buckets:
        made = Buckets(name, documentation, labels, bounds)
        self.registry.register(made)
        return made


def _per_token(outcome: Outcome) -> float | None:
    """Return the seconds for each token after the first. Return None where there is no second one, or nothing was
    generated."""
    after = outcome.usage.completion_tokens - 1
    return sum(outcome.gaps_s) / after if outcome.gaps_s and after > 0 else None


class MetricsRecorder:
    """Slot `record`: every outcome becomes a few increments."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def record(self, outcome: Outcome) -> None:
        self._metrics.observe(outcome)
