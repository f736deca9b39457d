"""Find many phrases at once, after Aho and Corasick (1975)."""

from __future__ import annotations

from sluicegate.grammar.automata.tables.keyword_trie import keyword_trie
from sluicegate.grammar.blocked.language.fold import SPACE, symbols_of


class Phrases:
    """An Aho-Corasick automaton over folded symbols; state 0 is the start, `FOUND` the end. Immutable."""

    FOUND = -1

    def __init__(self, phrases: tuple[str, ...]) -> None:
        trie = keyword_trie(symbols_of(phrase, SPACE)[0].rstrip(" ") for phrase in phrases)
        self.below, self.fail = trie.below, trie.fail
        self.final = [end >= 0 for end in trie.ends]

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
