"""Find many phrases at once, after Aho and Corasick (1975)."""

from __future__ import annotations

from collections import deque

from sluicegate.grammar.blocked.language.fold import SPACE, symbols_of


class Phrases:
    """An Aho-Corasick automaton over folded symbols; state 0 is the start, `FOUND` the end. Immutable."""

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
        """Follow `symbols`; `FOUND` once a phrase is whole."""
        below, fail = self.below, self.fail
        for symbol in symbols:
            while state and symbol not in below[state]:
                state = fail[state]
            state = below[state].get(symbol, 0)
            if self.final[state]:
                return self.FOUND
        return state

    def begun(self, state: int) -> list[int]:
        """Return the phrases begun in `state`, as states of the trie."""
        found = []
        while state:
            found.append(state)
            state = self.fail[state]
        return found
