"""Regular expressions that no text may hold, as automata of the texts that hold none: one over plain bytes, one over
the bodies of JSON strings in every spelling."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.automata import CharDfa, string_table, utf8
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.pruning import walk
from sluicegate.grammar.vocabulary.trie import I32
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import InvalidGrammar


def without(patterns: tuple[str, ...]) -> CharDfa:
    """Texts in which none of `patterns` (Python's dialect) is found. Raises a `GrammarError`."""
    found = CharDfa.any_string()
    for pattern in patterns:
        held = CharDfa.from_pattern(pattern, dialect="python")
        if held.accepts(""):
            raise InvalidGrammar(f"the pattern {pattern!r} is found in every text", param="blocklist_patterns")
        found = found.difference(held)
    return found


class Allowed:
    """Bitmasks of the tokens that leave a text without the patterns, by state of the automaton."""

    def __init__(self, lexeme: DfaLexeme, vocabulary: Vocabulary) -> None:
        self.lexeme = lexeme
        self.vocabulary = vocabulary
        self._rows: dict[int, I32] = {}

    def row(self, state: int) -> I32:
        """int32 [words]. Of tokens that end a JSON string, only what stands before its quote counts."""
        known = self._rows.get(state)
        if known is None:
            known = self._rows[state] = self._row(state)
        return known

    def _row(self, state: int) -> I32:
        trie, lexeme = self.vocabulary.trie, self.lexeme
        row = np.zeros(self.vocabulary.row_words, np.int32)
        with self.vocabulary.scratch as (inside, exits, closes):
            n_exits, n_closes, n_inside = walk(
                *trie.nodes, trie.ids, lexeme.table, lexeme.accepting, state, lexeme.final, lexeme.told,
                inside, exits, closes,
            )  # fmt: skip
            kernels.set_bits(row, inside[:n_inside])
            kernels.set_bits(row, closes[:n_closes])
            nodes = exits[:n_exits].tolist()
        kernels.set_bits(row, self.vocabulary.eos)
        for node in nodes if lexeme.quoted else ():
            kernels.set_bits(row, trie.ids[trie.first[node] : trie.first[trie.skip[node]]])
        return row


def lexeme_of(texts: CharDfa, quoted: bool) -> DfaLexeme:
    return DfaLexeme(string_table(texts)) if quoted else DfaLexeme(utf8(texts), general=True)
