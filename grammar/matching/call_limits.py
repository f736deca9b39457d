"""Bound the CPU time and the depth of one call of a matcher."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice

from sluicegate.grammar.reading.reading import Reading
from sluicegate.plugins.errors import GrammarLimit, GrammarTooCostly

READINGS_ASKED = 200
"""Readings that are asked for their names: an error's message is part of the call that took too much."""
_NAMED = 3
_ADVICE = (
    "make it less ambiguous: end words where the next begins, and repeat by `+` or from the left instead of by "
    "recursion from the right"
)


class CallLimits:
    """`cpu_s`: CPU time of the calling thread for one call. `wait`: for another thread that works on the same grammar;
    else that counts as too much. `pause`: called every millisecond or so of work, by the thread that works. `charges`:
    of following rules, see `meter.charge`; `step`: of each small step, see `meter.tick`. `advice`: what to do where it
    is too much. Immutable."""

    __slots__ = ("advice", "charges", "cpu_s", "pause", "step", "wait")

    def __init__(
        self,
        cpu_s: float = 2.0,
        wait: bool = True,
        pause: Callable[[], None] | None = None,
        charges: float = math.inf,
        step: float = 0.0,
        advice: str = _ADVICE,
    ) -> None:
        self.cpu_s = cpu_s
        self.wait = wait
        self.pause = pause
        self.charges = charges
        self.step = step
        self.advice = advice


def too_costly(bounds: CallLimits, readings: Iterable[Reading], subject: str) -> GrammarTooCostly:
    """Return the error of a call that took more than `bounds` allow. `subject`: what is read where no reading has a
    name."""
    most = f"{bounds.cpu_s:g} s of CPU time"
    if bounds.charges < math.inf:
        most = f"{bounds.charges / 1e6:g} s of work with its rules, or {most},"
    return GrammarTooCostly(
        f"following the grammar takes more than {most} for one token{_where(readings, subject)}; {bounds.advice}"
    )


def placed(error: GrammarLimit, readings: Iterable[Reading], subject: str) -> GrammarLimit:
    """Return an error of a call with what is read, where it has no place of its own."""
    return error if error.pointer else GrammarLimit(f"{error.reason}{_where(readings, subject)}")


def too_deep(readings: Iterable[Reading], subject: str) -> GrammarLimit:
    """Return the error of a call whose readings nest too deeply for Python."""
    return GrammarLimit(
        f"what may come next nests too deeply to be followed{_where(readings, subject)}; repeat by `+` or from the "
        "left instead of by recursion from the right, and make fewer rules that may be empty"
    )


def _where(readings: Iterable[Reading], subject: str) -> str:
    names = (reading.label() for reading in islice(readings, READINGS_ASKED))
    read = list(dict.fromkeys(name for name in names if name)) or [subject]
    return f" while it reads {', '.join(read[:_NAMED])}" + " and others" * (len(read) > _NAMED)
