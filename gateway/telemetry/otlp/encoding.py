"""Traces in OTLP's protobuf encoding, written directly: the same bytes that the SDK's encoder makes, at a fifth of the
cost. Attributes that repeat (names of stages, verdicts, models) are encoded once.

Source: opentelemetry-proto 1.x, `trace.proto`, `common.proto`, `resource.proto`; `tests/gateway/test_otlp.py` reads
what this writes with the published classes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.finished_request import FinishedRequest
from sluicegate.gateway.telemetry.span_builder import SpanEvent, SpanFact, Value, spans_of
from sluicegate.gateway.telemetry.tracing import TraceIds

CACHED_CHARS = 64
_ODD = 0x9E3779B97F4A7C15
"""Its multiples give each span of a trace a different id."""
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_ALWAYS_NEW = frozenset(
    (
        semconv.RESPONSE_ID,
        semconv.REQUEST_SEED,
        semconv.GUARD_REASON,
        semconv.INPUT_MESSAGES,
        semconv.OUTPUT_MESSAGES,
        semconv.INPUT_VALUE,
        semconv.OUTPUT_VALUE,
    )
)
"""Attributes whose values do not repeat, or must not be cached."""
_FIXED64 = struct.Struct("<Q").pack
_DOUBLE = struct.Struct("<d").pack
_FLAGS = struct.Struct("<I").pack
_INTERNAL_KIND = b"\x30\x01"
_SERVER_KIND = b"\x30\x02"
_CLIENT_KIND = b"\x30\x03"
_FAILED = b"\x7a\x02\x18\x02"
"""Field 15, a status of two bytes: code ERROR."""


def encode(traces: Iterable[FinishedRequest], resource: Mapping[str, Value], scope: str = "sluicegate") -> bytes:
    """Encode an `ExportTraceServiceRequest`."""
    spans = b"".join([_field(2, span) for done in traces for span in encode_spans(done)])
    scoped = _field(1, _text(1, scope)) + spans
    described = b"".join([_attribute(1, name, value) for name, value in resource.items()])
    return _field(1, _field(1, described) + _field(2, scoped))


def encode_spans(done: FinishedRequest) -> list[bytes]:
    """Encode one `Span` message for each span of the trace."""
    facts = spans_of(done)
    ids = [_FIXED64(_span_id(fact, at, done.ids))[::-1] for at, fact in enumerate(facts)]
    head = _trace(done.ids)
    return [_span(fact, at, head, ids, done) for at, fact in enumerate(facts)]


def _span(fact: SpanFact, at: int, head: bytes, ids: list[bytes], done: FinishedRequest) -> bytes:
    above = done.ids.parent_id.to_bytes(8, "big") if fact.parent is None else ids[fact.parent]
    zero = done.began_ns
    parts = [
        head,
        b"\x12\x08",
        ids[at],
        b"" if fact.parent is None and not done.ids.parent_id else b"\x22\x08" + above,
        _text(5, fact.name),
        _SERVER_KIND if at == 0 else _INTERNAL_KIND if fact.span_id is None else _CLIENT_KIND,
        b"\x39" + _FIXED64(zero + int(fact.began_s * 1e9)),
        b"\x41" + _FIXED64(zero + int(fact.ended_s * 1e9)),
    ]
    parts += [_attribute(9, name, value) for name, value in fact.attributes.items()]
    parts += [_field(11, _event(event, zero)) for event in fact.events]
    if fact.failed:
        parts.append(_FAILED)
    parts.append(_flags(done.ids, root=at == 0))
    return b"".join(parts)


def _span_id(fact: SpanFact, at: int, ids: TraceIds) -> int:
    return ids.span_id ^ (at * _ODD & _ALL_BITS) if fact.span_id is None else fact.span_id


def _trace(ids: TraceIds) -> bytes:
    state = _text(3, ids.state) if ids.state else b""
    return b"\x0a\x10" + ids.trace_id.to_bytes(16, "big") + state


def _flags(ids: TraceIds, *, root: bool) -> bytes:
    """Encode field 16: the W3C flags, and whether the parent is of another process (bits 8 and 9)."""
    remote = root and ids.parent_id != 0
    return b"\x85\x01" + _FLAGS(int(ids.sampled) | 0x100 | (0x200 if remote else 0))


def _event(event: SpanEvent, zero_ns: int) -> bytes:
    attributes = b"".join([_attribute(3, name, value) for name, value in event.attributes.items()])
    return b"\x09" + _FIXED64(zero_ns + int(event.at_s * 1e9)) + _text(2, event.name) + attributes


def _attribute(number: int, name: str, value: Value) -> bytes:
    if isinstance(value, float) or name in _ALWAYS_NEW or (isinstance(value, str) and len(value) > CACHED_CHARS):
        return _field(number, _pair(name, value))
    return _kept(number, name, value)


@lru_cache(maxsize=4096, typed=True)
def _kept(number: int, name: str, value: Value) -> bytes:
    return _field(number, _pair(name, value))


def _pair(name: str, value: Value) -> bytes:
    return _text(1, name) + _field(2, _any(value))


def _any(value: Value) -> bytes:
    """Encode an `AnyValue`."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value & _ALL_BITS)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, str):
        return _field(1, value.encode("utf-8", "replace"))
    return _field(5, b"".join([_field(1, _any(item)) for item in value]))


@lru_cache(maxsize=1024)
def _name(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", "replace"))


def _text(number: int, text: str) -> bytes:
    return _name(number, text) if len(text) <= CACHED_CHARS else _field(number, text.encode("utf-8", "replace"))


def _field(number: int, body: bytes) -> bytes:
    """Encode a length-delimited field. Numbers up to 15 have a tag of one byte."""
    size = len(body)
    if size < 128:
        return bytes((number << 3 | 2, size)) + body
    return bytes((number << 3 | 2,)) + _varint(size) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
