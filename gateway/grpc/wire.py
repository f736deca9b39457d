"""Look at a message before it is made: how many entries it has, and whether this gateway knows all of them.

A message of two-byte entries grows to some forty times its size when it is made, so that bytes alone bound nothing. A
field that is not known is refused: whoever sends it counts on something that this gateway would not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from google.protobuf.descriptor import FieldDescriptor

from sluicegate.plugins import RequestError, RequestTooLarge

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
FORMS: Mapping[int, int] = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_INT64: _VARINT,
    FieldDescriptor.TYPE_INT32: _VARINT,
    FieldDescriptor.TYPE_BOOL: _VARINT,
    FieldDescriptor.TYPE_STRING: _BYTES,
    FieldDescriptor.TYPE_BYTES: _BYTES,
    FieldDescriptor.TYPE_MESSAGE: _BYTES,
}
"""Wire type by type of a field. The library would take a field of another wire type for an unknown one, and drop it."""


class MessageType(Protocol):
    """A protobuf descriptor, as far as it is needed."""

    name: str
    fields_by_number: Mapping[int, FieldType]


class FieldType(Protocol):
    name: str
    type: int
    message_type: MessageType | None


def check_entries(body: bytes, kind: MessageType, most: int) -> None:
    """Check the entries of a message, reading no further than needed. Raises `RequestTooLarge` for more entries than
    `most`, `RequestError` for one that `kind` does not have and for what is no message."""
    left = most
    waiting = [(kind, 0, len(body))]
    while waiting:
        kind, start, end = waiting.pop()
        for number, form, begins, ends in _entries(body, start, end):
            left -= 1
            if left < 0:
                raise RequestTooLarge(
                    f"the message has more than {most} entries; this gateway reads no more ([server] max_values): "
                    "send less"
                )
            field = kind.fields_by_number.get(number)
            if field is None or FORMS.get(field.type) != form:
                raise RequestError(
                    f"{kind.name} has no such field {number} here; the client was built from another "
                    "sluicegate_v1.proto, build it from this gateway's",
                    code="unknown_field",
                )
            if field.message_type is not None:
                waiting.append((field.message_type, begins, ends))


def _entries(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, form on the wire, where its content begins, where it ends)."""
    while at < end:
        tag, at = _varint(body, at, end)
        kind = tag & 7
        begins = at
        if kind == _BYTES:
            length, begins = _varint(body, at, end)
            at = begins + length
        elif kind == _VARINT:
            _, at = _varint(body, at, end)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise no_message()
        if at > end:
            raise no_message()
        yield tag >> 3, kind, begins, at


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value, where the next byte stands)."""
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise no_message()


def no_message() -> RequestError:
    return RequestError(
        "the body is no message of this method; build the client from this gateway's sluicegate_v1.proto",
        code="invalid_message",
    )
