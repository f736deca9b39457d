"""Convert exceptions to the typed errors that leave the engine."""

from __future__ import annotations

import torch

from sluicegate.plugins import GenerationFailed, Overloaded, SluicegateError


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
        failure = GenerationFailed(f"{doing} failed with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
