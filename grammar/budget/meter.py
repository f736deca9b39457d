"""Bound the CPU time and the states of one piece of work: patterns and grammars come from strangers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from sluicegate.grammar.budget.clock import worked_s
from sluicegate.plugins.errors import GrammarLimit

_WIDE = 5
_CLOCK_EVERY = 64  # states between two looks at the clock: a look costs about as much as a state


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one construction. `max_seconds` is CPU time of the calling thread; `advice` ends the message of an
    error about states."""

    max_states: int = 20_000
    max_seconds: float = 2.0
    advice: str = ""


DEFAULT_BUDGET = Budget()
_OF_STATE, _OF_EDGE, _OF_LOOK = 5.0, 0.5, 30
"""Work charged per state of an automaton over characters, per class of characters there, and between two checks of the
clock where no states are made."""
_TICKS = 256.0
"""Small steps, and charges, between two checks of the clock: at most about a millisecond of work."""
_UNSEEN_S = 0.001
"""Most CPU time charged for the work up to the first check of the clock, if the clock was not read before."""


class WorkExhausted(Exception):
    """The work for a mask or a token is past its time. No `GrammarError`, so that no fallback for those catches it."""


class Allowance:
    """CPU time of the calling thread for one piece of work. `error`: what is raised past it, or makes that. `pause`:
    called with each look at the clock. `charges`: what may still be charged, see `charge`; `step`: what is charged for
    each `tick`."""

    __slots__ = ("_charged", "_seconds", "_until", "_wall", "charges", "error", "pause", "step", "ticks")

    def __init__(
        self,
        seconds: float,
        error: Exception | Callable[[], Exception],
        pause: Callable[[], None] | None = None,
        charges: float = math.inf,
        step: float = 0.0,
        *,
        brief: bool = False,
    ) -> None:
        """Allow `seconds` of CPU time from now on. `brief`: the work is most often over before anyone looks, and then
        the clock of the thread, a call of the system, is not asked: what is done until the first look counts as a
        millisecond at most."""
        self.charges = charges
        self.step = step
        self.error = error
        self.pause = pause
        self.ticks: float = _TICKS
        """Small steps until these are charged for: others look at the clock, too, and take none of them back."""
        self._charged: float = _TICKS
        self._seconds = seconds
        self._wall = time.perf_counter()
        self._until = None if brief else worked_s() + seconds

    def charge(self, count: float) -> None:
        self.charges -= count
        if self.charges < 0:
            raise self._over()
        self._charged -= count
        if self._charged < 0:
            self._charged = _TICKS
            self.look()

    def passed(self) -> None:
        """Charge for the small steps since this was called last, and look."""
        self.ticks = _TICKS
        self.charges -= _TICKS * self.step
        if self.charges < 0:
            raise self._over()
        self.look()

    def look(self) -> None:
        passed = time.perf_counter() - self._wall
        if self._until is None and passed > _UNSEEN_S:
            self._until = worked_s() + self._seconds - _UNSEEN_S
        elif self._until is not None and passed > self._seconds and worked_s() > self._until:
            raise self._over()  # a thread has worked no longer than has passed: often there is no need to ask
        if self.pause is not None:
            self.pause()

    def _over(self) -> Exception:
        return self.error if isinstance(self.error, Exception) else self.error()

    def spent_s(self) -> float:
        """Return the seconds of CPU time since it was made; where nobody has looked, the time that passed, but a
        millisecond at most."""
        if self._until is not None:
            return worked_s() - (self._until - self._seconds)
        return min(time.perf_counter() - self._wall, _UNSEEN_S)


current: ContextVar[Allowance | None] = ContextVar("what the work of this thread may take", default=None)
"""Set by `allowed`, or directly where a few microseconds matter."""


@contextmanager
def allowed(allowance: Allowance) -> Iterator[Allowance]:
    """Make `allowance` the current one within this context; work inside raises its error once its time is over."""
    token = current.set(allowance)
    try:
        yield allowance
    finally:
        current.reset(token)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Make compilation within this context raise `GrammarLimit` once it has used so much CPU time of the thread, all
    automata together.

    Keeps the pause of the allowance around it.
    """

    def error() -> GrammarLimit:
        return GrammarLimit(
            f"the grammar takes more than {seconds:g} s of CPU time to compile; make it smaller, or "
            "raise limits.cpu_s in [stages.constrain.grammar]"
        )

    with allowed(_with_pause(seconds, error)):
        yield


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Leave the work within this context, without an error, once it has used so much CPU time of the thread.

    Keeps the pause of the allowance around it, which is asked afterwards whether its own time is over.
    """
    with suppress(WorkExhausted), allowed(_with_pause(seconds, WorkExhausted)):
        yield
    look()


def _with_pause(seconds: float, error: Callable[[], Exception]) -> Allowance:
    """Return an allowance with the pause of the current one."""
    outer = current.get()
    return Allowance(seconds, error, outer.pause if outer is not None else None)


def look() -> None:
    """Raise if the time for the work at hand is used up. For loops."""
    allowance = current.get()
    if allowance is not None:
        allowance.look()


def tick() -> None:
    """Call `look` once in 256 calls: for steps of a few microseconds."""
    allowance = current.get()
    if allowance is not None:
        allowance.ticks -= 1
        if allowance.ticks < 0:
            allowance.passed()


def charge(count: float) -> None:
    """Charge for work that the rules of a grammar multiply, about a microsecond each; raise past what is allowed.

    Unlike a clock it comes to the same on every machine, at rest or not: a grammar is always followed, or never."""
    allowance = current.get()
    if allowance is not None:
        allowance.charge(count)


def left() -> float:
    """Return the charges left in the current allowance; infinite without one."""
    allowance = current.get()
    return math.inf if allowance is None else allowance.charges


class WorkMeter:
    """Counts what one construction has spent; raises `GrammarLimit` once it is past its `Budget`. `charged`: what is
    charged for each state, where a call of a matcher must make it first."""

    __slots__ = ("_began", "_charged", "_deadline_s", "_left", "_next_look", "budget", "subject")

    def __init__(self, budget: Budget = DEFAULT_BUDGET, subject: str = "pattern", charged: float = _OF_STATE) -> None:
        self.budget = budget
        self.subject = subject
        self._charged = charged
        self._left = budget.max_states
        self._next_look = self._left - _CLOCK_EVERY
        self._began = time.perf_counter()
        self._deadline_s: float | None = None
        """In CPU time; None while so little time has passed that it is not asked for, see `Allowance`."""

    @property
    def left(self) -> int:
        """Return how many states may still be made."""
        return self._left

    def states(self, count: int = 1) -> None:
        """Charge for `count` new states."""
        charge(self._charged * count)
        self._left -= count
        if self._left < 0:
            raise GrammarLimit(
                f"the {self.subject} needs more than {self.budget.max_states} automaton states; shorten counted "
                f"repetitions such as {{1,1000}}, or split alternatives{self.budget.advice}"
            )
        if self._left < self._next_look:
            self._next_look = self._left - _CLOCK_EVERY
            self.clock()

    def edges(self, count: int) -> None:
        """Charge for looking at `count` places that a state may lead to."""
        charge(_OF_EDGE * count)

    def result(self, count: int) -> None:
        """Charge for all states of the result alone."""
        self.renew()
        self.states(count)

    def clock(self) -> None:
        """Raise if the time is used up. For loops that make no states."""
        charge(_OF_LOOK)
        look()
        passed = time.perf_counter() - self._began
        if self._deadline_s is None and passed > _UNSEEN_S:
            self._deadline_s = worked_s() + self.budget.max_seconds - _UNSEEN_S
        elif self._deadline_s is not None and passed > self.budget.max_seconds and worked_s() > self._deadline_s:
            raise GrammarLimit(
                f"the {self.subject} takes more than {self.budget.max_seconds} s of CPU time to compile; anchor it "
                "with ^ and $, or avoid nested or overlapping repetitions"
            )

    def renew(self, wide: bool = False) -> None:
        """Count states anew for the next phase; the clock runs on. `wide`: five times as many, for intermediate states:
        counted repetitions that are searched for shrink to a fifth and less when minimised."""
        self._left = self.budget.max_states * (_WIDE if wide else 1)
        self._next_look = self._left - _CLOCK_EVERY
