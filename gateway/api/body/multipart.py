"""Read a multipart form with one file as it comes: the file's bytes go where they are kept, all else is small.

Bounded: parts, the heads of parts, and the values of fields. The whole is bounded by `[server] max_body_bytes`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from sluicegate.plugins import RequestError

MAX_PARTS = 16
MAX_HEAD_BYTES = 8192
"""Of one part."""
MAX_VALUE_BYTES = 4096
MAX_BOUNDARY = 70
"""RFC 2046."""
Write = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class Form:
    """`filename` None: no part `file` was a file."""

    filename: str | None = None
    values: dict[str, str] = field(default_factory=dict)


async def read_form(request: Request, write: Write) -> Form:
    """Give the bytes of the part `file` to `write` as they come. Raises `RequestError`, and what `write` raises."""
    reader = _Reader()
    parser = MultipartParser(_boundary(request), reader.callbacks())  # type: ignore[arg-type]
    try:
        async for chunk in request.stream():
            parser.write(chunk)
            for part in reader.taken():
                await write(part)
        parser.finalize()
    except MultipartParseError as error:
        raise RequestError("the body is no multipart form, or is cut off", code="invalid_form") from error
    if not reader.whole:
        raise RequestError("the multipart form is cut off", code="invalid_form")
    return reader.form


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 0 < len(boundary) <= MAX_BOUNDARY:
        raise RequestError("the body must be multipart/form-data with a `boundary`", param="file", code="invalid_form")
    return boundary


class _Reader:
    """Receives the events of the parser, one part after the other."""

    def __init__(self) -> None:
        self.form = Form()
        self.whole = False
        self._parts = 0
        self._head_bytes = 0
        self._name, self._value = bytearray(), bytearray()
        self._head: dict[bytes, bytes] = {}
        self._field: str | None = None
        self._text = bytearray()
        self._file: list[bytes] = []

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._grow(self._name, data[start:end]),
            "on_header_value": lambda data, start, end: self._grow(self._value, data[start:end]),
            "on_header_end": self._header,
            "on_headers_finished": self._headers,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def taken(self) -> list[bytes]:
        """Return the bytes of the file that came since the last call."""
        found, self._file = self._file, []
        return found

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _too_much(f"the form has more than {MAX_PARTS} parts")
        self._head_bytes, self._head, self._field = 0, {}, None
        self._text.clear()

    def _grow(self, what: bytearray, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _too_much(f"the head of part {self._parts} is larger than {MAX_HEAD_BYTES} bytes")
        what += data

    def _header(self) -> None:
        self._head[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _headers(self) -> None:
        _, options = parse_options_header(self._head.get(b"content-disposition", b""))
        if b"name" not in options:
            raise RequestError(f"part {self._parts} of the form has no name", code="invalid_form")
        name = options[b"name"].decode("utf-8", "replace")
        if name == "file" and b"filename" in options:
            if self.form.filename is not None:
                raise RequestError("the form has more than one `file`; upload one at a time", param="file")
            self.form.filename = options[b"filename"].decode("utf-8", "replace")
        else:
            self._field = name

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._file.append(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > MAX_VALUE_BYTES:
            raise _too_much(f"the field {self._field[:100]!r} is larger than {MAX_VALUE_BYTES} bytes")

    def _end(self) -> None:
        if self._field is not None:
            self.form.values[self._field] = self._text.decode("utf-8", "replace")

    def _finish(self) -> None:
        self.whole = True


def _too_much(what: str) -> RequestError:
    return RequestError(what, code="invalid_form")
