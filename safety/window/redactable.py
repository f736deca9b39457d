"""Which strings of a JSON answer may be redacted without breaking its schema, and with what.

Where the schema leaves a string free, any replacement does. Where it has a `format` and the whole value goes, a value
of that format that says nothing takes its place. Anything else is not replaced: the answer is blocked.

Not covered: schemas that decide by other values (`if`, `dependentSchemas`, `uniqueItems`), and `oneOf` taken as
`anyOf`; what was streamed is still for an independent validator to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from sluicegate.plugins.json_schema import named
from sluicegate.safety.window.json_window import Place, Redactor
from sluicegate.safety.window.released import Redaction

_SAYS_NOTHING = {
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
_LISTS = named(lambda keyword: keyword.kind == "any" and keyword.form == "schemas")
_BRANCHES = named(lambda keyword: keyword.kind == "any" and keyword.form == "schema" and keyword.redactable)
_MAX_STEPS = 64
"""References followed for one value; a schema may refer to itself."""


def redactor_for(schema: Any) -> Redactor:
    """For answers to `schema`. The result keeps no state."""

    def redact(place: Place, redaction: Redaction) -> str | None:
        if place.kind != "string":
            return None
        return _replacement(list(_at(schema, schema, place.path, _MAX_STEPS)), place, redaction)

    return redact


def _replacement(applying: list[Any], place: Place, redaction: Redaction) -> str | None:
    """A text that every schema in `applying` accepts in place of the span, as far as can be told without the rest."""
    formats = {s["format"] for s in applying if isinstance(s, Mapping) and "format" in s}
    if any(s is None or (isinstance(s, Mapping) and any(k in s for k in _FIXED)) for s in applying) or len(formats) > 1:
        return None
    if formats:
        text = _SAYS_NOTHING.get(formats.pop()) if place.whole else None
    else:
        text = redaction.replacement
    return text if text is not None and _fits(applying, place, redaction, text) else None


def _fits(applying: list[Any], place: Place, redaction: Redaction, text: str) -> bool:
    """A whole value is measured; a part must not grow past a maximum nor shrink below a minimum."""
    bounds = [s for s in applying if isinstance(s, Mapping)]
    longest = min((s["maxLength"] for s in bounds if "maxLength" in s), default=None)
    shortest = max((s["minLength"] for s in bounds if "minLength" in s), default=0)
    if place.whole:
        return shortest <= len(text) and (longest is None or len(text) <= longest)
    grown = len(text) - (redaction.end - redaction.start)
    return (longest is None or grown <= 0) and (shortest == 0 or grown >= 0)


def _at(root: Any, schema: Any, path: tuple[str | int, ...], steps: int) -> Iterator[Any]:
    """Every subschema that may apply at `path`; None stands for one that cannot be told."""
    if steps <= 0:
        yield None
        return
    if not isinstance(schema, Mapping):
        return
    if not path:
        yield schema
    for part in _beside(root, schema):
        yield from [None] if part is None else _at(root, part, path, steps - 1)
    if path:
        for part in _below(schema, path[0]):
            yield from _at(root, part, path[1:], steps - 1)


def _beside(root: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    for key in _LISTS & schema.keys():
        yield from schema[key]
    for key in _BRANCHES & schema.keys():
        yield schema[key]
    if "$ref" in schema:
        yield _referred(root, schema["$ref"])


def _below(schema: Mapping[str, Any], step: str | int) -> Iterator[Any]:
    if isinstance(step, int):
        first = schema.get("prefixItems", ())
        yield first[step] if step < len(first) else schema.get("items", {})
        if "contains" in schema:
            yield schema["contains"]
        return
    known = schema.get("properties", {})
    if step in known:
        yield known[step]
    yield from schema.get("patternProperties", {}).values()
    for key in ("additionalProperties", "unevaluatedProperties"):
        if step not in known and key in schema:
            yield schema[key]


def _referred(root: Any, reference: Any) -> Any:
    """The schema a local reference points to; None where it is not local or points nowhere."""
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
