"""Continuations put together: readings that differ only in what surrounds them."""

from __future__ import annotations

from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.reading.continuations import ContinuationUnion
from sluicegate.grammar.reading.guards import DistinctKey
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import AT_END, ByteChoice, EndOfText
from sluicegate.grammar.reading.tape import Tape


def closing() -> Then:
    """Return the continuation before a closing bracket and the end."""
    return Then(lambda: (ByteChoice({0x5D: EndOfText()}),))


def firsts(readings: tuple[Reading, ...]) -> list[set[int]]:
    return [set(reading.firsts()) for reading in readings]


def test_many_goes_on_as_each_of_its_branches_does() -> None:
    """Threads of all branches, in order; the end of the text is among them where it is in one."""
    many = ContinuationUnion((closing(), EndOfText()))
    assert firsts(many.after(0)) == firsts(many.finish(0, Run(None), 0)) == [{0x5D}, set()]
    assert many.after(0)[1] is AT_END
    assert many.is_end
    assert not ContinuationUnion((closing(), closing())).is_end


def test_a_branch_whose_guard_refuses_is_left_out_once_guards_are_asked() -> None:
    """`after` asks no guard; `finish` asks each branch's own."""
    tape = Tape()
    tape.push_all(b'{"a"')
    many = ContinuationUnion((EndOfText(DistinctKey(frozenset({"a"}))), closing()))
    assert len(many.after(0)) == 2
    run = Run(tape)
    assert firsts(many.finish(0, run, 0)) == [{0x5D}]
    assert run.asked
