"""Lexemes of free text up to a literal, or without any."""

from __future__ import annotations

from sluicegate.grammar.automata import ByteDfa, CharDfa, occurrences, utf8
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.first_of import FirstOf
from sluicegate.grammar.lexemes.token_bound import TokenBoundLexeme

_PLACE = "free text"


@remembered(512)
def until(stop: str, others: tuple[str, ...], most: int | None = None) -> DfaLexeme:
    """Accept texts that end with `stop` and hold neither it nor one of `others` before, and at most `most`
    characters."""
    return DfaLexeme(utf8(_at_most(occurrences.until(stop, others), most, len(stop))), general=True, place=_PLACE)


@remembered(512)
def free_until(stop: str, others: tuple[str, ...], excludes: tuple[str, ...], most: int | None = None) -> DfaLexeme:
    """Accept texts that end with `stop` and hold neither it nor one of `others` before, in front of which stands
    none of `excludes`: `stop` itself may hold them."""
    free = occurrences.without((*others, *excludes)).concat(CharDfa.from_literal(stop))
    texts = free.intersection(occurrences.until(stop, others))
    return DfaLexeme(utf8(_at_most(texts, most, len(stop))), general=True, place=_PLACE)


@remembered(128)
def first_of(stops: tuple[str, ...], others: tuple[str, ...]) -> FirstOf:
    """Accept texts that end with one of `stops`, and hold none of them nor of `others` before."""
    marked = utf8(occurrences.search((*stops, *others), stops))
    goals = [_after(marked, stop) for stop in stops]
    ends = frozenset(goals)
    segments = [() if state in ends else row for state, row in enumerate(marked.segments)]
    return FirstOf(ByteDfa(segments, [state in ends for state in range(len(segments))]), goals, _PLACE)


def _after(dfa: ByteDfa, text: str) -> int:
    state = dfa.start
    for byte in text.encode():
        state = dfa.step(state, byte)
    return state


@remembered(512)
def without(stops: tuple[str, ...], most: int | None = None) -> DfaLexeme:
    """Accept texts of at most `most` characters that hold none of `stops`."""
    return DfaLexeme(utf8(_at_most(occurrences.without(stops), most)), general=True, place=_PLACE)


@remembered(64)
def counted(stops: tuple[str, ...], most: int | None, tokens: int) -> TokenBoundLexeme:
    """Accept texts of `without` that are not empty, of at most so many `tokens`."""
    texts = occurrences.without(stops) if stops else CharDfa.any_string()
    return TokenBoundLexeme(utf8(_at_most(texts.difference(CharDfa.from_literal("")), most)), tokens)


def _at_most(texts: CharDfa, most: int | None, more: int = 0) -> CharDfa:
    return texts if most is None else texts.intersection(CharDfa.length_between(0, most + more))


@remembered(2_048)
def literal(text: str) -> DfaLexeme:
    return DfaLexeme(utf8(CharDfa.from_literal(text)), general=True)
