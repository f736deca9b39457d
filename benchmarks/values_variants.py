"""Pairs of schemas that differ by one change, for what `sluicegate lint` says about it.

Each function takes a question and returns it before and after the change, with the fields that the change concerns, or
None where it concerns none of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Json = Any
Path = tuple[str, ...]
DATE = r"^\d{4}-\d{2}-\d{2}$"


@dataclass(frozen=True, slots=True)
class Item:
    """A question and its right answer. `paths`: the fields that count; where none are given, all leaves."""

    messages: tuple[Mapping[str, Any], ...]
    schema: Json
    expected: Json
    paths: tuple[Path, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.paths:
            object.__setattr__(self, "paths", leaves(self.expected))


@dataclass(frozen=True, slots=True)
class Pair:
    before: Item
    after: Item


def leaves(value: Json, at: Path = ()) -> tuple[Path, ...]:
    """Return the paths to all values of `value` that are no objects."""
    if isinstance(value, dict) and value:
        return tuple(path for key, below in value.items() for path in leaves(below, (*at, key)))
    return (at,)


def _of_properties(item: Item, change: Callable[[str, Json], Json | None]) -> Pair | None:
    """Return the question with `change` applied to properties of its outermost object, before, and as it is, after.
    `change` returns None for a property that it leaves alone."""
    properties = dict(item.schema.get("properties", {}))
    changed = {name: new for name, old in properties.items() if (new := change(name, old)) is not None}
    paths = tuple(path for path in item.paths if path and path[0] in changed)
    if not paths:
        return None
    before = replace(item, schema={**item.schema, "properties": {**properties, **changed}}, paths=paths)
    return Pair(before, replace(item, paths=paths))


def enum(item: Item) -> Pair | None:
    """Pair a free string with the `enum` of what it can be."""
    return _of_properties(item, lambda _, old: _without(old, "enum") if "enum" in old else None)


def _without(schema: Json, key: str) -> Json:
    return {"type": "string", **{name: value for name, value in schema.items() if name != key}}


def description(item: Item) -> Pair | None:
    """Pair a schema without descriptions with one that has them."""

    def change(_: str, old: Json) -> Json | None:
        return {name: value for name, value in old.items() if name != "description"} if "description" in old else None

    return _of_properties(item, change)


def date_format(item: Item) -> Pair | None:
    """Pair a pattern of digits for a date with `format: date`."""

    def change(_: str, old: Json) -> Json | None:
        return {**_without(old, "format"), "pattern": DATE} if old.get("format") == "date" else None

    return _of_properties(item, change)


def max_length(item: Item) -> Pair | None:
    """Pair a free string with one of at most 80 characters."""
    return _swapped(
        item, lambda _, old: {**old, "maxLength": 80} if old.get("type") == "string" and "enum" not in old else None
    )


def number_bounds(item: Item) -> Pair | None:
    """Pair a number without bounds with one of at least 0 and at most a million."""
    kinds = ("number", "integer")
    return _swapped(
        item, lambda _, old: {**old, "minimum": 0, "maximum": 1_000_000} if old.get("type") in kinds else None
    )


def max_items(item: Item) -> Pair | None:
    """Pair an array without an end with one of at most 10 items."""
    return _swapped(item, lambda _, old: {**old, "maxItems": 10} if old.get("type") == "array" else None)


def _swapped(item: Item, change: Callable[[str, Json], Json | None]) -> Pair | None:
    """Do as `_of_properties`, where the change is what comes after."""
    found = _of_properties(item, change)
    return None if found is None else Pair(found.after, found.before)


def one_type(item: Item) -> Pair | None:
    """Pair `anyOf` of a number and a string with the number alone."""

    def change(_: str, old: Json) -> Json | None:
        if old.get("type") not in ("number", "integer"):
            return None
        return {"anyOf": [old, {"type": "string"}]}

    return _of_properties(item, change)


def optional_to_nullable(item: Item) -> Pair | None:
    """Pair properties that may be left out with ones that are required and may be null. All fields count."""
    before, after = {}, {}
    for name, old in item.schema.get("properties", {}).items():
        plain = _not_null(old)
        before[name] = plain
        after[name] = {"anyOf": [plain, {"type": "null"}]}
    absent = [name for name in before if item.expected.get(name) is None]
    if not absent:
        return None
    paths = tuple(path for path in item.paths if path[0] not in absent) + tuple((name,) for name in absent)
    optional = {**item.schema, "properties": before, "required": []}
    nullable = {**item.schema, "properties": after, "required": list(after)}
    return Pair(replace(item, schema=optional, paths=paths), replace(item, schema=nullable, paths=paths))


def _not_null(schema: Json) -> Json:
    if "anyOf" in schema:
        rest = [branch for branch in schema["anyOf"] if branch != {"type": "null"}]
        return rest[0] if len(rest) == 1 else {**schema, "anyOf": rest}
    if isinstance(schema.get("type"), list):
        return {**schema, "type": next(name for name in schema["type"] if name != "null")}
    return schema


def flat(item: Item) -> Pair | None:
    """Pair a schema two objects deeper with the flat one."""
    if "$defs" in item.schema:
        return None
    schema, expected, paths = item.schema, item.expected, item.paths
    for name in ("details", "record"):
        schema = {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
        expected, paths = {name: expected}, tuple((name, *path) for path in paths)
    return Pair(replace(item, schema=schema, expected=expected, paths=paths), item)


def fewer_properties(item: Item) -> Pair | None:
    """Pair all properties in one request with the first half of them alone."""
    names = list(item.schema.get("properties", {}))
    if len(names) < 4:
        return None
    kept = names[: len(names) // 2]
    paths = tuple(path for path in item.paths if path[0] in kept)
    schema = {
        **item.schema,
        "properties": {name: item.schema["properties"][name] for name in kept},
        "required": [name for name in item.schema.get("required", []) if name in kept],
    }
    return Pair(replace(item, paths=paths), replace(item, schema=schema, paths=paths)) if paths else None


def plain_keys(item: Item) -> Pair | None:
    """Pair properties named `f1`, `f2` ..., each described by what it means, with properties of that name."""
    names = {name: f"f{number}" for number, name in enumerate(item.schema.get("properties", {}), 1)}
    if any("$ref" in below for below in item.schema.get("properties", {}).values()):
        return None
    opaque = {
        names[name]: {"description": re.sub(r"[_-]", " ", name), **below}
        for name, below in item.schema["properties"].items()
    }
    required = [names[name] for name in item.schema.get("required", [])]
    expected = {names[name]: value for name, value in item.expected.items()}
    schema = {**item.schema, "properties": opaque, "required": required}
    paths = tuple((names[path[0]], *path[1:]) for path in item.paths)
    return Pair(replace(item, schema=schema, expected=expected, paths=paths), item)


def closed(item: Item) -> Pair | None:
    """Pair a schema that allows other properties with one of `additionalProperties: false`."""
    opened = {name: value for name, value in item.schema.items() if name != "additionalProperties"}
    return Pair(replace(item, schema=opened), item) if opened != item.schema else None


def text_order(item: Item) -> Pair | None:
    """Pair properties in the order of their names backwards with the order in which the text tells them."""
    properties = item.schema.get("properties", {})
    text = str(item.messages[-1].get("content", "")).lower()
    places = {name: text.find(str(item.expected.get(name)).lower()) for name in properties}
    if len(properties) < 3 or min(places.values()) < 0:
        return None
    ordered = sorted(properties, key=lambda name: places[name])
    return Pair(_ordered(item, ordered[::-1]), _ordered(item, ordered))


def _ordered(item: Item, names: list[str]) -> Item:
    properties = {name: item.schema["properties"][name] for name in names}
    return replace(item, schema={**item.schema, "properties": properties})


def reasons_first(item: Item) -> Pair | None:
    """Pair a schema whose last property is a string `reasoning` with one where it is the first."""
    reason = {"reasoning": {"type": "string", "maxLength": 200, "description": "why, in a few words"}}
    properties, required = item.schema.get("properties", {}), [*item.schema.get("required", []), "reasoning"]
    last = {**item.schema, "properties": {**properties, **reason}, "required": required}
    first = {**item.schema, "properties": {**reason, **properties}, "required": required}
    return Pair(replace(item, schema=last), replace(item, schema=first))


def abbreviations(item: Item) -> Pair | None:
    """Pair names cut to consonants (`invoice_number`: `nvcnmbr`) with whole ones."""
    names: dict[str, str] = {}
    pick = random.Random(1)
    for name in item.schema.get("properties", {}):
        short = re.sub(r"[aeiouAEIOU_-]", "", name)[:5] or name[:2]
        while short in names.values():
            short += pick.choice("bcdfg")
        names[name] = short
    if any("$ref" in below for below in item.schema.get("properties", {}).values()):
        return None
    schema = {
        **item.schema,
        "properties": {names[name]: below for name, below in item.schema["properties"].items()},
        "required": [names[name] for name in item.schema.get("required", [])],
    }
    expected = {names[name]: value for name, value in item.expected.items()}
    paths = tuple((names[path[0]], *path[1:]) for path in item.paths)
    return Pair(replace(item, schema=schema, expected=expected, paths=paths), item)


VARIANTS: Mapping[str, Callable[[Item], Pair | None]] = {
    "reasons-first": reasons_first,
    "text-order": text_order,
    "enum": enum,
    "description": description,
    "plain-keys": plain_keys,
    "abbreviations": abbreviations,
    "date-format": date_format,
    "nullable": optional_to_nullable,
    "flat": flat,
    "fewer-properties": fewer_properties,
    "one-type": one_type,
    "closed": closed,
    "max-length": max_length,
    "number-bounds": number_bounds,
    "max-items": max_items,
}
