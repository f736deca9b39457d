"""Tokens that spell characters of a JSON string as escapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from sluicegate.grammar.lexemes.literals import escapes_of
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary.trie import build_trie
from sluicegate.grammar.vocabulary.trie_node import TrieNode

QUOTE, BACKSLASH = b'"', b"\\"
_MOST = 20_000
_SPELT = re.compile(rb'[^"\\]*\\')


class EscapeTokens:
    """Of one vocabulary; `tokens`: those with a backslash, and their bytes. Immutable but for a cache."""

    def __init__(self, tokens: Iterable[tuple[int, bytes]]) -> None:
        self.tokens = build_trie((word, token) for token, word in tokens if _SPELT.match(word))
        """Tokens with a backslash before any quote: the only ones that can contain an escape of a string."""
        self._known: dict[tuple[str, bytes], tuple[I32, bool]] = {}

    def of(self, char: str, after: TrieNode | None = None) -> tuple[I32, bool]:
        """Return the tokens that spell, after the text of `after` in `tokens`, a beginning of one escape of `char` or
        the whole of it; and whether no token goes on after such an escape."""
        after = after or self.tokens
        known = self._known.get((char, after.path))
        if known is None:
            ids, alone = [NO_IDS], True
            for spelling in escapes_of(char):
                for variant in _cases(spelling):
                    node: TrieNode | None = after
                    for byte in variant:
                        node = node.children.get(byte) if node is not None else None
                        if node is not None and node.ids is not None:
                            ids.append(node.ids)
                    alone = alone and (node is None or not node.children)
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[char, after.path] = (np.unique(np.concatenate(ids)), alone)
        return known

    def beginnings(self, text: bytes) -> list[I32] | None:
        """Return the tokens that spell a beginning of `text`, a plainly spelled rest of a string with its closing
        quote, and end in one escape. None where a token could go on after the escape, or a character has several
        bytes."""
        found: list[I32] = []
        node: TrieNode | None = self.tokens
        for byte in text:
            if node is None or byte == QUOTE[0]:
                break
            if byte >= 0x80:
                return None
            if BACKSLASH[0] in node.children:
                ids, alone = self.of(chr(byte), node)
                if not alone:
                    return None
                found.append(ids)
            node = node.children.get(byte)
        return found


def _cases(spelling: bytes) -> Iterator[bytes]:
    """Yield an escape with its hex digits in every mixture of cases."""
    if len(spelling) < 6:
        yield spelling
        return
    pairs = [{byte} if i % 6 < 2 else {byte, ord(chr(byte).upper())} for i, byte in enumerate(spelling)]
    for mixture in product(*pairs):
        yield bytes(mixture)
