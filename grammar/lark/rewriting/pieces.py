"""Cut a grammar in Lark's notation, or in llguidance's, into pieces with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from sluicegate.grammar.lark.extensions.parameters import Misread, ParameterText
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar

_PIECE = re.compile(
    r"""(?P<skip> //[^\n]* | \#[^\n]* | [ \t\r\f]+ )
      | (?P<line> \n )
      | (?P<string> "(?:\\.|[^"\\\n])*"i? )
      | (?P<regex> /(?!/)(?:\\.|[^/\\])*/[imslux]* )
      | %(?P<directive> \w+ )
      | (?P<special> <(?: [^<>\s"]+ )> )
      | (?P<grammar> @\w+ )
      | (?P<counts> \{\s*(?:\d+\s*(?:,\s*\d*\s*)?|,\s*\d+\s*)\} )
      | (?P<name> [A-Za-z_]\w*(?:-\w+)* )
      | (?P<number> \d+ )
      | (?P<arrow> -> )
      | (?P<range> \.\. )
      | (?P<mark> . )""",
    re.VERBOSE | re.DOTALL,
)
_VALUES = frozenset({"json", "regex", "llguidance"})
_HEAD = re.compile(r"[ \t]*(\[[^\n]*\])?[ \t]*(?:\.-?\d+)?[ \t]*:(?!:)")
_CODE = re.compile(r"\\(?:[^xuU]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|([xuU]))", re.DOTALL)
_DIGITS = {"x": 2, "u": 4, "U": 8}
_CHARACTER = re.compile(r'"(?:\\(?:x..|u....|U........|.)|[^\\])"', re.DOTALL)
_MISCOUNTED = re.compile(r"\{\s*[-+]?\d*\s*(?:,\s*[-+]?\d*\s*)?\}")
_OWN = re.compile(r"::[ \t]*_(?!\w)")
_DEEPEST = 10
"""Of grammars in grammars."""


class GrammarPiece(NamedTuple):
    """`kind`: the group of `_PIECE`, or the name of a directive, of which `value` is what follows: a JSON value, a
    grammar with its place, or a condition. `parameter`: the name of a rule, with its parameter as `value`. A name
    with the `value` True is that of a rule that has one."""

    kind: str
    text: str
    at: int
    end: int
    value: Any = None


Refuse = Callable[[type[GrammarError], str, int], NoReturn]


def pieces_of(text: str, refuse: Refuse, at: int = 0, depth: int = 0) -> Iterator[GrammarPiece]:
    """Yield all of `text` from `at` on, blanks and comments included. Raises where a directive is not followed by what
    belongs to it."""
    while at < len(text):
        found = _PIECE.match(text, at)
        assert found is not None
        kind = found.lastgroup
        assert kind is not None
        begin, at, value = at, found.end(), None
        word, written = found["directive"], None
        if kind == "directive" and word in _VALUES:
            value, at = _value(word, text, at, refuse)
            kind = "regex_value" if word == "regex" else word
        elif word == "lark" or word == "if":
            value, at = _grammar(text, at, refuse, depth) if word == "lark" else _condition(text, at, refuse)
            kind = word
        elif kind == "name" and text.startswith("::", at):
            written = found[0]
            kind, value, at = _with_parameter(text, at, refuse)
        yield GrammarPiece(kind, text[begin:at] if written is None else written, begin, at, value)


def _grammar(text: str, at: int, refuse: Refuse, depth: int) -> tuple[tuple[str, int], int]:
    """Return the grammar in the braces from `at` on, with its place, and the end of the braces."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    if not text.startswith("{", begin):
        refuse(InvalidGrammar, "a grammar in braces stands after %lark: %lark { start: ... }", begin)
    if depth == _DEEPEST:
        refuse(GrammarLimit, f"grammars are nested more than {_DEEPEST} deep; write their rules into one", at)
    opened = 0
    for piece in pieces_of(text, refuse, begin, depth + 1):
        opened += (piece.text == "{") - (piece.text == "}")
        if not opened:
            return (text[begin + 1 : piece.at], begin + 1), piece.end
    return refuse(InvalidGrammar, "the braces of this grammar are never closed", begin)


def _condition(text: str, at: int, refuse: Refuse) -> tuple[Any, int]:
    reader = ParameterText(text, at)
    try:
        return reader.condition(), reader.at
    except Misread as error:
        return refuse(InvalidGrammar, error.reason, error.at)


def _with_parameter(text: str, at: int, refuse: Refuse) -> tuple[str, Any, int]:
    """Return kind and value of a name with a parameter, and its end."""
    own = _OWN.match(text, at)
    if own is not None and _HEAD.match(text, own.end()):
        return "name", True, own.end()
    reader = ParameterText(text, at + 2)
    try:
        return "parameter", reader.value(), reader.at
    except Misread as error:
        return refuse(InvalidGrammar, error.reason, error.at)


def _value(kind: str, text: str, at: int, refuse: Refuse) -> tuple[Any, int]:
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    try:
        return json.JSONDecoder().raw_decode(text, begin)
    except ValueError as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else begin
        what = "no JSON Schema stands" if kind == "json" else "no JSON value stands"
        refuse(InvalidGrammar, f"{what} after %{kind}: {getattr(error, 'msg', error)}", place)
    except RecursionError:
        refuse(GrammarLimit, f"what stands after %{kind} nests too deeply to be read; make it flatter", begin)


def counts(text: str) -> tuple[int, int | None]:
    """Read `{n}`, `{n,}`, `{,m}` or `{n,m}`."""
    low, comma, high = text.strip("{} \t\r\n").partition(",")
    least = int(low[:9] or 0)
    return least, (int(high.strip()[:9]) if high.strip() else None) if comma else least


def refuse_malformed(pieces: Iterable[GrammarPiece], text: str, refuse: Refuse) -> None:
    """Refuse what Lark would refuse without saying where. Raises `InvalidGrammar`."""
    solid = [piece for piece in pieces if piece.kind not in ("skip", "line")]
    for piece in solid:
        if piece.kind in ("string", "regex"):
            _check_codes(piece, refuse)
        if piece.kind == "regex" and "\n" in piece.text and "x" not in piece.text.rpartition("/")[2]:
            refuse(
                InvalidGrammar, "an expression reaches over the end of its line; write \\n for a line break", piece.at
            )
        if piece.kind == "mark" and piece.text == "{" and _MISCOUNTED.match(text, piece.at):
            refuse(InvalidGrammar, "a repetition is {n}, {n,}, {,m} or {n,m}, of numbers from 0 on", piece.at)
    for low, middle, high in zip(solid, solid[1:], solid[2:], strict=False):
        if middle.kind == "range" and low.kind == high.kind == "string":
            for end in (low, high):
                if not _CHARACTER.fullmatch(end.text):
                    refuse(
                        InvalidGrammar,
                        f'a range goes from one character to another, as "a".."z", not {end.text}',
                        end.at,
                    )
            if len(low.text) == len(high.text) == 3 and low.text > high.text:
                refuse(InvalidGrammar, f"the range {low.text}..{high.text} runs backwards", low.at)


def _check_codes(piece: GrammarPiece, refuse: Refuse) -> None:
    for found in _CODE.finditer(piece.text):
        if found[1]:
            what = f"\\{found[1]} takes {_DIGITS[found[1]]} hexadecimal digits"
            refuse(InvalidGrammar, what, piece.at + found.start())
