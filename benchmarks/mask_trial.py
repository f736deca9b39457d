"""Compute the mask that trying every token gives, fast enough for whole data sets.

What `accept` does with a token is a walk of parser states over its bytes. Tokens that begin alike begin with the same
walk, and most steps of a grammar were taken before: so the vocabulary is followed level by level, all tokens at once,
over a table of the steps known so far; unknown ones are taken by the parser, each once. Where a step asks the text (a
name that must be new, an item that must differ), the tokens below it are accepted one by one. No code that makes masks
takes part. `tests/reference/mask_by_trial.py` is the same without these short cuts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar import LazyMatcher, TokenRejected, Vocabulary
from sluicegate.grammar.matching.state import ParserState, ParserStates
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.reading import Run
from sluicegate.grammar.vocabulary.trie import FlatTrie

I32 = npt.NDArray[np.int32]
_UNKNOWN, _REFUSED, _ASKED = -3, -1, -2


class _GuardAsked(Exception):
    """The step depends on the text."""


class _NoText(Run):
    """Steps that would ask the text are not taken."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    def passes(self, guard: Guard, end_offset: int) -> bool:
        raise _GuardAsked


class _Level(NamedTuple):
    """Nodes of one depth: numbers in the trie, place of the parent in the level above, last byte."""

    nodes: I32
    parents: I32
    letters: npt.NDArray[np.uint8]


class Levels:
    """A vocabulary's trie by depth. Immutable."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.trie: FlatTrie = vocabulary.trie
        trie = self.trie
        place = np.zeros(trie.size, np.int32)
        self.levels: list[_Level] = []
        for depth in range(1, int(trie.depth.max(initial=0)) + 1):
            nodes = np.flatnonzero(trie.depth == depth).astype(np.int32)
            place[nodes] = np.arange(nodes.size, dtype=np.int32)
            parents = np.zeros(nodes.size, np.int32)
            if depth > 1:  # in depth-first order a parent is the last node above that stands before
                above = self.levels[-1].nodes
                parents = (np.searchsorted(above, nodes) - 1).astype(np.int32)
            self.levels.append(_Level(nodes, parents, trie.byte[nodes]))


class Trials:
    """Of the matchers of one grammar: the steps that were taken so far."""

    def __init__(self, levels: Levels, states: ParserStates) -> None:
        self._levels = levels
        self._states = states
        self._known: list[ParserState] = []
        self._numbers: dict[int, int] = {}
        self._table = np.full((64, 256), _UNKNOWN, np.int32)

    def row(self, matcher: LazyMatcher) -> I32:
        """Return an int32[words of a mask]: a bit for each token that `matcher.accept` takes, ends of sequence among
        them."""
        levels, vocabulary = self._levels, self._levels.vocabulary
        flags = np.zeros(32 * vocabulary.row_words, np.bool_)
        above = np.array([self._number(matcher._at)], np.int32)
        for level in levels.levels:
            before = above[level.parents]
            living = np.flatnonzero(before >= 0)
            if not living.size:
                break
            above = np.full(level.nodes.size, _REFUSED, np.int32)
            above[living] = self._steps(before[living], level.letters[living])
            self._mark(level.nodes[above >= 0], flags)
            for node in level.nodes[above == _ASKED].tolist():
                self._try_each(matcher, node, flags)
        for token in vocabulary.eos_token_ids:
            flags[token] = _takes(matcher, token)
        return np.packbits(flags, bitorder="little").view(np.int32)

    def _steps(self, before: I32, letters: npt.NDArray[np.uint8]) -> I32:
        found = self._table[before, letters]
        unknown = np.flatnonzero(found == _UNKNOWN)
        if unknown.size:
            pairs = np.unique(before[unknown].astype(np.int64) * 256 + letters[unknown])
            for pair in pairs.tolist():
                after = self._step(pair // 256, pair % 256)
                self._table[pair // 256, pair % 256] = after
            found = self._table[before, letters]
        return found

    def _step(self, number: int, byte: int) -> int:
        try:
            after = self._states.step(self._known[number], byte, _NoText())
        except _GuardAsked:
            return _ASKED
        return _REFUSED if after is None else self._number(after)

    def _number(self, state: ParserState) -> int:
        found = self._numbers.get(id(state))
        if found is None:
            found = self._numbers[id(state)] = len(self._known)
            self._known.append(state)
            if found == len(self._table):
                self._table = np.concatenate([self._table, np.full_like(self._table, _UNKNOWN)])
        return found

    def _mark(self, nodes: I32, flags: npt.NDArray[np.bool_]) -> None:
        trie = self._levels.trie
        sizes = trie.exact[nodes]
        for k in range(int(sizes.max(initial=0))):
            there = nodes[sizes > k]
            flags[trie.ids[trie.first[there] + k]] = True

    def _try_each(self, matcher: LazyMatcher, node: int, flags: npt.NDArray[np.bool_]) -> None:
        trie = self._levels.trie
        for token in trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist():
            flags[token] = _takes(matcher, token)


def _takes(matcher: LazyMatcher, token: int) -> bool:
    try:
        matcher.accept(token)
    except TokenRejected:
        return False
    matcher.rollback(1)
    return True
