"""Convert exceptions to the typed errors that leave the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sluicegate.plugins import GenerationFailed, ModelLoadError, Overloaded, SluicegateError
from sluicegate.plugins.errors import SEND_AGAIN

CPU_ALLOCATOR = "DefaultCPUAllocator"
"""Stands in the `RuntimeError` of a CPU without memory, for which torch has no class."""
LONGEST_CAUSE = 500
"""Most characters of a library's words in the cause of a failure."""


def as_failure(error: Exception, doing: str) -> SluicegateError:
    """Return `error`, raised while `doing`, as a typed error. Typed ones are returned unchanged; a full device becomes
    `Overloaded`, since the request may fit later."""
    if isinstance(error, SluicegateError):
        return error
    failure: SluicegateError
    if isinstance(error, torch.OutOfMemoryError):
        message = f"{doing} ran out of the device's memory; send the request again later, or a shorter one"
        failure = Overloaded(message, retry_after_s=1.0)
    else:
        told = f"{doing} failed; {SEND_AGAIN}"
        failure = GenerationFailed(told, cause=f"{type(error).__name__}: {first_line(error)[:LONGEST_CAUSE]}")
    failure.__cause__ = error
    return failure


@contextmanager
def typed_loading(where: str) -> Iterator[None]:
    """Raise `ModelLoadError` for all that libraries raise over unexpected files. Typed errors and a full device's error
    (see `cuda.memory.fitting`) pass."""
    try:
        yield
    except (SluicegateError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if CPU_ALLOCATOR in str(error):
            raise
        raise ModelLoadError(
            f"{where!r} cannot be served ({type(error).__name__}: {first_line(error)}); a file of it is damaged, or "
            "says what no such model has. Fetch it anew, or correct what the message names"
        ) from error


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
