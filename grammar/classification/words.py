"""Tokens from a state of a list of words.

These are not remembered: to read the few continuations off the sorted vocabulary costs about as much as a look-up. What
is left of single words is (`rests`): the same names are in many schemas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.classification.automata import RootClass
from sluicegate.grammar.lexemes.base import BACKSLASH, State
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.lexemes.words import WordList, Words
from sluicegate.grammar.token_ids import I32, join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_APART = 64
"""Longer lists are followed down the vocabulary in one pass; see `rests` for shorter ones."""
_OF_REST = 12
"""Work charged for the rest of a word that is met for the first time."""


class Rest(NamedTuple):
    """What is left of one word: tokens that stay inside, and those that end it, if there are any."""

    ids: I32
    ending: Ending | None


def rests(vocabulary: Vocabulary, lexeme: WordList[State], state: State) -> list[tuple[int, Rest]] | None:
    """Return (outcome, rest of the word) for each word `state` may still become; rests are cached by spelling. None if
    more than 64 words are left, or a character is spelled with a backslash."""
    window = lexeme.window(state)
    if window is None or window[1] - window[0] > _APART:
        return None
    low, high, at = window
    known, is_string, found = vocabulary.rests, lexeme.is_string, []
    for word, outcome in zip(lexeme.words[low:high], lexeme.outcomes[low:high], strict=True):
        key = (is_string, word[at:])
        rest: Rest | None = known.get(key)
        if rest is None:
            rest = _of_rest(vocabulary, *key)
            known.put(key, rest, rest.ids.nbytes + len(key[1]))
        found.append((outcome, rest))
    return found


def _of_rest(vocabulary: Vocabulary, is_string: bool, rest: bytes) -> Rest:
    charge(_OF_REST)
    if is_string and BACKSLASH not in rest:
        escaped = vocabulary.escapes.beginnings(rest)
        if escaped is not None:
            plain = np.array(vocabulary.beginnings(rest), np.int32)
            return Rest(join([plain, *escaped]), vocabulary.closings.get(rest))
    lexeme = Literals([(rest, 0)]) if is_string else Words([(rest, 0)])
    tokens = _Tokens(vocabulary, lexeme)
    tokens.add_plain((0, 1, 0))
    if is_string:
        tokens.add_escaped(lexeme.start)
    found = tokens.found()
    return Rest(found.ids, found.endings[0] if found.endings else None)


def of_words(vocabulary: Vocabulary, lexeme: WordList[State], state: State) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    tokens = _Tokens(vocabulary, lexeme)
    window = lexeme.window(state)
    if window is None:
        tokens.add_by_steps(state)
    else:
        tokens.add_plain(window)
        if lexeme.is_string:
            tokens.add_escaped(state)
    return tokens.found()


class _Tokens:
    """Collects tokens from one state: those that stay inside, and by outcome the parts of an `Ending`."""

    def __init__(self, vocabulary: Vocabulary, lexeme: WordList[State]) -> None:
        self.vocabulary = vocabulary
        self.lexeme = lexeme
        self.inside: list[I32] = []
        self.ended: dict[int, tuple[list[I32], list[I32], list[I32]]] = {}

    def found(self) -> RootClass:
        endings = [Ending(outcome, *map(join, parts)) for outcome, parts in self.ended.items()]
        return RootClass(None, join(self.inside), tuple(endings))

    def _close(self, outcome: int, closers: I32 | None, node: int) -> None:
        """Add `closers`, which end with the word, and the tokens below `node` of the vocabulary's trie, which go on
        after it."""
        all_closers, numbers, tokens = self.ended.setdefault(outcome, ([], [], []))
        if closers is not None:
            all_closers.append(closers)
        if node >= 0 and self.vocabulary.trie.skip[node] > node + 1:
            more = self.vocabulary.pairs_after(node)
            numbers.append(more[0])
            tokens.append(more[1])

    def add_plain(self, window: tuple[int, int, int]) -> None:
        """Follow the usual spellings down the vocabulary."""
        low, high, at = window
        trie, words = self.vocabulary.trie, self.lexeme.spelled
        room = int(words.ends[high - 1] - words.starts[low] - at * (high - low)) if high > low else 0
        nodes, whole = np.empty(room + 1, np.int32), np.empty((high - low + 1, 2), np.int32)
        n_nodes, n_whole = kernels.follow_words(
            trie.byte, trie.skip, trie.roots, words.data, words.starts, words.ends, low, high, at, nodes, whole
        )
        out = np.empty(n_nodes * trie.most, np.int32)
        n_ids = kernels.ids_at(trie.first, trie.exact, trie.ids, nodes, n_nodes, out)
        self.inside.append(out[:n_ids])
        for word, node in whole[:n_whole].tolist():
            self._close(self.lexeme.outcomes[word], trie.at(node), node)

    def add_by_steps(self, start: State) -> None:
        """Add tokens from inside a character: step down the vocabulary by the few bytes that are possible."""
        trie, lexeme = self.vocabulary.trie, self.lexeme
        pending: list[tuple[State, int]] = [(start, -1)]
        while pending:
            state, parent = pending.pop()
            tick()
            for byte in lexeme.next_bytes(state):
                node = trie.child(parent, byte)
                after = lexeme.next(state, byte) if node >= 0 else None
                if after is None:
                    continue
                outcome = lexeme.outcome(after)
                if outcome is None:
                    self.inside.append(trie.at(node))
                    pending.append((after, node))
                else:
                    self._close(outcome, trie.at(node), node)

    def add_escaped(self, start: State) -> None:
        """Add tokens that spell part of a string with a backslash escape.

        Most such tokens are part of one escape, which depends on the next character alone.
        """
        vocabulary, lexeme = self.vocabulary, self.lexeme
        escapes = vocabulary.escapes
        first = escapes.tokens.children.get(BACKSLASH)
        simple = first is not None
        for char in lexeme.characters(start):
            ids, alone = escapes.of(char)
            self.inside.append(ids)
            simple = simple and alone
        if simple and escapes.tokens.children.keys().isdisjoint(lexeme.usual_bytes(start)):
            return
        pending: list[tuple[State, TrieNode]] = [(start, escapes.tokens)]
        while pending:
            state, node = pending.pop()
            tick()
            for byte in lexeme.next_bytes(state):
                below = node.children.get(byte)
                if below is None or (simple and below is first):
                    continue
                after = lexeme.next(state, byte)
                if after is None:
                    continue
                outcome = lexeme.outcome(after)
                if outcome is not None:
                    self._close(outcome, below.ids, vocabulary.trie.find(below.path))
                    continue
                if below.ids is not None:
                    self.inside.append(below.ids)
                pending.append((after, below))
