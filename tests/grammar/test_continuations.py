"""Continuations put together: readings that differ only in what surrounds them."""

from __future__ import annotations

from collections.abc import Container

from sluicegate.grammar.reading.continuations import Continuation, ContinuationUnion
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import AT_END, ByteChoice, EndOfText
from sluicegate.grammar.reading.tape import Tape


class Refusing:
    """A guard that allows nothing."""

    def allows(self, tape: Tape, end: int) -> bool:
        return False

    def refused(self, tape: Tape, among: Container[str]) -> frozenset[str] | None:
        return None


class Closing(Continuation):
    """A closing bracket comes next."""

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (ByteChoice({0x5D: EndOfText()}),)


def firsts(readings: tuple[Reading, ...]) -> list[set[int]]:
    return [set(reading.firsts()) for reading in readings]


def test_many_goes_on_as_each_of_its_branches_does() -> None:
    """Threads of all branches, in order; the end of the text is among them where it is in one."""
    many = ContinuationUnion((Closing(), EndOfText()))
    assert firsts(many.after(0)) == firsts(many.finish(0, Run(None), 0)) == [{0x5D}, set()]
    assert many.after(0)[1] is AT_END
    assert many.is_end
    assert not ContinuationUnion((Closing(), Closing())).is_end


def test_a_branch_whose_guard_refuses_is_left_out_once_guards_are_asked() -> None:
    """`after` asks no guard; `finish` asks each branch's own."""
    many = ContinuationUnion((Closing(Refusing()), EndOfText()))
    assert len(many.after(0)) == 2
    run = Run(Tape())
    assert many.finish(0, run, 0) == (AT_END,)
    assert run.asked
