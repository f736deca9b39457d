"""Read the arguments of a call that a model writes in a style of its own instead of as a JSON object.

Shares no code with the masks, only the table of styles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins.parameter_styles import BETWEEN, NAME_CHARS, NAME_LENGTH, ParameterStyle

Judge = Callable[[Any, Any], str | None]
"""Maps (schema, value) to what is wrong; None = valid."""
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments in `text` of a call whose parameters satisfy `schema`, in `style`. A name that the schema does not list
    may come again: the last value counts."""

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
            if name in values and name in self._listed:
                return values, at, f"the argument {name!r} comes twice"
            fitting = [value for value in texts if self.judge(self._schema_of(name), value) is None]
            if not fitting:
                return values, at, f"the value of the argument {name!r} does not satisfy its schema"
            values[name], at = fitting[0], end
        return values, at, None

    def _named(self, begin: int) -> tuple[str, list[Any], int] | None:
        """Return the name, all that the value may stand for, and the end of the argument that begins at `begin`."""
        style = self.style
        for name in self._listed:
            for kind in dict.fromkeys(style.kinds):
                opens = next((each for each in style.begins(name, kind) if self.text.startswith(each, begin)), None)
                if opens is not None:
                    close = self.text.find(style.closes, begin + len(opens))
                    if close >= 0:
                        inner = self.text[begin + len(opens) : close]
                        return name, list(self._values(inner, kind)), close + len(style.closes)
        return self._unlisted(begin) if self._others is not False else None

    def _unlisted(self, begin: int) -> tuple[str, list[Any], int] | None:
        """Return the same of an argument whose name the schema does not list."""
        for kind in dict.fromkeys(self.style.kinds):
            for before, after in self.style.around(kind):
                found = re.compile(f"{re.escape(before)}({NAME_CHARS}{{1,{NAME_LENGTH}}}){re.escape(after)}").match(
                    self.text, begin
                )
                close = self.text.find(self.style.closes, found.end()) if found is not None else -1
                if found is not None and close >= 0:
                    inner = self.text[found.end() : close]
                    return found[1], list(self._values(inner, kind)), close + len(self.style.closes)
        return None

    @property
    def _listed(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.schema.get("properties", {})
        return found

    @property
    def _others(self) -> Any:
        """Return the schema of names that are not listed; False where there are none."""
        return self.schema.get("additionalProperties", "properties" not in self.schema)

    def _schema_of(self, name: str) -> Any:
        inner = self._listed.get(name, self._others)
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


def object_schema(schema: Any) -> Mapping[str, Any]:
    """Return the schema of an object that `schema` is or refers to, with its definitions."""
    whole = schema
    while isinstance(schema, Mapping) and "$ref" in schema and "properties" not in schema:
        found: Any = whole
        for part in schema["$ref"].split("/")[1:]:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        schema = {**{key: whole[key] for key in ("$defs", "definitions") if key in whole}, **found}
    return schema if isinstance(schema, Mapping) else {}


def blanks_end(text: str, at: int) -> int:
    """Return where the blanks from `at` on end."""
    end = at
    while end - at < BETWEEN and text[end : end + 1] in tuple(_BLANKS):
        end += 1
    return end
