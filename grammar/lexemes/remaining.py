"""Strings out of a long list of which some are gone.

What is left is one list that words are taken out of as they come, so that a name takes as long in an object of
thousands as in one of hundreds.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.literals import Literals, Window
from sluicegate.grammar.lexemes.words import SortedWords, arrays_of

_WORDS_A_CHARGE = 25
_KEPT = 8
"""Most sets of remaining words that are cached in full: a text is inside one name at a time."""
_CHANGED = 16
"""Most words by which a cached set is changed into another one; what differs by more is made anew."""


class RemainingWords:
    """What is left of a list, as `WordList` has it, where the bits of the outcomes are set in `chosen`.

    All of it is changed in place when another set is asked for."""

    __slots__ = ("_ends", "_starts", "chosen", "outcomes", "spelled", "words")

    def __init__(self, chosen: int, words: list[bytes], outcomes: list[int], spelled: SortedWords) -> None:
        self.chosen = chosen
        self.words = words
        self.outcomes = outcomes
        self.spelled = spelled
        room = np.zeros(_CHANGED, np.int64)
        self._starts = np.concatenate([spelled.starts, room])
        self._ends = np.concatenate([spelled.ends, room])

    def change(self, outcome: int, word: bytes, start: int, end: int) -> None:
        """Take a word out, or put it in. `start`, `end`: where its bytes are."""
        place, size = bisect_left(self.words, word), len(self.words)
        if self.chosen >> outcome & 1:
            del self.words[place], self.outcomes[place]
            for table in (self._starts, self._ends):
                table[place : size - 1] = table[place + 1 : size]
        else:
            self.words.insert(place, word)
            self.outcomes.insert(place, outcome)
            if size == len(self._starts):
                room = np.zeros(size, np.int64)
                self._starts, self._ends = np.append(self._starts, room), np.append(self._ends, room)
            for table, number in ((self._starts, start), (self._ends, end)):
                table[place + 1 : size + 1] = table[place:size]
                table[place] = number
        self.chosen ^= 1 << outcome

    def settle(self, chosen: int) -> None:
        """Show the arrays of what is left now. `chosen`: an int that equals the set, and is compared by identity."""
        size = len(self.words)
        self.chosen = chosen
        self.spelled = SortedWords(self.spelled.data, self._starts[:size], self._ends[:size])


class SharedWords:
    """All words of a list, sorted, with outcomes from 0 on, each once."""

    def __init__(self, words: list[tuple[bytes, int]]) -> None:
        self._words = np.empty(len(words), object)
        self._words[:] = [word for word, _ in words]
        self._outcomes = np.array([number for _, number in words], np.int64)
        self._places: npt.NDArray[np.int64] = np.argsort(self._outcomes)
        self._spelled = arrays_of(self._words.tolist())
        self._kept: list[RemainingWords] = []
        """The one that was asked for last stands at the end."""

    def left(self, chosen: int) -> RemainingWords:
        """Return the words whose outcome's bit is set in `chosen`; what it holds changes with the next call."""
        kept = self._kept
        if kept and kept[-1].chosen is chosen:  # to compare, or to hash, thousands of bits takes longer
            return kept[-1]
        charge(1 + len(self._words) / _WORDS_A_CHARGE)
        for place in range(len(kept) - 1, -1, -1):
            changed = kept[place].chosen ^ chosen
            if changed.bit_count() <= _CHANGED:
                found = kept.pop(place)
                self._change(found, changed, chosen)
                break
        else:
            found = self._find(chosen)
            del kept[: len(kept) - _KEPT + 1]
        kept.append(found)
        return found

    def _change(self, found: RemainingWords, changed: int, chosen: int) -> None:
        while changed:
            outcome = changed.bit_length() - 1
            changed ^= 1 << outcome
            place = int(self._places[outcome])
            spelled = self._spelled
            found.change(outcome, self._words[place], int(spelled.starts[place]), int(spelled.ends[place]))
        found.settle(chosen)

    def _find(self, chosen: int) -> RemainingWords:
        size = (len(self._words) + 7) // 8
        bits = np.unpackbits(np.frombuffer(chosen.to_bytes(size, "little"), np.uint8), bitorder="little")
        places = np.flatnonzero(bits[self._outcomes])
        spelled = self._spelled.of(places)
        return RemainingWords(chosen, self._words[places].tolist(), self._outcomes[places].tolist(), spelled)


class Remaining(Literals):
    """One of the strings of `shared` whose outcome's bit is set in `chosen`; what is long is kept by `shared`."""

    def __init__(self, shared: SharedWords, chosen: int) -> None:
        super().__init__([])
        self.shared = shared
        self.chosen = chosen
        self.start = Window(0, chosen.bit_count(), 0)

    @property
    def words(self) -> list[bytes]:
        """Return the words that are left; the list changes when others are asked for of the same `shared`."""
        return self.shared.left(self.chosen).words

    @property
    def outcomes(self) -> list[int]:
        return self.shared.left(self.chosen).outcomes

    @property
    def spelled(self) -> SortedWords:
        return self.shared.left(self.chosen).spelled
