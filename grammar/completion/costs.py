"""Estimate the fewest bytes that a reading needs up to the end of its frame.

Bytes outside the frame are left out, since they are the same for all continuations. The estimate asks no guards, and
counts items for `contains` in the simplest of several ways.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from sluicegate.grammar.budget.meter import charge, left
from sluicegate.grammar.completion.counted_words import Word
from sluicegate.grammar.completion.outright import Outright
from sluicegate.grammar.completion.words import ShortWords
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.arrays.state import ArrayState, ItemDone
from sluicegate.grammar.json.layout import Between
from sluicegate.grammar.json.objects.members import MemberDone, ObjectMembers
from sluicegate.grammar.json.objects.state import FreeName, ListedName
from sluicegate.grammar.parsing.parser import ParserReading
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import AT_END, ByteChoice, EndOfText, InLexeme
from sluicegate.grammar.reading.value_start import ValueStart
from sluicegate.grammar.schema.containers import Conjunction, conjunction

NEVER = 1 << 40
_OPENERS, _CLOSERS = frozenset(b"{["), frozenset(b"}]")
_CLOSED = 2
"""Bytes of the shortest value that begins with a bracket or a quote."""
_END = EndOfText()
_GUESS = 20
_MANY, _NAMES_A_CHARGE = 16, 10
"""Required members above which each one's cost is guessed; names read per unit of work charged."""
_OF_VALUE, _OF_LOOK, _OF_NAMES = 40, 1.5, 20
"""Work charged for a value, for a reading or a continuation, and for the names that may come."""
_DEEPEST = 30
"""Depth of nested values below which costs are guessed."""
_MOST_NAMES = 200
_LIKELY = 6
"""Names tried where many may come: required ones first, then short ones."""


class Costs:
    """Estimates costs. Shared by the matchers of a grammar, under `lock`. Results are cached, except those that depend
    on an unfinished estimate, of a value nested in itself."""

    def __init__(self) -> None:
        self.words = ShortWords()
        self.outright = Outright(self.words)
        self.lock = Lock()
        self._values: dict[Conjunction, int] = {}
        self._counts: dict[tuple[ArrayPlan, int, int], int] = {}
        self._steps: dict[Continuation, int] = {}
        self._asking: set[Any] = set()
        self._assumed = False
        self.left = 0
        """Values that this search may still estimate; then costs are guessed."""
        self.reserve = 0.0
        """Work budget left for the search itself: below it, costs are guessed."""

    def reading(self, reading: Reading) -> int:
        charge(_OF_LOOK)
        if reading is AT_END:
            return 0
        if isinstance(reading, ValueStart):
            return self.value(reading.source, reading.terms) + self.follow(reading.follow, 0)
        if isinstance(reading, ByteChoice):
            return self._cheapest_move(reading)
        if isinstance(reading, Between):
            return min(map(self.reading, reading.readings()))
        if isinstance(reading, ParserReading):
            return min((cost for cost, _ in reading.ways(self.words.of)), default=0 if reading.can_stop else NEVER)
        assert isinstance(reading, InLexeme)
        if isinstance(reading.follow, ListedName):
            return min((cost for cost, _ in self.names(reading)), default=NEVER)
        words = self.words.of(reading.lexeme, reading.state)
        return min((len(word.text) + self.follow(reading.follow, word.outcome) for word in words), default=NEVER)

    def _cheapest_move(self, choice: ByteChoice) -> int:
        best = NEVER
        for byte in sorted(choice.moves, key=_OPENERS.__contains__):
            if best > _CLOSED or byte not in _OPENERS:
                best = min(best, self.move(choice, byte))
        return best

    def move(self, choice: ByteChoice, byte: int) -> int:
        """Return the cost of `byte` with the cheapest completion after it; a closing bracket ends the frame."""
        if byte in _CLOSERS:
            return 1
        return 1 + min(map(self.reading, choice.go(byte)), default=NEVER)

    def follow(self, follow: Continuation, outcome: int) -> int:
        charge(_OF_LOOK)
        follow = follow.of(outcome)
        if isinstance(follow, FreeName):
            entries = follow.entries(outcome)
            return min(self._entry(entry.state, entry.terms) + self._rest(entry.state) for entry in entries)
        if len(follow.branches) > 1:
            return min(self.follow(branch, outcome) for branch in follow.branches)
        least = follow.least(self.words.of)
        if least is not None:
            return least
        if follow.in_frame:
            return self._guarded(self._steps, follow, lambda: min(map(self.reading, follow.after(0)), default=NEVER))
        if isinstance(follow, MemberDone):
            return self._rest(follow.state)
        if isinstance(follow, ItemDone):
            return 1 if follow.state.may_close() else 1 + self.items(follow.state)
        return 0 if follow.is_end else 1

    def value(self, source: Any, terms: Conjunction) -> int:
        """Return the cost of a whole value that satisfies `terms`."""
        return self._guarded(self._values, terms, lambda: self._cheapest_value(source.value(terms, _END)))

    def _cheapest_value(self, readings: tuple[Reading, ...]) -> int:
        """Return the least cost; containers are not estimated where a scalar is as short."""
        best = NEVER
        for reading in sorted(readings, key=lambda reading: isinstance(reading, ByteChoice)):
            if best > _CLOSED or not isinstance(reading, ByteChoice):
                best = min(best, self.reading(reading))
        return best

    def _guarded(self, known: dict[Any, int], key: Any, ask: Any) -> int:
        found = known.get(key)
        if found is not None:
            return found
        if key in self._asking:
            self._assumed = True
            return NEVER
        if self.left <= 0 or left() < self.reserve or len(self._asking) > _DEEPEST:
            self._assumed = True
            return _GUESS
        self.left -= 1
        charge(_OF_VALUE)
        outer, self._assumed = self._assumed, False
        self._asking.add(key)
        try:
            answer: int = ask()
        finally:
            self._asking.discard(key)
        if not self._assumed or not self._asking:
            known[key] = answer
        self._assumed = self._assumed or outer
        return answer

    # --- objects and arrays ---

    def names(self, reading: InLexeme) -> list[tuple[int, Word]]:
        """Return (cost, rest of the name) of the names that may come; the cost includes all that the object then needs.

        Required names come first where the order is free.
        """
        named = reading.follow
        assert isinstance(named, ListedName)
        state = named.state
        found = []
        required = state.plan.required
        likely = sorted(self._spellings(reading), key=lambda word: (not required[word.outcome], len(word.text)))
        for word in likely[:_LIKELY]:
            index = word.outcome
            entries = state.entries_of(index)
            cost = min(self._entry(entry.state, entry.terms) + self._rest(entry.state) for entry in entries)
            found.append((len(word.text) + cost, word))
        return sorted(found)

    def _spellings(self, reading: InLexeme) -> list[Word]:
        lexeme: Any = reading.lexeme
        window = lexeme.window(reading.state)
        if window is None:
            return list(self.words.of(lexeme, reading.state))
        low, high, at = window
        high = min(high, low + _MOST_NAMES)
        charge(_OF_NAMES + (high - low) / 4)
        words, outcomes = lexeme.words[low:high], lexeme.outcomes[low:high]
        return [Word(word[at:], outcome) for word, outcome in zip(words, outcomes, strict=True)]

    def _entry(self, state: ObjectMembers, terms: Conjunction) -> int:
        return 1 + self.value(state.values, terms)

    def _rest(self, state: ObjectMembers) -> int:
        """Return the cost from the end of a member to the closing bracket."""
        plan, missing = state.plan, state.missing()
        charge(_OF_LOOK)
        cost = 1 + self._missing(state) if missing <= _MANY else missing * _GUESS
        cost += sum(self._existential(state, k) for k in range(plan.some) if not state.met >> k & 1)
        short = plan.low - state.count - missing if plan.counts else 0
        return cost + (short * self._cheapest(state) if short > 0 else 0)

    def _missing(self, state: ObjectMembers) -> int:
        """Return the cost of the required members that are still missing."""
        required = state.plan.required
        charge(len(required) / _NAMES_A_CHARGE)
        return sum(self._member(state, i) for i, needed in enumerate(required) if needed and not _given(state, i))

    def _member(self, state: ObjectMembers, index: int) -> int:
        return len(state.plan.names[index]) + 4 + self.value(state.values, state.plan.values[index])

    def _existential(self, state: ObjectMembers, k: int) -> int:
        """Return the cost of a member that meets existential constraint `k`, unless a missing name meets it."""
        plan = state.plan
        charge(_OF_LOOK + len(plan.names) / 2)
        if plan.skipped(state.at) >> k & 1:
            return 0
        listed = [(plan.claims[i], len(name) + 4) for i, name in enumerate(plan.names) if not _given(state, i)]
        return min(
            (
                size + self.value(state.values, terms)
                for claims, size in [*listed, *((claims, 8) for claims in plan.free_claims)]
                for hits, terms in claims
                if hits >> k & 1
            ),
            default=NEVER,
        )

    def _cheapest(self, state: ObjectMembers) -> int:
        """Return the cost of the cheapest member that is not required."""
        plan = state.plan
        charge(_OF_LOOK + len(plan.names) / 2)
        listed = [
            self._member(state, i) for i, needed in enumerate(plan.required) if not needed and not _given(state, i)
        ]
        free = [8 + self.value(state.values, terms) for terms in plan.free]
        return min([*listed, *free], default=0)

    def items(self, state: ArrayState) -> int:
        """Return the cost from the start of an item to the closing bracket."""
        plan = state.plan
        charge(_OF_LOOK)
        count = max(plan.low - state.index, 1)
        first = range(state.index, min(state.index + count, len(plan.prefix)))
        charge(len(first))
        cost = sum(self.value(state.values, plan.prefix[i]) for i in first)
        if plan.rest is not None and count > len(first):
            cost += (count - len(first)) * self.value(state.values, plan.rest)
        for k, (wanted, hit) in enumerate(zip(plan.contains, state.hits, strict=True)):
            if hit < wanted.low:
                cost += (wanted.low - hit) * (1 + self._counted(state, k))
        return cost + count

    def _counted(self, state: ArrayState, k: int) -> int:
        """Return the cost of an item that counts for `contains` k."""
        plan = state.plan
        key = plan, k, min(state.index, len(plan.prefix))
        found = self._counts.get(key)
        if found is None:
            places = [*plan.prefix[state.index :], *([] if plan.rest is None else [plan.rest])]
            items = [conjunction((*terms, plan.contains[k].term)) for terms in places]
            found = min([self.value(state.values, terms) for terms in items], default=NEVER)
            if all(terms in self._values for terms in items):
                self._counts[key] = found
        return found


def _given(state: ObjectMembers, index: int) -> bool:
    return bool(state.at >> index & 1) if state.plan.any_order else index < state.at
