"""Read the header of a GGUF file, and check it before any library does: whole, in bounds, and without what no file may
say.

A header is counts, fields (name, type, value) and tensors (name, sizes, type, offset), one behind another and without a
way to find one but by reading all before it. A wrong length or count therefore turns all that follows into other
numbers: readers that trust it take memory by them, or read behind the end without noticing.

This follows ggml's description of the format, versions 2 and 3. What is checked takes time by the size of the file at
most, and no memory by what a number of it says: of a list only its place is kept. The package `gguf` makes arrays of
numpy of each text, which takes ten seconds for a vocabulary of 262,144.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sluicegate.plugins import ModelLoadError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_UINT32, _TRUTH, _TEXT, _LIST = 4, 7, 8, 9
_VERSIONS = (2, 3)
_MOST_NAME = 1 << 16
_MOST_SIZES = 4
_LEAST_TEXT = 8
_LEAST_FIELD, _LEAST_TENSOR = _LEAST_TEXT + 4 + 1, _LEAST_TEXT + 4 + 4 + 8
"""Bytes that each takes at least."""
_ALIGNMENT = "general.alignment"


class GgufField(NamedTuple):
    """A field of the metadata."""

    types: tuple[int, ...]
    """As the file numbers them; behind that of a list that of its items, unless it is empty."""
    value: Any
    """A number, a truth value or a text; None for a list."""
    length: int
    """Items of a list, else 0."""
    span: tuple[int, int]
    """Where name, type and value begin and end in the file."""
    items: int
    """Where the items of a list begin."""


class GgufTensorInfo(NamedTuple):
    """Where a tensor lies, and in which form."""

    sizes: tuple[int, ...]
    """The innermost first."""
    kind: int
    offset: int
    """From the beginning of the file."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says before its tensors, in the order of the file."""

    fields: Mapping[str, GgufField]
    tensors: Mapping[str, GgufTensorInfo]
    alignment: int
    data_offset: int
    """Where the first tensor lies in the file."""


def read_header(path: Path, where: str) -> GgufHeader:
    """Return the header of this GGUF file. Raises `ModelLoadError` with what is wrong and at which byte, unless it can
    be read as ggml describes it and the tensors lie inside the file."""
    size = path.stat().st_size
    if size == 0:
        raise ModelLoadError(f"{where!r} is empty, and no GGUF file; fetch it anew")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        return _HeaderReader(whole, where).read()


def list_items(path: Path, found: GgufField) -> list[Any]:
    """Return the items of a list whose place `read_header` has checked."""
    kind = found.types[1] if len(found.types) > 1 else _TEXT
    with path.open("rb") as file:
        file.seek(found.items)
        inside = file.read(found.span[1] - found.items)
    if kind in _SCALARS:
        return [_as_said(kind, one) for one in struct.unpack(f"<{found.length}{_SCALARS[kind]}", inside)]
    texts, at = [], 0
    for _ in range(found.length):
        (size,) = struct.unpack_from("<Q", inside, at)
        at += 8 + size
        texts.append(inside[at - size : at].decode("utf-8"))
    return texts


def _as_said(kind: int, number: Any) -> Any:
    return bool(number) if kind == _TRUTH else number


class _Numbers(NamedTuple):
    """A type of tensors."""

    label: str
    numbers: int
    """Numbers of a block, which takes `size` bytes."""
    size: int
    is_read: bool


@cache
def _numbers_by_type() -> Mapping[int, _Numbers]:
    """Return the types of tensors that the package `gguf` knows."""
    from gguf.constants import GGML_QUANT_SIZES

    return {
        int(kind): _Numbers(kind.name, *sizes, _is_read(kind, sizes[1])) for kind, sizes in GGML_QUANT_SIZES.items()
    }


def _is_read(kind: Any, size: int) -> bool:
    """Return whether `gguf` can widen blocks of this type."""
    from gguf import dequantize

    try:
        dequantize(np.zeros((1, size), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


@dataclass(slots=True)
class _HeaderReader:
    whole: mmap.mmap
    where: str
    at: int = 0
    """The byte that is read next."""
    alignment: int = 32
    fields: dict[str, GgufField] = field(default_factory=dict)
    tensors: dict[str, GgufTensorInfo] = field(default_factory=dict)
    """By name, with offsets from the first tensor."""
    described: dict[str, int] = field(default_factory=dict)
    """Where a tensor is described."""

    def read(self) -> GgufHeader:
        tensors, fields = self._counts()
        for index in range(fields):
            self._field(f"field {index + 1} of {fields}")
        for index in range(tensors):
            self._tensor(f"tensor {index + 1} of {tensors}")
        first = -(-self.at // self.alignment) * self.alignment
        self._refuse_outside(first)
        placed = {name: one._replace(offset=first + one.offset) for name, one in self.tensors.items()}
        return GgufHeader(self.fields, placed, self.alignment, first)

    def _counts(self) -> tuple[int, int]:
        if (found := bytes(self.whole[:4])) != b"GGUF":
            raise ModelLoadError(
                f"{self.where!r} is no GGUF file: it begins with {found!r}, and these with b'GGUF'. Name a GGUF file, "
                "or a folder with safetensors weights"
            )
        self.at = 4
        version = self._number("I", "its version")
        if version not in _VERSIONS:
            if version & 0xFFFF == 0 and version:
                raise ModelLoadError(
                    f"{self.where!r} is a GGUF file of the other byte order (big-endian); convert it with "
                    "gguf-convert-endian, or fetch it for little-endian machines"
                )
            raise ModelLoadError(
                f"{self.where!r} is a GGUF file of version {version}; read are {_VERSIONS[0]} and {_VERSIONS[1]}. "
                "Convert the checkpoint anew"
            )
        tensors = self._count(_LEAST_TENSOR, "tensors")
        fields = self._count(_LEAST_FIELD, "fields")
        if tensors == 0:
            raise ModelLoadError(
                f"{self.where!r} holds no tensors: a vocabulary alone, or damaged. Name the model's own file"
            )
        return tensors, fields

    def _count(self, least: int, what: str) -> int:
        count: int = self._number("Q", f"the number of its {what}")
        if count * least > len(self.whole) - self.at:
            self._fail(f"it says that it has {count} {what}, which {len(self.whole)} bytes cannot hold", self.at - 8)
        return count

    def _field(self, which: str) -> None:
        began = self.at
        name = self._name(which)
        if name in self.fields:
            self._fail(f"field {name!r} is there twice", began)
        kind = self._number("I", f"the type of field {name!r}")
        value: Any = None
        types: tuple[int, ...] = (kind,)
        length = items = 0
        if kind == _LIST:
            inner, length, items = self._list(f"field {name!r}")
            types += (inner,) if length else ()
        else:
            value = self._value(kind, f"field {name!r}")
        self.fields[name] = GgufField(types, value, length, (began, self.at), items)
        if name == _ALIGNMENT:
            if kind != _UINT32 or value < 1 or value & (value - 1):
                self._fail(f"{_ALIGNMENT} is {value!r} (type {kind}); expected a power of 2 (type {_UINT32})", began)
            self.alignment = value

    def _value(self, kind: int, what: str) -> Any:
        if kind in _SCALARS:
            return _as_said(kind, self._number(_SCALARS[kind], f"the value of {what}"))
        if kind != _TEXT:
            self._refuse_type(what, kind, "numbers (0 to 7, 10 to 12), texts (8) and lists (9)")
        return self._text(what)

    def _list(self, what: str) -> tuple[int, int, int]:
        """Return the type of a list's items, their number, and where they begin."""
        kind = self._number("I", f"the type of the items of {what}")
        if kind not in _SCALARS and kind != _TEXT:
            self._refuse_type(f"an item of {what}", kind, "numbers (0 to 7, 10 to 12) and texts (8)")
        count, left = self._number("Q", f"the number of items of {what}"), len(self.whole) - self.at
        each = struct.calcsize(_SCALARS[kind]) if kind in _SCALARS else _LEAST_TEXT
        if count * each > left:
            self._fail(f"{what} says that it has {count} items, and {left} bytes follow", self.at - 8)
        began = self.at
        if kind in _SCALARS:
            self.at += each * count
        else:
            self._texts(count, what)
        return kind, count, began

    def _texts(self, count: int, what: str) -> None:
        for index in range(count):
            self._text(f"item {index} of {what}")

    def _refuse_type(self, what: str, kind: int, known: str) -> NoReturn:
        self._fail(f"{what} is of type {kind}; known are {known}", self.at - 4)

    def _tensor(self, which: str) -> None:
        began = self.at
        name = self._name(which)
        if name in self.tensors:
            self._fail(f"tensor {name!r} is there twice", began)
        count = self._number("I", f"the number of sizes of tensor {name!r}")
        if not 1 <= count <= _MOST_SIZES:
            self._fail(f"tensor {name!r} has {count} sizes; expected 1 to {_MOST_SIZES}", self.at - 4)
        sizes = [self._number("Q", f"a size of tensor {name!r}") for _ in range(count)]
        if 0 in sizes:
            self._fail(f"tensor {name!r} has the sizes {sizes}; expected none of 0", began)
        kind = self._number("I", f"the type of tensor {name!r}")
        offset = self._number("Q", f"the offset of tensor {name!r}")
        self.tensors[name] = GgufTensorInfo(tuple(sizes), kind, offset, self._bytes_of(name, sizes, kind, began))
        self.described[name] = began

    def _bytes_of(self, name: str, sizes: list[int], kind: int, began: int) -> int:
        """Return how many bytes a tensor takes."""
        found = _numbers_by_type().get(kind)
        if found is None:
            self._fail(f"tensor {name!r} is of type {kind}, which the installed package gguf does not know", began)
        if not found.is_read:
            raise ModelLoadError(
                f"{self.where!r}: tensor {name!r} is in {found.label} (type {kind}), which cannot be read here; name "
                "a file in another quantisation, such as Q8_0, Q6_K or Q4_K, or the checkpoint that it was made of"
            )
        if sizes[0] % found.numbers:
            told = f"those of {found.label} come in {found.numbers}"
            self._fail(f"tensor {name!r} has rows of {sizes[0]} numbers; {told}", began)
        return prod(sizes) // found.numbers * found.size

    def _refuse_outside(self, first: int) -> None:
        for name, (_, _, offset, size) in self.tensors.items():
            began = self.described[name]
            if offset % self.alignment:
                self._fail(f"tensor {name!r} lies at {offset}; expected a multiple of {self.alignment}", began)
            if first + offset + size > len(self.whole):
                end = first + offset + size
                self._fail(f"tensor {name!r} would end at byte {end} of a file of {len(self.whole)}", began)

    def _name(self, which: str) -> str:
        return self._text(f"the name of {which}", _MOST_NAME)

    def _text(self, what: str, most: int = 1 << 62) -> str:
        size = self._number("Q", f"the length of {what}")
        if size > min(most, len(self.whole) - self.at):
            left = len(self.whole) - self.at
            allowed = f"at most {most} are allowed" if most < left else f"{left} follow"
            self._fail(f"{what} says that it takes {size} bytes, and {allowed}", self.at - 8)
        self.at += size
        try:
            return self.whole[self.at - size : self.at].decode("utf-8")
        except UnicodeDecodeError:
            self._fail(f"{what} is no UTF-8", self.at - size)

    def _number(self, form: str, what: str) -> Any:
        size = struct.calcsize(form)
        if self.at + size > len(self.whole):
            self._fail(f"it ends at byte {len(self.whole)}, inside {what}", self.at)
        (found,) = struct.unpack_from(f"<{form}", self.whole, self.at)
        self.at += size
        return found

    def _fail(self, reason: str, at: int) -> NoReturn:
        raise ModelLoadError(
            f"{self.where!r} is no GGUF file that can be read: {reason} (byte {at}). It is damaged, or was not wholly "
            "fetched; fetch it anew"
        )
