"""Find a device and budget its memory: bytes for the KV cache, and errors when it is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from sluicegate.engine.failures import CPU_ALLOCATOR, first_line
from sluicegate.plugins import ModelLoadError


class DeviceMemory(NamedTuple):
    """Bytes free and in total."""

    free: int
    total: int


def usable_device(name: str, where: str) -> torch.device:
    """Return the device named `name`; `where` names the model in errors. Raises `ModelLoadError` if there is no such
    device."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"{where!r}: device {name!r} is unknown; use 'cpu', 'cuda' or 'cuda:0'") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        built = f"is built for CUDA {torch.version.cuda}" if torch.version.cuda else "is built without CUDA"
        raise ModelLoadError(
            f"{where!r} is to be loaded on {name!r}, but torch sees no CUDA device ({torch.__version__} {built}); "
            "install a CUDA build of torch and a driver for it, or leave out device"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ModelLoadError(f"{where!r}: there is no {name!r}; the last of {count} CUDA devices is cuda:{count - 1}")
    return device


def memory_of(device: torch.device) -> DeviceMemory:
    """Return the memory of a CUDA device, counting torch's cached memory as free."""
    free, total = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return DeviceMemory(free + kept, total)


def cache_bytes(memory: DeviceMemory, share: float, *, step_bytes: int = 0) -> int:
    """Return the bytes available to a KV cache. Weights and cache may fill `share` of all memory; the rest, and
    `step_bytes` more, are left for temporary memory of steps."""
    return max(0, int(memory.free - (1 - share) * memory.total) - step_bytes)


def refuse_too_small(name: str, budget: int, block_bytes: int, memory: DeviceMemory) -> None:
    """Raise `ModelLoadError` if the cache cannot hold one block."""
    if budget < block_bytes:
        raise ModelLoadError(
            f"model {name!r} leaves no room for a KV cache: {memory.free / 1e9:.2f} of {memory.total / 1e9:.2f} GB are "
            f"free, and a block takes {block_bytes / 1e9:.3f} GB beside the reserve; raise device_memory, choose a "
            "smaller model or kv = 'int8', or, with several models on the device, give each its kv_cache_bytes"
        )


def using(device: torch.device) -> AbstractContextManager[Any]:
    """Make `device` the current one within this context: kernels are launched on it."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Convert an out-of-memory error while loading `what` to a `ModelLoadError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        release_cached()
        raise ModelLoadError(
            f"{what} does not fit into the device's memory ({first_line(error)}); choose a smaller model or dtype, "
            "lower kv_cache_bytes or device_memory, or remove another model first"
        ) from error
    except RuntimeError as error:
        if CPU_ALLOCATOR not in str(error):
            raise
        raise ModelLoadError(
            f"{what} does not fit into memory ({first_line(error)}); choose a smaller model, or lower num_blocks, "
            "block_size or max_batch_tokens"
        ) from error


def release_cached() -> None:
    """Free torch's cached memory, so that a smaller allocation may succeed."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
