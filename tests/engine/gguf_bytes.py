"""A GGUF file as its parts, to be put together in other ways than any writer would."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST, UINT32, INT32, FLOAT32, BOOL = 8, 9, 4, 5, 6, 7
ALIGNMENT = 32


@dataclass(frozen=True)
class GgufParts:
    """`fields`: (type, value) by name, lists as (type of items, items); `tensors`: (dimensions, type, offset) by
    name."""

    fields: dict[bytes, tuple[int, Any]]
    tensors: dict[bytes, tuple[list[int], int, int]]
    data: bytes
    tensor_count: int | None = None

    @classmethod
    def of(cls, path: Path) -> GgufParts:
        whole = path.read_bytes()
        reader = _Reader(whole, 8)
        count, fields = reader.scalar("Q"), reader.scalar("Q")
        told = {}
        for _ in range(fields):
            name, kind = reader.text(), reader.scalar("I")
            told[name] = kind, reader.value(kind)
        tensors = {}
        for _ in range(count):
            name = reader.text()
            sizes = [reader.scalar("Q") for _ in range(reader.scalar("I"))]
            tensors[name] = sizes, reader.scalar("I"), reader.scalar("Q")
        return cls(told, tensors, whole[-(-reader.at // ALIGNMENT) * ALIGNMENT :])

    @staticmethod
    def borders(path: Path) -> list[int]:
        """Return where each number and text of the header begins, and where the header ends."""
        reader = _Reader(path.read_bytes(), 8)
        count, fields = reader.scalar("Q"), reader.scalar("Q")
        for _ in range(fields):
            reader.text()
            reader.value(reader.scalar("I"))
        for _ in range(count):
            reader.text()
            for _ in range(reader.scalar("I")):
                reader.scalar("Q")
            reader.scalar("I")
            reader.scalar("Q")
        return [0, 4, *reader.begun, reader.at]

    def saying(self, name: str, kind: int, value: Any) -> GgufParts:
        return replace(self, fields=self.fields | {name.encode(): (kind, value)})

    def without(self, name: str) -> GgufParts:
        return replace(self, fields={key: one for key, one in self.fields.items() if key != name.encode()})

    def write(self, path: Path) -> Path:
        counts = len(self.tensors) if self.tensor_count is None else self.tensor_count, len(self.fields)
        parts = [b"GGUF", struct.pack("<IQQ", 3, *counts)]
        for name, (kind, value) in self.fields.items():
            parts += [_text(name), struct.pack("<I", kind), _value(kind, value)]
        for name, (sizes, kind, offset) in self.tensors.items():
            parts += [
                _text(name),
                struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes),
                struct.pack("<IQ", kind, offset),
            ]
        head = b"".join(parts)
        path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + self.data)
        return path


class _Reader:
    def __init__(self, whole: bytes, at: int) -> None:
        self.whole, self.at = whole, at
        self.begun: list[int] = []

    def scalar(self, form: str) -> Any:
        self.begun.append(self.at)
        (found,) = struct.unpack_from(f"<{form}", self.whole, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def text(self) -> bytes:
        length = self.scalar("Q")
        self.begun.append(self.at)
        self.at += length
        return self.whole[self.at - length : self.at]

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            return inner, [self.value(inner) for _ in range(count)]
        return self.scalar(_SCALARS[kind])


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _value(kind: int, value: Any) -> bytes:
    if kind == TEXT:
        return _text(value)
    if kind == LIST:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(_value(value[0], item) for item in value[1])
    return struct.pack(f"<{_SCALARS[kind]}", value)
