"""Read what XGrammar's EBNF has beside GBNF: `Regex(...)`, `Substring(...)`, `TagDispatch(...)`, `Token(...)`, and the
options of a rule, as `name[max_tokens=9] ::= ...`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from sluicegate.grammar.automata import CharDfa, occurrences
from sluicegate.grammar.automata.patterns.syntax import Alt, Node, Repeat, Seq
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.grammar.lark.extensions.substrings import substrings
from sluicegate.grammar.lark.regular import RuleRef, Texts
from sluicegate.grammar.lark.texts import ended_at_once
from sluicegate.plugins.errors import GrammarError

MACROS = ("Regex", "Substring", "TagDispatch", "Token")
REFUSED = {
    "ExcludeToken": "write !<[5]>* or !<name>*",
    "TokenTagDispatch": "masks are made of texts: use TagDispatch with the texts of these tokens",
}
"""What XGrammar reads besides, and what to write."""
_DEEPEST = 2
"""Lists inside lists."""
_INLINE_FLAGS = re.compile(r"\(\?([is]+)\)")
_PLAIN = r"[^\x00-\x1f\"\\]*"
_REFUSED_OPTIONS = {
    "capture": "answers are not cut into parts",
    "temperature": "an answer has one temperature, that of its request",
}
_BUDGET = Budget(max_states=20_000, max_seconds=2.0)


class MacroReader(Protocol):
    """What reads a grammar, see `gbnf`."""

    refs: list[RuleRef]

    def take(self, expected: str) -> bool: ...
    def blank(self) -> None: ...
    def name(self) -> str: ...
    def digits(self) -> str: ...
    def quoted(self) -> str: ...
    def tokens_of(self, written: str, at: int) -> Node: ...
    def placed(self, reason: str, at: int | None) -> str: ...
    def invalid(self, reason: str, at: int | None = None) -> NoReturn: ...
    def unsupported(self, what: str, at: int | None = None) -> NoReturn: ...
    @property
    def position(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """`at`: where the rule is named."""

    at: int
    lazy: bool = False
    max_tokens: int | None = None
    max_chars: int | None = None


# --- macros -----------------------------------------------------------------------------------------------------------


def macro(reader: MacroReader, name: str, at: int) -> Node:
    """Read a call of a macro behind its opening bracket."""
    given, named = _arguments(reader, at)
    read = {"Regex": _regex, "Substring": _substring, "TagDispatch": _tag_dispatch, "Token": _token}[name]
    try:
        return read(reader, given, named, at)
    except GrammarError as error:
        if error.reason.startswith("line "):
            raise
        raise type(error)(reader.placed(f"{name}: {error.reason}", at)) from error


def _arguments(reader: MacroReader, at: int) -> tuple[list[Any], dict[str, Any]]:
    given: list[Any] = []
    named: dict[str, Any] = {}
    reader.blank()
    while not reader.take(")"):
        if (given or named) and not reader.take(","):
            reader.invalid("the arguments of a macro are separated by commas, and end with )", at)
        reader.blank()
        value = _value(reader)
        reader.blank()
        if isinstance(value, RuleRef) and reader.take("="):
            reader.blank()
            named[value.name] = _value(reader)
            reader.blank()
        else:
            given.append(value)
    return given, named


def _value(reader: MacroReader, depth: int = 0) -> Any:
    """Read a text, a number, true, false, a list in brackets, or the name of a rule."""
    at = reader.position
    if reader.take('"'):
        return reader.quoted()
    if depth < _DEEPEST and reader.take("("):
        found: list[Any] = []
        reader.blank()
        while not reader.take(")"):
            if found and not reader.take(","):
                reader.invalid("a list is written (a, b)", at)
            reader.blank()
            if reader.take(")"):
                break
            found.append(_value(reader, depth + 1))
            reader.blank()
        return found
    number = reader.digits()
    if number:
        return int(number[:9])
    name = reader.name()
    return {"true": True, "false": False}.get(name, RuleRef(name, at))


def _only(reader: MacroReader, named: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], at: int) -> None:
    for name, value in named.items():
        if name not in known:
            reader.invalid(f"unknown argument {name!r}; known are {', '.join(known) or 'none with a name'}", at)
        if not isinstance(value, known[name]):
            reader.invalid(f"the argument {name} has another form", at)


def _regex(reader: MacroReader, given: list[Any], named: dict[str, Any], at: int) -> Node:
    _only(reader, named, {"flags": (str,), "json_string": (bool,)}, at)
    if len(given) != 1 or not isinstance(given[0], str):
        reader.invalid('Regex takes one expression, as in Regex("[0-9]+")', at)
    flags = named.get("flags", "s")
    pattern = given[0]
    inline = _INLINE_FLAGS.match(pattern)
    if inline is not None:
        pattern, flags = pattern[inline.end() :], flags + inline[1]
    if set(flags) - set("isu"):
        reader.invalid(f"the flags of an expression are i, s and u, not {flags!r}", at)
    every = f"(?s:{pattern})" if "s" in flags else f"(?:{pattern})"
    texts = CharDfa.from_pattern(every, dialect="ecma", anchored=True, ignore_case="i" in flags)
    if named.get("json_string"):
        texts = texts.intersection(CharDfa.from_pattern(_PLAIN, dialect="python", anchored=True))
    return Texts(texts)


def _substring(reader: MacroReader, given: list[Any], named: dict[str, Any], at: int) -> Node:
    _only(reader, named, {}, at)
    if not all(isinstance(chunk, str) for chunk in given):
        reader.invalid('Substring takes texts, as in Substring("a", "b")', at)
    return Texts(substrings(given))


def _token(reader: MacroReader, given: list[Any], named: dict[str, Any], at: int) -> Node:
    _only(reader, named, {}, at)
    if not given or not all(type(number) is int for number in given):
        reader.invalid("Token takes numbers of tokens, as in Token(5, 7)", at)
    return reader.tokens_of(f"<[{','.join(map(str, given))}]>", at)


def _tag_dispatch(reader: MacroReader, given: list[Any], named: dict[str, Any], at: int) -> Node:
    """Read free text in which each tag begins its rule."""
    _only(reader, named, {"loop_after_dispatch": (bool,), "excludes": (list, str)}, at)
    excludes = named.get("excludes", [])
    excludes = tuple([excludes] if isinstance(excludes, str) else excludes)
    if not all(isinstance(text, str) and text for text in excludes):
        reader.invalid("excludes are texts that are not empty", at)
    rules: dict[str, RuleRef] = {}
    for pair in given:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[0]):
            reader.invalid('TagDispatch takes pairs of a text and a rule, as in ("<tool>", call)', at)
        if not isinstance(pair[1], RuleRef) or pair[0] in rules:
            reader.invalid(f"each text of TagDispatch leads to one rule; {pair[0]!r} does not", at)
        rules[pair[0]] = pair[1]
    for tag in rules:
        if any(tag != other and other in tag for other in rules):
            reader.unsupported(f"the tag {tag!r} holds another one, at which it would end; make them differ", at)
    tags = tuple(tag for tag in rules if not any(text in tag for text in excludes))
    reader.refs += rules.values()
    stops = (*rules, *occurrences.needed(excludes, tuple(rules)))
    called: list[Node] = [
        Seq([Texts(occurrences.until(tag, tuple(each for each in stops if each != tag))), rules[tag]]) for tag in tags
    ]
    free = Texts(occurrences.without(stops) if stops else CharDfa.any_string())
    if named.get("loop_after_dispatch", True):
        return Seq([Repeat(Alt(called), 0, None), free]) if called else free
    return Alt([*called, free])


# --- options of a rule ------------------------------------------------------------------------------------------------


def options(reader: MacroReader, at: int) -> RuleOptions:
    """Read the options of a rule behind their opening bracket."""
    given: dict[str, Any] = {}
    reader.blank()
    while not reader.take("]"):
        if given and not reader.take(","):
            reader.invalid("the options of a rule are separated by commas, and end with ]", at)
        reader.blank()
        place = reader.position
        name = reader.name()
        if name in _REFUSED_OPTIONS:
            reader.unsupported(f"the option {name}: {_REFUSED_OPTIONS[name]}; leave it out", place)
        if name not in ("lazy", "max_tokens", "max_chars"):
            reader.invalid(f"unknown option {name!r}; read are lazy, max_tokens=NUMBER and max_chars=NUMBER", place)
        if name in given:
            reader.invalid(f"the option {name} stands here twice", place)
        number = reader.digits() if reader.take("=") else None
        if (number is None) is not (name == "lazy") or number == "":
            reader.invalid("options are written lazy, max_tokens=9 and max_chars=9", place)
        given[name] = True if number is None else int(number[:9])
        reader.blank()
    return RuleOptions(at, **given)


def limited(texts: CharDfa, asked: RuleOptions) -> Node:
    """Return what a rule of `texts` reads under its options. Raises `GrammarLimit`."""
    if asked.lazy:
        texts = ended_at_once(texts)
    if asked.max_chars is not None:
        texts = ended_after(texts, asked.max_chars)
    if asked.max_tokens == 0:
        return Texts(CharDfa.from_literal(""))
    return Texts(texts, asked.max_tokens)


def ended_after(texts: CharDfa, most: int) -> CharDfa:
    """Return the texts that end where they first may once they have `most` characters."""
    table, meter = texts.table, WorkMeter(_BUDGET, "count of characters")
    numbers = {(table.start, 0): 0}
    rows: list[dict[int, int]] = []
    accepting: list[bool] = []
    for state, size in (pending := [(table.start, 0)]):
        meter.states()
        accepting.append(table.accepting[state])
        row: dict[int, int] = {}
        for c, target in {} if size == most and accepting[-1] else table.rows[state].items():
            after = target, min(size + 1, most)
            if after not in numbers:
                numbers[after] = len(numbers)
                pending.append(after)
            row[c] = numbers[after]
        rows.append(row)
    return CharDfa(minimal(Table(table.starts, table.classes, rows, accepting), meter))
