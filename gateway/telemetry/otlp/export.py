"""Export finished traces in batches on a thread: the event loop only appends to a bounded queue.

A collector that is down, slow or refusing costs traces, never requests and never more memory: traces beyond the queue,
and batches that could not be sent after a few tries, are dropped and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.telemetry.finished_request import FinishedRequest, fits_beside
from sluicegate.gateway.telemetry.otlp.encoding import encode
from sluicegate.gateway.telemetry.otlp.sending import ExportRefused, ExportTarget, Sender
from sluicegate.gateway.telemetry.span_builder import Value
from sluicegate.gateway.telemetry.tracing import number_of

log = logging.getLogger("sluicegate.export")
QUEUE = 2048
BATCH = 256
CLOSING_S = 3.0
"""How long a shutdown waits for the collector."""


@dataclass(slots=True)
class ExportCounts:
    """Number of traces by outcome."""

    sent: int = 0
    dropped: int = 0


@dataclass(slots=True)
class Exporter:
    """`take` is called on the event loop; everything else runs on the exporter's thread."""

    sender: Sender
    resource: Mapping[str, Value]
    every_s: float = 5.0
    limit: int = QUEUE
    counts: ExportCounts = field(default_factory=ExportCounts)
    _queue: deque[FinishedRequest] = field(default_factory=deque)
    _wake: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _complained_at: float = float("-inf")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="traces", daemon=True)
        self._thread.start()

    def take(self, done: FinishedRequest) -> None:
        if len(self._queue) >= self.limit or not fits_beside(done, self._queue):
            self.counts.dropped += 1
            return
        self._queue.append(done)
        if len(self._queue) >= BATCH:
            self._wake.set()

    def close(self, limit_s: float = CLOSING_S) -> None:
        """Send what is left, for `limit_s` at most; blocks, so call it off the event loop."""
        self._closing.set()
        self._wake.set()
        self.sender.hurry(limit_s)
        if self._thread is not None:
            self._thread.join(limit_s + 0.5)

    def stats(self) -> Mapping[str, float]:
        return {
            "traces_sent_total": float(self.counts.sent),
            "traces_dropped_total": float(self.counts.dropped),
            "traces_queued": float(len(self._queue)),
        }

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(self.every_s)
            self._wake.clear()
            self._send_queued()
        self._send_queued()
        self.sender.close()

    def _send_queued(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                self.sender.send(encode(batch, self.resource))
                self.counts.sent += len(batch)
            except ExportRefused as refused:
                self._drop(len(batch), str(refused))
            except Exception:  # our own bug: the thread must outlive it
                log.exception("a batch of traces could not be encoded")
                self._drop(len(batch), "")

    def _drop(self, count: int, reason: str) -> None:
        self.counts.dropped += count
        if reason and time.monotonic() - self._complained_at > 60:
            self._complained_at = time.monotonic()
            log.warning("%d traces dropped: %s (said at most once a minute)", count, reason)


def exporter_of(environ: Mapping[str, str], resource: Mapping[str, Value]) -> Exporter:
    """Make an exporter from the standard variables. Raises `ConfigurationError`."""
    every_s = number_of(environ, ("OTEL_BSP_SCHEDULE_DELAY",), 5000) / 1000
    limit = int(number_of(environ, ("OTEL_BSP_MAX_QUEUE_SIZE",), QUEUE))
    return Exporter(Sender(ExportTarget.of(environ, "TRACES")), resource, every_s, max(1, limit))
