"""Prometheus metrics, and the recorder that feeds them. One registry per gateway: two may live in one process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.telemetry import semconv
from plugins import Outcome

log = logging.getLogger("sluicegate.metrics")
Stats = Callable[[], Mapping[str, float]]


class Metrics:
    """What operators watch. Thread-safe as `prometheus_client` is."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        model = [semconv.REQUEST_MODEL.replace(".", "_")]
        self._requests = Counter(
            semconv.METRIC_REQUESTS, "Requests by how they ended.", [*model, "outcome"], registry=self.registry
        )
        self._duration = Histogram(
            semconv.METRIC_REQUEST_DURATION,
            "Seconds from a request's arrival to its last byte.",
            model,
            buckets=semconv.DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self._first = Histogram(
            semconv.METRIC_TIME_TO_FIRST_TOKEN,
            "Seconds from a request's arrival to the first released text, after rails.",
            model,
            buckets=semconv.FIRST_TOKEN_BUCKETS_S,
            registry=self.registry,
        )
        self._tokens = Histogram(
            semconv.METRIC_TOKEN_USAGE,
            "Tokens of a request by type.",
            [*model, "gen_ai_token_type"],
            buckets=semconv.TOKEN_BUCKETS,
            registry=self.registry,
        )
        self._stage = Histogram(
            semconv.METRIC_STAGE_DURATION,
            "Seconds spent in a stage of the pipeline.",
            ["slot", "stage"],
            buckets=semconv.STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._verdicts = Counter(
            semconv.METRIC_VERDICTS, "Verdicts of rails.", ["rail", "verdict"], registry=self.registry
        )
        self._lookups = Counter(
            semconv.METRIC_CACHE_LOOKUPS, "Look-ups in the response cache.", ["result"], registry=self.registry
        )
        self.false_positives = Counter(
            semconv.METRIC_FALSE_POSITIVES,
            "Refusals that somebody reported as wrong.",
            ["rail"],
            registry=self.registry,
        )
        self.invalid_answers = Counter(
            semconv.METRIC_INVALID_ANSWERS,
            "Structured answers that the independent validator refused; each is a bug.",
            registry=self.registry,
        )

    def watch(self, stats: Stats, prefix: str = "") -> None:
        """Expose a stage's numbers as `sluicegate_<prefix><name>`, read at scrape time; `..._total` are counters."""
        self.registry.register(_Gauges(stats, prefix))

    def observe(self, outcome: Outcome) -> None:
        model = outcome.model
        ended = outcome.error or (outcome.answers[0].finish_reason if outcome.answers else "none")
        self._requests.labels(model, ended).inc()
        self._duration.labels(model).observe(outcome.duration_s)
        if outcome.time_to_first_chunk_s is not None:
            self._first.labels(model).observe(outcome.time_to_first_chunk_s)
        self._tokens.labels(model, "input").observe(outcome.usage.prompt_tokens)
        self._tokens.labels(model, "output").observe(outcome.usage.completion_tokens)
        for decision in outcome.decisions:
            self._stage.labels(decision.slot, decision.stage).observe(decision.duration_s)
            if decision.slot in ("screen", "moderate"):
                self._verdicts.labels(decision.stage, decision.outcome).inc()
            elif decision.slot == "recall":
                self._lookups.labels(decision.outcome).inc()

    def exposition(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, stats: Stats, prefix: str) -> None:
        self._stats = stats
        self._prefix = prefix

    def collect(self) -> Iterable[Metric]:
        for name, value in self._read().items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"sluicegate_{self._prefix}{name}", f"{name.replace('_', ' ').capitalize()}.", value=value)

    def _read(self) -> Mapping[str, float]:
        """One stage that cannot count must not take every other number with it."""
        try:
            return {name: float(value) for name, value in self._stats().items()}
        except Exception:
            log.exception("the numbers of %s cannot be read", self._prefix or "the generator")
            return {}


class MetricsRecorder:
    """Slot `record`: every outcome becomes a few increments."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def record(self, outcome: Outcome) -> None:
        self._metrics.observe(outcome)
