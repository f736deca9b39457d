"""Tokens that end a JSON value and go on with what is no JSON: the `}` of `}\\n</tool_call>`.

The vocabulary's own tries know only what JSON can go on with. Where a value stands inside a tag, the few tokens that
may cross its end are walked besides.
"""

from __future__ import annotations

import re

from sluicegate.grammar.vocabulary.trie import build_trie
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_ENDS = rb'(?:[}\]"0-9]|true|false|null|\A(?:rue|ue|e|alse|lse|se|ull|ll|l))'


def trailing_tokens(vocabulary: Vocabulary, ends: frozenset[str], anything: bool) -> TrieNode:
    """Return the trie of the tokens that may end a JSON value and go on. `ends`: literals that may follow a value;
    `anything`: any text may."""
    key = ("beyond", ends, anything)
    known: TrieNode | None = vocabulary.classes.get(key)
    if known is None:
        follows = [b"."] if anything else [_beginnings(end.encode()) for end in sorted(ends) if end]
        pattern = re.compile(_ENDS + b"(?:" + b"|".join(follows or [rb"(?!)"]) + b")", re.DOTALL)
        found = [(word, token) for token, word in enumerate(vocabulary.words) if pattern.search(word)]
        known = build_trie(found)
        vocabulary.classes.put(key, known, 500 * len(found))
    return known


def _beginnings(end: bytes) -> bytes:
    """Return a pattern for `end`, or for a beginning of it at the end of the token."""
    pattern = b""
    for i in range(len(end) - 1, -1, -1):
        letter = re.escape(end[i : i + 1])
        pattern = letter + (rb"(?:\Z|" + pattern + b")" if pattern else b"")
    return pattern
