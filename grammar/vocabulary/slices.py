"""Shares of a vocabulary that most string automata take whole, so that a walk need only look at the rest.

A slice is an alphabet: tokens spelled with it alone, and a trie of all others. If from a state of an automaton every
text over the alphabet stays alive, the slice's tokens are inside without looking at one of them. llguidance's
"slicer" does this for three fixed expressions; here the automaton is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.pruning import BLANKS, NON_ASCII, kinds_of, takes_below
from sluicegate.grammar.vocabulary.trie import FlatTrie, without
from sluicegate.grammar.vocabulary.word_bytes import WordBytes

_MOST_PAIRS = 200
_LONGEST = 32
"""In bytes. Longer tokens are in no slice, so that a state that counts down from a large number can use slices too."""
_MARKS = rb" !#$%&'()*+,-./:;<=>?@[]^_`{|}~"
_DIGITS, _LETTERS = b"0123456789", bytes(range(0x41, 0x5B)) + bytes(range(0x61, 0x7B))
_ALPHABETS = (
    (_MARKS + _DIGITS + _LETTERS, True),
    (b" " + _DIGITS + _LETTERS, True),
    (_MARKS + _DIGITS + _LETTERS, False),
    (_DIGITS + _LETTERS, False),
)
"""ASCII letters, and whether all characters beyond ASCII that are not white space belong to the slice."""


@dataclass(slots=True, eq=False)
class VocabularySlice:
    """`text`: the automaton of the alphabet; `kinds`: the same as bits, see `pruning`; `row`: bitmask of its tokens;
    `rest`: trie of all other tokens."""

    text: DfaLexeme
    kinds: int
    row: I32
    count: int
    rest: FlatTrie
    main: dict[int, int] = field(default_factory=dict)
    """Nodes of `rest` -> nodes of the whole vocabulary's trie, as far as computed."""

    def node_of(self, node: int, words: Sequence[bytes], trie: FlatTrie) -> int:
        """Return the node of the whole trie with the same bytes as `node` of `rest`."""
        found = self.main.get(node)
        if found is None:
            token = int(self.rest.ids[self.rest.first[node]])
            found = self.main[node] = trie.find(words[token][: int(self.rest.depth[node])])
        return found


def make_slices(words: WordBytes, trie: FlatTrie, row_words: int) -> tuple[VocabularySlice, ...]:
    """Make the slices, from the widest alphabet to the narrowest."""
    return tuple(_slice(text, kinds, words, trie, row_words) for text, kinds in alphabets())


@lru_cache(maxsize=1)
def alphabets() -> tuple[tuple[DfaLexeme, int], ...]:
    """Return the automata and kinds of the alphabets, from the widest to the narrowest."""
    found = []
    for letters, beyond in _ALPHABETS:
        ranges = re.escape(letters.decode()) + (r"\u0080-\U0010ffff" if beyond else "")
        text = CharDfa.from_pattern(f"[{ranges}]*", dialect="python", anchored=True)
        if beyond:
            text = text.difference(CharDfa.from_pattern(f"[{BLANKS}]", dialect="python"))
        found.append((DfaLexeme(utf8(text)), kinds_of(letters) | (NON_ASCII if beyond else 0)))
    return tuple(found)


def _slice(text: DfaLexeme, kinds: int, words: WordBytes, trie: FlatTrie, row_words: int) -> VocabularySlice:
    row = np.zeros(row_words * 32, np.bool_)
    row[_inside(text, words)] = True
    bits = np.packbits(row, bitorder="little").view(np.int32)
    return VocabularySlice(text, kinds, bits, int(row.sum()), without(trie, bits))


def _inside(text: DfaLexeme, words: WordBytes) -> npt.NDArray[np.int64]:
    """Return the tokens of at most `_LONGEST` bytes that stay inside `text`: all are followed at once, byte by byte."""
    data, starts, sizes = words.data, words.starts, words.sizes
    table = np.array([text.row(state) for state in range(text.table.shape[0])], np.int32)
    tokens = np.flatnonzero((sizes > 0) & (sizes <= _LONGEST))
    states = np.full(len(tokens), text.start, np.int32)
    found = []
    for place in range(_LONGEST):
        ended = sizes[tokens] == place
        found.append(tokens[ended])
        tokens, states = tokens[~ended], states[~ended]
        states = table[states, data[starts[tokens] + place]]
        tokens, states = tokens[states >= 0], states[states >= 0]
    return np.concatenate([*found, tokens])


def taken(lexeme: DfaLexeme, state: int, slices: tuple[VocabularySlice, ...]) -> VocabularySlice | None:
    """Return the first of `slices` of which every text, of as many bytes as its tokens have at most, stays inside
    `lexeme` from `state` on."""
    if not lexeme.is_string:
        return None
    for part in slices:
        if takes_below(lexeme.table, state, part.kinds, _LONGEST, lexeme.steady) or _closed(lexeme, state, part):
            return part
    return None


def _closed(lexeme: DfaLexeme, state: int, part: VocabularySlice) -> bool:
    """Return whether every text over the alphabet of `part`, however long, stays inside."""
    known = lexeme.taken.setdefault(id(part.text), {})
    answer = known.get(state)
    if answer is None:
        text = part.text
        mine, at = np.empty(_MOST_PAIRS, np.int32), np.empty(_MOST_PAIRS, np.int32)
        count = kernels.pairs_reached(lexeme.table, state, text.table, text.start, mine, at)
        answer = known[state] = count > 0
        for other in mine[:count][at[:count] == text.start].tolist() if count > 1 else ():
            known[other] = True
    return answer
