"""Read the arguments of a call that a model writes in a style of its own instead of as a JSON object.

Shares no code with the masks, only the table of styles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins.parameter_styles import BETWEEN, ParameterStyle

Judge = Callable[[Any, Any], str | None]
"""Maps (schema, value) to what is wrong; None = valid."""
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments in `text` of a call whose parameters satisfy `schema`, in `style`."""

    text: str
    schema: Mapping[str, Any]
    style: ParameterStyle
    judge: Judge
    decoder: json.JSONDecoder

    def read(self, at: int) -> tuple[dict[str, Any], int, str | None]:
        """Return the values of the arguments from `at` on, where the last one ends, and what is wrong."""
        values: dict[str, Any] = {}
        while (found := self._named(blanks_end(self.text, at))) is not None:
            name, texts, end = found
            if name in values:
                return values, at, f"the argument {name!r} comes twice"
            fitting = [value for value in texts if self.judge(self._schema_of(name), value) is None]
            if not fitting:
                return values, at, f"the value of the argument {name!r} does not satisfy its schema"
            values[name], at = fitting[0], end
        return values, at, None

    def _named(self, begin: int) -> tuple[str, list[Any], int] | None:
        """Return the name, all that the value may stand for, and the end of the argument that begins at `begin`."""
        style = self.style
        for name in self.schema["properties"]:
            for kind in dict.fromkeys(style.kinds):
                opens = next((each for each in style.begins(name, kind) if self.text.startswith(each, begin)), None)
                if opens is not None:
                    close = self.text.find(style.closes, begin + len(opens))
                    if close >= 0:
                        inner = self.text[begin + len(opens) : close]
                        return name, list(self._values(inner, kind)), close + len(style.closes)
        return None

    def _schema_of(self, name: str) -> Any:
        inner = self.schema["properties"][name]
        defined = {key: self.schema[key] for key in ("$defs", "definitions") if key in self.schema}
        return {**defined, **inner} if isinstance(inner, Mapping) else inner

    def _values(self, text: str, kind: str) -> Iterator[Any]:
        if kind == self.style.text:
            trimmed = text.removeprefix("\n")
            yield from dict.fromkeys((trimmed.removesuffix("\n"), trimmed, text.removesuffix("\n"), text))
        if any(kind == other for _, other in self.style.other):
            try:
                value = self.decoder.decode(text.strip("\n"))
            except ValueError:
                return
            if not isinstance(value, str):
                yield value


def blanks_end(text: str, at: int) -> int:
    """Return where the blanks from `at` on end."""
    end = at
    while end - at < BETWEEN and text[end : end + 1] in tuple(_BLANKS):
        end += 1
    return end
