"""Tokens from a state of what is left of strings or numbers: those of all of them, without the few that begin to spell
what nothing new can be made from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.classification.automata import RootClass
from sluicegate.grammar.lexemes.without_given import PlaceWithout, WithoutGiven
from sluicegate.grammar.token_ids import I32, join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_WORDS_A_CHARGE = 10


def of_without_given(vocabulary: Vocabulary, lexeme: WithoutGiven, state: PlaceWithout, base: RootClass) -> RootClass:
    """Classify the whole vocabulary from `state`; `base`: from the state of the lexeme of all."""
    if state.place is None:
        return base
    refused = join(_refused(vocabulary, lexeme, state))
    if not refused.size:
        return base
    row = np.zeros(vocabulary.row_words, np.int32)
    kernels.set_bits(row, refused)
    endings = [_left_of(ending, row) for ending in base.endings]
    return RootClass(None if base.row is None else base.row & ~row, base.ids[_others(base.ids, row)], tuple(endings))


def _others(ids: I32, row: I32) -> npt.NDArray[np.bool_]:
    """Return bool[ids]: those that are not in `row`."""
    found: npt.NDArray[np.bool_] = (row[ids >> 5] >> (ids & 31)) & 1 == 0
    return found


def _left_of(ending: Ending, row: I32) -> Ending:
    kept = _others(ending.tokens, row)
    closers = ending.closers[_others(ending.closers, row)]
    return Ending(ending.outcome, closers, ending.numbers[kept], ending.tokens[kept])


def _refused(vocabulary: Vocabulary, lexeme: WithoutGiven, state: PlaceWithout) -> list[I32]:
    """Return the tokens that, from `state` on, spell one of the list's beginnings, whatever follows it."""
    place, dead = state.place, lexeme.dead
    assert place is not None
    if place.begun or not dead.is_ascii:
        return _by_steps(vocabulary, lexeme, state)
    trie, words = vocabulary.trie, dead.spelled
    low, high, at, _ = place
    charge((high - low) / _WORDS_A_CHARGE)
    room = int(words.ends[high - 1] - words.starts[low] - at * (high - low))
    nodes, whole = np.empty(room + 1, np.int32), np.empty((high - low + 1, 2), np.int32)
    _, count = kernels.follow_words(
        trie.byte, trie.skip, trie.roots, words.data, words.starts, words.ends - 1, low, high, at, nodes, whole
    )
    found = [trie.ids[trie.first[node] : trie.first[trie.skip[node]]] for node in whole[:count, 1].tolist()]
    if lexeme.is_string:
        for escaped in lexeme.dead_nodes(state, vocabulary.escapes.tokens):
            found += _tokens(escaped)
    return found


def _by_steps(vocabulary: Vocabulary, lexeme: WithoutGiven, start: PlaceWithout) -> list[I32]:
    """Find the same byte by byte."""
    trie, found = vocabulary.trie, []
    pending = [(start, -1)]
    while pending:
        state, parent = pending.pop()
        tick()
        for byte in lexeme.listed_bytes(state):
            node = trie.child(parent, byte)
            if node < 0:
                continue
            after = lexeme.moved(state, byte)
            if after is None:
                continue
            if lexeme.is_dead(after):
                found.append(trie.ids[trie.first[node] : trie.first[trie.skip[node]]])
            else:
                pending.append((after, node))
    return found


def _tokens(node: TrieNode) -> list[I32]:
    found = [] if node.ids is None else [node.ids]
    for below in node.children.values():
        found += _tokens(below)
    return found
