"""Read tensors of safetensors files one at a time, by their offsets.

A file is memory-mapped; the pages a tensor was copied from are released at once, so that a checkpoint never takes its
memory twice. The format: 8 bytes with the length of a header, the header (JSON: dtype, shape and offsets by name),
data.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.cpu import Packed, fits_halves, keep_halves
from sluicegate.plugins import ModelLoadError

CHUNK = 4 << 20
"""Numbers that are widened and rounded at a time."""
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class LazyTensor:
    """A tensor that is read on request; `[...]` is how `transformers` reads it."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, read: Callable[[], Tensor]) -> None:
        self.shape, self.dtype, self._read = shape, dtype, read

    def read(self) -> Tensor:
        """Return the whole tensor, in newly allocated memory."""
        return self._read()

    def runs(self) -> Iterator[tuple[int, Tensor]]:
        """Yield a matrix in order, as (first row, some rows [r, k] float32)."""
        yield 0, self.read().float()

    def part(self, index: int) -> Tensor:
        """Return the tensor at `index` of the first dimension."""
        return self.read()[index]

    def part_as_kept(self, index: int, is_transposed: bool, halves: bool) -> Packed | None:
        """Return the matrix at `index` of the first dimension as [n, k] in its stored format, or None; see `as_kept`.
        `is_transposed`: it is stored as [k, n]."""
        _, n, k = self.shape
        if not halves or not fits_halves((k, n) if is_transposed else (n, k), self.dtype):
            return None
        one = self.part(index)
        return keep_halves(one.T if is_transposed else one)

    def as_kept(self, halves: bool) -> Packed | None:
        """Return the matrix in its stored format, if CPU kernels support it: GGUF blocks, and half precision if
        `halves`. Else None."""
        return None

    def __getitem__(self, index: Any) -> Tensor:
        whole = self.read()
        return whole if index is ... else whole[index]


class FileTensor(LazyTensor):
    """A tensor stored at `start` bytes of the mapped file `held`."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, held: mmap.mmap, start: int) -> None:
        super().__init__(shape, dtype, lambda: self._copied(0, prod(shape)).view(shape))
        self._held, self._start = held, start

    def runs(self) -> Iterator[tuple[int, Tensor]]:
        rows, width = self.shape
        step = max(1, CHUNK // max(1, width))
        for first in range(0, rows, step):
            count = min(step, rows - first)
            yield first, self._copied(first * width, count * width).view(count, width).float()

    def part(self, index: int) -> Tensor:
        count = prod(self.shape[1:])
        return self._copied(index * count, count).view(self.shape[1:])

    def as_kept(self, halves: bool) -> Packed | None:
        return keep_halves(self.read()) if halves and fits_halves(self.shape, self.dtype) else None

    def _copied(self, first: int, count: int) -> Tensor:
        """Return a copy of `count` numbers from `first` on, and release the pages they were read from."""
        if count == 0:
            return torch.empty(0, dtype=self.dtype)
        start, size = self._start + first * self.dtype.itemsize, count * self.dtype.itemsize
        found = torch.frombuffer(self._held, dtype=torch.uint8, offset=start, count=size).clone().view(self.dtype)
        page = mmap.PAGESIZE
        low, high = start // page * page, (start + size) // page * page
        if high > low and hasattr(mmap, "MADV_DONTNEED"):
            self._held.madvise(mmap.MADV_DONTNEED, low, high - low)
        return found


def stored_tensors(paths: list[Path], where: str) -> dict[str, LazyTensor]:
    """Return lazy tensors of safetensors files by name. Raises `ModelLoadError` for a damaged file, or a tensor that
    two files hold with different numbers."""
    found: dict[str, LazyTensor] = {}
    for path in paths:
        try:
            tensors = list(_tensors_of(path))
        except (ValueError, KeyError, TypeError, OSError, RecursionError, OverflowError) as error:
            raise ModelLoadError(
                f"{where!r}: {path.name} is no whole safetensors file ({error}); its download or copy was not "
                "finished, or it is damaged. Fetch it anew"
            ) from error
        for name, tensor in tensors:
            if name in found and not _same(found[name], tensor):
                raise ModelLoadError(
                    f"{where!r} holds {name!r} twice, with other numbers in {path.name} than in a file before it; one "
                    "of the files is another checkpoint's. Fetch the folder anew"
                )
            found.setdefault(name, tensor)
    return found


def _same(one: LazyTensor, other: LazyTensor) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype) and torch.equal(one.read(), other.read())


def has_halves(tensors: Mapping[str, LazyTensor]) -> bool:
    """Return whether CPU kernels can use any of these tensors in half precision as stored."""
    return any(fits_halves(one.shape, one.dtype) for one in tensors.values())


def _tensors_of(path: Path) -> Iterator[tuple[str, FileTensor]]:
    """Yield the tensors of a file by name. As in the format's own reader, each byte of data is one tensor's: with gaps
    or overlaps the header belongs to other data. Raises `ValueError` and what `json` and `mmap` raise."""
    if not path.is_file():
        raise ValueError("it is no regular file, or a link to nothing")
    with path.open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(held[:8], "little")
    if not 0 < length <= len(held) - 8:
        raise ValueError(f"its header should have {length} bytes, the file has {len(held)}")
    header = json.loads(held[8 : 8 + length].decode(), object_pairs_hook=_without_repetition)
    if not isinstance(header, dict):
        raise ValueError(f"its header is a {type(header).__name__}, not an object")
    header.pop("__metadata__", None)
    base = end = 8 + length
    for name, about in sorted(header.items(), key=lambda item: _offsets(*item)):
        first, last = _offsets(name, about)
        if base + first != end:
            raise ValueError(f"{name} begins at {base + first}, and the tensor before it ends at {end}")
        end = base + last
        yield name, _tensor(name, about, held, base)
    if end != len(held):
        raise ValueError(f"its tensors end at {end}, the file has {len(held)} bytes")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"its header has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _offsets(name: str, about: Any) -> tuple[int, int]:
    """Return where a tensor's data begins and ends, counted from the end of the header."""
    found = about.get("data_offsets") if isinstance(about, dict) else None
    if not isinstance(found, list) or len(found) != 2 or any(type(at) is not int or at < 0 for at in found):
        raise ValueError(f"{name} has no data_offsets")
    return found[0], found[1]


def _tensor(name: str, about: Mapping[str, Any], held: mmap.mmap, base: int) -> FileTensor:
    first, last = _offsets(name, about)
    shape, dtype = about["shape"], _DTYPES.get(str(about["dtype"]))
    if dtype is None:
        raise ValueError(f"{name} is in {about['dtype']}, which is not known here")
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{name} has the shape {shape}")
    if not first <= last <= len(held) - base or last - first != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} should have {last - first} bytes at {base + first}, the file has {len(held)}")
    return FileTensor(tuple(shape), dtype, held, base + first)
