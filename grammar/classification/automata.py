"""Tokens from a state of an explicit automaton: one compiled walk over the vocabulary, remembered under the canonical
name of the state's residual language."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.first_of import FirstOf
from sluicegate.grammar.token_ids import I32, NO_IDS, join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.pruning import walk
from sluicegate.grammar.vocabulary.slices import VocabularySlice, taken
from sluicegate.grammar.vocabulary.trie import build_trie
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_OF_WALK, _OF_STATE, _NODES_A_CHARGE, _TOKENS_A_CHARGE = 300, 3, 40, 500
"""Work charged per walk over the vocabulary and per state of which it is first worked out what it is steady under;
nodes looked at, and tokens found, per unit charged: together 0.3 to 6 ms. Nodes of a large automaton take 18 to 40 ns,
states 2.5 to 4 us."""
_OF_GENERAL = 3
"""Nodes that a walk of a general lexeme looks at in the time of one of another walk: one after the other, in small
automata."""
_SPARSE = 1_500
"""A larger set of tokens is kept as a bitmask."""


class RootClass(NamedTuple):
    """Tokens from a lexeme state: those that stay inside (`row` as a bitmask, or `ids` where they are few) and those
    that end it."""

    row: I32 | None
    ids: I32
    endings: tuple[Ending, ...]


def keep(vocabulary: Vocabulary, key: Any, found: RootClass) -> RootClass:
    """Remember `found` under `key`, and return it."""
    vocabulary.classes.put(key, found, size_of(found))
    return found


def size_of(found: RootClass) -> int:
    """Return how many bytes the arrays of `found` take."""
    size = found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
    return size + sum(end.closers.nbytes + end.numbers.nbytes + end.tokens.nbytes for end in found.endings)


def of_automaton(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    key = lexeme.key(state)
    known: RootClass | None = vocabulary.classes.get(key)
    return keep(vocabulary, key, _walk(vocabulary, lexeme, state)) if known is None else known


def _walk(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int) -> RootClass:
    look()
    part = taken(lexeme, state, vocabulary.slices)
    trie = vocabulary.trie if part is None else part.rest
    unknown = _unknown(lexeme)
    with vocabulary.scratch as (inside, exits, closes):
        n_exits, n_closes, n_inside, seen = walk(
            *trie.nodes, trie.ids, lexeme.table, lexeme.accepting, state, lexeme.final, lexeme.steady,
                inside, exits, closes,
        )  # fmt: skip
        charge(_cost(float(seen), float(n_inside)) + (unknown - _unknown(lexeme)) * _OF_STATE)
        sparse = part is None and n_inside <= _SPARSE
        row = None if sparse else np.zeros(vocabulary.row_words, np.int32) if part is None else part.row.copy()
        if row is not None:  # from the scratch itself: a copy of a hundred thousand tokens costs as much as the walk
            kernels.set_bits(row, inside[:n_inside])
        ids = inside[:n_inside].copy() if sparse else NO_IDS
        found = exits[:n_exits].tobytes()
        closers = closes[:n_closes].copy()
    return RootClass(row, ids, (_ending(vocabulary, part, found, closers),) if found or n_closes else ())


def _unknown(lexeme: DfaLexeme) -> int:
    """Return of how many states it is not known what they are steady under."""
    return int(lexeme.steady.size - np.count_nonzero(lexeme.steady))


def _cost(seen: float, n_inside: float) -> float:
    """Return what a walk that looked at so many nodes is charged."""
    return _OF_WALK + seen / _NODES_A_CHARGE + n_inside / _TOKENS_A_CHARGE


def _ending(vocabulary: Vocabulary, part: VocabularySlice | None, exits: bytes, closers: I32) -> Ending:
    """Make the ending of the tokens that close and of those that go on from the nodes `exits` (int32) of the trie that
    was walked. All automata together have few sets of such nodes."""
    if not exits:
        return Ending(0, closers, NO_IDS, NO_IDS)
    key = (0 if part is None else id(part), exits)
    known: tuple[I32, I32] | None = vocabulary.left_at.get(key)
    if known is None:
        nodes = np.frombuffer(exits, np.int32).tolist()
        if part is not None:
            nodes = [part.node_of(node, vocabulary.words, vocabulary.trie) for node in nodes]
        pairs = [vocabulary.pairs_at(node) for node in nodes]
        known = join([numbers for numbers, _ in pairs]), join([tokens for _, tokens in pairs])
        vocabulary.left_at.put(key, known, len(exits) + 2 * known[0].nbytes)
    return Ending(0, closers, *known)


def of_general(
    vocabulary: Vocabulary, lexeme: DfaLexeme, state: int, wanted: bytes
) -> tuple[RootClass, tuple[tuple[int, TrieNode], ...]]:
    """Classify the whole vocabulary from `state` of a general lexeme. Returns the tokens inside, and by outcome a trie
    of what is left of those that go on behind it with a byte of `wanted`."""
    key = ("general", lexeme.key(state), wanted)
    known = vocabulary.classes.get(key)
    if known is None:
        inside, exits = _walk_general(vocabulary, lexeme, state, wanted)
        trie = vocabulary.trie
        left: dict[int, list[tuple[bytes, int]]] = {}
        for node in exits:
            cut = int(trie.depth[node]) - 1
            tokens = trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist()
            charge(2 + len(tokens) / 2)
            remainders = left.setdefault(_outcome(lexeme, state, vocabulary.words[tokens[0]][:cut]), [])
            remainders.extend((vocabulary.words[token][cut:], token) for token in tokens)
        known = (inside, tuple((outcome, build_trie(remainders)) for outcome, remainders in left.items()))
        size = 0 if inside.row is None else inside.row.nbytes
        vocabulary.classes.put(key, known, size + inside.ids.nbytes + 500 * sum(map(len, left.values())))
    return known  # type: ignore[no-any-return]


def _outcome(lexeme: DfaLexeme, state: int, text: bytes) -> int:
    """Return the outcome of a general lexeme that may end behind `text`."""
    if not isinstance(lexeme, FirstOf):
        return 0
    for byte in text:
        state = lexeme.row(state)[byte]
    outcome = lexeme.outcome(state)
    assert outcome is not None
    return outcome


def _walk_general(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int, wanted: bytes) -> tuple[RootClass, list[int]]:
    look()
    trie, flags = vocabulary.trie, np.zeros(256, np.bool_)
    flags[np.frombuffer(wanted, np.uint8)] = True
    with vocabulary.scratch as (inside, exits, _):
        n_exits, n_inside, seen = kernels.walk_general(
            trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids,
            lexeme.table, lexeme.accepting, state, flags, inside, exits,
        )  # fmt: skip
        charge(_cost(float(seen) / _OF_GENERAL, float(n_inside)))
        ids, found = inside[:n_inside].copy(), exits[:n_exits].tolist()
    if n_inside <= _SPARSE:
        return RootClass(None, ids, ()), found
    row = np.zeros(vocabulary.row_words, np.int32)
    kernels.set_bits(row, ids)
    return RootClass(row, NO_IDS, ()), found
