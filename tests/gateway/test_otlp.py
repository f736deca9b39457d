"""The written bytes are read with the published classes: they say what the spans say."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sluicegate.gateway.telemetry import (
    CapturedContent,
    FinishedRequest,
    HoldRecord,
    RequestParameters,
    TraceIds,
    semconv,
)
from sluicegate.gateway.telemetry.otlp.encoding import encode
from sluicegate.gateway.telemetry.span_builder import spans_of
from sluicegate.plugins import Caller, Decision, Sampling, Timeline, Usage

LONG = "ü" * 9000


def a_finished(**fields: Any) -> FinishedRequest:
    line = Timeline(queued_s=100.01, started_s=100.02, first_token_s=100.1, ended_s=100.3)
    line.tokens, line.drafted, line.accepted, line.preempted_s = 9, 8, 6, [100.15]
    values: dict[str, Any] = {
        "ids": TraceIds(2**127 + 5, 2**63 + 9, 77, True, "vendor=1"),
        "asked": RequestParameters("chatcmpl-1", "bundled", True, 2, Sampling(seed=-5, temperature=0.5), "json"),
        "began_s": 100.0,
        "began_ns": time.time_ns(),
        "duration_s": 0.4,
        "caller": Caller(tenant="acme"),
        "model": "bundled",
        "decisions": (
            Decision("screen", "pii", "redact", 0.001, {"reason": "email", "score": 0.5}, 0.0),
            Decision("constrain", "grammar", "json_schema", 0.002, {}, 0.001),
            Decision("generate", "deliver", "9 tokens", 0.3, {}, 0.01),
            Decision("moderate", "secrets", "failed", 0.01, {"redacted": {"b": 1, "a": 2}}, 0.01),
        ),
        "usage": Usage(40, 9, 16),
        "finish_reasons": ("stop", "length"),
        "timeline": line,
        "holds": (HoldRecord(0, 100.2, 100.25, 12),),
        "content": CapturedContent((("user", LONG),), (("{}", "stop"),)),
    }
    return FinishedRequest(**{**values, **fields})


def read(*traces: FinishedRequest) -> list[Any]:
    request = ExportTraceServiceRequest.FromString(encode(traces, {"service.name": "x", "n": 3}))
    [resource] = request.resource_spans
    assert {a.key: value(a.value) for a in resource.resource.attributes} == {"service.name": "x", "n": 3}
    [scope] = resource.scope_spans
    assert scope.scope.name == "sluicegate"
    return list(scope.spans)


def value(found: Any) -> Any:
    kind = found.WhichOneof("value")
    return tuple(value(item) for item in found.array_value.values) if kind == "array_value" else getattr(found, kind)


def test_every_span_is_read_back_as_it_was_told() -> None:
    done = a_finished()
    facts, spans = spans_of(done), read(done)
    assert [span.name for span in spans] == [fact.name for fact in facts]
    for span, fact in zip(spans, facts, strict=True):
        assert {a.key: value(a.value) for a in span.attributes} == dict(fact.attributes)
        assert abs(span.end_time_unix_nano - span.start_time_unix_nano - (fact.ended_s - fact.began_s) * 1e9) < 10
        assert [e.name for e in span.events] == [e.name for e in fact.events]
        assert (span.status.code == span.status.STATUS_CODE_ERROR) == fact.failed
        assert span.trace_state == "vendor=1"
        assert span.flags & 1


def test_spans_nest_as_the_work_did() -> None:
    """The root below the caller's span; stages below the root; queue, prefill and decode below the delivery."""
    spans = read(a_finished())
    by_id = {span.span_id: span.name for span in spans}
    assert len(by_id) == len(spans)
    assert {span.trace_id.hex() for span in spans} == {f"{2**127 + 5:032x}"}
    parents = {span.name: by_id.get(span.parent_span_id, span.parent_span_id.hex()) for span in spans}
    assert parents.pop("chat bundled") == f"{77:016x}"
    assert {parents.pop(name) for name in ("queue", "prefill", "decode")} == {"generate deliver"}
    assert set(parents.values()) == {"chat bundled"}
    assert spans[0].kind == spans[0].SPAN_KIND_SERVER


def test_what_the_engine_and_the_rails_did_is_told() -> None:
    spans = {span.name: span for span in read(a_finished())}
    decode = spans["decode"]
    assert [event.name for event in decode.events] == [semconv.FIRST_TOKEN_EVENT, semconv.PREEMPTED_EVENT]
    told = {a.key: value(a.value) for a in decode.attributes}
    assert told[semconv.ACCEPT_RATE] == 0.75
    [hold] = spans["generate deliver"].events
    assert hold.name == semconv.HOLD_EVENT
    guard = {a.key: value(a.value) for a in spans["run_guardrail pii"].attributes}
    assert (guard[semconv.GUARD_VERDICT], guard[semconv.GUARD_REASON]) == ("redact", "email")
    assert spans["run_guardrail secrets"].status.code == 2


def test_without_content_no_text_is_in_the_bytes() -> None:
    body = encode([a_finished(content=None)], {})
    assert "ü".encode() not in body
    assert b"gen_ai.input.messages" not in body


def test_a_trace_without_a_caller_has_a_root_without_parent() -> None:
    spans = read(a_finished(ids=TraceIds(1, 2, 0, True)), a_finished())
    assert spans[0].parent_span_id == b""
    assert spans[0].trace_state == ""
