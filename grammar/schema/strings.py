"""Sets of strings, closed under union, intersection and complement.

Lengths stay numbers and finite sets stay lists as long as possible; everything else is an automaton over characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sluicegate.grammar.automata import Budget, CharDfa
from sluicegate.grammar.automata.lengths import lengths_of
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar
from sluicegate.plugins.frozen import frozen_when_checked

_FEW = 64
_UNROLLED = 200
_MANY = 1_000_000


class _Roomy:
    """Has no slots, so that there is room beside those of a dataclass for what is worked out once."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Strings(_Roomy):
    """Strings in `words` (None: all) and in `dfa` (None: all), of `low` to `high` characters, not in `minus`. `given`:
    those given to an array of unique items, which its lexeme leaves out; of all else here they are a part."""

    words: frozenset[str] | None = None
    dfa: CharDfa | None = None
    low: int = 0
    high: int | None = None
    minus: frozenset[str] = frozenset()
    given: GivenTexts | None = None

    def has(self, text: str) -> bool:
        return (
            (self.words is None or text in self.words)
            and self.low <= len(text)
            and (self.high is None or len(text) <= self.high)
            and text not in self.minus
            and (self.dfa is None or _accepts(self.dfa, text))
        )

    @cached_property
    def reduced(self) -> Strings:
        """Return the same set as a list if it is small, and without bounds that the automaton implies."""
        if self.words is not None:
            return Strings(words=frozenset(word for word in self.words if self.has(word)))
        if self.dfa is None:
            return self._without_automaton()
        span = self.dfa.length_range()
        if span is None:
            return NOTHING[0]
        low, high = span
        if high is not None and self.dfa.count(_FEW) is not None:
            return Strings(words=frozenset(w for w in self.dfa.enumerate(_FEW) if self.has(w)))
        if (self.high is not None and self.high < low) or (high is not None and high < self.low):
            return NOTHING[0]
        keep_low = self.low if self.low > low else 0
        keep_high = self.high if self.high is not None and (high is None or self.high < high) else None
        dfa = self.dfa
        if self.minus:
            dfa = dfa.difference(CharDfa.from_literals(self.minus))
        if (keep_low or keep_high is not None) and max(keep_low, keep_high or 0) * dfa.state_count <= _FEW:
            dfa = dfa.intersection(CharDfa.length_between(keep_low, keep_high))
            keep_low, keep_high = 0, None
            if dfa.count(_FEW) is not None:
                return Strings(words=frozenset(dfa.enumerate(_FEW)))
        bounded = keep_low or keep_high is not None
        if dfa.is_empty() or (bounded and not lengths_of(dfa).within(keep_low, keep_high) & 1):
            return NOTHING[0]
        return Strings(dfa=dfa, low=keep_low, high=keep_high)

    def _without_automaton(self) -> Strings:
        if self.high is not None and self.high < self.low:
            return NOTHING[0]
        if self.high == 0:
            return Strings(words=frozenset({""} - self.minus))
        if not self.minus:
            return self
        dfa = CharDfa.from_literals(self.minus).complement()
        return Strings(dfa=dfa, low=self.low, high=self.high).reduced

    def is_empty(self) -> bool:
        if self.words is None and self._is_large():
            return False
        return self.reduced.words == frozenset()

    def _is_large(self) -> bool:
        """Return whether there are more texts than are taken out, found without taking them out."""
        if self.dfa is None:
            return self.high is None or (self.high >= max(self.low, 1) and len(self.minus) < _MANY)
        if self.low or len(self.minus) > _FEW:
            return False
        return _has_many(self.dfa) if self.high is None else self.dfa.has_many("", self.high, _FEW)

    def automaton(self) -> CharDfa:
        """Return one automaton of the whole set. Raises `GrammarLimit` where that takes counting to a large length."""
        if self.words is not None:
            return CharDfa.from_literals(sorted(self.reduced.words or ()))
        dfa = self.dfa or CharDfa.any_string()
        if self.low or self.high is not None:
            if max(self.low, self.high or 0) > _UNROLLED:
                raise GrammarLimit(
                    f"a length of {max(self.low, self.high or 0)} is too large to be combined with a pattern or other "
                    "strings; lower it"
                )
            dfa = dfa.intersection(CharDfa.length_between(self.low, self.high))
        return dfa.difference(CharDfa.from_literals(self.minus)) if self.minus else dfa


StringSet = tuple[Strings, ...]
"""Union of its members."""

EVERY: Final[StringSet] = (Strings(),)
NOTHING: Final[StringSet] = (Strings(words=frozenset()),)


def _accepts(dfa: CharDfa, text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text) and dfa.accepts(text)


@remembered(2_000)
def pattern(text: str, states: int) -> tuple[CharDfa, bool]:
    r"""Compile a pattern that is found anywhere; False: it is no pattern of ECMA 262 and was read as one of Python's
    `re`, where schemas with `(?P<name>...)` or `\Z` come from."""
    budget = Budget(states, advice=", or raise limits.string_states in [stages.constrain.grammar]")
    try:
        return CharDfa.from_pattern(text, budget=budget), True
    except InvalidGrammar:
        try:
            return CharDfa.from_pattern(text, dialect="python", budget=budget), False
        except GrammarError:
            pass
        raise


@remembered(500)
def _has_many(texts: CharDfa) -> bool:
    return texts.count(_FEW) is None


@remembered(500)
def _meet(a: CharDfa, b: CharDfa) -> CharDfa:
    return a.intersection(b)


@remembered(500)
def _complement(a: CharDfa) -> CharDfa:
    return a.complement()


def _intersect(a: Strings, b: Strings) -> Strings:
    if a.words is not None:
        return Strings(words=frozenset(w for w in a.words if b.has(w) and a.has(w)))
    if b.words is not None:
        return _intersect(b, a)
    dfa = a.dfa if b.dfa is None else b.dfa if a.dfa is None or a.dfa == b.dfa else _meet(a.dfa, b.dfa)
    high = a.high if b.high is None else b.high if a.high is None else min(a.high, b.high)
    return Strings(None, dfa, max(a.low, b.low), high, a.minus | b.minus)


def intersect(a: StringSet, b: StringSet) -> StringSet:
    if a == EVERY:
        return b
    if b == EVERY:
        return a
    return simplified(tuple(_intersect(x, y) for x in a for y in b))


def union(a: StringSet, b: StringSet) -> StringSet:
    if EVERY in (a, b):
        return EVERY
    return simplified(a + b)


def simplified(parts: StringSet) -> StringSet:
    """Merge lists into one, drop empty parts, and make one automaton of more than eight parts."""
    words = frozenset(w for part in parts if part.words is not None for w in part.words if part.has(w))
    rest: list[Strings] = []
    for part in parts:
        if part.words is None and part not in rest and not (part.high is not None and part.high < part.low):
            rest.append(part)
    if any(part == Strings() for part in rest):
        return EVERY
    words = frozenset(w for w in words if not any(part.has(w) for part in rest))
    if len(rest) > 8:
        dfa = rest[0].automaton()
        for part in rest[1:]:
            dfa = dfa.union(part.automaton())
        rest = [Strings(dfa=dfa)]
    if words or not rest:
        rest.append(Strings(words=words))
    return tuple(rest)


def complement(parts: StringSet) -> StringSet:
    result = EVERY
    for part in parts:
        result = intersect(result, _complement_one(part))
    return result


def _complement_one(part: Strings) -> StringSet:
    if part.words is not None:
        return (Strings(minus=frozenset(w for w in part.words if part.has(w))),)
    found: list[Strings] = []
    if part.dfa is not None:
        found.append(Strings(dfa=_complement(part.dfa)))
    if part.low:
        found.append(Strings(high=part.low - 1))
    if part.high is not None:
        found.append(Strings(low=part.high + 1))
    if part.minus:
        found.append(Strings(words=part.minus))
    return simplified(tuple(found))


def beyond(parts: StringSet, known: frozenset[str]) -> StringSet:
    """Return a simpler set that differs at most in strings of `known`."""
    if all(part.words is not None and part.words <= known for part in parts):
        return NOTHING
    return simplified(
        tuple(
            replace(part, minus=part.minus - known)
            if part.words is None
            else Strings(words=frozenset(word for word in part.words if part.has(word)) - known)
            for part in parts
        )
    )


def is_empty(parts: StringSet) -> bool:
    return all(part.is_empty() for part in parts)


def finite_words(parts: StringSet) -> frozenset[str] | None:
    """List the strings where they are few, else return None."""
    found: frozenset[str] = frozenset()
    for part in parts:
        if part.words is None and part.dfa is None and part.high != 0:
            return None
        words = part.reduced.words
        if words is None:
            return None
        found |= words
    return found


def can_grow(part: Strings) -> bool:
    """Return whether every string of the set is a prefix of another one of it."""
    part = part.reduced
    if part.words is not None or part.high is not None:
        return part.words == frozenset()
    if part.dfa is None:
        return True
    table = part.dfa.table
    return all(row for row, accepts in zip(table.rows, table.accepting, strict=True) if accepts)


def ends_at(parts: Iterable[Strings], text: str) -> bool:
    """Return whether `text` is in one of `parts` and no prefix of another string of it."""
    return any(part.has(text) and not _goes_on(part.reduced, text) for part in parts)


def _goes_on(part: Strings, text: str) -> bool:
    """Return whether a longer string of `part`, which is reduced, begins with `text`."""
    if part.words is not None:
        return any(word.startswith(text) and word != text for word in part.words)
    room = None if part.high is None else part.high - len(text) - 1
    if room is not None and room < 0:
        return False
    if part.dfa is None:
        return True
    state = 0
    for character in text:
        state = part.dfa.step(state, character)
    fitting = lengths_of(part.dfa).within(max(part.low - len(text) - 1, 0), room)
    return any(fitting >> after & 1 for after in part.dfa.table.rows[state].values())


def has_room(part: Strings, text: str) -> bool:
    """Return whether a million strings of `part` begin with `text`, one of its strings, so that no array of unique
    items gives them all."""
    if part.words is not None or (part.high is not None and part.high < len(text) + 2):
        return False
    high = None if part.high is None else part.high - len(text)
    return part.dfa is None or part.dfa.has_many(text, high, _MANY + len(part.minus))


def supply(parts: Iterable[Strings], without: frozenset[str], enough: int) -> int | None:
    """Count the strings of `parts`, which share none, `without` some; None where there are at least `enough`."""
    found = 0
    for part in parts:
        if found >= enough or (part.high is None and part.dfa is None):
            return None
        if max(part.low, part.high or 0) > _UNROLLED:
            return None
        dfa = replace(part, minus=part.minus | without).automaton()
        count = dfa.count(enough)
        if count is None:
            return None
        found += count
    return None if found >= enough else found


def contains(parts: StringSet, text: str) -> bool:
    return any(part.has(text) for part in parts)


def plain_strings(parts: StringSet) -> CharDfa:
    """Return the automaton of the strings of `parts`."""
    found = CharDfa.nothing()
    for part in parts:
        texts = CharDfa.any_string() if part.dfa is None else part.dfa
        if part.words is not None:
            texts = texts.intersection(CharDfa.from_literals(part.words))
        if part.low or part.high is not None:
            texts = texts.intersection(CharDfa.length_between(part.low, part.high))
        found = found.union(texts.difference(CharDfa.from_literals(part.minus)) if part.minus else texts)
    return found
