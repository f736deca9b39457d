"""Trace identity and sampling: one trace a request, joined to the caller's by W3C `traceparent`.

What a trace says is gathered as facts while the request runs (`gateway.telemetry.finished_request`) and becomes spans
only once it has ended, on the exporter's thread and only where the trace was sampled: a span object for every stage
would cost the event loop as much as the request itself (decision 0050)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased, Sampler, TraceIdRatioBased
from starlette.requests import HTTPConnection

from sluicegate.plugins import ConfigurationError, wrong_value
from sluicegate.plugins.frozen import frozen_when_checked

log = logging.getLogger("sluicegate.tracing")
MOST = 10**9
"""Of milliseconds, 11 days; of traces, more than any memory holds."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class TraceIds:
    """Trace and span ids of a request. `parent_id` 0: it has no parent."""

    trace_id: int
    span_id: int
    parent_id: int = 0
    sampled: bool = False
    state: str = ""
    """W3C `tracestate`, passed on unchanged."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{'01' if self.sampled else '00'}"


class Tracing:
    """Makes trace ids and decides at once whether the trace is exported, so that every hop decides alike."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._ids = RandomIdGenerator()
        self._never = sampler is ALWAYS_OFF

    def begin(self, name: str, parent: context.Context | None) -> TraceIds:
        if not parent:
            sampled = self._sampled(parent, trace_id := self._ids.generate_trace_id(), name)
            return TraceIds(trace_id, self._ids.generate_span_id(), 0, sampled)
        above = trace.get_current_span(parent).get_span_context()
        trace_id = above.trace_id if above.is_valid else self._ids.generate_trace_id()
        state = above.trace_state.to_header() if above.trace_state else ""
        return TraceIds(
            trace_id, self._ids.generate_span_id(), above.span_id, self._sampled(parent, trace_id, name), state
        )

    def _sampled(self, parent: context.Context | None, trace_id: int, name: str) -> bool:
        if self._never:
            return False
        return self._sampler.should_sample(parent, trace_id, name).decision is Decision.RECORD_AND_SAMPLE


def exports(environ: Mapping[str, str], signal: str) -> bool:
    """Return whether the standard variables ask for `signal` ("TRACES" or "METRICS") to be sent anywhere."""
    asked = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal}_EXPORTER") == "none"
    return bool(asked) and not off


def number_of(environ: Mapping[str, str], names: Sequence[str], default: float) -> float:
    """Read the first of the variables `names` that is set. Raises `ConfigurationError` for what is no number from 1 to
    `MOST`: a wait of none would take a processor."""
    for name in names:
        if text := environ.get(name):
            try:
                found = float(text)
            except ValueError:
                found = math.nan
            if not 1 <= found <= MOST:
                raise wrong_value("", name, f"a number from 1 to {MOST}", text)
            return found
    return default


def sampler_of(environ: Mapping[str, str]) -> Sampler:
    """Make the sampler of `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. Raises `ConfigurationError`."""
    name = environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on").lower()
    roots = {"always_on": ALWAYS_ON, "always_off": ALWAYS_OFF}
    kind = name.removeprefix("parentbased_")
    if kind == "traceidratio":
        root: Sampler = TraceIdRatioBased(_ratio(environ.get("OTEL_TRACES_SAMPLER_ARG", "1.0")))
    elif kind in roots:
        root = roots[kind]
    else:
        valid = ", ".join(f"{prefix}{kind}" for prefix in ("", "parentbased_") for kind in (*roots, "traceidratio"))
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER is {name!r}; it must be one of {valid}")
    return ParentBased(root) if name.startswith("parentbased_") else root


def _ratio(text: str) -> float:
    try:
        return TraceIdRatioBased(float(text)).rate
    except ValueError as error:
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER_ARG is {text!r}; it must be a number from 0 to 1") from error


def parent_context(headers: Mapping[str, str]) -> context.Context:
    """Read the W3C `traceparent` header; an empty context where there is none."""
    return propagate.extract(headers) if "traceparent" in headers else context.Context()


def parent_of(request: HTTPConnection) -> context.Context:
    """Read the parent of a request, as `parent_context`. Most have none, and need no look at their other headers."""
    for name, _ in request.scope["headers"]:
        if name == b"traceparent":
            return parent_context(request.headers)
    return context.Context()
