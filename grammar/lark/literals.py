"""Build patterns of terminals as Lark does: of literals, ranges, and terminals composed of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import lark
from lark.lexer import Pattern, PatternRE, PatternStr
from lark.load_grammar import _TERMINAL_NAMES, eval_escaping
from lark.utils import is_id_continue, is_id_start

from sluicegate.plugins.errors import GrammarLimit

_MOST_CHARACTERS = 200_000
_MOST_CHECKED = 2_000
_SHORT = 40
"""Most characters of a literal that is kept by content."""
_MARKS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


class Unread(Exception):
    """Raised for input that is left to Lark's own loader, which reads or refuses it."""


class GrammarPart(NamedTuple):
    """`kind`: "either" or "row" of `items`, "repeated" (the one of `items`, `low` to `high` times, None = without end),
    "maybe" (that of brackets); "name", "string", "regex" or "range" of `text`."""

    kind: str
    items: tuple[GrammarPart, ...] = ()
    text: str = ""
    low: int = 0
    high: int | None = 0


def literal(part: GrammarPart) -> Pattern:
    """Return the pattern of a string, an expression or a range of characters."""
    if part.kind == "range":
        low, high = (each.text[1:-1] for each in part.items)
        if len(_read(low)) != 1 or len(_read(high)) != 1 or _read(low) > _read(high):
            raise Unread
        return PatternRE(f"[{low}-{high}]")
    return _of_short(part.kind, part.text) if len(part.text) <= _SHORT else _of_text(part.kind, part.text)


@lru_cache(maxsize=4_000)
def _of_short(kind: str, text: str) -> Pattern:
    """Do the same as `_of_text`: signs and keywords are those of many grammars."""
    return _of_text(kind, text)


def _of_text(kind: str, text: str) -> Pattern:
    end = max(text.rfind('"'), text.rfind("/")) + 1
    flags, body = tuple(text[end:]), _read(text[1 : end - 1])
    if not body or (kind == "regex" and "\n" in text and "x" not in flags):
        raise Unread
    if kind == "string":
        return PatternStr(body.replace("\\\\", "\\"), flags, raw=text)
    return PatternRE(body, flags, raw=text)


def _read(text: str) -> str:
    if "\\" not in text and "'" not in text:
        return text
    try:
        found = eval_escaping(text)
    except (lark.exceptions.LarkError, ValueError) as error:
        raise Unread from error
    return str(found)


def names_in(part: GrammarPart) -> list[str]:
    """Return the names in the body of a terminal, in their order."""
    if part.kind == "name":
        return [part.text]
    return [name for item in part.items if item.items or item.kind == "name" for name in names_in(item)]


def composed(part: GrammarPart, named: Mapping[str, Pattern]) -> Pattern:
    """Return the pattern of the body of a terminal; `named`: those of others."""
    if part.kind == "name":
        return named[part.text]
    if not part.items or part.kind == "range":
        if part.kind in ("either", "row"):
            raise Unread
        return literal(part)
    inner = [composed(item, named) for item in part.items]
    if part.kind in ("either", "row") and len(inner) == 1:
        return inner[0]
    texts = [each.to_regexp() for each in inner]
    if sum(map(len, texts)) > _MOST_CHARACTERS:
        raise GrammarLimit(f"this terminal has more than {_MOST_CHARACTERS} characters, those it refers to written out")
    mixed = any(item.kind == "regex" for item in part.items)
    if part.kind == "row":
        return _joined("".join(texts), mixed)
    if part.kind == "either":
        return _joined(f"(?:{'|'.join(texts)})", mixed)
    return PatternRE(_joined(f"(?:{texts[0]}){_times(part)}", mixed).value, inner[0].flags)


def _times(part: GrammarPart) -> str:
    if part.kind == "maybe":
        return "?"
    return _MARKS.get((part.low, part.high)) or f"{{{part.low},{part.high}}}"


def _joined(pattern: str, mixed: bool) -> Pattern:
    """Return a pattern that Python's `re` reads. `mixed`: some part may be no expression by itself."""
    if mixed:
        if len(pattern) > _MOST_CHECKED:
            raise Unread
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise Unread from error
    return PatternRE(pattern)


@lru_cache(maxsize=200)
def common(name: str) -> Pattern:
    """Return the pattern of a terminal of Lark's library."""
    try:
        made = lark.Lark(f"%import common.{name}\nstart: {name}", lexer="dynamic", parser="earley")
    except lark.exceptions.LarkError as error:
        raise Unread from error
    return next(terminal.pattern for terminal in made.terminals if terminal.name == name)


def _is_word(text: str) -> bool:
    """Return whether Lark takes `text` for a word; of ASCII Python does so at once."""
    return text.isidentifier() if text.isascii() else is_id_continue(text) and is_id_start(text[0])


def name_of(pattern: Pattern, taken: Iterable[str]) -> str | None:
    """Return the name Lark gives an unnamed literal; None if it would be numbered."""
    name: str | None = None
    if isinstance(pattern, PatternStr):
        text = pattern.value
        name = _TERMINAL_NAMES.get(text)
        if name is None and _is_word(text):
            name = text.upper()
    return None if name is None or name in taken else name
