"""Read the tensors of a GGUF file one at a time, some rows at a time, so that the file is never whole in memory.

`transformers` maps tensor names to parameters, and knows the row order that llama.cpp uses for queries and keys.
Families whose matrices need nothing else are read here; others are read whole by `transformers`.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.checkpoints.gguf.equal_blocks import as_equal, equal_form
from sluicegate.engine.checkpoints.gguf.files import GgufFile, places_of, processor_of, refuse_skipped
from sluicegate.engine.checkpoints.plausible import refuse_oversized
from sluicegate.engine.checkpoints.stored_tensors import CHUNK, LazyTensor
from sluicegate.engine.cpu import BLOCK_NAMES, Packed, fits_halves, keep_blocks, keep_halves

_ORDERLY = (
    *("TensorProcessor", "LlamaTensorProcessor", "Gemma2TensorProcessor", "NemotronTensorProcessor"),
    "Qwen2MoeTensorProcessor",
)
"""Classes of `transformers` that change vectors at most, and the order of a matrix's rows; the last also joins gate and
up projections of experts, which `GgufExperts` does here."""
_EXPERTS = re.compile(r"blk\.\d+\.ffn_(gate|up|down)_exps\.weight")

_HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}


class GgufTensor(LazyTensor):
    """A lazy float32 tensor of a GGUF file, in the layout of its parameter."""

    def __init__(self, tensor: Any, processor: Any, shape: tuple[int, ...] | None) -> None:
        """Read `tensor` as a parameter of `shape`: llama.cpp stores a matrix of one row as a vector."""
        stored = tuple(int(size) for size in reversed(tensor.shape))
        super().__init__(shape if shape == (1, *stored) else stored, torch.float32, self._whole)
        self._tensor, self._processor = tensor, processor

    def runs(self) -> Iterator[tuple[int, Tensor]]:
        return self._in_order(self._dequantised) if self._is_matrix else iter([(0, self._whole())])

    @property
    def _is_matrix(self) -> bool:
        return len(self._tensor.shape) == 2

    def _in_order(self, read: Callable[[int, int], Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Yield (first row, some rows) of the parameter; `read` returns rows [low, high) of the file."""
        rows, width = self.shape
        order = self._processed(np.arange(rows, dtype=np.int64)[:, None])[:, 0]
        step = max(1, CHUNK // max(1, width))
        for first in range(0, rows, step):
            some = order[first : first + step]
            low, high = int(some.min()), int(some.max()) + 1
            yield first, read(low, high)[torch.from_numpy(some - low)]

    def as_kept(self, halves: bool) -> Packed | None:
        kind = self._tensor.tensor_type.name
        form, half = BLOCK_NAMES.get(equal_form(kind)), _HALVES.get(kind)
        if not self._is_matrix or (form is None and half is None):
            return None
        rows, width = self.shape
        stored = self._in_order(lambda low, high: _read(self._tensor.data[low:high]))
        if form is not None:
            return keep_blocks(((at, as_equal(kind, some)) for at, some in stored), rows, width, form)
        if half is None or not halves or not fits_halves(self.shape, half):
            return None
        whole = torch.empty(self.shape, dtype=half)
        for first, some in stored:
            whole[first : first + len(some)] = some.view(half)
        return keep_halves(whole)

    def _whole(self) -> Tensor:
        if not self._is_matrix:
            found = self._processed(self._dequantised(0, len(self._tensor.data)).numpy())
            return torch.from_numpy(np.array(found, np.float32)).view(self.shape)
        whole = torch.empty(self.shape)
        for first, rows in self.runs():
            whole[first : first + len(rows)] = rows
        return whole

    def _processed(self, numbers: Any) -> Any:
        return self._processor.process(weights=numbers, name=self._tensor.name).weights

    def _dequantised(self, low: int, high: int) -> Tensor:
        return _dequantised(self._tensor, self._tensor.data[low:high])


class GgufExperts(LazyTensor):
    """Matrices of all experts of a layer, those of `tensors` of the file joined by their outputs; float32."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        width, _, count = (int(size) for size in tensors[0].shape)
        outputs = sum(int(tensor.shape[1]) for tensor in tensors)
        super().__init__((count, outputs, width), torch.float32, self._whole)
        self._tensors = tensors

    def part(self, index: int) -> Tensor:
        return torch.cat([_dequantised(tensor, tensor.data[index]) for tensor in self._tensors])

    def part_as_kept(self, index: int, is_transposed: bool, halves: bool) -> Packed | None:
        kinds = {tensor.tensor_type.name for tensor in self._tensors}
        kind = next(iter(kinds))
        form = BLOCK_NAMES.get(equal_form(kind))
        if len(kinds) > 1 or is_transposed or form is None:
            return super().part_as_kept(index, is_transposed, halves)
        _, outputs, width = self.shape
        return keep_blocks([(0, as_equal(kind, self._bytes_of(index)))], outputs, width, form)

    def _bytes_of(self, index: int) -> Tensor:
        return torch.cat([_read(tensor.data[index]) for tensor in self._tensors])

    def _whole(self) -> Tensor:
        whole = torch.empty(self.shape)
        for index in range(self.shape[0]):
            whole[index] = self.part(index)
        return whole


def _dequantised(tensor: Any, data: Any) -> Tensor:
    """Return some rows of a tensor in float32, and give the pages back that they were read from."""
    from gguf import dequantize

    found = torch.from_numpy(np.array(dequantize(data, tensor.tensor_type), np.float32))
    _give_back(data)
    return found


def _read(data: Any) -> Tensor:
    """Return bytes of a file in memory of their own, and give the pages back that they were read from."""
    found = torch.from_numpy(np.array(data))
    _give_back(data)
    return found


def _give_back(data: Any) -> None:
    """Let the system take back the pages of a file that `data` maps."""
    base = data
    while not isinstance(base, mmap.mmap):
        if (base := getattr(base, "base", None)) is None:
            return
    whole = np.frombuffer(base, np.uint8)
    start = data.ctypes.data - whole.ctypes.data
    low, high = start // mmap.PAGESIZE * mmap.PAGESIZE, (start + data.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if high > low and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED, low, high - low)


def gguf_tensors(file: GgufFile, config: Any) -> Mapping[str, LazyTensor] | None:
    """Return the lazy tensors of a file by parameter name; None if only `transformers` can read its family. Raises
    `ModelLoadError` if the file has tensors without a parameter."""
    from transformers import AutoModelForCausalLM

    refuse_oversized((tuple(map(int, one.shape)) for one in file.tensors), config, file.where)
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)
    processor = processor_of(module)
    if type(processor).__name__ not in _ORDERLY:
        return None
    places = places_of(module, file)
    refuse_skipped(module, file, places)
    there = {tensor.name: tensor for tensor in file.tensors}
    experts: dict[str, list[Any]] = {}
    for name in sorted(name for name in places if name in there and _EXPERTS.fullmatch(name)):  # gate before up
        experts.setdefault(places[name], []).append(there[name])
    plain = {ours: there[name] for name, ours in places.items() if name in there and ours not in experts}
    shapes = {name: tuple(one.shape) for name, one in module.state_dict().items()}
    made = {ours: GgufTensor(tensor, processor, shapes.get(ours)) for ours, tensor in plain.items()}
    return made | {ours: GgufExperts(tensors) for ours, tensors in experts.items()}
