"""Cut a grammar in Lark's notation, or in llguidance's, into pieces with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from sluicegate.plugins.errors import GrammarError, InvalidGrammar

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


class GrammarPiece(NamedTuple):
    """`kind`: the group of `_PIECE`, or the name of a directive that a JSON value follows, which is then `value`."""

    kind: str
    text: str
    at: int
    end: int
    value: Any = None


Refuse = Callable[[type[GrammarError], str, int], NoReturn]


def pieces_of(text: str, refuse: Refuse) -> Iterator[GrammarPiece]:
    """Yield all of `text`, blanks and comments included. Raises where no JSON value stands after such a directive."""
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        assert found is not None
        kind = found.lastgroup
        assert kind is not None
        at, value = found.end(), None
        if kind == "directive" and found["directive"] in _VALUES:
            value, at = _value(found["directive"], text, at, refuse)
            kind = "regex_value" if found["directive"] == "regex" else found["directive"]
        yield GrammarPiece(kind, text[found.start() : at], found.start(), at, value)


def _value(kind: str, text: str, at: int, refuse: Refuse) -> tuple[Any, int]:
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    try:
        return json.JSONDecoder().raw_decode(text, begin)
    except ValueError as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else begin
        what = "no JSON Schema stands" if kind == "json" else "no JSON value stands"
        refuse(InvalidGrammar, f"{what} after %{kind}: {getattr(error, 'msg', error)}", place)


def counts(text: str) -> tuple[int, int | None]:
    """Read `{n}`, `{n,}`, `{,m}` or `{n,m}`."""
    low, comma, high = text.strip("{} \t\r\n").partition(",")
    least = int(low[:9] or 0)
    return least, (int(high.strip()[:9]) if high.strip() else None) if comma else least
