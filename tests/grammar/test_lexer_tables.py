"""The table of all lexemes of a grammar."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar import Vocabulary, compile_lark
from sluicegate.grammar.automata import ByteDfa, CharDfa, utf8
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.lexer import LexemeTable
from sluicegate.grammar.parsing.lexer_tables import OVER, in_classes


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_one_class_if_no_state_tells_them_apart(seed: int) -> None:
    """What comes next by class is what comes next by byte, but for ended states, which are one."""
    pick = random.Random(seed)
    size = pick.randint(1, 12)
    targets = [-1, *range(size)]
    table = np.array([[pick.choice(targets) for _ in range(4)] * 64 for _ in range(size)], np.int32)
    for _ in range(pick.randint(0, 9)):
        table[pick.randrange(size), pick.randrange(256)] = pick.choice(targets)
    table[pick.randrange(size)] = -1
    classes, found = in_classes(table)
    ended = (table < 0).all(axis=1)
    assert (found[:, classes] == np.where(table < 0, -1, np.where(ended[table], OVER, table))).all()
    columns = {table[:, byte].tobytes() for byte in range(256)}
    assert found.shape[1] == len(columns)
    firsts = [classes.tolist().index(number) for number in range(len(columns))]
    assert firsts == sorted(firsts)


def test_lexemes_stand_behind_each_other() -> None:
    """Texts, expressions, a terminal that is no lexeme, and an automaton of another kind."""
    lexemes = [
        DfaLexeme(ByteDfa.of_text(b"ab"), general=True),
        None,
        DfaLexeme(utf8(CharDfa.from_pattern("[a-c]+\\u00e4?", dialect="python", anchored=True)), general=True),
        DfaLexeme(utf8(CharDfa.from_pattern("x*", dialect="python", anchored=True)), quoted=True),
    ]
    made = LexemeTable(lexemes)
    for terminal, lexeme in enumerate(lexemes):
        if lexeme is None:
            continue
        begin = made.offsets[terminal]
        for state, row in enumerate(lexeme.table):
            after = made.next[begin + state, made.classes]
            ended = np.array([target >= 0 and (lexeme.table[target] < 0).all() for target in row])
            assert (after == np.where(row < 0, -1, np.where(ended, OVER, row + begin))).all()
            assert made.accepts[begin + state] == bool(lexeme.accepting[state])
            assert made.distances[begin + state] == lexeme.distances[state]


def test_tables_of_terminals_that_nobody_asks_for_are_not_made() -> None:
    """A grammar has one table of all its lexemes; a completion asks for some of their own."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"if", b""], eos_token_ids=[3])
    matcher = compile_lark('start: "if" NAME | NAME\nNAME: /[ab]+/', vocabulary).matcher()
    matcher.fill_mask(np.zeros(vocabulary.row_words, np.int32))
    lexemes = matcher._at.readings[0].parser.tables.lexer.lexemes  # type: ignore[attr-defined]
    assert [lexeme is not None and lexeme._table is None for lexeme in lexemes] == [True, True, False]
