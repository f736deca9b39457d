"""Stage numbers in host memory that a device copies from while the host goes on: pinned, and reused only when it was
read."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


class Staging:
    """One buffer of one dtype that grows as needed. For one thread at a time; for a CPU plain memory."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._device = device
        self._is_cuda = device.type == "cuda"
        self._host = torch.empty(0, dtype=dtype)
        self._read: torch.cuda.Event | None = None

    def room(self, size: int) -> npt.NDArray[Any]:
        """Return room for `size` numbers, with undefined contents, after the copies sent before have read it."""
        if self._read is not None:
            self._read.synchronize()
        if len(self._host) < size:
            size_now = 1 << max(0, size - 1).bit_length()
            self._host = torch.empty(size_now, dtype=self._host.dtype, pin_memory=self._is_cuda)
        found: npt.NDArray[Any] = self._host.numpy()[:size]
        return found

    def send(self, size: int, target: Tensor | None = None) -> Tensor:
        """Start copying the first `size` numbers on the current stream, to the beginning of `target` if it is given."""
        source = self._host[:size]
        if target is None:
            target = torch.empty(size, dtype=source.dtype, device=self._device)
        target[:size].copy_(source, non_blocking=True)
        if self._is_cuda:
            self._read = self._read or torch.cuda.Event()
            self._read.record()
        return target[:size]


def to_device(made: Tensor, device: torch.device) -> Tensor:
    """Copy a few numbers of the host, of any shape, to the device without waiting; torch keeps them until they were
    read."""
    if device.type == "cuda" and made.numel():
        made = made.pin_memory()
    return made.to(device, non_blocking=True)
