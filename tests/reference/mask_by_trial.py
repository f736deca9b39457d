"""The slow obvious twin of every mask: a token is allowed if accepting it works."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar import LazyMatcher, TokenRejected, Vocabulary


def mask_by_trial(matcher: LazyMatcher, vocabulary: Vocabulary) -> np.ndarray:
    """Return int32 [ceil(V/32)], found by trying every token on a fork."""
    row = np.zeros(vocabulary.row_words, np.int32)
    for token in range(vocabulary.size):
        try:
            matcher.fork().accept(token)
        except TokenRejected:
            continue
        row[token >> 5] |= np.int32(np.uint32(1 << (token & 31)).astype(np.int32))
    return row


def kernel_walk(words: list[bytes], transitions: np.ndarray, accepting: np.ndarray, start: int, final: int) -> tuple:
    """Return (inside, closing, leaving), the token sets of `steady.walk`, by one token and one byte at a time.

    `leaving` holds (token, offset at which the lexeme had to end)."""
    inside, closing, leaving = set(), set(), set()
    for token, word in enumerate(words):
        state = start
        for at, byte in enumerate(word):
            after = int(transitions[state, byte])
            if after < 0:
                if at and accepting[state]:
                    leaving.add((token, at))
                break
            state = after
        else:
            if word:
                (closing if state == final else inside).add(token)
    return inside, closing, leaving
