"""Traces and metrics: names, exporters and the recorder that feeds them."""

from sluicegate.gateway.telemetry.finished_request import (
    CapturedContent,
    FinishedRequest,
    HoldRecord,
    ReportedError,
    RequestAttributes,
    RequestParameters,
)
from sluicegate.gateway.telemetry.metrics import Metrics, MetricsRecorder
from sluicegate.gateway.telemetry.trace_sink import TraceSink
from sluicegate.gateway.telemetry.tracing import TraceIds, parent_context, parent_of

__all__ = [
    "CapturedContent",
    "FinishedRequest",
    "HoldRecord",
    "Metrics",
    "MetricsRecorder",
    "ReportedError",
    "RequestAttributes",
    "RequestParameters",
    "TraceIds",
    "TraceSink",
    "parent_context",
    "parent_of",
]
