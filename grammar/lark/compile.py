"""A Lark grammar to masks.

The texts are those that Lark's `earley` parser reads with its lexer `dynamic_complete`: a terminal may end wherever it
matches, and terminals that may begin alike are all followed, so a keyword is not reserved against a name.
`%ignore`, templates, `%import common.*`, flags and priorities are read; priorities do not change which texts there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import lark
from lark.exceptions import LarkError
from lark.lexer import PatternStr, TerminalDef

from grammar.automata import CharDfa, utf8
from grammar.automata.budget import look, within
from grammar.compile import plain_grammar
from grammar.lark.earley import Parser, Rule
from grammar.lexemes import DfaLexeme
from grammar.matcher import CompiledGrammar
from grammar.options import GrammarOptions
from grammar.threads import Continuation, Thread
from grammar.vocabulary import Vocabulary
from plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, Unsatisfiable, UnsupportedGrammar

_MOST_CHARACTERS = 200_000
_IMPORT = re.compile(r"^\s*%import\s+(?!common\b)(\S+)", re.MULTILINE)
_GBNF = re.compile(r"^[ \t]*([A-Za-z][\w-]*[ \t]*::=)", re.MULTILINE)
_EXTENSION = re.compile(r"%(json|regex|lark)\b")


def compile_lark(text: str, vocabulary: Vocabulary, *, options: GrammarOptions | None = None) -> CompiledGrammar:
    """Texts of the grammar's rule `start`.

    Raises `InvalidGrammar` with Lark's own message, `UnsupportedGrammar` for imports other than `common` and for look-
    around in terminals, `Unsatisfiable` if no text can be finished.
    """
    with within((options or GrammarOptions()).limits.cpu_s):
        parser = parser_of(text)
    return plain_grammar(vocabulary, parser(None), options)


def parser_of(text: str) -> Callable[[Continuation | None], Callable[[], tuple[Thread, ...]]]:
    """The grammar read and checked: from what follows a whole text to the threads at its first byte."""
    if not isinstance(text, str):
        raise InvalidGrammar("a Lark grammar is a text")
    if len(text) > _MOST_CHARACTERS:
        raise GrammarLimit(f"the grammar has {len(text)} characters; at most {_MOST_CHARACTERS} are read")
    _refuse(text)
    try:
        loaded = lark.Lark(text, start="start", parser="earley", lexer="dynamic", maybe_placeholders=False)
    except RecursionError as error:
        raise GrammarLimit("the grammar nests too deeply") from error
    except (LarkError, re.error) as error:
        raise InvalidGrammar(f"Lark does not read this grammar: {str(error)[:500]}") from error
    lexemes = {terminal.name: _lexeme(terminal) for terminal in loaded.terminals}
    rules = [
        Rule(rule.origin.name, tuple((symbol.is_term, symbol.name) for symbol in rule.expansion))
        for rule in loaded.rules
    ]
    ignored = frozenset(loaded.ignore_tokens)
    if not Parser(rules, lexemes, ignored, "start").productive:
        raise Unsatisfiable("no text can be finished: every way from `start` recurses without end")
    return lambda follow: Parser(rules, lexemes, ignored, "start", follow).start_threads


def _refuse(text: str) -> None:
    other = _GBNF.search(text)
    if other:
        line, column = text.count("\n", 0, other.start(1)) + 1, other.start(1) - text.rfind("\n", 0, other.start(1))
        raise UnsupportedGrammar(
            f"line {line}, column {column}: {other.group(1)!r} is a rule in GBNF; write the grammar in Lark's "
            "notation, with `start: ...` for `root ::= ...`"
        )
    outside = _IMPORT.search(text)
    if outside:
        raise UnsupportedGrammar(f"%import {outside.group(1)} reads a file; only %import common.* is allowed")
    extension = _EXTENSION.search(text)
    if extension:
        raise UnsupportedGrammar(
            f"%{extension.group(1)} is not part of Lark's notation; use response_format json_schema"
        )


def _lexeme(terminal: TerminalDef) -> DfaLexeme:
    look()
    pattern = terminal.pattern
    flags = "".join(sorted(pattern.flags))
    try:
        if isinstance(pattern, PatternStr) and not flags:
            dfa = CharDfa.from_literal(pattern.value)
        else:
            body = re.escape(pattern.value) if isinstance(pattern, PatternStr) else pattern.value
            dfa = CharDfa.from_pattern(f"(?{flags}:{body})" if flags else body, dialect="python", anchored=True)
    except GrammarError as error:
        raise type(error)(f"terminal {terminal.name}: {error.reason}") from error
    if dfa.is_empty() or dfa.accepts(""):
        raise InvalidGrammar(f"terminal {terminal.name} matches {'nothing' if dfa.is_empty() else 'the empty text'}")
    return DfaLexeme(utf8(dfa), general=True)
