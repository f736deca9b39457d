"""Lists of words: what all lists have in common, and words that have one spelling each."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.base import Lexeme

_OF_WORD, _OF_BYTE = 1.5, 0.35
"""Work charged for a word of a trie, and for each of its bytes."""


class SortedWords:
    """Byte strings in order, as arrays for the compiled loops: word w is `data[starts[w]:ends[w]]`."""

    __slots__ = ("data", "ends", "starts")

    def __init__(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    def of(self, places: npt.NDArray[np.int64]) -> SortedWords:
        """Return the words at `places`, ascending, of the same bytes."""
        return SortedWords(self.data, self.starts[places], self.ends[places])


def arrays_of(words: list[bytes]) -> SortedWords:
    """Return sorted `words` with bytes of their own."""
    sizes = np.array([len(word) for word in words], np.int64)
    ends = np.cumsum(sizes)
    return SortedWords(np.frombuffer(b"".join(words) or b"\0", np.uint8).copy(), ends - sizes, ends)


_State = TypeVar("_State")


class WordList(Lexeme, Generic[_State]):
    """A lexeme that is one of a few `words`, sorted, each with one of `outcomes`."""

    is_string = False
    is_blank = False
    general = False
    start: _State
    branches: dict[Any, Any] | None = None

    def __init__(self, words: list[tuple[bytes, int]]) -> None:
        self._words = [word for word, _ in words]
        self._outcomes = [number for _, number in words]
        self._spelled: SortedWords | None = None

    @property
    def words(self) -> list[bytes]:
        return self._words

    @property
    def outcomes(self) -> list[int]:
        return self._outcomes

    @property
    def spelled(self) -> SortedWords:
        if self._spelled is None:
            self._spelled = arrays_of(self.words)
        return self._spelled

    def key(self, state: _State) -> None:
        return None

    def window(self, state: _State) -> tuple[int, int, int] | None:
        """Return (low, high, at): the usual continuations are those of the words `low` to `high` from byte `at` on.
        None where the state has no usual continuation: inside a character spelled with a backslash."""
        raise NotImplementedError

    def usual_bytes(self, state: _State) -> set[int]:
        """Return the bytes that may come next in the usual spelling; none inside an escape."""
        return self.next_bytes(state)

    def characters(self, state: _State) -> set[str]:
        """Return the characters that may come next, of strings alone; none inside a character."""
        return set()


class WordNode:
    """Node of a trie of byte strings; `word` = outcome of the word that ends here, or None. Words `low` to `high` of
    the sorted list begin with the `at` bytes that lead here."""

    __slots__ = ("at", "below", "high", "low", "word")

    def __init__(self, low: int, high: int, at: int) -> None:
        self.low = low
        self.high = high
        self.at = at
        self.below: dict[int, WordNode] = {}
        self.word: int | None = None


class Words(WordList[WordNode]):
    """One of a few byte strings, spelled exactly; states are trie nodes."""

    def __init__(self, words: list[tuple[bytes, int]]) -> None:
        words = sorted(words)
        super().__init__(words)
        self.start = WordNode(0, len(words), 0)
        for k, (word, number) in enumerate(words):
            charge(_OF_WORD + len(word) * _OF_BYTE)
            node = self.start
            for at, byte in enumerate(word):
                below = node.below.get(byte)
                if below is None:
                    below = node.below[byte] = WordNode(k, k, at + 1)
                below.high = k + 1
                node = below
            node.word = number

    def next(self, state: WordNode, byte: int) -> WordNode | None:
        return state.below.get(byte)

    def outcome(self, state: WordNode) -> int | None:
        return state.word

    def grows(self, state: WordNode) -> bool:
        return bool(state.below)

    def run(self, state: WordNode, text: bytes) -> WordNode | None:
        node: WordNode | None = state
        for byte in text:
            assert node is not None
            node = node.below.get(byte)
            if node is None:
                return None
        return node if node is not None and node.below else None

    def window(self, state: WordNode) -> tuple[int, int, int]:
        return state.low, state.high, state.at

    def next_bytes(self, state: WordNode) -> set[int]:
        return set(state.below)
