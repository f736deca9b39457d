"""Metrics over OTLP, where the standard variables ask for it: the registry that `/metrics` shows, sent at an interval.

Names of the GenAI conventions get their dots back; all other names stay as Prometheus knows them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.otlp.sending import ExportRefused, ExportTarget, Sender
from sluicegate.gateway.telemetry.span_builder import Value
from sluicegate.gateway.telemetry.trace_sink import resource_of
from sluicegate.gateway.telemetry.tracing import exports, number_of

log = logging.getLogger("sluicegate.export")


class Pusher:
    """A daemon thread of its own; a collector that does not answer costs the numbers of that interval."""

    def __init__(
        self, registry: CollectorRegistry, sender: Sender, resource: Mapping[str, Value], every_s: float = 60.0
    ) -> None:
        self._registry = registry
        self._sender = sender
        self._resource = resource
        self._every_s = every_s
        self._began_ns = time.time_ns()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, limit_s: float = 2.0) -> None:
        """Send the last numbers, for `limit_s` at most; blocks."""
        self._sender.hurry(limit_s)
        self._closing.set()
        self._thread.join(limit_s + 0.5)

    def _serve(self) -> None:
        while not self._closing.wait(self._every_s):
            self._push()
        self._push()
        self._sender.close()

    def _push(self) -> None:
        try:
            request = as_request(self._registry.collect(), self._resource, self._began_ns)
            self._sender.send(request.SerializeToString())
        except ExportRefused as refused:
            log.warning("metrics were not sent: %s", refused)
        except Exception:
            log.exception("metrics were not sent")


def pusher_of(registry: CollectorRegistry, environ: Mapping[str, str]) -> Pusher | None:
    """Make a pusher from the standard variables. Return None where they ask for none. Raises `ConfigurationError`."""
    if not exports(environ, "METRICS"):
        return None
    every_s = number_of(environ, ("OTEL_METRIC_EXPORT_INTERVAL",), 60_000) / 1000
    return Pusher(registry, Sender(ExportTarget.of(environ, "METRICS")), resource_of(environ), every_s)


def as_request(families: Iterable[Family], resource: Mapping[str, Value], began_ns: int) -> ExportMetricsServiceRequest:
    now = time.time_ns()
    metrics = [metric for family in families if (metric := _metric(family, began_ns, now)) is not None]
    scoped = ScopeMetrics(scope=InstrumentationScope(name="sluicegate"), metrics=metrics)
    described = Resource(attributes=[KeyValue(key=name, value=_any(value)) for name, value in resource.items()])
    return ExportMetricsServiceRequest(resource_metrics=[ResourceMetrics(resource=described, scope_metrics=[scoped])])


def _metric(family: Family, began_ns: int, now_ns: int) -> Metric | None:
    name, unit = semconv.OTLP_METRICS.get(family.name, (family.name, ""))
    made = Metric(name=name, description=family.documentation, unit=unit)
    if family.type == "histogram":
        points = list(_histogram_points(family, began_ns, now_ns))
        made.histogram.CopyFrom(
            Histogram(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
        )
    elif family.type == "counter":
        totals = [sample for sample in family.samples if sample.name.endswith("_total")]
        points_of = [_number(sample, began_ns, now_ns) for sample in totals]
        made.sum.CopyFrom(
            Sum(
                data_points=points_of,
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
                is_monotonic=True,
            )
        )
    elif family.type == "gauge":
        made.gauge.CopyFrom(Gauge(data_points=[_number(sample, began_ns, now_ns) for sample in family.samples]))
    else:
        return None
    return made


def _number(sample: Sample, began_ns: int, now_ns: int) -> NumberDataPoint:
    return NumberDataPoint(
        attributes=_labels(sample.labels),
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        as_double=float(sample.value),
    )


def _histogram_points(family: Family, began_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """Yield histograms as OTLP has them. Prometheus counts all below a bound, OTLP what lies between two."""
    for labels, samples in _by_labels(family.samples).items():
        bounds = [s for s in samples if s.name.endswith("_bucket")]
        reached = [0.0, *(float(s.value) for s in bounds)]
        total = next((float(s.value) for s in samples if s.name.endswith("_sum")), 0.0)
        yield HistogramDataPoint(
            attributes=_labels(dict(labels)),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=int(reached[-1]),
            sum=total,
            bucket_counts=[int(high - low) for low, high in pairwise(reached)],
            explicit_bounds=[float(s.labels["le"]) for s in bounds[:-1]],
        )


def _by_labels(samples: Iterable[Sample]) -> dict[tuple[tuple[str, str], ...], list[Sample]]:
    found: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        if not sample.name.endswith("_created"):
            key = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            found.setdefault(key, []).append(sample)
    return found


def _labels(labels: Mapping[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=semconv.OTLP_LABELS.get(name, name), value=AnyValue(string_value=value))
        for name, value in labels.items()
    ]


def _any(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=str(value))
