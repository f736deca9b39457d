"""The rules: what in a schema keeps a model from doing better, and what to write instead.

Not covered: what names and descriptions mean beyond a list of common words. A rule that finds nothing says nothing
about whether a model understands the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.linting.walk import SchemaPlace, escaped, places, properties_of, resolved
from sluicegate.plugins.json_schema import KEYWORDS

REASONS = frozenset({
    "reason", "reasons", "reasoning", "rationale", "explanation", "analysis", "thoughts", "thinking",
    "evidence", "steps",
})  # fmt: skip
CHOICES = frozenset({
    "status", "type", "kind", "category", "priority", "severity", "sentiment", "level", "gender", "currency",
    "country", "language", "unit", "state", "role", "urgency", "topic", "label", "class", "department",
    "channel", "outcome", "verdict", "decision",
})  # fmt: skip
FORMATS: Mapping[str, str] = {
    "date": "date", "birthday": "date", "deadline": "date", "timestamp": "date-time", "datetime": "date-time",
    "email": "email", "mail": "email", "url": "uri", "uri": "uri", "website": "uri", "uuid": "uuid", "ip": "ipv4",
}  # fmt: skip
MOST_DEPTH, MOST_PROPERTIES, MOST_IN_ALL, LONG_KEY = 4, 12, 40, 30
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CODE = re.compile(r"(?:\\d|\[0-9\]|\[A-Z\]|\[A-Fa-f0-9\]|\[a-f0-9\])\{\d")
_LISTED = re.compile(r"\b(?:one of|either|must be|allowed values|possible values)\b|\w+ ?[/|] ?\w+ ?[/|] ?\w+", re.I)
_BOUNDED = frozenset(["enum", "const", "pattern", "format", "maxLength", "$ref", "anyOf", "oneOf", "allOf"])


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding. `rule` is a key of `RULES`; `pointer` names the place; `text` says what to write there."""

    rule: str
    pointer: str
    text: str


Rule = Callable[[SchemaPlace, Any], Iterator[Advice]]


def advise(root: Any) -> list[Advice]:
    """Return what the rules find, rule by rule; of one place at most once for each."""
    visited = places(root)
    found = [advice for rule in RULES.values() for place in visited for advice in rule(place, root)]
    return [*found, *_in_all(visited)]


def words_of(name: str) -> list[str]:
    """Return the words of a property's name, in lower case: `dueDate` and `due_date` both give due, date."""
    return [word.lower() for word in _WORD.findall(name)]


def _kinds(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type")
    return (
        {kind}
        if isinstance(kind, str)
        else {k for k in kind if isinstance(k, str)}
        if isinstance(kind, list)
        else set()
    )


def reasons_first(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    names = list(properties_of(place))
    for at, name in enumerate(names):
        if at and REASONS & set(words_of(name)) and not REASONS & set(words_of(names[0])):
            where = f"{place.pointer}/properties/{escaped(name)}"
            yield Advice(
                "reasons-first", where, f"move it before {names[0]!r}: it is written after what it is to explain"
            )
            return


def enum(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if "string" not in _kinds(place.schema) or _BOUNDED & place.schema.keys():
        return
    said = str(place.schema.get("description", ""))
    if (place.name and words_of(place.name)[-1:] and words_of(place.name)[-1] in CHOICES) or _LISTED.search(said):
        yield Advice("enum", place.pointer, "list the values it can have in `enum`")


def description(place: SchemaPlace, root: Any) -> Iterator[Advice]:
    target = resolved(place.schema, root)
    known = {*place.schema, *(target if isinstance(target, dict) else ())}
    if place.name and not known & {"description", "enum", "const", "properties"}:
        yield Advice("description", place.pointer, "say in `description` what it is, in the words of the text")


def plain_keys(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    for name in properties_of(place):
        if re.fullmatch(r"[A-Za-z]{0,2}\d+|[A-Za-z]", name):
            text = f"{name!r} says nothing: name it by the words that the text uses for it"
            yield Advice("plain-keys", f"{place.pointer}/properties/{escaped(name)}", text)


def abbreviations(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    for name in properties_of(place):
        short = [word for word in words_of(name) if len(word) > 2 and not re.search("[aeiouy]", word)]
        if short and not short[0].isdigit():
            yield Advice("abbreviations", f"{place.pointer}/properties/{escaped(name)}", f"write {short[0]!r} in full")


def date_format(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if "string" not in _kinds(place.schema) or {"enum", "const", "format"} & place.schema.keys() or not place.name:
        return
    wanted = FORMATS.get(words_of(place.name)[-1] if words_of(place.name) else "")
    if wanted is not None:
        instead = " instead of the pattern" if "pattern" in place.schema else ""
        yield Advice("date-format", place.pointer, f'add `"format": "{wanted}"`{instead}')


def odd_patterns(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    pattern = place.schema.get("pattern")
    if isinstance(pattern, str) and _CODE.search(pattern) and "format" not in place.schema:
        text = "a pattern of so many digits or letters is not shown to most models: give an example in `description`"
        yield Advice("odd-patterns", place.pointer, text)


def nullable(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if place.name and not place.required and "null" not in _kinds(place.schema) and not _null_branch(place.schema):
        yield Advice("nullable", place.pointer, 'make it required and let it be null: `"type": [..., "null"]`')


def two_ways_of_nothing(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if place.name and not place.required and ("null" in _kinds(place.schema) or _null_branch(place.schema)):
        yield Advice("two-ways-of-nothing", place.pointer, "it may be null and may be left out: make it required")


def _null_branch(schema: dict[str, Any]) -> bool:
    return any(branch == {"type": "null"} for key in ("anyOf", "oneOf") for branch in _branches(schema, key))


def _branches(schema: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = schema.get(key)
    return [branch for branch in found if isinstance(branch, dict)] if isinstance(found, list) else []


def one_type(place: SchemaPlace, root: Any) -> Iterator[Advice]:
    for key in ("anyOf", "oneOf"):
        branches = [resolved(branch, root) for branch in _branches(place.schema, key)]
        branches = [branch for branch in branches if isinstance(branch, dict) and branch != {"type": "null"}]
        objects = [branch for branch in branches if "properties" in branch]
        if len(objects) > 1 and not _told_apart(objects):
            text = "nothing tells the kinds of objects apart: give each a first property with its own `const`"
            yield Advice("one-type", f"{place.pointer}/{escaped(key)}", text)
        elif len(branches) > 1 and not objects and any("string" in _kinds(branch) for branch in branches):
            yield Advice(
                "one-type", f"{place.pointer}/{key}", "a string says everything that the others say: keep one type"
            )
    if len(_kinds(place.schema) - {"null"}) > 1:
        yield Advice("one-type", place.pointer, "keep one type, besides null")


def _told_apart(objects: list[dict[str, Any]]) -> bool:
    firsts = [next(iter(one["properties"].items()), ("", None)) for one in objects]
    fixed = [below for _, below in firsts if isinstance(below, dict) and {"const", "enum"} & below.keys()]
    return len({name for name, _ in firsts}) == 1 and len(fixed) == len(objects)


def closed(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if properties_of(place) and not {"additionalProperties", "unevaluatedProperties"} & place.schema.keys():
        yield Advice("closed", place.pointer, 'add `"additionalProperties": false`: else a model may invent properties')


def max_length(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if place.name and "string" in _kinds(place.schema) and not _BOUNDED & place.schema.keys():
        yield Advice("max-length", place.pointer, "add `maxLength`: a model that does not stop fills the answer")


def number_bounds(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    bounds = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const"}
    if _kinds(place.schema) & {"number", "integer"} and not bounds & place.schema.keys():
        yield Advice("number-bounds", place.pointer, "add `minimum` and `maximum` where they are known")


def max_items(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if "array" in _kinds(place.schema) and "maxItems" not in place.schema and "items" in place.schema:
        yield Advice("max-items", place.pointer, "add `maxItems`: a model that does not stop fills the answer")


def not_a_keyword(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    for key in place.schema:
        if key not in KEYWORDS and not key.startswith("x-"):
            text = f"{key!r} is no keyword of JSON Schema: it asserts nothing"
            yield Advice("not-a-keyword", f"{place.pointer}/{escaped(key)}", text)


def flat(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    if place.depth == MOST_DEPTH and (properties_of(place) or "array" in _kinds(place.schema)):
        yield Advice("flat", place.pointer, f"objects and arrays nest deeper than {MOST_DEPTH}: make it flatter")


def long_keys(place: SchemaPlace, _: Any) -> Iterator[Advice]:
    for name in properties_of(place):
        if len(name) > LONG_KEY:
            text = (
                f"{len(name)} characters are written in every answer: shorten it, and put the rest into `description`"
            )
            yield Advice("long-keys", f"{place.pointer}/properties/{escaped(name)}", text)


def _in_all(visited: list[SchemaPlace]) -> Iterator[Advice]:
    """Yield advice about objects that are large, and about a schema that is."""
    counts = [(place, len(properties_of(place))) for place in visited]
    for place, count in counts:
        if count > MOST_PROPERTIES:
            text = f"{count} properties in one object: ask for them in two requests, or group them"
            yield Advice("fewer-properties", place.pointer, text)
    whole = sum(count for _, count in counts)
    if whole > MOST_IN_ALL:
        yield Advice("fewer-properties", "", f"{whole} properties in all: split the question")


RULES: Mapping[str, Rule] = {
    "reasons-first": reasons_first,
    "enum": enum,
    "description": description,
    "plain-keys": plain_keys,
    "abbreviations": abbreviations,
    "date-format": date_format,
    "odd-patterns": odd_patterns,
    "nullable": nullable,
    "two-ways-of-nothing": two_ways_of_nothing,
    "one-type": one_type,
    "closed": closed,
    "flat": flat,
    "long-keys": long_keys,
    "not-a-keyword": not_a_keyword,
    "max-length": max_length,
    "number-bounds": number_bounds,
    "max-items": max_items,
}
