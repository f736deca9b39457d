"""Read grammars in GBNF, as llama.cpp and, as EBNF, XGrammar take them: `root ::= "a" | [b-z]+ # comment`.

A rule reaches to the next `name ::=`. What refers to no recursive rule becomes one automaton; other rules are parsed
(see `parsing`). Tokens by number or name (`<[12]>`, `<think>`) are terminals of their own. XGrammar's macros and
options of rules: see `gbnf_macros`. Its lookahead at the end of a rule promises what follows, enforces nothing, and
changes nothing here.
"""

from __future__ import annotations

import re
from typing import NoReturn

from sluicegate.grammar.automata.byte_level.json_strings import Spelling
from sluicegate.grammar.automata.charsets import EVERY, Ranges, negate, single, union
from sluicegate.grammar.automata.patterns.reader import Cursor
from sluicegate.grammar.automata.patterns.syntax import Alt, Chars, Node, Repeat, Seq, is_higher, sequence
from sluicegate.grammar.lark.extensions.tokens import TokenTerminals
from sluicegate.grammar.lark.gbnf_macros import MACROS, REFUSED, RuleOptions, limited, macro, options
from sluicegate.grammar.lark.regular import RuleRef, Rules
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.rules import Production
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar

ROOT = "root"
_RULE = re.compile(r"^[ \t]*[A-Za-z0-9_][\w-]*(?:\[[^\]\n]*\])?[ \t]*::=", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_DEFINES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\[[^\]\n]*\])?\s*::=")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_TOKEN = re.compile(r"<\[[^\]\n]*\]>|<[^<>\s\"]+>")
_SIMPLE = {"n": 10, "r": 13, "t": 9, "b": 8, "f": 12, "v": 11, "a": 7, "0": 0, "e": 27}
_HEX = {"x": 2, "u": 4, "U": 8}
_DEEPEST = 100
_HIGHEST = 300
"""Nodes below each other in the tree of a rule. Groups with an alternative and a repetition each take three; so only
what repeats a repetition can be higher."""


def is_gbnf(text: str) -> bool:
    """Return whether some line begins like a rule of GBNF, which no line of a Lark grammar does."""
    return _RULE.search(text) is not None


def read(text: str, spell: Spelling, tokens: TokenTerminals) -> tuple[list[Production], dict[str, DfaLexeme]]:
    """Return rules and lexemes; the first rule is `root`. Raises a `GrammarError` with line and column."""
    reader = _GbnfReader(text, tokens)
    trees = reader.rules()
    if ROOT not in trees:
        raise InvalidGrammar(f"the grammar has no rule {ROOT!r}; its rules are {', '.join(sorted(trees)[:20])}")
    for ref in reader.refs:
        if ref.name not in trees:
            reader.invalid(f"rule {ref.name!r} is used but not defined", at=ref.position)
    if reader.options:
        _limit(reader, trees, Rules(trees, spell, reader.lexemes, reader.options))
    return Rules(trees, spell, reader.lexemes).read(ROOT)


def _limit(reader: _GbnfReader, trees: dict[str, Node], read: Rules) -> None:
    """Put what rules read under their options in the place of their trees."""
    for name, asked in reader.options.items():
        texts = read.texts_of(name)
        if texts is None:
            reader.unsupported(
                "options of a rule that refers to a recursive one, to one that has options, to a token or to a macro "
                "beside others; give them to the texts in it",
                asked.at,
            )
        trees[name] = limited(texts, asked)


class _GbnfReader(Cursor):
    """Recursive descent over GBNF; errors say line and column."""

    __slots__ = ("lexemes", "options", "refs", "repeats_again", "tokens")

    def __init__(self, text: str, tokens: TokenTerminals) -> None:
        super().__init__(text)
        self.refs: list[RuleRef] = []
        self.tokens = tokens
        self.options: dict[str, RuleOptions] = {}
        self.lexemes: dict[str, DfaLexeme | None] = {}
        """Of tokens, as they are written; None: they end a text."""
        self.repeats_again = False
        """Whether some repetition repeats another one."""

    def placed(self, reason: str, at: int | None) -> str:
        position = self.position if at is None else at
        line = self.text.count("\n", 0, position) + 1
        return f"line {line}, column {position - self.text.rfind(chr(10), 0, position)}: {reason}"

    def invalid(self, reason: str, at: int | None = None) -> NoReturn:
        raise InvalidGrammar(self.placed(reason, at))

    def unsupported(self, what: str, at: int | None = None) -> NoReturn:
        raise UnsupportedGrammar(self.placed(f"not supported: {what}", at))

    def blank(self) -> None:
        found = _BLANK.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    def rules(self) -> dict[str, Node]:
        trees: dict[str, Node] = {}
        self.blank()
        while self.more():
            at = self.position
            name = self.name()
            if self.take("["):
                self.options[name] = options(self, at)
            self.blank()
            if not self.take("::="):
                self.invalid("expected ::= after the name of a rule")
            if name in trees:
                self.invalid(f"rule {name!r} is defined twice", at=at)
            trees[name] = self.alternatives(0)
            if self.repeats_again and is_higher(trees[name], _HIGHEST):
                raise GrammarLimit(
                    self.placed(
                        f"groups and repetitions of repetitions nest more than {_HIGHEST} deep in rule {name!r}; give "
                        "inner ones rules of their own",
                        at,
                    )
                )
            self.lookahead()
        return trees

    def lookahead(self) -> None:
        """Read what XGrammar's rules end with, `(= ...)`, and leave it out."""
        at = self.position
        if self.take("(="):
            self.alternatives(1)
            if not self.take(")"):
                self.invalid("this lookahead is never closed", at)
            self.blank()
            if self.more() and not _DEFINES.match(self.text, self.position):
                self.unsupported(
                    "a lookahead that is not the end of a rule; masks cannot take back what was written", at
                )

    def name(self) -> str:
        found = _NAME.match(self.text, self.position)
        if found is None:
            self.invalid(f"expected the name of a rule, found {self.text[self.position : self.position + 10]!r}")
        self.position = found.end()
        return found.group()

    def alternatives(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise GrammarLimit(
                self.placed(f"groups are nested more than {_DEEPEST} deep; give inner ones rules of their own", None)
            )
        ways = [self.sequence(depth)]
        while self.take("|"):
            ways.append(self.sequence(depth))
        return ways[0] if len(ways) == 1 else Alt(ways)

    def sequence(self, depth: int) -> Node:
        items: list[Node] = []
        self.blank()
        while self.more() and self.peek() not in "|)" and not _DEFINES.match(self.text, self.position):
            if self.peek_is("(="):
                break
            items.append(self.repeated(self.item(depth)))
            self.blank()
        return sequence(items) if items else Seq([])

    def item(self, depth: int) -> Node:
        at = self.position
        if self.take('"'):
            return self.literal(at)
        if self.take("["):
            return self.char_class(at)
        if self.take("."):
            return Chars(EVERY)
        if self.take("("):
            inner = self.alternatives(depth + 1)
            if not self.take(")"):
                self.invalid("this group is never closed", at)
            return inner
        if self.peek() in "<!":
            return self.token(at)
        ref = RuleRef(self.name(), at)
        if ref.name in MACROS and self.take("("):
            return macro(self, ref.name, at)
        if ref.name in REFUSED and self.peek_is("("):
            self.unsupported(f"{ref.name}(...); {REFUSED[ref.name]}", at)
        self.refs.append(ref)
        return ref

    def token(self, at: int) -> Node:
        """Read `<name>`, `<[5]>`, or one of them behind `!` and before `*` or `+`: text without it."""
        negative = self.take("!")
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            self.invalid("a token is written <name> or <[5]>", at)
        self.position = found.end()
        name = found[0] if not negative else f"!{found[0]}"
        try:
            if name not in self.lexemes:
                read = self.tokens.text_without if negative else self.tokens.lexeme
                self.lexemes[name] = read(found[0])
                if self.lexemes[name] is None:
                    self.tokens.ends.append(self.placed(found[0], at))
        except GrammarError as error:
            raise type(error)(self.placed(error.reason, at)) from error
        ref = RuleRef(name, at)
        if not negative:
            return ref
        if self.take("*"):
            return Repeat(ref, 0, 1)
        if not self.take("+"):
            self.unsupported(f"one token that is not {found[0]}: masks count characters; put * or + behind it", at)
        return ref

    def tokens_of(self, written: str, at: int) -> Node:
        """Return the node of one of the tokens of `<...>`."""
        try:
            if written not in self.lexemes:
                self.lexemes[written] = self.tokens.lexeme(written)
                if self.lexemes[written] is None:
                    self.tokens.ends.append(self.placed(written, at))
        except GrammarError as error:
            raise type(error)(self.placed(error.reason, at)) from error
        return RuleRef(written, at)

    def repeated(self, item: Node) -> Node:
        again = False
        while self.more():
            self.blank_in_line()
            if self.take("*"):
                item = Repeat(item, 0, None)
            elif self.take("+"):
                item = Repeat(item, 1, None)
            elif self.take("?"):
                item = Repeat(item, 0, 1)
            elif self.peek_is("{"):
                item = Repeat(item, *self.counts())
            else:
                break
            self.repeats_again |= again
            again = True
        return item

    def blank_in_line(self) -> None:
        while self.peek_is(" ") or self.peek_is("\t"):
            self.position += 1

    def counts(self) -> tuple[int, int | None]:
        found = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(?:-1|(\d*))\s*)?\}").match(self.text, self.position)
        if found is None:
            self.invalid("a repetition is {n}, {n,} or {n,m}")
        low = int(found[1][:9])
        high = int(found[3][:9]) if found[3] else None if found[2] else low
        if high is not None and high < low:
            self.invalid("the numbers of this repetition are out of order")
        self.position = found.end()
        return low, high

    # --- characters ---

    def literal(self, at: int) -> Node:
        items: list[Node] = [Chars(single(ord(char))) for char in self.quoted(at)]
        return sequence(items) if items else Seq([])

    def quoted(self, at: int | None = None) -> str:
        """Read a text behind its opening quote, which is `at`."""
        begun = self.position - 1 if at is None else at
        found: list[str] = []
        while not self.take('"'):
            if not self.more() or self.peek() == "\n":
                self.invalid("this text is never closed", begun)
            found.append(chr(self.character(begun)))
        return "".join(found)

    def char_class(self, at: int) -> Node:
        negative = self.take("^")
        pieces: list[Ranges] = []
        while not self.take("]"):
            begin = self.position
            low = high = self.character(at)
            if self.peek_is("-") and not self.peek_is("-]"):
                self.position += 1
                high = self.character(at)
            if high < low:
                self.invalid("this range runs backwards", begin)
            pieces.append(union([(low, high)]))
        found = union(*pieces) if pieces else ()
        return Chars(negate(found) if negative else found)

    def character(self, opened: int) -> int:
        at = self.position
        if not self.more():
            self.invalid("this is never closed", opened)
        char = self.next()
        if char != "\\":
            number = ord(char)
        elif not self.more():
            self.invalid("the grammar ends in a lone backslash", at)
        else:
            number = self.escaped(self.next(), at)
        if 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
            self.invalid("this is no character: a surrogate, or past U+10FFFF", at)
        return number

    def escaped(self, char: str, at: int) -> int:
        if char in _HEX:
            number = self.hexadecimal(_HEX[char])
            if number is None:
                self.invalid(f"\\{char} takes {_HEX[char]} hexadecimal digits", at)
            return number
        if char.isalnum() and char not in _SIMPLE:
            self.invalid(f"unknown escape \\{char}", at)
        return _SIMPLE.get(char, ord(char))
