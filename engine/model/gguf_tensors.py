"""Read the tensors of a GGUF file one after another, some rows at a time, so that the file is never whole in memory.

`transformers` knows which parameter a tensor is, and in which order llama.cpp keeps the rows of queries and keys. A
family is read so where it does no more than that to matrices; the others it reads itself, whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.checkpoints.gguf_files import GgufFile, places_of, processor_of, refuse_skipped
from sluicegate.engine.checkpoints.stored_tensors import CHUNK, LazyTensor
from sluicegate.engine.cpu import BLOCK_NAMES, Packed, fits_halves, keep_blocks, keep_halves

_ORDERLY = ("TensorProcessor", "LlamaTensorProcessor", "Gemma2TensorProcessor", "NemotronTensorProcessor")
"""Classes of `transformers` that change vectors at most, and the order of a matrix's rows."""

_HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}


class GgufTensor(LazyTensor):
    """A tensor of a file, as the parameter that it is; float32."""

    def __init__(self, tensor: Any, processor: Any) -> None:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        super().__init__(shape, torch.float32, self._whole)
        self._tensor, self._processor = tensor, processor

    def runs(self) -> Iterator[tuple[int, Tensor]]:
        return self._in_order(self._dequantised)

    def _in_order(self, read: Callable[[int, int], Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Yield (first row, some rows) of a matrix, where `read` gives rows [low, high) of the file."""
        rows, width = self.shape
        order = self._processed(np.arange(rows, dtype=np.int64)[:, None])[:, 0]
        step = max(1, CHUNK // max(1, width))
        for first in range(0, rows, step):
            some = order[first : first + step]
            low, high = int(some.min()), int(some.max()) + 1
            yield first, read(low, high)[torch.from_numpy(some - low)]

    def as_kept(self, halves: bool) -> Packed | None:
        kind = self._tensor.tensor_type.name
        form, half = BLOCK_NAMES.get(kind), _HALVES.get(kind)
        if len(self.shape) != 2 or (form is None and half is None):
            return None
        rows, width = self.shape
        stored = self._in_order(lambda low, high: _read(self._tensor.data[low:high]))
        if form is not None:
            return keep_blocks(stored, rows, width, form)
        if half is None or not halves or not fits_halves(self.shape, half):
            return None
        whole = torch.empty(self.shape, dtype=half)
        for first, some in stored:
            whole[first : first + len(some)] = some.view(half)
        return keep_halves(whole)

    def _whole(self) -> Tensor:
        if len(self.shape) != 2:
            found = self._processed(self._dequantised(0, len(self._tensor.data)).numpy())
            return torch.from_numpy(np.array(found, np.float32)).view(self.shape)
        whole = torch.empty(self.shape)
        for first, rows in self.runs():
            whole[first : first + len(rows)] = rows
        return whole

    def _processed(self, numbers: Any) -> Any:
        return self._processor.process(weights=numbers, name=self._tensor.name).weights

    def _dequantised(self, low: int, high: int) -> Tensor:
        """Return rows [low, high) in float32, and give the pages back that they were read from."""
        from gguf import dequantize

        data = self._tensor.data[low:high]
        found = torch.from_numpy(np.array(dequantize(data, self._tensor.tensor_type), np.float32))
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
    """Return the tensors of a file by the names of parameters, none of them read yet; None where `transformers` must
    read them itself. Raises `ModelLoadError` where the file has tensors without a place."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)
    processor = processor_of(module)
    if type(processor).__name__ not in _ORDERLY:
        return None
    places = places_of(module)
    refuse_skipped(module, file, places)
    there = {tensor.name: tensor for tensor in file.tensors}
    return {ours: GgufTensor(there[name], processor) for name, ours in places.items() if name in there}
