"""Convert the text of a custom tool to and from a call's arguments with one string, `{"input": "..."}`.

Servers and chat templates without custom tools use that form; clients read and send the text itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

INPUT = "input"
TEXT_BEGINS = f'{{"{INPUT}": '
_BEFORE = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"')
_PLAIN = re.compile(r'[^"\\]+')
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rf"\\u[dD][89abAB][0-9a-fA-F]{{2}}(?:{_LOW}|(?=[^\\])|(?=\\[^u])|(?!{_LOW})(?=\\u....))"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u]"
)
"""The first half of a surrogate pair waits for the second."""


def custom_parameters(text: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of a custom tool's arguments; `text`: further keywords of the string."""
    properties = {INPUT: {"type": "string", **(text or {})}}
    return {"type": "object", "properties": properties, "required": [INPUT], "additionalProperties": False}


def arguments_of(text: str) -> str:
    return json.dumps({INPUT: text}, ensure_ascii=False)


def text_of(arguments: str) -> str:
    """Return the text in `arguments`, which may have been cut short."""
    return TextDecoder().feed(arguments)


class TextDecoder:
    """Same as `json.loads(arguments)["input"]`, but incremental: it is fed arguments in pieces of any size, and returns
    the text as far as it is certain. Half a surrogate pair becomes U+FFFD."""

    def __init__(self) -> None:
        self._held = ""
        self._begun = self._over = False

    def feed(self, arguments: str) -> str:
        self._held += arguments
        if not self._begun and (before := _BEFORE.match(self._held)):
            self._begun, self._held = True, self._held[before.end() :]
        return self._decoded() if self._begun and not self._over else ""

    def _decoded(self) -> str:
        found: list[str] = []
        at, held = 0, self._held
        while at < len(held):
            plain = _PLAIN.match(held, at)
            part = plain or _ESCAPE.match(held, at)
            if part is None:
                self._over = held[at] == '"'
                break
            found.append(part[0] if plain else _unescaped(part[0]))
            at = part.end()
        self._held = held[at:]
        return "".join(found)


def _unescaped(escape: str) -> str:
    char: str = json.loads(f'"{escape}"')
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char
