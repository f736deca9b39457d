"""`CharDfa`: an immutable, canonical automaton over Unicode scalar values, and its algebra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from sluicegate.grammar.automata.charsets import EVERY
from sluicegate.grammar.automata.construction import table_of as patterns
from sluicegate.grammar.automata.patterns.parser import Dialect
from sluicegate.grammar.automata.tables import algebra, words
from sluicegate.grammar.automata.tables import finite as literals
from sluicegate.grammar.automata.tables.table import Table, empty_table
from sluicegate.grammar.budget.meter import DEFAULT_BUDGET, Budget, WorkMeter


class CharDfa:
    """A regular language of texts of Unicode scalar values. Equal languages have equal digests, and compare equal.

    State 0 is the start. Every state can reach acceptance, but for the one state of the empty language.
    """

    __slots__ = ("_digest", "_span", "table")

    table: Table

    def __init__(self, table: Table) -> None:
        """Keep `table` without a copy; it must be canonical (`table.minimal`)."""
        self.table = table
        self._digest: bytes | None = None
        self._span: tuple[int, int | None] | Literal[False] | None = False

    # Making one

    @classmethod
    def from_pattern(
        cls,
        pattern: str,
        *,
        dialect: Dialect = "ecma",
        anchored: bool = False,
        ignore_case: bool = False,
        budget: Budget = DEFAULT_BUDGET,
    ) -> CharDfa:
        """Accept texts in which `pattern` is found; with `anchored`, texts that it matches from end to end.

        Raises `InvalidGrammar`, `UnsupportedGrammar` or `GrammarLimit`, pointing into the pattern.
        """
        return cls(patterns.compile_pattern(pattern, dialect, anchored, ignore_case, budget))

    @classmethod
    def from_literal(cls, text: str) -> CharDfa:
        return cls(literals.literal_table([text]))

    @classmethod
    def from_literals(cls, texts: Iterable[str]) -> CharDfa:
        """Accept exactly `texts`, in time linear in their total length."""
        return cls(literals.literal_table(texts))

    @classmethod
    def any_string(cls) -> CharDfa:
        starts, classes = _every_alphabet()
        return cls(Table(starts, classes, [{0: 0}], [True]))

    @classmethod
    def nothing(cls) -> CharDfa:
        return cls(empty_table())

    @classmethod
    def length_between(cls, low: int, high: int | None = None, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        """Accept texts of `low` to `high` code points."""
        if high is not None and high < low:
            return cls.nothing()
        last = low if high is None else high
        WorkMeter(budget, "length bound").states(last + 1)
        starts, classes = _every_alphabet()
        rows = [{0: state + 1} for state in range(last)] + [{0: last} if high is None else {}]
        accepting = [False] * low + [True] * (last - low + 1)
        return cls(Table(*((starts, classes) if rows != [{}] else ([0], [-1])), rows, accepting))

    # Looking at it

    @property
    def start(self) -> int:
        return 0

    @property
    def accepting(self) -> frozenset[int]:
        return frozenset(s for s, accepts in enumerate(self.table.accepting) if accepts)

    @property
    def state_count(self) -> int:
        return len(self.table.rows)

    @property
    def digest(self) -> bytes:
        """Return a digest of the language, 16 bytes."""
        if self._digest is None:
            self._digest = self.table.digest()
        return self._digest

    def transitions(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """Return `(low, high, target)` of a state: inclusive ranges of code points, sorted, disjoint, merged."""
        return algebra.ranges_of(self.table, state, 0x110000)

    def step(self, state: int, character: str) -> int:
        """Return the next state, -1 if there is none."""
        return self.table.rows[state].get(self.table.class_of(ord(character)), -1) if state >= 0 else -1

    def accepts(self, text: str) -> bool:
        state = self._behind(text)
        return state >= 0 and self.table.accepting[state]

    def _behind(self, text: str) -> int:
        """Return the state behind `text`, -1 if there is none."""
        state = 0
        for character in text:
            state = self.step(state, character)
            if state < 0:
                break
        return state

    def is_empty(self) -> bool:
        return self.table.is_empty()

    def is_subset(self, other: CharDfa, *, budget: Budget = DEFAULT_BUDGET) -> bool:
        return self.difference(other, budget=budget).is_empty()

    def length_range(self) -> tuple[int, int | None] | None:
        """Return the shortest and the longest length (None: no bound), or None for the empty language."""
        if self._span is False:
            self._span = words.length_range(self.table)
        return self._span

    def shortest(self) -> str | None:
        """Return a shortest text, printable ASCII preferred; None for the empty language."""
        return words.shortest(self.table)

    def count(self, limit: int = 10**9) -> int | None:
        """Count the texts, None if there are more than `limit`."""
        span = self.length_range()
        return None if span is not None and span[1] is None else words.count(self.table, limit)

    def has_many(self, begun: str, high: int | None, limit: int) -> bool:
        """Return whether more than `limit` texts begin with `begun` and go on with up to `high` characters (None: any
        number), as far as the next 64 characters tell."""
        return words.has_many(self.table, self._behind(begun), high, limit)

    def enumerate(self, limit: int) -> Iterator[str]:
        """Yield up to `limit` texts, by length and then by code point."""
        return words.enumerate_words(self.table, limit)

    # Combining

    def union(self, other: CharDfa, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        return CharDfa(algebra.union(self.table, other.table, WorkMeter(budget, "union")))

    def intersection(self, other: CharDfa, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        return CharDfa(algebra.intersection(self.table, other.table, WorkMeter(budget, "intersection")))

    def difference(self, other: CharDfa, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        return CharDfa(algebra.difference(self.table, other.table, WorkMeter(budget, "difference")))

    def complement(self, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        return CharDfa.any_string().difference(self, budget=budget)

    def concat(self, other: CharDfa, *, budget: Budget = DEFAULT_BUDGET) -> CharDfa:
        return CharDfa(algebra.concat(self.table, other.table, WorkMeter(budget, "concatenation")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharDfa) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"CharDfa({self.state_count} states, e.g. {self.shortest()!r})"


def _every_alphabet() -> tuple[list[int], list[int]]:
    (_, before), (after, _) = EVERY
    return [0, before + 1, after], [0, -1, 0]
