"""Traces and metrics: names, exporters and the recorder that feeds them."""

from sluicegate.gateway.telemetry.finished import Asked, Content, Finished, Hold
from sluicegate.gateway.telemetry.metrics import Metrics, MetricsRecorder
from sluicegate.gateway.telemetry.trace_sink import Desk
from sluicegate.gateway.telemetry.tracing import TraceIds, parent_context

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
