"""Compile terminals to lexemes: automata of their own. One that may be empty is a lexeme, or nothing."""

from __future__ import annotations

from functools import lru_cache

from lark.lexer import Pattern, PatternStr, TerminalDef

from sluicegate.grammar.automata import ByteDfa, CharDfa, utf8
from sluicegate.grammar.automata.byte_level.json_strings import Spelling
from sluicegate.grammar.budget.meter import look
from sluicegate.grammar.lark.rewriting.source import MARK, Source
from sluicegate.grammar.lark.terminal_sets import TerminalSets
from sluicegate.grammar.lark.texts import texts_of
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.token_bound import TokenBoundLexeme
from sluicegate.plugins.errors import GrammarError, InvalidGrammar

_NOTHING = CharDfa.from_literal("")
_SHORT = 40


def lexeme_of(
    terminal: TerminalDef, source: Source, sets: TerminalSets, spell: Spelling
) -> tuple[DfaLexeme | None, bool]:
    """Return the lexeme of the texts that are not empty, and whether the empty text is one.

    Raises a `GrammarError` with line and column of the terminal.
    """
    look()
    composed = source.composed.get(terminal.name)
    if composed is not None and composed.most_tokens == 0:
        return None, True
    plain = _plain(terminal.pattern) if composed is None and spell is utf8 else None
    if plain is not None:
        return DfaLexeme(plain, general=True), False
    if composed is not None:
        texts = sets.composed(composed)
        if texts.is_empty():
            source.refuse(InvalidGrammar, "this terminal matches nothing", composed.at)
    else:
        texts = _written(terminal, source)
    empty = texts.accepts("")
    rest = texts.difference(_NOTHING) if empty else texts
    if rest.is_empty():
        return None, empty
    if composed is not None and composed.most_tokens is not None:
        return TokenBoundLexeme(spell(rest), composed.most_tokens), empty
    return DfaLexeme(spell(rest), general=True), empty


def _plain(pattern: Pattern) -> ByteDfa | None:
    """Return the automaton of a text without flags; None for all else."""
    if not isinstance(pattern, PatternStr) or pattern.flags or not pattern.value or MARK in pattern.value:
        return None
    try:
        return _of_keyword(pattern.value) if len(pattern.value) <= _SHORT else ByteDfa.of_text(pattern.value.encode())
    except UnicodeEncodeError:  # refused elsewhere
        return None


@lru_cache(maxsize=4_000)
def _of_keyword(text: str) -> ByteDfa:
    """Return the automaton of one keyword or sign; grammars share many of them."""
    return ByteDfa.of_text(text.encode())


def _written(terminal: TerminalDef, source: Source) -> CharDfa:
    pattern = terminal.pattern
    try:
        texts = texts_of(pattern.value, "".join(sorted(pattern.flags)), isinstance(pattern, PatternStr))
        if texts.is_empty():
            raise InvalidGrammar("it matches nothing")
    except GrammarError as error:
        raise type(error)(
            source.placed(f"terminal {terminal.name}: {error.reason}", _place(terminal, source))
        ) from error
    return texts


def _place(terminal: TerminalDef, source: Source) -> int:
    raw = terminal.pattern.raw
    at = source.written.find(raw) if raw else -1
    return at if at >= 0 else source.find(terminal.name)
