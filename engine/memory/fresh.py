"""Make tensors of zeros whose memory is not taken before it is written.

`torch.zeros` writes its zeros: a KV cache of 512 MiB would be resident from the start, however little of it is used.
Memory that the system maps is zero by itself, page by page, as it is touched.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence as Seq
from math import prod

import torch
from torch import Tensor

from sluicegate.plugins import ModelLoadError

_LEAST = 1 << 20
"""Bytes from which a mapping of its own is worth it."""


def fresh_zeros(shape: Seq[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros of `shape`; on a CPU with untouched memory, where the system allows it. Raises `ModelLoadError` if
    there are not so many addresses."""
    size = prod(shape) * dtype.itemsize
    if device.type != "cpu" or size < _LEAST or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros(*shape, dtype=dtype, device=device)
    try:
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise ModelLoadError(
            f"the KV cache would take {size:,} bytes in a layer for keys alone, which this machine does not give "
            f"({error}); lower kv_cache_bytes or num_blocks"
        ) from error
    return torch.frombuffer(mapped, dtype=dtype).view(*shape)
