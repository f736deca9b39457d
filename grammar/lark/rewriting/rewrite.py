"""Rewrite a grammar in llguidance's notation, or with what Lark cannot read, into one that Lark reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from sluicegate.grammar.lark.extensions.parameters import Reference
from sluicegate.grammar.lark.rewriting.attributes import Composed, read_attributes
from sluicegate.grammar.lark.rewriting.definitions import Definition, definitions, solid
from sluicegate.grammar.lark.rewriting.pieces import GrammarPiece, counts, pieces_of, refuse_malformed
from sluicegate.grammar.lark.rewriting.source import Source, marker
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar

_NO_TEXT = "_no_text_at_all"
_REFUSED = {
    "declare": "give the terminal a pattern: a declared one has none",
}
_HEADER = {"no_forcing": (True, False), "allow_initial_skip": (True,)}
"""Options and the values that change nothing here."""
_MOST_TIMES = 1_000


@dataclass(frozen=True, slots=True)
class _Out:
    text: str
    at: int


def rewritten(written: str) -> Source:
    """Return the source of a grammar with `text` for Lark. Raises a `GrammarError` with line and column."""
    source = Source(written)
    source.pieces = list(pieces_of(written, source.refuse))
    refuse_malformed(source.pieces, written, source.refuse)
    source.definitions = definitions(source.pieces, written)
    rewriter = _Rewriter(source)
    source.imports = rewriter.imports()
    source.new_names = rewriter.renamed()
    rewriter.check_parameters()
    out = rewriter.rewritten()
    marked = (*source.schemas, *source.grammars, *source.tokens, *source.parameters.conditions, *rewriter.anonymous)
    ends = [f'\n{name}: "{marker(name)}"' for name in marked]
    ends += [f"\n{name}: {found.rule}" for name, found in source.parameters.references.items()]
    ends += [f"\n{_NO_TEXT}:\n"] if any(part.text == _NO_TEXT for part in out) else []
    source.text = "".join([*(part.text for part in out), *ends])
    source.cuts = _cuts(out)
    return source


def _cuts(out: list[_Out]) -> list[tuple[int, int]]:
    cuts, size = [(0, 0)], 0
    for part in out:
        cuts.append((size, part.at))
        size += len(part.text)
    return cuts


class _Rewriter:
    """Fills in a source, and returns what Lark is to read. `anonymous`: terminals that have no name in the grammar."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.anonymous: list[str] = []

    def _refuse(self, kind: type[GrammarError], reason: str, at: int) -> NoReturn:
        self._source.refuse(kind, reason, at)

    def imports(self) -> list[str]:
        """Return the lines that import from Lark's library. Raises `UnsupportedGrammar` for other imports."""
        found = []
        for piece in self._source.pieces:
            if piece.kind != "directive" or piece.text != "%import":
                continue
            line = self._source.written[piece.at :].split("\n", 1)[0]
            source = re.match(r"%import[ \t]*([^\s(>]*)", line)
            assert source is not None
            if not re.fullmatch(r"common(\.\w+)?", source[1]):
                what = f"%import {source[1]} reads a file; only %import common.* is allowed"
                self._refuse(UnsupportedGrammar, what, piece.at)
            found.append(line)
        return found

    def renamed(self) -> dict[str, str]:
        """Return new names for those with hyphens, which Lark does not read."""
        written = {piece.text for piece in self._source.pieces if piece.kind in ("name", "parameter")}
        found: dict[str, str] = {}
        for name in sorted(name for name in written if "-" in name):
            new = name.replace("-", "_")
            while new in written:
                new += "_"
            written.add(new)
            found[name] = new
        return found

    def check_parameters(self) -> None:
        """Note the rules with a parameter. Raises `InvalidGrammar` where one is missing, or is one too many."""
        found = {each.name: each for each in self._source.definitions}
        having = {name for name, each in found.items() if self._source.pieces[each.first].value}
        self._source.parameters.rules |= having
        for each in self._source.definitions:
            for piece in self._source.pieces[each.body : each.last]:
                if each.is_terminal and piece.kind in ("parameter", "if"):
                    self._refuse(InvalidGrammar, "parameters can stand in rules only, not in terminals", piece.at)
                inherits = piece.kind == "if" or (piece.kind == "parameter" and not piece.value[1])
                if inherits and each.name not in having:
                    what = f"the rule {each.name!r} has no parameter to use; define it as {each.name}::_"
                    self._refuse(InvalidGrammar, what, piece.at)
                if piece.kind == "parameter" and piece.text in found and piece.text not in having:
                    what = f"the rule {piece.text!r} has no parameter; define it as {piece.text}::_"
                    self._refuse(InvalidGrammar, what, piece.at)
                if piece.kind == "name" and piece.text in having:
                    what = f"the rule {piece.text!r} needs a parameter, as in {piece.text}::0"
                    self._refuse(InvalidGrammar, what, piece.at)

    def rewritten(self) -> list[_Out]:
        odd = self._odd_terminals()
        out: list[_Out] = []
        at = 0
        for each in self._source.definitions:
            out += self._parts(self._source.pieces[at : each.first], True)
            ended = read_attributes(each, self._source.pieces, self._refuse)
            if ended is not None or each.name in odd:
                name = self._own(each) if ended is None else self._ended_terminal(ended)
                out += [
                    *self._parts(self._source.pieces[each.first : each.first + 1], True),
                    _Out(f": {name}\n", self._source.pieces[each.first].at),
                ]
            else:
                skipped = each.attributes if each.attributes[0] >= 0 else (0, 0)
                head = [p for p in self._source.pieces[each.first : each.body] if not skipped[0] <= p.at < skipped[1]]
                out += [_Out(self._source.new_names.get(p.text, p.text), p.at) for p in head]
                out += self._parts(self._source.pieces[each.body : each.last], each.is_terminal)
            at = each.last
        return out + self._parts(self._source.pieces[at:], True)

    def _odd_terminals(self) -> set[str]:
        """Return the terminals that Lark cannot read, and those made of them."""
        bodies = {
            each.name: solid(self._source.pieces[each.body : each.last])
            for each in self._source.definitions
            if each.is_terminal
        }
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
        name = self._source.new_names.get(each.name, each.name)
        self._source.composed[name] = Composed(
            solid(self._source.pieces[each.body : each.last]), self._source.pieces[each.first].at
        )
        return f'"{marker(name)}"'

    def _anonymous_terminal(self, kind: str, composed: Composed) -> str:
        name = f"{kind}_OF_LINE_{self._source.line(composed.at)[0]}_{len(self._source.composed)}"
        self._source.composed[name] = composed
        self.anonymous.append(name)
        return name

    def _ended_terminal(self, composed: Composed) -> str:
        return self._anonymous_terminal("ENDED", composed)

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
            text = self._source.new_names.get(text, text)
        elif piece.kind == "json":
            name = f"JSON_SCHEMA_OF_LINE_{self._source.line(piece.at)[0]}_{len(self._source.schemas)}"
            self._source.schemas[name] = piece.value, piece.at
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
            self._refuse(UnsupportedGrammar, what, piece.at)
        elif piece.kind == "directive" and text[1:] in _REFUSED:
            self._refuse(UnsupportedGrammar, f"{text} is not supported; {_REFUSED[text[1:]]}", piece.at)
        elif text == "&" and piece.kind == "mark":
            self._refuse(
                UnsupportedGrammar, "& joins terminals: define one, in capital letters, and use it here", piece.at
            )
        return [_Out(text, piece.at)]

    def _placeholder(self, piece: GrammarPiece, in_terminal: bool) -> str:
        """Return the name that stands for another grammar, a token, a rule with a parameter, or a condition."""
        if in_terminal:
            what = "a token" if piece.kind == "special" else f"%{piece.kind}"
            self._refuse(InvalidGrammar, f"{what} can stand in a rule only, not in a terminal", piece.at)
        line = self._source.line(piece.at)[0]
        if piece.kind == "lark":
            name = f"GRAMMAR_OF_LINE_{line}_{len(self._source.grammars)}"
            self._source.grammars[name] = piece.value
        elif piece.kind == "special":
            name = f"TOKEN_OF_LINE_{line}_{len(self._source.tokens)}"
            self._source.tokens[name] = piece.text, piece.at
        elif piece.kind == "if":
            name = f"CONDITION_OF_LINE_{line}_{len(self._source.parameters.conditions)}"
            self._source.parameters.conditions[name] = piece.value
        else:
            name = f"parameter_of_line_{line}_{len(self._source.parameters.references)}"
            rule = self._source.new_names.get(piece.text, piece.text)
            self._source.parameters.references[name] = Reference(rule, *piece.value)
        return name

    def _check_header(self, piece: GrammarPiece) -> None:
        given = piece.value if isinstance(piece.value, dict) else {"": piece.value}
        for name, value in given.items():
            if value not in _HEADER.get(name, ()):
                what = f"the option {name!r} of %llguidance is not supported with {value!r}; leave it out"
                self._refuse(UnsupportedGrammar, what, piece.at)

    def _counted(self, item: list[_Out], piece: GrammarPiece) -> list[_Out]:
        """Write `item{low,high}` as Lark does."""
        low, high = counts(piece.text)
        if not item or (high is not None and high < low):
            self._refuse(
                InvalidGrammar, f"{piece.text} repeats what stands before it, from a number to a larger one", piece.at
            )
        if max(low, high or 0) > _MOST_TIMES:
            what = f"{piece.text} repeats more than {_MOST_TIMES} times; lower it, or use * or +"
            self._refuse(GrammarLimit, what, piece.at)
        if high is not None:
            return [*item, _Out(f"~{low}..{high}", piece.at)]
        if low < 2:
            return [*item, _Out("*+"[low], piece.at)]
        begin = item[0].at
        return [_Out("(", begin), *item, _Out(f"~{low} ", piece.at), *item, _Out("*)", piece.at)]


def _is_odd(piece: GrammarPiece) -> bool:
    return piece.kind == "regex_value" or (piece.kind == "mark" and piece.text == "&")


def _negates(body: list[GrammarPiece]) -> bool:
    """Return whether some `~` stands before an item instead of a number."""
    return any(
        piece.text == "~" and piece.kind == "mark" and (i + 1 == len(body) or body[i + 1].kind != "number")
        for i, piece in enumerate(body)
    )
