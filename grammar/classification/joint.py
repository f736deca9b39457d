"""Tokens from a state of several languages read as one: those of all together, told apart where they end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.classification.automata import RootClass, keep, of_automaton
from sluicegate.grammar.lexemes.joint import Joint
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


def of_joint(vocabulary: Vocabulary, lexeme: Joint, state: int) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    key = lexeme.key(state)
    known: RootClass | None = vocabulary.classes.get(key)
    if known is not None:
        return known
    base = of_automaton(vocabulary, lexeme.whole, int(lexeme.same[state]))
    endings = [part for ending in base.endings for part in _parts(vocabulary, lexeme, state, ending)]
    return keep(vocabulary, key, RootClass(base.row, base.ids, tuple(endings)))


def _parts(vocabulary: Vocabulary, lexeme: Joint, state: int, ending: Ending) -> list[Ending]:
    closers = _outcomes(vocabulary, lexeme, state, ending.closers)
    others = _outcomes(vocabulary, lexeme, state, ending.tokens)
    found = []
    for outcome in np.union1d(closers, others).tolist():
        here = others == outcome
        found.append(Ending(outcome, ending.closers[closers == outcome], ending.numbers[here], ending.tokens[here]))
    return found


def _outcomes(vocabulary: Vocabulary, lexeme: Joint, state: int, tokens: I32) -> npt.NDArray[np.int32]:
    """Return the outcome with which each of `tokens` ends the string: all are followed at once, byte by byte."""
    words, inner = vocabulary.spelled, lexeme.inner
    found = np.full(tokens.size, -1, np.int32)
    left = np.arange(tokens.size)
    states = np.full(tokens.size, state, np.int32)
    place = 0
    while left.size:
        after = inner.table[states, words.data[words.starts[tokens[left]] + place]]
        over = after == inner.final
        found[left[over]] = lexeme.ends[states[over]]
        left, states = left[~over], after[~over]
        place += 1
    return found
