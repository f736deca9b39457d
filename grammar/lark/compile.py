"""Compile a Lark or a GBNF grammar to masks.

The language of a Lark grammar is that of Lark's `earley` parser with its lexer `dynamic_complete`: a terminal may end
wherever it matches, and all terminals that may begin are followed, so a keyword is not reserved against a name.
`%ignore`, templates, `%import common.*`, flags and llguidance's additions are supported. Priorities choose between
derivations of one text, as with Lark, and never change the language. `%json {...}` stands for a JSON value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain

from lark.load_grammar import load_grammar

from sluicegate.grammar.automata import ByteDfa, string_body, utf8
from sluicegate.grammar.automata.byte_level.json_strings import Spelling
from sluicegate.grammar.blocked.watch import Screens
from sluicegate.grammar.budget.interrupt import interrupted
from sluicegate.grammar.budget.meter import within
from sluicegate.grammar.classification.classify import prepare
from sluicegate.grammar.lark import gbnf
from sluicegate.grammar.lark.alternatives import MOST_WAYS, check_alternatives
from sluicegate.grammar.lark.extensions.nested import joined
from sluicegate.grammar.lark.extensions.parameters import expanded
from sluicegate.grammar.lark.extensions.tokens import TokenTerminals, without_ends
from sluicegate.grammar.lark.grammar import Grammar
from sluicegate.grammar.lark.literals import Unread
from sluicegate.grammar.lark.reader import LoadedGrammar, read_plain
from sluicegate.grammar.lark.regions import OneRegionTape, regions_of
from sluicegate.grammar.lark.rewriting.rewrite import rewritten
from sluicegate.grammar.lark.rewriting.source import Source
from sluicegate.grammar.lark.terminal_sets import TerminalSets
from sluicegate.grammar.lark.terminals import lexeme_of
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.matching.grammar import LazyGrammar
from sluicegate.grammar.matching.plain import plain_grammar
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.parsing.parser import Parser
from sluicegate.grammar.parsing.rules import Production, Symbol
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.vocabulary.trailing import trailing_tokens
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar

_MOST_CHARACTERS = 200_000


def compile_lark(text: str, vocabulary: Vocabulary, *, options: GrammarOptions | None = None) -> LazyGrammar:
    """Allow the texts of the rule `start`, or, in GBNF (`root ::= ...`), of the rule `root`.

    Raises `InvalidGrammar` or `UnsupportedGrammar` with line and column, `Unsatisfiable` if no text can be finished.
    """
    options = options or GrammarOptions()
    tokens = TokenTerminals(vocabulary)
    with within(options.limits.cpu_s):
        grammar = read(text, options, utf8, tokens)
        parser = Parser(grammar.tables())
    if tokens.special:
        vocabulary = vocabulary.marked
    if grammar.regions:
        prepare(vocabulary)  # once; its seconds are not the grammar's
    with within(options.limits.cpu_s):
        if not grammar.regions:
            return plain_grammar(vocabulary, parser.start_readings, options)
        return _with_values(grammar, parser, vocabulary, options)


def parser_of(
    text: str, *, in_string: bool = False
) -> Callable[[Continuation | None], Callable[[], tuple[Reading, ...]]]:
    """Read and check a grammar. Returns a function from what follows a whole text to the readings at its first byte.
    `in_string`: its texts stand inside a JSON string."""
    grammar = read(text, GrammarOptions(), string_body if in_string else utf8)
    if grammar.regions:
        raise UnsupportedGrammar("%json inside a part of a structural tag; make it a json_schema part of its own")
    tables = grammar.tables()
    return lambda follow: Parser(tables, follow).start_readings


def read(text: str, options: GrammarOptions, spell: Spelling = utf8, tokens: TokenTerminals | None = None) -> Grammar:
    """Read a grammar in either notation. `tokens` None: those of no vocabulary."""
    tokens = tokens or TokenTerminals(None)
    if not isinstance(text, str):
        raise InvalidGrammar(f"a grammar must be a text, not {type(text).__name__}")
    if len(text) > _MOST_CHARACTERS:
        raise GrammarLimit(f"the grammar has {len(text)} characters; at most {_MOST_CHARACTERS} are read: shorten it")
    if gbnf.is_gbnf(text):
        rules, lexemes = gbnf.read(text, spell, tokens)
        grammar = Grammar(rules, lexemes, frozenset(), gbnf.ROOT, {})
    else:
        grammar = _read_lark(text, options, spell, tokens)
    if not any(rule.origin == grammar.start for rule in grammar.rules):
        raise InvalidGrammar(f"the grammar has no rule `{grammar.start}`, which every text begins with")
    known = {*grammar.lexemes, *grammar.regions}
    if known.issuperset(_terminals_in(grammar.rules)):
        return grammar
    return grammar._replace(rules=without_ends(grammar.rules, known, tokens.ends))


def _read_lark(text: str, options: GrammarOptions, spell: Spelling, tokens: TokenTerminals) -> Grammar:
    source, (terminals, written, ignored) = _loaded(text)
    sets = TerminalSets(source)
    others = {*source.schemas, *source.grammars, *source.tokens, *source.parameters.conditions}
    found = {t.name: lexeme_of(t, source, sets, spell) for t in terminals if t.name not in others}
    lexemes = {name: lexeme for name, (lexeme, _) in found.items() if lexeme is not None}
    lexemes |= _token_lexemes(source, tokens)
    empty = {name for name, (_, may_be_empty) in found.items() if may_be_empty}
    rules = list(written)
    if empty:
        rules = [Production(rule.origin, tuple(_symbol(*each, empty) for each in rule.expansion)) for rule in written]
    for name in sorted(empty):
        rules += [Production(_perhaps(name), way) for way in (((True, name),), ())[name not in lexemes :]]
    if source.parameters:
        rules = expanded(rules, source.parameters, "start", source.too_much)
    skipped = frozenset([name for name in ignored if name in lexemes])
    for name in skipped.difference(_terminals_in(rules)):
        lexemes[name] = _in_a_row(lexemes[name])
    grammar = Grammar(rules, lexemes, skipped, "start", regions_of(source, options))
    if not source.grammars:
        return grammar
    inner = {name: _nested(source, *found, options, spell, tokens) for name, found in source.grammars.items()}
    return joined(grammar, inner)


def _terminals_in(rules: Iterable[Production]) -> list[str]:
    symbols = set(chain.from_iterable([rule.expansion for rule in rules]))
    return [name for is_terminal, name in symbols if is_terminal]


def _token_lexemes(source: Source, tokens: TokenTerminals) -> dict[str, DfaLexeme]:
    """Return the lexemes of the tokens that are named. Those that end a text have none."""
    found: dict[str, DfaLexeme] = {}
    for name, (written, at) in source.tokens.items():
        try:
            lexeme = tokens.lexeme(written)
        except GrammarError as error:
            source.refuse(type(error), error.reason, at)
        if lexeme is None:
            tokens.ends.append(source.placed(written, at))
        else:
            found[name] = lexeme
    return found


def _nested(
    source: Source, text: str, at: int, options: GrammarOptions, spell: Spelling, tokens: TokenTerminals
) -> Grammar:
    """Read the grammar of a `%lark`. Blanks before it give its errors the places of the whole."""
    before = re.sub(r"[^\n]", " ", source.written[:at])
    inner = _read_lark(before + text, options, spell, tokens)
    if not any(rule.origin == inner.start for rule in inner.rules):
        source.refuse(InvalidGrammar, "the grammar of this %lark has no rule `start`", at)
    return inner


def _in_a_row(ignored: DfaLexeme) -> DfaLexeme:
    """Return the lexeme of any number of ignored texts: one that reads a long blank at once instead of bit by bit."""
    repeated = ignored.dfa.repeated() if isinstance(ignored.dfa, ByteDfa) else ignored.dfa
    return ignored if repeated is ignored.dfa else DfaLexeme(repeated, general=True)


def _symbol(is_terminal: bool, name: str, empty: set[str]) -> Symbol:
    return (False, _perhaps(name)) if is_terminal and name in empty else (is_terminal, name)


def _perhaps(name: str) -> str:
    """Return the name of the rule for terminal `name` or nothing."""
    return f"{name} or nothing"


def _loaded(text: str) -> tuple[Source, LoadedGrammar]:
    try:
        plain = Source(text)
        found = _plain(plain)
    except Unread:
        source = rewritten(text)
        check_alternatives(source.text)
        try:
            return source, _plain(source)
        except Unread:
            with interrupted():
                return source, by_lark(source)
    if len(found.rules) > MOST_WAYS:
        check_alternatives(text)
    return plain, found


def _plain(source: Source) -> LoadedGrammar:
    return read_plain(source.text, source.too_much)


def by_lark(source: Source) -> LoadedGrammar:
    """Read the grammar with Lark's loader. Lark's parser is not built: it would refuse terminals that may be empty."""
    try:
        grammar, _ = load_grammar(source.text, "<string>", [], False)
        terminals, rules, ignored = grammar.compile(["start"], set())
    except RecursionError as error:
        raise GrammarLimit("the grammar nests too deeply; give inner groups rules of their own") from error
    except Exception as error:  # Lark's own errors, those of `re` or `regex`, and a KeyError that Lark lets pass
        raise InvalidGrammar(source.of_lark(error)) from error
    written = [
        Production(str(rule.origin.name), tuple((symbol.is_term, str(symbol.name)) for symbol in rule.expansion))
        for rule in rules
    ]
    return LoadedGrammar(terminals, written, ignored)


def _with_values(grammar: Grammar, parser: Parser, vocabulary: Vocabulary, options: GrammarOptions) -> LazyGrammar:
    begins = parser.restarts
    regions = grammar.regions.values()
    return LazyGrammar(
        vocabulary,
        parser.start_readings,
        needs_text=True,
        reading_limit=options.limits.readings,
        notes=tuple(dict.fromkeys(note for region in regions for note in region.notes)),
        tape=lambda: OneRegionTape(begins),
        trailing=trailing_tokens(vocabulary, frozenset(), True),
        screens=Screens.of(options.blocked, vocabulary, json=True, plain=True),
        doubtful=options.blocked is not None,
    )
