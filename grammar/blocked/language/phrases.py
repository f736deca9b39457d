"""Many phrases at once, after Aho and Corasick (1975), and the tokens that would finish one from a given state.

A token is refused if it spells a phrase, or the rest of one that was begun. Both are found by looking prefixes up in
the vocabulary sorted by symbols, so that a state costs what its few begun phrases cost, once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

import numpy as np

from sluicegate.grammar.blocked.language.fold import BORDER, SPACE, WORD, kind_of, symbols_of
from sluicegate.grammar.vocabulary.trie import I32

_AFTER = "\U0010ffff"
_SHORT = 3


class Phrases:
    """The machine. `step` follows folded symbols; state 0 is the start, `FOUND` the end. Immutable."""

    FOUND = -1

    def __init__(self, phrases: tuple[str, ...]) -> None:
        self.below: list[dict[str, int]] = [{}]
        self.final: list[bool] = [False]
        for phrase in phrases:
            self._add(symbols_of(phrase, SPACE)[0].rstrip(" "))
        self.fail = [0] * len(self.below)
        self._link()

    def _add(self, symbols: str) -> None:
        state = 0
        for symbol in symbols:
            after = self.below[state].get(symbol)
            if after is None:
                after = self.below[state][symbol] = len(self.below)
                self.below.append({})
                self.final.append(False)
            state = after
        self.final[state] = True

    def _link(self) -> None:
        queue = deque(self.below[0].values())
        while queue:
            state = queue.popleft()
            for symbol, after in self.below[state].items():
                back = self.fail[state]
                while back and symbol not in self.below[back]:
                    back = self.fail[back]
                self.fail[after] = self.below[back].get(symbol, 0)
                self.final[after] = self.final[after] or self.final[self.fail[after]]
                queue.append(after)

    def step(self, state: int, symbols: str) -> int:
        """`FOUND` once a phrase is whole."""
        below, fail = self.below, self.fail
        for symbol in symbols:
            while state and symbol not in below[state]:
                state = fail[state]
            state = below[state].get(symbol, 0)
            if self.final[state]:
                return self.FOUND
        return state

    def begun(self, state: int) -> list[int]:
        """The phrases begun in `state`, as places in the trie."""
        found = []
        while state:
            found.append(state)
            state = self.fail[state]
        return found


class Spelled:
    """A vocabulary by the symbols of what each token adds to a text; None for those that begin inside a character."""

    def __init__(self, texts: list[str | None]) -> None:
        pairs = sorted((symbols_of(text)[0], token) for token, text in enumerate(texts) if text is not None)
        self.symbols = [symbols for symbols, _ in pairs]
        self.ids = np.array([token for _, token in pairs], np.int32)
        self._spans: dict[str, tuple[int, int]] = {}
        for size in range(1, _SHORT + 1):
            self._index(size)

    def _index(self, size: int) -> None:
        """Remember the ranges of all beginnings of `size` symbols: most that are asked for are none, or end there."""
        starts: dict[str, int] = {}
        for place, symbols in enumerate(self.symbols):
            starts.setdefault(symbols[:size], place)
        ends = [*starts.values(), len(self.symbols)][1:]
        self._spans.update(
            (prefix, (first, last))
            for (prefix, first), last in zip(starts.items(), ends, strict=True)
            if len(prefix) == size
        )

    def beginning(self, prefix: str, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """Range of the tokens that begin with `prefix`, all of them between `first` and `last`."""
        if len(prefix) <= _SHORT:
            return self._spans.get(prefix, (0, 0))
        symbols = self.symbols
        last = len(symbols) if last is None else last
        first = bisect_left(symbols, prefix, first, last)
        if first == last or not symbols[first].startswith(prefix):
            return first, first
        return first, bisect_right(symbols, prefix + _AFTER, first, last)


class RefusedTokens:
    """Tokens that finish a phrase, by state. `spelled`: the vocabulary; `besides`: tokens refused in every state."""

    def __init__(self, phrases: Phrases, spelled: Spelled, besides: I32) -> None:
        self.phrases = phrases
        self.spelled = spelled
        anywhere, at_word = self._whole()
        self._within_word = np.unique(np.concatenate([besides, anywhere]))
        self._elsewhere = np.unique(np.concatenate([self._within_word, at_word]))

    def _whole(self) -> tuple[I32, I32]:
        """Tokens that spell a whole phrase: whatever stands before, or only where the token begins a word."""
        anywhere: list[int] = []
        at_word: list[int] = []
        root = self.phrases.below[0]
        for place, symbols in enumerate(self.spelled.symbols):
            for at, symbol in enumerate(symbols):
                if symbol in root and self._spells(symbols, at):
                    (at_word if at == 0 and symbol == BORDER else anywhere).append(place)
        ids = self.spelled.ids
        return ids[np.array(anywhere, np.int64)], ids[np.array(at_word, np.int64)]

    def _spells(self, symbols: str, at: int) -> bool:
        state: int | None = 0
        for i in range(at, len(symbols)):
            assert state is not None
            state = self.phrases.below[state].get(symbols[i])
            if state is None:
                return False
            if self.phrases.final[state]:
                return True
        return False

    def ids(self, state: int, before: int) -> I32:
        """Sorted tokens refused in `state`, after a symbol of kind `before`."""
        always = self._within_word if before == WORD else self._elsewhere
        parts: list[I32] = []
        for place in self.phrases.begun(state):
            self._rests(place, before, parts)
        return np.unique(np.concatenate([always, *parts])) if parts else always

    def _rests(self, place: int, before: int, parts: list[I32]) -> None:
        """Adds tokens that begin with the rest of a phrase begun: down both tries at once.

        The vocabulary is sorted as if each token began a text: within a word its first border is not spelled, and after
        a blank its first blank counts for nothing.
        """
        below, final, spelled = self.phrases.below, self.phrases.final, self.spelled
        pending: list[tuple[int, str, int, int]] = []
        every = len(spelled.symbols)
        for symbol, after in below[place].items():
            within = before == WORD and kind_of(symbol) == WORD
            pending.append((after, BORDER + symbol if within else symbol, 0, every))
            if before == SPACE:
                pending.append((after, " " + symbol, 0, every))
        while pending:
            state, text, first, last = pending.pop()
            first, last = spelled.beginning(text, first, last)
            if first == last:
                continue
            if final[state]:
                parts.append(spelled.ids[first:last])
            else:
                pending.extend([(after, text + symbol, first, last) for symbol, after in below[state].items()])
