"""Tokens that a blocklist refuses, by where a text stands among its phrases and patterns.

A token is refused if it spells a phrase, or the rest of one that was begun. Both are found by looking prefixes up in
the vocabulary sorted by symbols, so that a state costs what its few begun phrases cost, once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from sluicegate.grammar.automata import CharDfa, string_table, utf8
from sluicegate.grammar.blocked.language.fold import BORDER, SPACE, WORD, kind_of, symbols_of
from sluicegate.grammar.blocked.language.phrases import Phrases
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.pruning import walk
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_AFTER = "\U0010ffff"
_SHORT = 3
_NODES_A_CHARGE = 30
"""Nodes of the vocabulary that are looked at for a pattern, per unit charged."""


class SpelledVocabulary:
    """A vocabulary sorted by the symbols that each token adds; `texts`: None for tokens that begin inside a
    character."""

    def __init__(self, texts: list[str | None]) -> None:
        pairs = sorted((symbols_of(text)[0], token) for token, text in enumerate(texts) if text is not None)
        self.symbols = [symbols for symbols, _ in pairs]
        self.ids = np.array([token for _, token in pairs], np.int32)
        self._spans: dict[str, tuple[int, int]] = {}
        for size in range(1, _SHORT + 1):
            self._index(size)

    def _index(self, size: int) -> None:
        """Keep the ranges of all prefixes of `size` symbols: most look-ups end there."""
        starts: dict[str, int] = {}
        for place, symbols in enumerate(self.symbols):
            starts.setdefault(symbols[:size], place)
        ends = [*starts.values(), len(self.symbols)][1:]
        self._spans.update(
            (prefix, (first, last))
            for (prefix, first), last in zip(starts.items(), ends, strict=True)
            if len(prefix) == size
        )

    def beginning(self, prefix: str, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """Return the range of tokens that begin with `prefix`, between `first` and `last`."""
        if len(prefix) <= _SHORT:
            return self._spans.get(prefix, (0, 0))
        symbols = self.symbols
        last = len(symbols) if last is None else last
        first = bisect_left(symbols, prefix, first, last)
        if first == last or not symbols[first].startswith(prefix):
            return first, first
        return first, bisect_right(symbols, prefix + _AFTER, first, last)


class RefusedTokens:
    """Tokens that finish a phrase, by state. `spelled`: the vocabulary; `besides`: tokens refused in every state."""

    def __init__(self, phrases: Phrases, spelled: SpelledVocabulary, besides: I32) -> None:
        self.phrases = phrases
        self.spelled = spelled
        anywhere, at_word = self._whole()
        self._within_word = np.unique(np.concatenate([besides, anywhere]))
        self._elsewhere = np.unique(np.concatenate([self._within_word, at_word]))

    def _whole(self) -> tuple[I32, I32]:
        """Return the tokens that spell a whole phrase anywhere, and those that do so where they begin a word."""
        anywhere: list[int] = []
        at_word: list[int] = []
        root = self.phrases.below[0]
        for place, symbols in enumerate(self.spelled.symbols):
            for at, symbol in enumerate(symbols):
                if symbol in root and self._spells(symbols, at):
                    (at_word if at == 0 and symbol == BORDER else anywhere).append(place)
        ids = self.spelled.ids
        return ids[np.array(anywhere, np.int64)], ids[np.array(at_word, np.int64)]

    def _spells(self, symbols: str, at: int) -> bool:
        state: int | None = 0
        for i in range(at, len(symbols)):
            assert state is not None
            state = self.phrases.below[state].get(symbols[i])
            if state is None:
                return False
            if self.phrases.final[state]:
                return True
        return False

    def ids(self, state: int, before: int) -> I32:
        """Return the sorted tokens refused in `state`, after a symbol of kind `before`."""
        always = self._within_word if before == WORD else self._elsewhere
        parts: list[I32] = []
        for place in self.phrases.begun(state):
            self._rests(place, before, parts)
        return np.unique(np.concatenate([always, *parts])) if parts else always

    def _rests(self, place: int, before: int, parts: list[I32]) -> None:
        """Add tokens that begin with the rest of a begun phrase, by walking both tries at once.

        The vocabulary is sorted as if each token began a text: within a word its first border does not count, and after
        a blank its first blank does not.
        """
        below, final, spelled = self.phrases.below, self.phrases.final, self.spelled
        pending: list[tuple[int, str, int, int]] = []
        every = len(spelled.symbols)
        for symbol, after in below[place].items():
            within = before == WORD and kind_of(symbol) == WORD
            pending.append((after, BORDER + symbol if within else symbol, 0, every))
            if before == SPACE:
                pending.append((after, " " + symbol, 0, every))
        while pending:
            state, text, first, last = pending.pop()
            first, last = spelled.beginning(text, first, last)
            if first == last:
                continue
            if final[state]:
                parts.append(spelled.ids[first:last])
            else:
                pending.extend([(after, text + symbol, first, last) for symbol, after in below[state].items()])


class PatternRows:
    """Bitmasks of the tokens that leave a text without the patterns, by state of the automaton."""

    def __init__(self, lexeme: DfaLexeme, vocabulary: Vocabulary) -> None:
        self.lexeme = lexeme
        self.vocabulary = vocabulary
        self._rows: dict[int, I32] = {}

    def row(self, state: int) -> I32:
        """Return int32 [words]. Of tokens that end a JSON string, only what stands before the quote counts."""
        known = self._rows.get(state)
        if known is None:
            known = self._rows[state] = self._row(state)
        return known

    def _row(self, state: int) -> I32:
        trie, lexeme = self.vocabulary.trie, self.lexeme
        row = np.zeros(self.vocabulary.row_words, np.int32)
        with self.vocabulary.scratch as (inside, exits, closes):
            n_exits, n_closes, n_inside, seen = walk(
                *trie.nodes, trie.ids, lexeme.table, lexeme.accepting, state, lexeme.final, lexeme.steady,
                inside, exits, closes,
            )  # fmt: skip
            charge(seen / _NODES_A_CHARGE + n_exits * lexeme.quoted)
            kernels.set_bits(row, inside[:n_inside])
            kernels.set_bits(row, closes[:n_closes])
            nodes = exits[:n_exits].tolist()
        kernels.set_bits(row, self.vocabulary.eos)
        for node in nodes if lexeme.quoted else ():
            kernels.set_bits(row, trie.ids[trie.first[node] : trie.first[trie.skip[node]]])
        return row


def lexeme_of(texts: CharDfa, quoted: bool) -> DfaLexeme:
    return DfaLexeme(string_table(texts)) if quoted else DfaLexeme(utf8(texts), general=True)
