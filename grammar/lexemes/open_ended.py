"""Lexemes of JSON scalars in front of text that is no JSON: they end wherever they may, and what follows decides.

Inside JSON a number ends where it cannot go on, since nothing that follows one continues it. In front of a literal such
as `..` or `px`, or of a pattern that begins with a digit, both readings stay open.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lexemes.base import DfaLexeme, Lexeme
from sluicegate.grammar.lexemes.words import Words


def open_ended(lexeme: Lexeme) -> Lexeme:
    """Return a lexeme of the same texts that may end wherever it accepts; `lexeme` itself if no text is a prefix of
    another."""
    if isinstance(lexeme, Words):
        return _of_words(tuple(lexeme.words)) if _prefixed(lexeme.words) else lexeme
    if isinstance(lexeme, DfaLexeme) and not lexeme.is_string:
        return _of_automaton(lexeme)
    return lexeme


@remembered(500)
def _of_words(words: tuple[bytes, ...]) -> DfaLexeme:
    return DfaLexeme(utf8(CharDfa.from_literals(word.decode() for word in words)), general=True)


@remembered(500)
def _of_automaton(lexeme: DfaLexeme) -> DfaLexeme:
    return DfaLexeme(lexeme.dfa, general=True)


def _prefixed(words: Iterable[bytes]) -> bool:
    """Return whether one of the sorted `words` begins another."""
    return any(after.startswith(before) for before, after in pairwise(words))
