"""Strings out of a long list of which some are gone, without a list of what is left for each set of those gone."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.literals import Literals, Window
from sluicegate.grammar.lexemes.words import SortedWords, arrays_of

_WORDS_A_CHARGE = 25
_KEPT = 8
"""Most sets of remaining words that are cached in full: a text is inside one name at a time."""


class RemainingWords(NamedTuple):
    """What is left of a list, as `WordList` has it."""

    words: list[bytes]
    outcomes: list[int]
    spelled: SortedWords


class SharedWords:
    """All words of a list, sorted, with outcomes from 0 on, each once."""

    def __init__(self, words: list[tuple[bytes, int]]) -> None:
        self._words = np.empty(len(words), object)
        self._words[:] = [word for word, _ in words]
        self._outcomes = np.array([number for _, number in words], np.int64)
        self._spelled = arrays_of(self._words.tolist())
        self._kept: OrderedDict[int, RemainingWords] = OrderedDict()

    def left(self, chosen: int) -> RemainingWords:
        """Return the words whose outcome's bit is set in `chosen`."""
        found = self._kept.get(chosen)
        if found is None:
            charge(1 + len(self._words) / _WORDS_A_CHARGE)
            found = self._kept[chosen] = self._find(chosen)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(chosen)
        return found

    def _find(self, chosen: int) -> RemainingWords:
        size = (len(self._words) + 7) // 8
        bits = np.unpackbits(np.frombuffer(chosen.to_bytes(size, "little"), np.uint8), bitorder="little")
        places = np.flatnonzero(bits[self._outcomes])
        spelled = self._spelled.of(places)
        return RemainingWords(self._words[places].tolist(), self._outcomes[places].tolist(), spelled)


class Remaining(Literals):
    """One of the strings of `shared` whose outcome's bit is set in `chosen`; what is long is kept by `shared`."""

    def __init__(self, shared: SharedWords, chosen: int) -> None:
        super().__init__([])
        self.shared = shared
        self.chosen = chosen
        self.start = Window(0, chosen.bit_count(), 0)

    @property
    def words(self) -> list[bytes]:
        return self.shared.left(self.chosen).words

    @property
    def outcomes(self) -> list[int]:
        return self.shared.left(self.chosen).outcomes

    @property
    def spelled(self) -> SortedWords:
        return self.shared.left(self.chosen).spelled
