"""Traces and metrics: names, exporters and the recorder that feeds them."""

from gateway.telemetry.desk import Desk
from gateway.telemetry.finished import Asked, Content, Finished, Hold
from gateway.telemetry.metrics import Metrics, MetricsRecorder
from gateway.telemetry.tracing import TraceIds, parent_context

__all__ = [
    "Asked",
    "Content",
    "Desk",
    "Finished",
    "Hold",
    "Metrics",
    "MetricsRecorder",
    "TraceIds",
    "parent_context",
]
