"""Read the usual subset of Lark's notation without Lark's own loader, which takes a tenth of a second for a large
grammar.

The result is that of the loader: expanded alternatives, a rule for each repetition, terminals with the same names.
Raises `Unread` for everything else, including mistakes, which the loader then reads or refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from lark.lexer import Pattern, TerminalDef

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lark.literals import GrammarPart, Unread, common, composed, literal, name_of, names_in
from sluicegate.grammar.parsing.rules import Production, Symbol
from sluicegate.plugins.errors import GrammarLimit

_TOKEN = re.compile(
    r"""(?: [ \t]++ | //[^\n]*+ | \#[^\n]*+ )*+ (?:
        (?P<line> \n )
      | (?P<string> "(?:\\"|\\\\|[^"\n])*?"i? )
      | (?P<regex> /(?!/)(?:\\/|\\\\|[^/])*?/[imslux]* )
      | (?P<rule> _?[a-z][_a-z0-9]*(?![\w{]) )
      | (?P<terminal> _?[A-Z][_A-Z0-9]*(?![\w{]) )
      | (?P<number> [+-]?\d+ )
      | (?P<statement> %(?:ignore|import)\b )
      | (?P<arrow> -> )
      | (?P<mark> \.\. | [?](?![a-z_]) | [!?]{1,2}(?=[_a-z]) | [:|()\[\]*+~.,] )
      | (?P<end> \Z )
      | (?P<other> . ) )""",
    re.VERBOSE,
)
_COUNTS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_DEEPEST = 40
_LONGEST_REPEAT = 50
"""Longer ones Lark cuts into rules."""
_MOST_SYMBOLS = 100_000
"""Of the alternatives of one rule, written out."""
_SINGLE = frozenset({"name", "string", "regex", "range"})
"""Kinds of parts that are one symbol."""
Way = tuple[Symbol, ...]


class LoadedGrammar(NamedTuple):
    terminals: list[TerminalDef]
    rules: list[Production]
    ignored: list[str]


def read_plain(text: str, too_long: Callable[[str, str], NoReturn]) -> LoadedGrammar:
    """Return the terminals and rules of `text`. `too_long`: raises for a terminal, with the reason."""
    if "\r" in text:
        raise Unread
    statements = _Statements(_SourceTokens(text))
    return _Loader(statements, too_long).loaded()


class _SourceTokens:
    """The tokens of a grammar. A line break before `|` is skipped."""

    def __init__(self, text: str) -> None:
        tokens: list[tuple[str, str]] = [("line", "\n")]
        for found in _TOKEN.finditer(text):
            kind = found.lastgroup or ""
            if kind == "end":
                break
            if kind == "other":
                raise Unread
            token = found[kind]
            if (kind == "line" or token == "|") and tokens[-1][0] == "line":
                tokens.pop()
            tokens.append((kind, token))
        tokens.append(("line", "\n"))
        self._tokens = tokens
        self._move(1)

    def _move(self, at: int) -> None:
        self._next = at
        self.more = at < len(self._tokens)
        self.kind, self.text = self._tokens[at] if self.more else ("", "")

    def take(self, kind: str) -> str:
        if self.kind != kind:
            raise Unread
        text = self.text
        self._move(self._next + 1)
        return text

    def takes(self, mark: str) -> bool:
        if self.text != mark or self.kind != "mark":
            return False
        self._move(self._next + 1)
        return True


class _Statements:
    """The definitions of a grammar. `strict`: Lark refuses alternatives that come out alike."""

    def __init__(self, tokens: _SourceTokens) -> None:
        self._tokens = tokens
        self.rules: dict[str, GrammarPart] = {}
        self.terminals: dict[str, GrammarPart | Pattern] = {}
        self.ignored: list[str] = []
        self.strict = False
        while tokens.more:
            if tokens.kind == "line":
                tokens.take("line")
            elif tokens.kind == "statement":
                self._statement(tokens.take("statement"))
            else:
                self._definition()

    def _statement(self, kind: str) -> None:
        if kind == "%import":
            self._imported()
            return
        body = self._alternatives(0)
        while body.kind in ("either", "row") and len(body.items) == 1:
            body = body.items[0]
        name = body.text if body.kind == "name" else f"__IGNORE_{len(self.ignored)}"
        if body.kind != "name":
            self.terminals[name] = body
        self.ignored.append(name)
        self._tokens.take("line")

    def _imported(self) -> None:
        tokens = self._tokens
        if tokens.take("rule") != "common":
            raise Unread
        if tokens.takes("."):
            name = tokens.take("terminal")
            new = name
            if tokens.kind == "arrow":
                tokens.take("arrow")
                new = tokens.take("terminal")
            self._define(self.terminals, new, common(name))
        elif tokens.takes("("):
            while not tokens.takes(")"):
                name = tokens.take("terminal")
                self._define(self.terminals, name, common(name))
                if not tokens.takes(",") and tokens.text != ")":
                    raise Unread
        tokens.take("line")

    def _definition(self) -> None:
        tokens = self._tokens
        modified = tokens.kind == "mark" and tokens.text in ("?", "!", "?!", "!?")
        if modified:
            tokens.take("mark")
        is_rule = tokens.kind == "rule"
        name = tokens.take("rule" if is_rule or modified else "terminal")
        if tokens.takes("."):
            tokens.take("number")
        if not tokens.takes(":"):
            raise Unread
        body = self._alternatives(0, name if is_rule else "")
        tokens.take("line")
        if is_rule:
            self._define(self.rules, name, body)
        else:
            self._define(self.terminals, name, body)

    def _define(
        self, known: dict[str, GrammarPart] | dict[str, GrammarPart | Pattern], name: str, body: GrammarPart | Pattern
    ) -> None:
        if name in known:
            raise Unread
        known[name] = body  # type: ignore[assignment]  # rules are given no patterns

    # --- bodies -------------------------------------------------------------------------------------------------------

    def _alternatives(self, depth: int, rule: str = "") -> GrammarPart:
        tick()
        if depth > _DEEPEST:
            raise Unread
        rows = [self._row(depth, rule)]
        while self._tokens.takes("|"):
            rows.append(self._row(depth, rule))
        return GrammarPart("either", tuple(rows))

    def _row(self, depth: int, rule: str) -> GrammarPart:
        tokens = self._tokens
        items: list[GrammarPart] = []
        while tokens.kind in ("string", "regex", "rule", "terminal") or tokens.text in ("(", "["):
            items.append(self._repeated(self._item(depth)))
        if tokens.kind == "arrow":
            if not rule or rule.startswith("_"):
                raise Unread
            tokens.take("arrow")
            tokens.take("rule")
            self.strict = True
        if not items and not rule:
            raise Unread
        return GrammarPart("row", tuple(items))

    def _item(self, depth: int) -> GrammarPart:
        tokens = self._tokens
        kind = tokens.kind
        if kind == "mark":
            return self._group(depth)
        text = tokens.take(kind)
        if kind == "string" and tokens.takes(".."):
            return GrammarPart(
                "range", (GrammarPart("string", text=text), GrammarPart("string", text=tokens.take("string")))
            )
        return GrammarPart("name" if kind in ("rule", "terminal") else kind, text=text)

    def _group(self, depth: int) -> GrammarPart:
        tokens = self._tokens
        opening = tokens.take("mark")
        inner = self._alternatives(depth + 1)
        if not tokens.takes(")" if opening == "(" else "]"):
            raise Unread
        self.strict |= opening == "["
        return inner if opening == "(" else GrammarPart("maybe", (inner,))

    def _repeated(self, item: GrammarPart) -> GrammarPart:
        tokens = self._tokens
        if tokens.kind != "mark":
            return item
        counts = _COUNTS.get(tokens.text)
        if counts is not None:
            tokens.take("mark")
            return GrammarPart("repeated", (item,), "", *counts)
        if not tokens.takes("~"):
            return item
        low = most = int(tokens.take("number"))
        if tokens.takes(".."):
            most = int(tokens.take("number"))
        if not 0 <= low <= most < _LONGEST_REPEAT:
            raise Unread
        return GrammarPart("repeated", (item,), "", low, most)


class _Loader:
    """Writes rules out."""

    def __init__(self, statements: _Statements, too_long: Callable[[str, str], NoReturn]) -> None:
        self._statements = statements
        self._too_long = too_long
        self._patterns: dict[str, Pattern] = {}
        self._open: set[str] = set()
        self._named: dict[tuple[type, str, frozenset[str]], str] = {}
        self._rules: list[Production] = []
        self._repeats: dict[tuple[Way, ...], str] = {}
        self._symbols: dict[str, Symbol] = {}
        self._unnamed = 0

    def loaded(self) -> LoadedGrammar:
        given = self._statements
        for name in given.terminals:
            pattern = self._pattern(name)
            self._named[_key(pattern)] = name
        for name, body in given.rules.items():
            ways = self._ways(body, name)
            if given.strict and len(set(filter(None, ways))) < len(list(filter(None, ways))):
                raise Unread
            self._rules += [Production(name, way) for way in dict.fromkeys(ways)]
        rules, used = self._reached()
        used.update(given.ignored)
        if not used <= self._patterns.keys():
            raise Unread
        return LoadedGrammar(
            [TerminalDef(name, pattern) for name, pattern in self._patterns.items() if name in used],
            rules,
            given.ignored,
        )

    def _reached(self) -> tuple[list[Production], set[str]]:
        """Return the rules that `start` leads to, and the names of the terminals in them."""
        by_origin: dict[str, set[Symbol]] = {}
        for rule in self._rules:
            by_origin.setdefault(rule.origin, set()).update(rule.expansion)
        reached, used = {"start"}, set[str]()
        pending = ["start"]
        while pending:
            for is_terminal, name in by_origin.get(pending.pop(), ()):
                if is_terminal:
                    used.add(name)
                elif name not in reached:
                    reached.add(name)
                    pending.append(name)
        if not reached <= by_origin.keys():
            raise Unread
        return [rule for rule in self._rules if rule.origin in reached], used

    # --- terminals ----------------------------------------------------------------------------------------------------

    def _pattern(self, name: str) -> Pattern:
        """Return the pattern of a terminal; those that it refers to are made first, one after the other: a chain of
        them may be as long as a grammar."""
        if name not in self._patterns:
            pending = [(name, self._named_by(name))]
            while pending:
                at, others = pending[-1]
                other = next((each for each in others if each not in self._patterns), None)
                if other is not None:
                    pending.append((other, self._named_by(other)))
                    continue
                body = self._statements.terminals[at]
                self._patterns[at] = self._composed(at, body) if isinstance(body, GrammarPart) else body
                pending.pop()
        return self._patterns[name]

    def _named_by(self, name: str) -> Iterator[str]:
        """Return the names of the terminals that `name`, which is not made yet, refers to."""
        body = self._statements.terminals.get(name)
        if body is None or name in self._open:
            raise Unread
        self._open.add(name)
        return iter(names_in(body) if isinstance(body, GrammarPart) else ())

    def _composed(self, name: str, body: GrammarPart) -> Pattern:
        try:
            return composed(body, self._patterns)
        except GrammarLimit as error:
            self._too_long(name, error.reason)

    def _literal(self, part: GrammarPart) -> Symbol:
        pattern = literal(part)
        key = _key(pattern)
        name = self._named.get(key)
        if name is None:
            name = name_of(pattern, self._patterns)
            if name is None:
                name = f"__ANON_{self._unnamed}"
                self._unnamed += 1
            self._patterns[name] = pattern
            self._named[key] = name
        return True, name

    # --- rules --------------------------------------------------------------------------------------------------------

    def _ways(self, part: GrammarPart, rule: str) -> list[Way]:
        """Return the alternatives of `part` of the body of `rule`; the same one may stand there twice."""
        kind = part.kind
        if kind in _SINGLE:
            return [(self._symbol(part),)]
        tick()
        if kind == "either":
            return [way for item in part.items for way in self._ways(item, rule)]
        if kind == "row":
            return self._row(part, rule)
        inner = list(dict.fromkeys(self._ways(part.items[0], rule)))
        if kind == "maybe" or (part.low, part.high) == (0, 1):
            return [*inner, ()]
        if part.high is None:
            repeated: list[Way] = [((False, self._repeat(inner, rule)),)]
            return [*repeated, ()] if part.low == 0 else repeated
        return [way for count in range(part.low, part.high + 1) for way in _joined([inner] * count)]

    def _row(self, part: GrammarPart, rule: str) -> list[Way]:
        parts: list[list[Way]] = []
        run: list[Symbol] = []  # what stands side by side in one way is put together first
        for item in part.items:
            if item.kind in _SINGLE:
                run.append(self._symbol(item))
                continue
            if run:
                parts.append([tuple(run)])
                run = []
            parts.append(self._ways(item, rule))
        if run:
            parts.append([tuple(run)])
        return parts[0] if len(parts) == 1 and len(part.items) < _MOST_SYMBOLS else _joined(parts)

    def _symbol(self, part: GrammarPart) -> Symbol:
        known = self._symbols.get(part.text)
        if known is not None and part.text:
            return known
        if part.kind == "name":
            is_terminal = part.text.isupper()
            if part.text not in (self._statements.terminals if is_terminal else self._statements.rules):
                raise Unread
            found = is_terminal, part.text
        else:
            found = self._literal(part)
        if part.text:  # with its quotes or slashes; a range has none
            self._symbols[part.text] = found
        return found

    def _repeat(self, inner: list[Way], rule: str) -> str:
        """Return the name of the rule for one or more of `inner`."""
        name = self._repeats.get(tuple(inner))
        if name is None:
            name = self._repeats[tuple(inner)] = f"__{rule}_plus_{len(self._repeats)}"
            again = [((False, name), *way) for way in inner]
            self._rules += [Production(name, way) for way in dict.fromkeys([*inner, *again])]
        return name


def _joined(parts: list[list[Way]]) -> list[Way]:
    """Return one alternative of each part in a row, in all ways."""
    ways: list[Way] = [()]
    for part in parts:
        tick()
        symbols = len(part) * sum(map(len, ways)) + len(ways) * sum(map(len, part))
        if symbols > _MOST_SYMBOLS:
            raise Unread
        ways = [(*way, *more) for way in ways for more in part]
    return ways


def _key(pattern: Pattern) -> tuple[type, str, frozenset[str]]:
    return type(pattern), pattern.value, frozenset(pattern.flags)
