"""Nodes of the small linked tries: a module of its own, since those of the flat trie hold compiled loops."""

from __future__ import annotations

from typing import Self

from sluicegate.grammar.token_ids import I32


class TrieNode:
    """Node of a small linked trie. `ids` ends here: token numbers, or numbers of remainders."""

    __slots__ = ("_only_blanks", "children", "ids", "path")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.ids: I32 | None = None
        self.children: dict[int, Self] = {}
        self._only_blanks: bool | None = None

    @property
    def only_blanks(self) -> bool:
        """Return whether nothing but whitespace is below."""
        if self._only_blanks is None:
            self._only_blanks = all(b in b" \t\r\n" and below.only_blanks for b, below in self.children.items())
        return self._only_blanks

    def find(self, word: bytes) -> Self | None:
        node: Self | None = self
        for b in word:
            if node is None:
                return None
            node = node.children.get(b)
        return node
