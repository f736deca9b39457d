"""Attempts at upstream servers: one span each."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

ANSWERED = "answered"
LOST = "left"
"""Outcome of an attempt that nobody waited for until its end."""
INVALID = "invalid"
"""Outcome of an attempt whose answer violated the constraint."""


def _new_span_id() -> int:
    return random.getrandbits(64) or 1


@dataclass(slots=True)
class Try:
    """One attempt. Times are those of `time.perf_counter`; `ended_s` is None while it lasts."""

    server: str
    """`host:port`."""
    number: int = 0
    """Number of earlier attempts for the same request."""
    chosen_by: str = ""
    began_s: float = field(default_factory=time.perf_counter)
    ended_s: float | None = None
    status: int | None = None
    """HTTP status; None where no head was received."""
    outcome: str = LOST
    said: str = ""
    """Why that server refused: its message where the operator opted in to content, else its code."""
    span_id: int = field(default_factory=_new_span_id)

    @property
    def failed(self) -> bool:
        return self.outcome not in (ANSWERED, LOST)

    def end(self, outcome: str) -> None:
        """Note when and how the try ended. Only the first call counts."""
        if self.ended_s is None:
            self.ended_s, self.outcome = time.perf_counter(), outcome

    def traceparent(self, above: str) -> str:
        """Return the header `above` with this try as the parent of what the server does."""
        version, trace_id, _, flags = above.split("-", 3)
        return f"{version}-{trace_id}-{self.span_id:016x}-{flags}"


@runtime_checkable
class TryReporter(Protocol):
    """A generation that reports its upstream attempts."""

    @property
    def tries(self) -> Sequence[Try]: ...
