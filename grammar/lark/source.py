"""A Lark grammar as written: places in it, what is refused before Lark reads it, and embedded schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from sluicegate.plugins.errors import GrammarError, InvalidGrammar, UnsupportedGrammar

_PIECES = re.compile(
    r"""(?P<skip> //[^\n]* | \#[^\n]* | "(?:\\.|[^"\\\n])*"i? | /(?!/)(?:\\.|[^/\\])*/[imslux]* )
      | %(?P<word>\w+) (?P<rest>[ \t]*[^\s(>]*)""",
    re.VERBOSE | re.DOTALL,
)
_NAMED = (r"TerminalDef\('(\w+)'", r"Terminals? \{?'(\w+)'", r"'(\w+)'", r"[Rr]ule (\w+)", r"(\d+\.\.\d+)", r"(\"\")")
MARK = "\uf8ff"
_AT = re.compile(r"(?:, )?\bat line (\d+) column (\d+)(?: in <string>)?")
_REFUSED = {
    "regex": "write the regular expression between slashes, as a terminal",
    "lark": "write its rules into this grammar",
    "llguidance": "leave the header out: masks need no settings of another engine",
    "declare": "give the terminal a pattern: a declared one has none",
}


class Source:
    """`text`: what Lark reads, with a terminal for each `%json {...}`. `schemas`: schemas and their offsets in what was
    written, by the name of the terminal."""

    def __init__(self, written: str) -> None:
        self.written = written
        self.schemas: dict[str, tuple[Any, int]] = {}
        self._cuts: list[tuple[int, int]] = [(0, 0)]
        parts: list[str] = []
        size = done = 0
        for begin, end, name in self._embedded():
            parts += [written[done:begin], f" {name} "]
            size += begin - done + len(name) + 2
            done = end
            self._cuts.append((size, end))
        parts.append(written[done:])
        parts += [f'\n{name}: "{marker(name)}"' for name in self.schemas]
        self.text = "".join(parts)

    def _embedded(self) -> Iterator[tuple[int, int, str]]:
        """Yield begin, end and name of every `%json {...}`. Raises for directives that are not supported."""
        at = 0
        while piece := _PIECES.search(self.written, at):
            at = piece.end()
            word = piece["word"]
            if word == "json":
                begin = piece.start("word") + len(word)
                schema, at = self._schema(begin + len(self.written[begin:]) - len(self.written[begin:].lstrip()))
                name = f"JSON_SCHEMA_OF_LINE_{self._line(piece.start())[0]}_{len(self.schemas)}"
                self.schemas[name] = schema, piece.start()
                yield piece.start(), at, name
            elif word in _REFUSED:
                self.refuse(UnsupportedGrammar, f"%{word} is not supported; {_REFUSED[word]}", piece.start())
            elif word == "import" and not re.fullmatch(r"common(\.\w+)?", piece["rest"].strip()):
                what = f"%import {piece['rest'].strip()} reads a file; only %import common.* is allowed"
                self.refuse(UnsupportedGrammar, what, piece.start())

    def _schema(self, at: int) -> tuple[Any, int]:
        try:
            return json.JSONDecoder().raw_decode(self.written, at)
        except ValueError as error:
            place = error.pos if isinstance(error, json.JSONDecodeError) else at
            self.refuse(InvalidGrammar, f"no JSON Schema stands after %json: {getattr(error, 'msg', error)}", place)

    # --- places ---

    def _line(self, at: int) -> tuple[int, int]:
        return self.written.count("\n", 0, at) + 1, at - self.written.rfind("\n", 0, at)

    def placed(self, reason: str, at: int) -> str:
        line, column = self._line(at)
        return f"line {line}, column {column}: {reason}"

    def refuse(self, kind: type[GrammarError], reason: str, at: int) -> NoReturn:
        raise kind(self.placed(reason, at))

    def find(self, name: str) -> int:
        """Return where `name` is defined, else where it is first written."""
        word = re.escape(name)
        for pattern in (rf"^[?!]*({word})\s*(?:\.-?\d+)?\s*(?:\{{[^}}]*\}}\s*)?:", rf"(?<![\w'\"])({word})(?!\w)"):
            found = re.search(pattern, self.written, re.MULTILINE)
            if found:
                return found.start(1)
        return self.written.find(name)

    def of_lark(self, error: Exception) -> str:
        """Word an error of Lark's, with the place in what was written."""
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
    """Return the text that stands for an embedded schema in what Lark reads; nobody types it."""
    return f"{MARK}{name}{MARK}"
