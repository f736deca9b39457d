"""Traces and metrics: names, exporters and the recorder that feeds them."""

from sluicegate.gateway.telemetry.finished import Asked, Content, Finished, Hold, Particulars, ToldFailure
from sluicegate.gateway.telemetry.metrics import Metrics, MetricsRecorder
from sluicegate.gateway.telemetry.trace_sink import TraceSink
from sluicegate.gateway.telemetry.tracing import TraceIds, parent_context, parent_of

__all__ = [
    "Asked",
    "Content",
    "Finished",
    "Hold",
    "Metrics",
    "MetricsRecorder",
    "Particulars",
    "ToldFailure",
    "TraceIds",
    "TraceSink",
    "parent_context",
    "parent_of",
]
