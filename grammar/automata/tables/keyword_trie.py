"""Tries of words with failure links, to search for all of them at once, after Aho and Corasick (1975)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class KeywordTrie(NamedTuple):
    """State 0 is the start. `ends`: index of a word that ends in the state, -1 = none."""

    below: list[dict[str, int]]
    fail: list[int]
    ends: list[int]

    def goto(self, state: int, symbol: str) -> int:
        """Return the state after `symbol`, along failure links."""
        below, fail = self.below, self.fail
        while state and symbol not in below[state]:
            state = fail[state]
        return below[state].get(symbol, 0)


def keyword_trie(words: Iterable[str]) -> KeywordTrie:
    trie = KeywordTrie([{}], [0], [-1])
    below, fail, ends = trie
    for number, word in enumerate(words):
        state = 0
        for symbol in word:
            after = below[state].get(symbol)
            if after is None:
                after = below[state][symbol] = len(below)
                below.append({})
                fail.append(0)
                ends.append(-1)
            state = after
        ends[state] = number
    queue = deque(below[0].values())
    while queue:
        state = queue.popleft()
        for symbol, after in below[state].items():
            fail[after] = trie.goto(fail[state], symbol)
            if ends[after] < 0:
                ends[after] = ends[fail[after]]
            queue.append(after)
    return trie
