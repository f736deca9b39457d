"""Stage numbers in pinned host memory for asynchronous copies to a device; memory is reused only after its copy is
done."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


class Staging:
    """One growing host buffer of one dtype; pinned for a CUDA device. For one thread at a time."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._device = device
        self._is_cuda = device.type == "cuda"
        self._host = torch.empty(0, dtype=dtype)
        self._read: torch.cuda.Event | None = None

    def room(self, size: int) -> npt.NDArray[Any]:
        """Return `size` numbers to fill, with undefined contents, once earlier copies from the buffer are done."""
        if self._read is not None:
            self._read.synchronize()
        if len(self._host) < size:
            size_now = 1 << max(0, size - 1).bit_length()
            self._host = torch.empty(size_now, dtype=self._host.dtype, pin_memory=self._is_cuda)
        found: npt.NDArray[Any] = self._host.numpy()[:size]
        return found

    def send(self, size: int, target: Tensor | None = None) -> Tensor:
        """Start copying the first `size` numbers to `target`, or to a new tensor, on the current stream; return the
        copy."""
        source = self._host[:size]
        if target is None:
            target = torch.empty(size, dtype=source.dtype, device=self._device)
        target[:size].copy_(source, non_blocking=True)
        if self._is_cuda:
            self._read = self._read or torch.cuda.Event()
            self._read.record()
        return target[:size]


def to_device(made: Tensor, device: torch.device) -> Tensor:
    """Copy a small host tensor to the device without waiting; torch keeps the pinned memory until the copy is done."""
    if device.type == "cuda" and made.numel():
        made = made.pin_memory()
    return made.to(device, non_blocking=True)
