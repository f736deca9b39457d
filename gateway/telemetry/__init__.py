"""Traces and metrics: names, exporters and the recorder that feeds them."""

from gateway.telemetry.metrics import Metrics, MetricsRecorder
from gateway.telemetry.tracing import parent_context, request_attributes, tracer_provider

__all__ = ["Metrics", "MetricsRecorder", "parent_context", "request_attributes", "tracer_provider"]
