"""Lexemes of what is left of strings or numbers once some were given to an array of unique items.

The automaton stays that of all of them: beside it runs the list of the shortest beginnings from which nothing new can
be made. That an item which ends is new is asked then, see `guards.DistinctItem`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.given.texts import GivenTexts, Supply
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme, State
from sluicegate.grammar.lexemes.literals import Literals, Window, plain

_END = b'"'
_TEXTS_A_CHARGE = 3
"""Texts of a list that are spelled for a charge."""
_OF_BYTE = 2
"""Charged for a byte read beside the list."""


class TrieWalked(Protocol):
    """A node of any trie."""

    @property
    def children(self) -> Mapping[int, Self]: ...


N = TypeVar("N", bound=TrieWalked)


class PlaceWithout(NamedTuple):
    inner: State
    """State of the lexeme of all texts."""
    place: Window | None
    """Place of the text in the list; None where no listed text begins like it."""


class WithoutGiven(Lexeme):
    """`inner` without the texts from which only `given` ones of `supply` can be made."""

    is_blank = False
    general = False

    def __init__(self, inner: Lexeme, given: GivenTexts, supply: Supply) -> None:
        self.inner = inner
        self.is_string = inner.is_string
        self.given = given
        self.supply = supply
        self.branches: dict[Any, Any] | None = {}
        self.start = PlaceWithout(inner.start, self.dead.start)

    @property
    def dead(self) -> Literals:
        """Return the list. It is made anew where it was forgotten: each is as long as the array."""
        lists = self.given.lists(self.supply)
        found: Literals | None = lists.made.get("dead")
        if found is None:
            charge(len(lists.dead) / _TEXTS_A_CHARGE)
            words = sorted([(plain(text) + _END, 0) for text in lists.dead])
            found = lists.made["dead"] = Literals(words)
        return found

    def next(self, state: PlaceWithout, byte: int) -> PlaceWithout | None:
        if state.place is not None:
            after = self.moved(state, byte)
            if after is not None:
                return None if self.is_dead(after) else after
        inner = self.inner.next(state.inner, byte)
        return None if inner is None else PlaceWithout(inner, None)

    def moved(self, state: PlaceWithout, byte: int) -> PlaceWithout | None:
        """Return the state after `byte`, dead or not; None where nothing in the list goes on so."""
        place = state.place
        assert place is not None
        after = None if byte == QUOTE and not place.begun else self.dead.next(place, byte)
        inner = None if after is None else self.inner.next(state.inner, byte)
        return None if inner is None else PlaceWithout(inner, after)

    def listed_bytes(self, state: PlaceWithout) -> set[int]:
        """Return the bytes by which a listed text continues."""
        assert state.place is not None
        return self.dead.next_bytes(state.place)

    def is_dead(self, state: PlaceWithout) -> bool:
        """Return whether nothing new can be made from `state`, whose place is in the list."""
        place = state.place
        assert place is not None
        word = self.dead.words[place.low]
        if not place.begun and word[place.at] == QUOTE:
            return True
        if not place.begun and not 0x80 <= word[place.at] < 0xC0:
            return False
        # Inside a character: it is dead if each way to end it is.
        return all(self.next(state, byte) is None for byte in self.inner.next_bytes(state.inner))

    def dead_nodes(self, start: PlaceWithout, root: N) -> Iterator[N]:
        """Yield the nodes of a trie, read from `start` on at `root`, behind which nothing new can be made; none below
        another."""
        pending = [(start, root)]
        while pending:
            state, node = pending.pop()
            tick()
            for byte in self.listed_bytes(state) & node.children.keys():
                after, below = self.moved(state, byte), node.children[byte]
                if after is None:
                    continue
                if self.is_dead(after):
                    yield below
                else:
                    pending.append((after, below))

    def outcome(self, state: PlaceWithout) -> int | None:
        return self.inner.outcome(state.inner)

    def grows(self, state: PlaceWithout) -> bool:
        return self.inner.grows(state.inner)

    def run(self, state: PlaceWithout, text: bytes) -> PlaceWithout | None:
        at: PlaceWithout | None = state
        for k, byte in enumerate(text):
            assert at is not None
            if at.place is None:
                inner = self.inner.run(at.inner, text[k:])
                return None if inner is None else PlaceWithout(inner, None)
            charge(_OF_BYTE)
            at = self.next(at, byte)
            if at is None or not self.grows(at):
                return None
        return at

    def next_bytes(self, state: PlaceWithout) -> set[int]:
        return self._open(state, self.inner.next_bytes(state.inner))

    def usual_bytes(self, state: PlaceWithout) -> set[int]:
        return self._open(state, self.inner.usual_bytes(state.inner))

    def _open(self, state: PlaceWithout, found: set[int]) -> set[int]:
        if state.place is None:
            return found
        return found - {byte for byte in self.dead.next_bytes(state.place) & found if self.next(state, byte) is None}

    def key(self, state: PlaceWithout) -> Hashable | None:
        return None


def without_given(inner: Lexeme, given: GivenTexts, supply: Supply) -> Lexeme | None:
    """Return `inner`, the lexeme of `supply`, without the texts in `given`; None if no text is left."""
    dead = given.lists(supply).dead
    if not dead:
        return inner
    return None if dead[0] == "" else WithoutGiven(inner, given, supply)
