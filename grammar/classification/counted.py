"""Tokens from a state of a string of bounded length: those of the automaton, by the characters that they add."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.classification.automata import RootClass, keep, of_automaton
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.length_bounds import LONGEST, CountedState
from sluicegate.grammar.token_ids import I32, NO_IDS, join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_ONE_BY_ONE = 200
_OF_FITTING = 900
"""Work charged for separating tokens by the number of characters that they add."""
_OF_WALK, _CELLS_A_CHARGE = 3_000, 200
"""Work charged per walk that counts characters, and cells per charge of the table of states alive after each count."""


def of_counted(vocabulary: Vocabulary, lexeme: Counted, state: CountedState) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    wanted, room = lexeme.room(state)
    free = LONGEST if lexeme.bounds is None else lexeme.bounds.free(state.size)
    if not wanted and room == free == LONGEST:
        return of_automaton(vocabulary, lexeme.inner, state.inner)
    key = lexeme.key(state)
    known: RootClass | None = vocabulary.classes.get(key)
    if known is not None:
        return known
    charge(_OF_FITTING)
    found = _fitting(vocabulary, lexeme, state, wanted, min(room, free))
    if free < room:
        found = _with_longer(vocabulary, lexeme, state, found, free, (wanted, room))
    return keep(vocabulary, key, found)


def _fitting(vocabulary: Vocabulary, lexeme: Counted, state: CountedState, wanted: int, room: int) -> RootClass:
    """Classify the tokens of the pattern that add at most `room` characters, and that end the string after at least
    `wanted`."""
    base = of_automaton(vocabulary, lexeme.inner, state.inner)
    chars = _characters(vocabulary, lexeme.every, state.char)
    endings = []
    for ending in base.endings:
        closers = _between(ending.closers, chars, wanted, room)
        fits = _fits(chars[ending.tokens], wanted, room)
        endings.append(Ending(ending.outcome, closers, ending.numbers[fits], ending.tokens[fits]))
    ids = _between(base.ids, chars, 0, room)
    row = base.row
    if row is not None and room < LONGEST:
        row = row & _short_enough(vocabulary, lexeme.every, state.char, room)
    return RootClass(row, ids, tuple(endings))


def _with_longer(
    vocabulary: Vocabulary, lexeme: Counted, state: CountedState, found: RootClass, free: int, fitting: tuple[int, int]
) -> RootClass:
    """Add the tokens of more than `free` characters, one by one if they are few, else by a walk of their own."""
    endings = _fitting(vocabulary, lexeme, state, *fitting).endings
    longer = _longer(vocabulary, lexeme, state, free, fitting[1])
    if longer.size > _ONE_BY_ONE:
        ids = _walk(vocabulary, lexeme, state)
        if found.row is None:
            return RootClass(None, ids, endings)
        return RootClass(_with_bits(np.zeros(vocabulary.row_words, np.int32), ids), NO_IDS, endings)
    ids = np.array([t for t in longer.tolist() if lexeme.run(state, vocabulary.words[t]) is not None], np.int32)
    if found.row is None:
        return RootClass(None, join([found.ids, ids]), endings)
    return RootClass(_with_bits(found.row.copy(), ids), found.ids, endings)


def _longer(vocabulary: Vocabulary, lexeme: Counted, state: CountedState, free: int, room: int) -> I32:
    """Return the tokens of more than `free` characters, and no more than `room`, that the pattern takes."""
    base = of_automaton(vocabulary, lexeme.inner, state.inner)
    if base.row is None:
        added = _characters(vocabulary, lexeme.every, state.char)[base.ids]
        return base.ids[(added > free) & (added <= room)]
    sizes, order = _by_characters(vocabulary, lexeme.every, state.char)
    longer = order[np.searchsorted(sizes, free, "right") : np.searchsorted(sizes, room, "right")]
    taken: I32 = longer[(base.row[longer >> 5] >> (longer & 31)) & 1 == 1]
    return taken


def _walk(vocabulary: Vocabulary, lexeme: Counted, state: CountedState) -> I32:
    """Return the tokens that stay inside, looked at one character after the other."""
    bounds, trie, inner, every = lexeme.bounds, vocabulary.trie, lexeme.inner, lexeme.every
    assert bounds is not None
    alive = bounds.alive_after(state.size)
    charge(_OF_WALK + alive.size / _CELLS_A_CHARGE)
    with vocabulary.scratch as (inside, _, _):
        n_inside = kernels.walk_counted(
            trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids, inner.table, every.table,
            state.inner, state.char, every.start, inner.final, alive, inside,
        )  # fmt: skip
        return inside[:n_inside].copy()


def _with_bits(row: I32, ids: I32) -> I32:
    kernels.set_bits(row, ids)
    return row


def _fits(sizes: I32, wanted: int, room: int) -> np.ndarray:
    return (sizes >= wanted) & (sizes <= room)


def _between(ids: I32, chars: I32, wanted: int, room: int) -> I32:
    return ids[_fits(chars[ids], wanted, room)] if ids.size else ids


def _characters(vocabulary: Vocabulary, every: DfaLexeme, char: int) -> I32:
    """Return int32[V]: the characters by which each token lengthens a string whose automaton is in state `char`."""
    key = ("characters", every.key(char))
    known: I32 | None = vocabulary.classes.get(key)
    if known is None:
        known = np.full(vocabulary.row_words * 32, -1, np.int32)
        trie = vocabulary.trie
        kernels.walk_lengths(
            trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids,
            every.table, char, every.start, every.final, known,
        )  # fmt: skip
        vocabulary.classes.put(key, known, known.nbytes)
    return known


def _by_characters(vocabulary: Vocabulary, every: DfaLexeme, char: int) -> tuple[I32, I32]:
    """Return ascending counts of characters, and the tokens that have them, for those that fit into a string at all."""
    key = ("by characters", every.key(char))
    known: tuple[I32, I32] | None = vocabulary.classes.get(key)
    if known is None:
        chars = _characters(vocabulary, every, char)
        order = np.argsort(chars, kind="stable").astype(np.int32)
        order = order[np.searchsorted(chars[order], 0) :]
        known = chars[order], order
        vocabulary.classes.put(key, known, 2 * order.nbytes)
    return known


def _short_enough(vocabulary: Vocabulary, every: DfaLexeme, char: int, room: int) -> I32:
    """Return the bitmask of the tokens that lengthen the string by at most `room` characters."""
    key = ("short", every.key(char), room)
    known: I32 | None = vocabulary.classes.get(key)
    if known is None:
        chars = _characters(vocabulary, every, char)
        bits = np.packbits((chars >= 0) & (chars <= room), bitorder="little")
        known = bits.view(np.int32)
        vocabulary.classes.put(key, known, known.nbytes)
    return known
