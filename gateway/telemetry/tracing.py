"""Spans: one trace a request, one span a stage, exported over OTLP when the standard variables ask for it.

Nothing is exported unless `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) is set and
`OTEL_SDK_DISABLED` is not; without an exporter spans are no-ops. Prompts and answers are never put into a span.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from gateway.telemetry import semconv
from plugins import Request


def tracer_provider(environ: Mapping[str, str], exporter: SpanExporter | None = None) -> trace.TracerProvider:
    """A provider that exports in batches from its own thread, or one that does nothing."""
    asked = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if exporter is None and (off or not asked):
        return trace.NoOpTracerProvider()
    name = environ.get("OTEL_SERVICE_NAME", "sluicegate")
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
    return provider


def parent_context(headers: Mapping[str, str]) -> context.Context:
    """The caller's trace, from the W3C `traceparent` header; an empty context where there is none."""
    return propagate.extract(headers)


def request_attributes(request: Request) -> dict[str, str | int | float | bool | list[str]]:
    """GenAI attributes of a chat request; what was not asked for is left out."""
    sampling = request.sampling
    structured = request.constraint is not None and request.constraint.kind.startswith("json")
    found: dict[str, str | int | float | bool | list[str] | None] = {
        semconv.OPERATION_NAME: semconv.OPERATION_CHAT,
        semconv.PROVIDER_NAME: semconv.PROVIDER,
        semconv.REQUEST_MODEL: request.model,
        semconv.REQUEST_STREAM: request.stream,
        semconv.REQUEST_CHOICE_COUNT: request.n if request.n != 1 else None,
        semconv.REQUEST_SEED: sampling.seed,
        semconv.REQUEST_MAX_TOKENS: sampling.max_tokens,
        semconv.REQUEST_TEMPERATURE: sampling.temperature,
        semconv.REQUEST_TOP_P: sampling.top_p if sampling.top_p != 1.0 else None,
        semconv.REQUEST_TOP_K: sampling.top_k or None,
        semconv.REQUEST_FREQUENCY_PENALTY: sampling.frequency_penalty or None,
        semconv.REQUEST_PRESENCE_PENALTY: sampling.presence_penalty or None,
        semconv.REQUEST_STOP_SEQUENCES: list(sampling.stop) or None,
        semconv.OUTPUT_TYPE: "json" if structured else "text",
        semconv.RESPONSE_ID: request.id,
    }
    return {name: value for name, value in found.items() if value is not None}
