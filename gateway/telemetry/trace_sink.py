"""Take every finished request: into the ring that the console reads, and to the exporter if it was sampled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from opentelemetry import context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from sluicegate.gateway.telemetry.finished_request import WAITING_BYTES, FinishedRequest
from sluicegate.gateway.telemetry.otlp.export import Exporter, exporter_of
from sluicegate.gateway.telemetry.series import Series
from sluicegate.gateway.telemetry.span_builder import Value
from sluicegate.gateway.telemetry.tracing import TraceIds, Tracing, exports, sampler_of


class TraceSink:
    """Used from the event loop. `recent`: how many finished requests the ring keeps, of `WAITING_BYTES` together; 0 =
    none."""

    def __init__(self, environ: Mapping[str, str], recent: int = 0) -> None:
        asked = exports(environ, "TRACES")
        self.exporter: Exporter | None = exporter_of(environ, resource_of(environ)) if asked else None
        self._tracing = Tracing(sampler_of(environ) if asked else ALWAYS_OFF)
        self._ring: deque[FinishedRequest] = deque(maxlen=recent)
        self._ring_bytes = 0
        self._seen = 0
        self.keep: Callable[[FinishedRequest], None] = lambda done: None
        """Called with each finished request; set by the component that keeps a history."""
        self.series = Series()

    def begin(self, operation: str, model: str, parent: context.Context | None) -> TraceIds:
        return self._tracing.begin(f"{operation} {model}", parent)

    @property
    def seen(self) -> int:
        """Return the number of requests handed in since the start. It grows by one with each."""
        return self._seen

    def hand_in(self, done: FinishedRequest) -> None:
        self._seen += 1
        if self._ring.maxlen:
            self._put(done)
            self.series.add(done)
            self.keep(done)
        if done.ids.sampled and self.exporter is not None:
            self.exporter.take(done)

    def _put(self, done: FinishedRequest) -> None:
        if len(self._ring) == self._ring.maxlen:
            self._drop()
        self._ring.append(done)
        self._ring_bytes += done.particulars.request_bytes
        while self._ring_bytes > WAITING_BYTES and len(self._ring) > 1:
            self._drop()

    def _drop(self) -> None:
        self._ring_bytes -= self._ring.popleft().particulars.request_bytes

    def recent(self) -> Iterator[FinishedRequest]:
        """Iterate over the requests, newest first."""
        return reversed(self._ring)

    def find(self, name: str) -> FinishedRequest | None:
        """Find a request by its id or by its trace id (32 hex digits)."""
        return next((d for d in self.recent() if name in (d.asked.id, f"{d.ids.trace_id:032x}")), None)

    def start(self) -> None:
        if self.exporter is not None:
            self.exporter.start()

    def close(self) -> None:
        """Close the exporter. Blocks for a few seconds at most; call it off the event loop."""
        if self.exporter is not None:
            self.exporter.close()


def resource_of(environ: Mapping[str, str]) -> dict[str, Value]:
    """Return resource attributes from the standard variables and the SDK's detectors."""
    detected = Resource.create({}).attributes
    found = {key: value for key, value in detected.items() if isinstance(value, str | bool | int | float)}
    name = environ.get("OTEL_SERVICE_NAME") or str(found[SERVICE_NAME])
    return {**found, SERVICE_NAME: "sluicegate" if name.startswith("unknown_service") else name}
