"""Rewrite a grammar in Lark's or llguidance's notation into one that Lark reads, and map its errors back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from sluicegate.grammar.lark.definitions import Definition, definitions, solid
from sluicegate.grammar.lark.extensions.parameters import Parameters, Reference
from sluicegate.grammar.lark.pieces import GrammarPiece, counts, pieces_of, refuse_malformed
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar

_NAMED = (
    r"TerminalDef\('(\w+)'",
    r"Terminals? \{?'(\w+)'",
    r"not defined: (\w+)",
    r"'(\w+)'",
    r"[Rr]ule (\w+)",
    r"(\d+\.\.\d+)",
    r"(\"\")",
)
MARK = "\uf8ff"
_NO_TEXT = "_no_text_at_all"
_AT = re.compile(r"(?:, )?\bat line (\d+) column (\d+)(?: in <string>)?")
_REFUSED = {
    "declare": "give the terminal a pattern: a declared one has none",
}
_ATTRIBUTES = {
    "capture": "answers are not cut into parts: give the part a field of a JSON schema, or a tag of a structural tag",
    "stop_capture": "answers are not cut into parts",
    "temperature": "one temperature holds for a whole answer: set it in the request",
}
_HEADER = {"no_forcing": (True, False), "allow_initial_skip": (True,)}
"""Options and the values that change nothing here."""
_MOST_TIMES = 1_000
_LONGEST_NUMBER = 9
_NO_TERMINALS = frozenset({"json", "lark", "parameter", "if", "special", "grammar"})


@dataclass(frozen=True, slots=True)
class Composed:
    """A terminal that Lark cannot read: the pieces of its body, and how it ends. `at`: its offset."""

    body: list[GrammarPiece]
    at: int
    lazy: bool = False
    suffix: list[GrammarPiece] | None = None
    stop: list[GrammarPiece] | None = None
    most_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Out:
    text: str
    at: int


class Source:
    """`text`: what Lark reads, with a terminal for each `%json {...}` and for each one of `composed`.

    `schemas`: schemas and their offsets in what was written, by the name of the terminal; `grammars`: likewise those of
    `%lark`, and `tokens` as `<...>`. `imports`: lines that import from Lark's library.
    """

    def __init__(self, written: str) -> None:
        self.written = written
        self.schemas: dict[str, tuple[Any, int]] = {}
        self.grammars: dict[str, tuple[str, int]] = {}
        self.tokens: dict[str, tuple[str, int]] = {}
        self.parameters = Parameters(set(), {}, {})
        self.composed: dict[str, Composed] = {}
        self.pieces = list(pieces_of(written, self.refuse))
        refuse_malformed(self.pieces, written, self.refuse)
        self.definitions = definitions(self.pieces, written)
        self.imports = self._imports()
        self._names = self._renamed()
        self._check_parameters()
        out = self._rewritten()
        marked = (*self.schemas, *self.grammars, *self.tokens, *self.parameters.conditions, *self._anonymous)
        ends = [f'\n{name}: "{marker(name)}"' for name in marked]
        ends += [f"\n{name}: {found.rule}" for name, found in self.parameters.references.items()]
        ends += [f"\n{_NO_TEXT}:\n"] if any(part.text == _NO_TEXT for part in out) else []
        self.text = "".join([*(part.text for part in out), *ends])
        self._cuts = self._placed_cuts(out)

    @classmethod
    def plain(cls, written: str) -> Source:
        """Return the source of a grammar that needs no rewriting."""
        made = cls.__new__(cls)
        made.written = made.text = written
        made.schemas, made.composed, made.pieces, made.definitions, made.imports = {}, {}, [], [], []
        made.grammars, made.tokens, made.parameters = {}, {}, Parameters(set(), {}, {})
        made._names, made._cuts = {}, [(0, 0)]
        return made

    def _placed_cuts(self, out: list[_Out]) -> list[tuple[int, int]]:
        cuts, size = [(0, 0)], 0
        for part in out:
            cuts.append((size, part.at))
            size += len(part.text)
        return cuts

    def _imports(self) -> list[str]:
        """Return the lines that import from Lark's library. Raises `UnsupportedGrammar` for other imports."""
        found = []
        for piece in self.pieces:
            if piece.kind != "directive" or piece.text != "%import":
                continue
            line = self.written[piece.at :].split("\n", 1)[0]
            source = re.match(r"%import[ \t]*([^\s(>]*)", line)
            assert source is not None
            if not re.fullmatch(r"common(\.\w+)?", source[1]):
                what = f"%import {source[1]} reads a file; only %import common.* is allowed"
                self.refuse(UnsupportedGrammar, what, piece.at)
            found.append(line)
        return found

    def _renamed(self) -> dict[str, str]:
        """Return new names for those with hyphens, which Lark does not read."""
        written = {piece.text for piece in self.pieces if piece.kind in ("name", "parameter")}
        found: dict[str, str] = {}
        for name in sorted(name for name in written if "-" in name):
            new = name.replace("-", "_")
            while new in written:
                new += "_"
            written.add(new)
            found[name] = new
        return found

    def _check_parameters(self) -> None:
        """Note the rules with a parameter. Raises `InvalidGrammar` where one is missing, or is one too many."""
        found = {each.name: each for each in self.definitions}
        having = {name for name, each in found.items() if self.pieces[each.first].value}
        self.parameters.rules |= having
        for each in self.definitions:
            for piece in self.pieces[each.body : each.last]:
                if each.is_terminal and piece.kind in ("parameter", "if"):
                    self.refuse(InvalidGrammar, "parameters can stand in rules only, not in terminals", piece.at)
                inherits = piece.kind == "if" or (piece.kind == "parameter" and not piece.value[1])
                if inherits and each.name not in having:
                    what = f"the rule {each.name!r} has no parameter to use; define it as {each.name}::_"
                    self.refuse(InvalidGrammar, what, piece.at)
                if piece.kind == "parameter" and piece.text in found and piece.text not in having:
                    what = f"the rule {piece.text!r} has no parameter; define it as {piece.text}::_"
                    self.refuse(InvalidGrammar, what, piece.at)
                if piece.kind == "name" and piece.text in having:
                    what = f"the rule {piece.text!r} needs a parameter, as in {piece.text}::0"
                    self.refuse(InvalidGrammar, what, piece.at)

    # --- rewriting ----------------------------------------------------------------------------------------------------

    def _rewritten(self) -> list[_Out]:
        self._anonymous: list[str] = []
        odd = self._odd_terminals()
        out: list[_Out] = []
        at = 0
        for each in self.definitions:
            out += self._parts(self.pieces[at : each.first], True)
            ended = self._ended(each)
            if ended is not None or each.name in odd:
                name = self._own(each) if ended is None else self._ended_terminal(ended)
                out += [
                    *self._parts(self.pieces[each.first : each.first + 1], True),
                    _Out(f": {name}\n", self.pieces[each.first].at),
                ]
            else:
                skipped = each.attributes if each.attributes[0] >= 0 else (0, 0)
                head = [p for p in self.pieces[each.first : each.body] if not skipped[0] <= p.at < skipped[1]]
                out += [_Out(self._names.get(p.text, p.text), p.at) for p in head]
                out += self._parts(self.pieces[each.body : each.last], each.is_terminal)
            at = each.last
        return out + self._parts(self.pieces[at:], True)

    def _odd_terminals(self) -> set[str]:
        """Return the terminals that Lark cannot read, and those made of them."""
        bodies = {each.name: solid(self.pieces[each.body : each.last]) for each in self.definitions if each.is_terminal}
        odd = {name for name, body in bodies.items() if any(map(_is_odd, body)) or _negates(body)}
        while more := {
            name
            for name, body in bodies.items()
            if name not in odd and any(p.kind == "name" and p.text in odd for p in body)
        }:
            odd |= more
        return odd

    def _own(self, each: Definition) -> str:
        """Compile terminal `each` ourselves; return the placeholder body for Lark."""
        name = self._names.get(each.name, each.name)
        self.composed[name] = Composed(solid(self.pieces[each.body : each.last]), self.pieces[each.first].at)
        return f'"{marker(name)}"'

    def _anonymous_terminal(self, kind: str, composed: Composed) -> str:
        name = f"{kind}_OF_LINE_{self._line(composed.at)[0]}_{len(self.composed)}"
        self.composed[name] = composed
        self._anonymous.append(name)
        return name

    def _ended_terminal(self, composed: Composed) -> str:
        return self._anonymous_terminal("ENDED", composed)

    def _ended(self, each: Definition) -> Composed | None:
        """Read the attributes of a rule; None where they change nothing."""
        begin, end = each.attributes
        if begin < 0:
            return None
        at = self.pieces[each.first].at
        body = solid(self.pieces[each.body : each.last])
        given: dict[str, list[GrammarPiece]] = {}
        for part in _split([p for p in self.pieces if begin < p.at < end - 1], ","):
            name = self._attribute(part, begin)
            given[name] = part[2:]
        stop = given.get("stop")
        if _is_empty_text(stop):
            if given.keys() == {"stop"}:
                return None
            stop = None
        most = self._most_tokens(given, body, begin) if "max_tokens" in given else None
        return Composed(body, at, "lazy" in given, given.get("suffix"), stop, most)

    def _most_tokens(self, given: dict[str, list[GrammarPiece]], body: list[GrammarPiece], at: int) -> int:
        """Return the number of `max_tokens`. Raises where nothing says how the rule ends early."""
        value = given["max_tokens"]
        if len(value) != 1 or value[0].kind != "number" or len(value[0].text) > _LONGEST_NUMBER:
            self.refuse(InvalidGrammar, "max_tokens is a whole number, as in max_tokens=400", at)
        if "suffix" in given:
            what = (
                "max_tokens with suffix: a text that ends early has none; write stop= in place of suffix=, and the "
                "suffix behind the name of the rule"
            )
            self.refuse(UnsupportedGrammar, what, at)
        inner = next((piece for piece in body if piece.kind in _NO_TERMINALS or _is_rule(piece)), None)
        if inner is not None:
            what = (
                "max_tokens stands at a rule that is a terminal, as in text[max_tokens=9]: /[a-z ]*/; rules and values "
                "cannot end in their middle: give max_tokens to the texts in them, or maxLength in a schema"
            )
            self.refuse(UnsupportedGrammar, what, inner.at)
        return int(value[0].text)

    def _attribute(self, part: list[GrammarPiece], begin: int) -> str:
        """Return the name of one attribute. Raises for those that are not enforced."""
        name, at = (part[0].text, part[0].at) if part else ("", begin)
        if name in _ATTRIBUTES:
            self.refuse(UnsupportedGrammar, f"the attribute {name} is not supported; {_ATTRIBUTES[name]}", at)
        if name == "lazy" and len(part) == 1:
            return name
        if name in ("stop", "suffix", "max_tokens") and len(part) > 2 and part[1].text == "=":
            return name
        what = f"unknown attribute {name!r}; read are lazy, stop=TERMINAL, suffix=TERMINAL and max_tokens=NUMBER"
        return self.refuse(InvalidGrammar, what, at)

    def _parts(self, pieces: list[GrammarPiece], in_terminal: bool) -> list[_Out]:
        """Rewrite `pieces` of a body, or of what is outside of all."""
        out: list[_Out] = []
        opened: list[int] = []
        atom = 0
        for piece in pieces:
            begins = len(out)
            if piece.text in ("(", "["):
                opened.append(begins)
            elif piece.text in (")", "]"):
                atom = opened.pop() if opened else begins
            elif piece.kind == "counts":
                out[atom:] = self._counted(out[atom:], piece)
                continue
            elif piece.kind in ("string", "regex", "name", "json", "regex_value", "lark", "parameter", "special"):
                atom = begins
            out += self._part(piece, in_terminal)
        return out

    def _part(self, piece: GrammarPiece, in_terminal: bool) -> list[_Out]:
        text = piece.text
        if piece.kind == "name":
            text = self._names.get(text, text)
        elif piece.kind == "json":
            name = f"JSON_SCHEMA_OF_LINE_{self._line(piece.at)[0]}_{len(self.schemas)}"
            self.schemas[name] = piece.value, piece.at
            text = f" {name} "
        elif piece.kind in ("lark", "parameter", "if", "special"):
            text = f" {self._placeholder(piece, in_terminal)} "
        elif piece.kind == "regex_value" and not in_terminal:
            text = f" {self._anonymous_terminal('REGEX', Composed([piece], piece.at))} "
        elif piece.kind == "llguidance":
            self._check_header(piece)
            text = ""
        elif piece.kind == "string" and text == '""':
            return [_Out(" ", piece.at), _Out("/(?:)/" if in_terminal else _NO_TEXT, piece.at), _Out(" ", piece.end)]
        elif piece.kind == "grammar":
            what = "another grammar cannot be referred to; write it into this one with %lark, or %json and its schema"
            self.refuse(UnsupportedGrammar, what, piece.at)
        elif piece.kind == "directive" and text[1:] in _REFUSED:
            self.refuse(UnsupportedGrammar, f"{text} is not supported; {_REFUSED[text[1:]]}", piece.at)
        elif text == "&" and piece.kind == "mark":
            self.refuse(
                UnsupportedGrammar, "& joins terminals: define one, in capital letters, and use it here", piece.at
            )
        return [_Out(text, piece.at)]

    def _placeholder(self, piece: GrammarPiece, in_terminal: bool) -> str:
        """Return the name that stands for another grammar, a token, a rule with a parameter, or a condition."""
        if in_terminal:
            what = "a token" if piece.kind == "special" else f"%{piece.kind}"
            self.refuse(InvalidGrammar, f"{what} can stand in a rule only, not in a terminal", piece.at)
        line = self._line(piece.at)[0]
        if piece.kind == "lark":
            name = f"GRAMMAR_OF_LINE_{line}_{len(self.grammars)}"
            self.grammars[name] = piece.value
        elif piece.kind == "special":
            name = f"TOKEN_OF_LINE_{line}_{len(self.tokens)}"
            self.tokens[name] = piece.text, piece.at
        elif piece.kind == "if":
            name = f"CONDITION_OF_LINE_{line}_{len(self.parameters.conditions)}"
            self.parameters.conditions[name] = piece.value
        else:
            name = f"parameter_of_line_{line}_{len(self.parameters.references)}"
            rule = self._names.get(piece.text, piece.text)
            self.parameters.references[name] = Reference(rule, *piece.value)
        return name

    def _check_header(self, piece: GrammarPiece) -> None:
        given = piece.value if isinstance(piece.value, dict) else {"": piece.value}
        for name, value in given.items():
            if value not in _HEADER.get(name, ()):
                what = f"the option {name!r} of %llguidance is not supported with {value!r}; leave it out"
                self.refuse(UnsupportedGrammar, what, piece.at)

    def _counted(self, item: list[_Out], piece: GrammarPiece) -> list[_Out]:
        """Write `item{low,high}` as Lark does."""
        low, high = counts(piece.text)
        if not item or (high is not None and high < low):
            self.refuse(
                InvalidGrammar, f"{piece.text} repeats what stands before it, from a number to a larger one", piece.at
            )
        if max(low, high or 0) > _MOST_TIMES:
            what = f"{piece.text} repeats more than {_MOST_TIMES} times; lower it, or use * or +"
            self.refuse(GrammarLimit, what, piece.at)
        if high is not None:
            return [*item, _Out(f"~{low}..{high}", piece.at)]
        if low < 2:
            return [*item, _Out("*+"[low], piece.at)]
        begin = item[0].at
        return [_Out("(", begin), *item, _Out(f"~{low} ", piece.at), *item, _Out("*)", piece.at)]

    # --- places -------------------------------------------------------------------------------------------------------

    def _line(self, at: int) -> tuple[int, int]:
        return self.written.count("\n", 0, at) + 1, at - self.written.rfind("\n", 0, at)

    def placed(self, reason: str, at: int) -> str:
        line, column = self._line(at)
        return f"line {line}, column {column}: {reason}"

    def refuse(self, kind: type[GrammarError], reason: str, at: int) -> NoReturn:
        raise kind(self.placed(reason, at))

    def too_much(self, name: str, reason: str) -> NoReturn:
        """Raise `GrammarLimit` for a rule or terminal."""
        self.refuse(GrammarLimit, reason, self.find(name))

    def find(self, name: str) -> int:
        """Return where `name` is defined, else where it is first written."""
        name = next((old for old, new in self._names.items() if new == name), name)
        word = re.escape(name)
        for pattern in (rf"^[?!]*({word})\s*(?:\.-?\d+)?\s*(?:\{{[^}}]*\}}\s*)?:", rf"(?<![\w'\"])({word})(?!\w)"):
            found = re.search(pattern, self.written, re.MULTILINE)
            if found:
                return found.start(1)
        return max(self.written.find(name), 0)

    def of_lark(self, error: Exception) -> str:
        """Describe an error of Lark's, with its place in the original grammar."""
        pattern = getattr(error, "pattern", None)
        if isinstance(pattern, str) and pattern in self.written:
            return self.placed(f"not a regular expression: {error}", self.written.find(pattern))
        what = str(error).split("\n", 1)[0][:300]
        place = _AT.search(what)
        if place:
            line, column = int(place[1]), int(place[2])
            offset = sum(len(row) for row in self.text.splitlines(keepends=True)[: line - 1]) + column - 1
            return self.placed(f"Lark does not read this: {_AT.sub('', what).strip(' :')}", self._original(offset))
        found = (name for pattern in _NAMED for name in re.findall(pattern, what) if name in self.written)
        named = next(found, None)
        reason = f"Lark does not read this grammar: {what}"
        return reason if named is None else self.placed(reason, self.find(named))

    def _original(self, offset: int) -> int:
        cut, begin = max((pair for pair in self._cuts if pair[0] <= offset), default=(0, 0))
        return min(begin + offset - cut, len(self.written))


def marker(name: str) -> str:
    """Return the placeholder text of a terminal that is compiled here; no user types it."""
    return f"{MARK}{name}{MARK}"


def _is_odd(piece: GrammarPiece) -> bool:
    return piece.kind == "regex_value" or (piece.kind == "mark" and piece.text == "&")


def _negates(body: list[GrammarPiece]) -> bool:
    """Return whether some `~` stands before an item instead of a number."""
    return any(
        piece.text == "~" and piece.kind == "mark" and (i + 1 == len(body) or body[i + 1].kind != "number")
        for i, piece in enumerate(body)
    )


def _is_rule(piece: GrammarPiece) -> bool:
    return piece.kind == "name" and not piece.text.lstrip("_").isupper()


def _is_empty_text(pieces: list[GrammarPiece] | None) -> bool:
    return pieces is not None and [piece.text for piece in pieces] == ['""']


def _split(pieces: list[GrammarPiece], mark: str) -> Iterator[list[GrammarPiece]]:
    part: list[GrammarPiece] = []
    for piece in solid(pieces):
        if piece.text == mark and piece.kind == "mark":
            yield part
            part = []
        else:
            part.append(piece)
    yield part
