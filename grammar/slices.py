"""Shares of a vocabulary that most string automata take whole, so that a walk need only look at the rest.

A slice is an alphabet: tokens spelled with it alone, and a trie of all others. If from a state of an automaton every
text over the alphabet stays alive, the slice's tokens are inside without looking at one of them. llguidance's
"slicer" does this for three fixed expressions; here the automaton is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from grammar import kernels
from grammar.automata import CharDfa, utf8
from grammar.lexemes import DfaLexeme
from grammar.trie import I32, FlatTrie, build_flat

_MOST_PAIRS = 200
_PATTERNS = (
    r"[ !#-\[\]-~\u0080-\ud7ff\ue000-\U0010ffff]*",
    r"[ 0-9A-Za-z\u0080-\ud7ff\ue000-\U0010ffff]*",
    r"[0-9A-Za-z]*",
)


@dataclass(slots=True, eq=False)
class Slice:
    """`text`: the automaton of the alphabet; `row`: bitmask of its tokens; `rest`: trie of all other tokens."""

    text: DfaLexeme
    row: I32
    count: int
    rest: FlatTrie
    main: dict[int, int] = field(default_factory=dict)
    """Nodes of the whole vocabulary's trie by nodes of `rest`, as far as asked for."""

    def node_of(self, node: int, words: list[bytes], trie: FlatTrie) -> int:
        """The node of the whole trie that spells what `node` of `rest` spells."""
        found = self.main.get(node)
        if found is None:
            token = int(self.rest.ids[self.rest.first[node]])
            found = self.main[node] = trie.find(words[token][: int(self.rest.depth[node])])
        return found


def make_slices(words: list[bytes], row_words: int) -> tuple[Slice, ...]:
    """From the widest alphabet to the narrowest."""
    return tuple(_slice(automaton, words, row_words) for automaton in automata())


@lru_cache(maxsize=1)
def automata() -> tuple[DfaLexeme, ...]:
    """Of the alphabets, from the widest to the narrowest."""
    return tuple(DfaLexeme(utf8(CharDfa.from_pattern(text, dialect="python", anchored=True))) for text in _PATTERNS)


def _slice(text: DfaLexeme, words: list[bytes], row_words: int) -> Slice:
    row = np.zeros(row_words * 32, np.bool_)
    rest = list(words)
    table = [text.row(state) for state in range(text.table.shape[0])]
    for token, word in enumerate(words):
        state = text.start
        for byte in word:
            state = table[state][byte]
            if state < 0:
                break
        else:
            if word:
                row[token] = True
                rest[token] = b""
    return Slice(text, np.packbits(row, bitorder="little").view(np.int32), int(row.sum()), build_flat(rest))


def takes(lexeme: DfaLexeme, state: int, part: Slice) -> bool:
    """Every text over the alphabet of `part` stays inside `lexeme` from `state` on."""
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
