"""Decide which strings of a JSON answer can be redacted without breaking its schema, and with what text.

A string that the schema leaves free takes any replacement. A string with a `format` takes a neutral value of that
format, if the whole value is replaced. Any other redaction is refused, which blocks the answer. That includes strings
below keywords whose result depends on a string's content (`const`, `enum`, `not`, `if`, `uniqueItems`, `maxContains`,
branches of `oneOf`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from sluicegate.plugins.json_schema import named
from sluicegate.safety.window.json_window import JsonLocation, Redactor
from sluicegate.safety.window.released import Redaction

_NEUTRAL_VALUES = {
    "email": "redacted@example.invalid",
    "idn-email": "redacted@example.invalid",
    "hostname": "redacted.invalid",
    "ipv4": "0.0.0.0",
    "ipv6": "::",
    "uri": "https://redacted.invalid/",
    "uri-reference": "https://redacted.invalid/",
    "iri": "https://redacted.invalid/",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1900-01-01",
    "time": "00:00:00Z",
    "date-time": "1900-01-01T00:00:00Z",
}
_FIXED = named(lambda keyword: not keyword.redactable)
_WHOLE_VALUE = named(lambda k: k.kind == "any" and not k.redactable and k.form in ("value", "values", "text"))
_LISTS = named(lambda keyword: keyword.kind == "any" and keyword.form == "schemas") - {"oneOf"}
_BRANCHES = named(lambda keyword: keyword.kind == "any" and keyword.form == "schema" and keyword.redactable)
_READS_STRINGS = named(lambda k: k.role == "assertion" and k.kind in ("any", "string")) - {"type"}
_MAX_VISITS = 2000
_MAX_DEPTH = 64
"""Maximum subschemas visited for one value, in total and in depth: a schema may refer to itself."""

Path = tuple[str | int, ...]


def redactor_for(schema: Any) -> Redactor:
    """Return the stateless redactor of answers to `schema`."""

    def redact(place: JsonLocation, redaction: Redaction) -> str | None:
        if place.kind != "string":
            return None
        return _replacement(schemas_at(schema, place.path), place, redaction)

    return redact


def schemas_at(schema: Any, path: Path) -> list[Any]:
    """Return every subschema that may apply to the value at `path`; None stands for an unknown one."""
    return list(_SchemaWalk(schema).at(schema, path, 0))


def _replacement(applying: list[Any], place: JsonLocation, redaction: Redaction) -> str | None:
    """Return a text that every schema in `applying` accepts in place of the span, judged without the rest of the value;
    None if there is none."""
    formats = {s["format"] for s in applying if isinstance(s, Mapping) and "format" in s}
    if any(s is None or (isinstance(s, Mapping) and any(k in s for k in _FIXED)) for s in applying) or len(formats) > 1:
        return None
    if formats:
        text = _NEUTRAL_VALUES.get(formats.pop()) if place.whole else None
    else:
        text = redaction.replacement
    return text if text is not None and _fits(applying, place, redaction, text) else None


def _fits(applying: list[Any], place: JsonLocation, redaction: Redaction, text: str) -> bool:
    """Return whether `text` fits the length bounds. The length of a whole value is checked; a part must not grow under
    a maximum nor shrink under a minimum."""
    bounds = [s for s in applying if isinstance(s, Mapping)]
    longest = min((s["maxLength"] for s in bounds if "maxLength" in s), default=None)
    shortest = max((s["minLength"] for s in bounds if "minLength" in s), default=0)
    if place.whole:
        return shortest <= len(text) and (longest is None or len(text) <= longest)
    grown = len(text) - (redaction.end - redaction.start)
    return (longest is None or grown <= 0) and (shortest == 0 or grown >= 0)


class _SchemaWalk:
    """Walks from the root of a schema to the subschemas at a path. Mutable, for one walk."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_VISITS

    def at(self, schema: Any, path: Path, depth: int) -> Iterator[Any]:
        """Yield every subschema that may apply at `path`; None stands for an unknown one."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            yield None
            return
        if not isinstance(schema, Mapping):
            return
        if not path:
            yield schema
        elif _depends_on_strings(schema, path):
            yield None
        if schema is not self._root and {"$id", "id"} & schema.keys():  # references below have another base
            yield None
        for part in self._in_place_subschemas(schema):
            yield from [None] if part is None else self.at(part, path, depth + 1)
        if self._may_flip_condition(schema, path, depth):
            yield None
        yield from self._one_of(schema.get("oneOf", ()), path, depth)
        if path:
            for part in _child_subschemas(schema, path[0]):
                yield from self.at(part, path[1:], depth + 1)

    def _in_place_subschemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for key in _LISTS & schema.keys():
            yield from schema[key]
        for key in _BRANCHES & schema.keys():
            yield schema[key]
        for dependent in (*schema.get("dependentSchemas", {}).values(), *schema.get("dependencies", {}).values()):
            yield {} if isinstance(dependent, list) else dependent
        if "$ref" in schema:
            yield _resolved(self._root, schema["$ref"])

    def _may_flip_condition(self, schema: Mapping[str, Any], path: Path, depth: int) -> bool:
        """Return whether another string at `path` may change the result of `not` or `if`."""
        parts = (part for key in ("not", "if") if key in schema for part in self.at(schema[key], path, depth + 1))
        return any(_constrains_strings(part) for part in parts)

    def _one_of(self, branches: Any, path: Path, depth: int) -> Iterator[Any]:
        """Yield the schemas of all branches that accept strings; also None if a replacement may move the string to
        another branch."""
        reached = [list(self.at(branch, path, depth + 1)) for branch in branches]
        taking = [parts for parts in reached if not parts or any(_may_be_string(part) for part in parts)]
        if len(taking) > 1 and any(_constrains_strings(part) for parts in taking for part in parts):
            yield None
        for parts in taking:
            yield from parts


def _depends_on_strings(schema: Mapping[str, Any], path: Path) -> bool:
    """Return whether a keyword for a whole array or object depends on the content of a string below it."""
    alike = isinstance(path[0], int) and (schema.get("uniqueItems") is True or "maxContains" in schema)
    return alike or bool(_WHOLE_VALUE & schema.keys())


def _constrains_strings(part: Any) -> bool:
    return part is None or bool(_READS_STRINGS & part.keys())


def _may_be_string(part: Any) -> bool:
    kinds = "string" if part is None else part.get("type", "string")
    return "string" in ([kinds] if isinstance(kinds, str) else kinds)


def _child_subschemas(schema: Mapping[str, Any], step: str | int) -> Iterator[Any]:
    if isinstance(step, int):
        yield from _item_subschemas(schema, step)
        return
    known = schema.get("properties", {})
    if step in known:
        yield known[step]
    yield from schema.get("patternProperties", {}).values()
    for key in ("additionalProperties", "unevaluatedProperties"):
        if step not in known and key in schema:
            yield schema[key]


def _item_subschemas(schema: Mapping[str, Any], index: int) -> Iterator[Any]:
    """Yield the subschemas that apply to an item: by index (a list in `items` until draft 2019), `contains`, the
    rest."""
    items = schema.get("items", {})
    first, rest = (items, schema.get("additionalItems", {})) if isinstance(items, list) else ((), items)
    first = schema.get("prefixItems", first)
    if index < len(first):
        yield first[index]
    else:
        yield from (rest, schema.get("unevaluatedItems", {}))
    if "contains" in schema:
        yield schema["contains"]


def _resolved(root: Any, reference: Any) -> Any:
    """Return the schema a local reference points to; None if it is not local or points nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for step in filter(None, unquote(reference[1:]).split("/")):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
        else:
            return None
    return found
