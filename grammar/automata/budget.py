"""How much work one automaton may cost. Patterns come from strangers, and some of them explode."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from plugins.errors import GrammarLimit

_WIDE = 5
_CLOCK_EVERY = 64  # states between two looks at the clock: a look costs about as much as a state


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one construction. `max_seconds` is CPU time of the calling thread."""

    max_states: int = 20_000
    max_seconds: float = 2.0


DEFAULT_BUDGET = Budget()
_until: ContextVar[tuple[float, float] | None] = ContextVar("compile deadline", default=None)
"""CPU time of this thread at which the grammar being compiled must be done, and how much it was given."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is compiled inside, all automata together, raises `GrammarLimit` past so much CPU time of the thread."""
    token = _until.set((time.thread_time() + seconds, seconds))
    try:
        yield
    finally:
        _until.reset(token)


def look() -> None:
    """Raise if the time for the whole grammar is used up. Called where work is done in a loop."""
    until = _until.get()
    if until is not None and time.thread_time() > until[0]:
        raise GrammarLimit(
            f"the grammar takes more than {until[1]:g} s of CPU time to compile; make it smaller, or raise limits.cpu_s"
        )


class Meter:
    """Counts what one construction has spent; raises `GrammarLimit` once it is past its `Budget`."""

    __slots__ = ("_deadline_s", "_left", "_next_look", "budget", "subject")

    def __init__(self, budget: Budget = DEFAULT_BUDGET, subject: str = "pattern") -> None:
        self.budget = budget
        self.subject = subject
        self._left = budget.max_states
        self._next_look = self._left - _CLOCK_EVERY
        self._deadline_s = time.thread_time() + budget.max_seconds

    def states(self, count: int = 1) -> None:
        """Charge for `count` new states."""
        self._left -= count
        if self._left < 0:
            raise GrammarLimit(
                f"the {self.subject} needs more than {self.budget.max_states} automaton states; shorten counted "
                "repetitions such as {1,1000}, split alternatives, or raise Budget.max_states"
            )
        if self._left < self._next_look:
            self._next_look = self._left - _CLOCK_EVERY
            self.clock()

    def result(self, count: int) -> None:
        """Charge for all states of the result alone."""
        self.renew()
        self.states(count)

    def clock(self) -> None:
        """Raise if the time is used up. For loops that make no states."""
        look()
        if time.thread_time() > self._deadline_s:
            raise GrammarLimit(
                f"the {self.subject} takes more than {self.budget.max_seconds} s of CPU time to compile; anchor it "
                "with ^ and $, avoid nested or overlapping repetitions, or raise Budget.max_seconds"
            )

    def renew(self, wide: bool = False) -> None:
        """A fresh count of states for the next phase; the clock runs on. `wide`: for states on the way to the result,
        which may have fewer: what counts and is searched for at once (a host name of 1 to 256 characters, anywhere in a
        text) shrinks to a fifth, and more."""
        self._left = self.budget.max_states * (_WIDE if wide else 1)
        self._next_look = self._left - _CLOCK_EVERY
