"""Numbers that are read when somebody asks: stages' gauges and totals, the same under vLLM's names, and buckets that
are filled by the thousand."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from sluicegate.plugins import Capacity, SlotName, StatsReporter

log = logging.getLogger("sluicegate.metrics")
Stats = Callable[[], Mapping[str, float]]
ALIASES = {
    "vllm:num_requests_running": "requests_running",
    "vllm:num_requests_waiting": "requests_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage_ratio",
    "vllm:gpu_cache_usage_perc": "kv_cache_usage_ratio",
    "vllm:prefix_cache_queries_total": "prefix_cache_asked_tokens_total",
    "vllm:prefix_cache_hits_total": "prefix_cache_hit_tokens_total",
}
"""Metrics that the endpoint picker of Kubernetes' inference gateway, and vLLM's own dashboards, read from a model
server; the names of both generations of vLLM."""


def safely(stats: Stats, of: str) -> Mapping[str, float]:
    """Return the numbers of one stage, or none where it fails: one that cannot count must not take every other number
    with it."""
    try:
        found = stats()
        if not all(isinstance(name, str) for name in found):
            raise TypeError(f"expected names of numbers, found {list(found)!r}")
        return {name: float(value) for name, value in found.items()}
    except Exception:
        log.exception("the numbers of %s cannot be read", of)
        return {}


class StatsCollector(Collector):
    """The `stats` of a part of the gateway as `sluicegate_<prefix><name>`."""

    def __init__(self, stats: Stats, prefix: str) -> None:
        self._stats = stats
        self._prefix = prefix

    def collect(self) -> Iterable[Metric]:
        return _families(safely(self._stats, self._prefix or "the gateway"), self._prefix)


class StageCollector(Collector):
    """The `stats` of the stages in place now, which a reload may have exchanged, as `sluicegate_<slot>_<stage>_<name>`;
    those of the first generator also as `sluicegate_<name>`."""

    def __init__(self, built: Callable[[], Mapping[SlotName, Sequence[tuple[str, object]]]]) -> None:
        self._built = built

    def collect(self) -> Iterable[Metric]:
        for slot, stages in self._built().items():
            for number, (name, stage) in enumerate(stages):
                if isinstance(stage, StatsReporter):
                    found = safely(stage.stats, f"stage {name} of slot {slot}")
                    yield from _families(found, f"{slot}_{name.replace('-', '_')}_")
                    yield from _families(found, "") if slot == "generate" and number == 0 else ()


def _families(found: Mapping[str, float], prefix: str) -> Iterator[Metric]:
    for name, value in found.items():
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        yield family(f"sluicegate_{prefix}{name}", f"{name.replace('_', ' ').capitalize()}.", value=value)


class VllmAliases(Collector):
    """The generator's metrics under vLLM's names. `model`: the value of the model label."""

    def __init__(self, stats: Stats, model: Callable[[], str], capacity: Callable[[], Capacity] | None) -> None:
        self._stats = stats
        self._model = model
        self._capacity = capacity

    def collect(self) -> Iterable[Metric]:
        found = safely(self._stats, "the generator")
        for alias, name in ALIASES.items():
            if name in found:
                family = CounterMetricFamily if alias.endswith("_total") else GaugeMetricFamily
                metric = family(alias, f"The same as sluicegate_{name}.", labels=("model_name",))
                metric.add_metric((self._model(),), found[name])
                yield metric
        if self._capacity is not None:
            yield from _infos(self._capacity())


def _infos(found: Capacity) -> Iterable[Metric]:
    """Return what endpoint pickers read from labels. The second one's value is the time of the reading, by which they
    take the newest."""
    cache = GaugeMetricFamily(
        "vllm:cache_config_info", "KV blocks, in labels.", labels=("block_size", "num_gpu_blocks")
    )
    cache.add_metric((str(found.block_size), str(found.num_blocks)), 1.0)
    adapters = GaugeMetricFamily(
        "vllm:lora_requests_info",
        "Adapters with requests, in labels.",
        labels=("max_lora", "running_lora_adapters", "waiting_lora_adapters"),
    )
    adapters.add_metric((str(found.adapters), ",".join(found.running), ",".join(found.waiting)), time.time())
    return cache, adapters


class LabelledCounts(Collector):
    """A counter by labels at a fifth of the cost of one that takes a lock for every increment; fed by one thread."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._described = (name, documentation)
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {}
        self._created_s: dict[tuple[str, ...], float] = {}

    def inc(self, *labels: str, by: float = 1.0) -> None:
        try:
            self._values[labels] += by
        except KeyError:
            self._values[labels], self._created_s[labels] = by, time.time()

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(*self._described, labels=self._labels)
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value, self._created_s[labels])
        yield family


class Buckets(Collector):
    """A histogram at a fifth of the cost of one that takes a lock for every bucket; fed by one thread."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._described = (name, documentation)
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._rows: dict[tuple[str, ...], list[float]] = {}
        """Counts by bucket, and their sum as the last element, so that one look-up finds both."""
        self._exemplars: dict[tuple[tuple[str, ...], int], Exemplar] = {}
        """The newest exemplar of a bucket."""

    def trace(self, value: float, trace_id: str, *labels: str) -> None:
        """Observe a value, with its request's trace id as exemplar ("" = none)."""
        row = self._rows.get(labels) or self._begun(labels)
        at = bisect_left(self._bounds, value)
        row[at] += 1
        row[-1] += value
        if trace_id:
            self._exemplars[labels, at] = Exemplar({"trace_id": trace_id}, value, time.time())

    def observe(self, value: float, *labels: str) -> None:
        row = self._rows.get(labels) or self._begun(labels)
        row[bisect_left(self._bounds, value)] += 1
        row[-1] += value

    def add(self, values: Iterable[float], *labels: str) -> None:
        row = self._rows.get(labels) or self._begun(labels)
        for value in values:
            row[bisect_left(self._bounds, value)] += 1
            row[-1] += value

    def _begun(self, labels: tuple[str, ...]) -> list[float]:
        row = self._rows[labels] = [0.0] * (len(self._bounds) + 2)
        return row

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(*self._described, labels=self._labels)
        for labels, row in list(self._rows.items()):
            reached = 0.0
            buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
            *counts, total = list(row)
            for at, (bound, count) in enumerate(zip((*map(str, self._bounds), "+Inf"), counts, strict=True)):
                reached += count
                exemplar = self._exemplars.get((labels, at))
                buckets.append((bound, reached) if exemplar is None else (bound, reached, exemplar))
            family.add_metric(labels, buckets, total)
        yield family
