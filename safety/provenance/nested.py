"""Read the arguments that a string holds: JSON (several values in a row, too), what looks like it, a form, headers,
calendars and business cards.

Not covered: other notations (XML, TOML), and YAML that is nested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus

from sluicegate.safety.matching.json_escapes import Unescaped
from sluicegate.safety.window.json_position import JsonPosition

ArgumentPath = tuple[str | int, ...]
_BLANKS = "\ufeff \t\r\n"
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.){0,2000})\"(\s*[:=])?|'((?:[^'\\]|\\.){0,2000})'(\s*[:=])?", re.S)
_FORM = re.compile(r"[\w.\[\]-]{1,64}=[^&\s]*(?:&[\w.\[\]-]{1,64}=[^&\s]*)*")
_PROPERTY = re.compile(r"^([\w-]{1,64})(?:;[^:\n]{0,500})?:[ \t]*(\S[^\r\n]*)", re.M)
"""A property of a calendar or a business card."""
_FOLDED = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r"\s*(?:- )?([\w-]{1,64})\s*:[ \t]+(\S.*)")


def name_at(path: ArgumentPath) -> str:
    """Return the name of the argument at `path`, or of the one whose list it is in; "" for none."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def values_in(text: str) -> Iterator[tuple[ArgumentPath, str]]:
    """Yield path and text of the strings, numbers and keys that `text` holds, if it is in one of these notations."""
    bare = text.strip(_BLANKS)
    if begins_json(bare) or (bare.startswith('"') and bare.endswith('"')):
        yield from _of_json(bare)
    elif bare[:7].upper() == "BEGIN:V":
        yield from (((name,), value) for name, value in _PROPERTY.findall(_FOLDED.sub("", bare)))
    elif _FORM.fullmatch(bare):
        for pair in bare.split("&"):
            name, _, value = pair.partition("=")
            yield (unquote_plus(name),), unquote_plus(value)
    else:
        yield from _of_headers(bare)


def begins_json(text: str) -> bool:
    """Return whether `text` begins as an object or array of JSON does."""
    return text.lstrip(_BLANKS).startswith(("{", "["))


def _of_json(text: str) -> Iterator[tuple[ArgumentPath, str]]:
    """Yield what JSON values in a row hold; from the first that is none, what stands between quotation marks."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield from _of_quotes(text[at:])
            return
        yield from _leaves(value, ())
        while text[at : at + 1] in (" ", "\t", "\r", "\n", ",", ";"):
            at += 1


class LongJson:
    """The strings and numbers of a JSON text that comes in pieces, each with its path, also where a border of pieces
    divides it. Mutable."""

    def __init__(self) -> None:
        self._where = JsonPosition()
        self._key = ""
        self._inside = False

    def read(self, piece: str) -> Iterator[tuple[ArgumentPath, str]]:
        """Yield path and text of what this piece holds of each string and number."""
        parts = _MARK.split(piece)
        for n, part in enumerate(parts):
            if n:
                self._inside = not self._inside
            if not self._inside:
                yield from self._between(part)
                continue
            said = Unescaped(part).text
            yield (() if self._where.expects_key else self._where.path()), said
            if self._where.expects_key:
                self._key += said

    def _between(self, part: str) -> Iterator[tuple[ArgumentPath, str]]:
        for bare in _STRUCTURE.split(part):
            if bare in _MARKS:
                self._where.key = self._key
                self._where.read(bare)
                self._key = ""
            elif bare.strip():
                yield self._where.path(), bare.strip()


_MARKS = frozenset("{}[]:,")
_STRUCTURE = re.compile(r"([{}\[\]:,])")
_MARK = re.compile(r'(?<!\\)(?:\\\\)*"')


def _of_quotes(text: str) -> Iterator[tuple[ArgumentPath, str]]:
    """Yield what stands between quotation marks, with the name before a colon as its path."""
    name = ""
    for found in _QUOTED.finditer(text):
        said = Unescaped(found[1] if found[1] is not None else found[3]).text
        yield ((name,) if name else ()), said
        name = said if found[2] or found[4] else ""


def _of_headers(text: str) -> Iterator[tuple[ArgumentPath, str]]:
    """Yield the values of two lines `name: value` or more, up to an empty one, where every line is one or continues
    one."""
    lines = re.split(r"\r?\n[ \t]*\r?\n", text, maxsplit=1)[0].splitlines()
    found = [(line, _LINE.fullmatch(line)) for line in lines]
    if len(lines) > 1 and all(match or line[:1].isspace() for line, match in found):
        yield from (((match[1],), match[2]) for _, match in found if match)


def _leaves(value: Any, path: ArgumentPath) -> Iterator[tuple[ArgumentPath, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield (), key
            yield from _leaves(one, (*path, key))
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield from _leaves(one, (*path, n))
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, str(value)
