"""Visit the schemas of a schema: properties, items, alternatives, and definitions that are referred to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = Any
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_TABLES = ("patternProperties", "$defs", "definitions", "dependentSchemas")
MOST_PLACES = 20_000


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A schema within a schema. `name`: of the property it is the value of, else ""; `required`: by its object;
    `depth`: how many objects and arrays its values lie in."""

    pointer: str
    schema: dict[str, Any]
    name: str = ""
    required: bool = True
    depth: int = 0


def places(root: Json) -> list[SchemaPlace]:
    """Return every object schema once, the outermost first; at most `MOST_PLACES`."""
    found: list[SchemaPlace] = []
    seen: set[int] = set()
    waiting = [SchemaPlace("", root)] if isinstance(root, dict) else []
    while waiting and len(found) < MOST_PLACES:
        place = waiting.pop(0)
        if id(place.schema) in seen:
            continue
        seen.add(id(place.schema))
        found.append(place)
        waiting += [below for below in _below(place, root) if isinstance(below.schema, dict)]
    return found


def _below(place: SchemaPlace, root: Json) -> Iterator[SchemaPlace]:
    schema, at, depth = place.schema, place.pointer, place.depth
    if isinstance(target := resolved(schema, root), dict) and target is not schema:
        yield SchemaPlace(str(schema["$ref"])[1:], target, place.name, place.required, depth)
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    for name, below in _table(schema.get("properties")):
        yield SchemaPlace(f"{at}/properties/{escaped(name)}", below, name, name in required, depth + 1)
    for key in _TABLES:
        for name, below in _table(schema.get(key)):
            yield SchemaPlace(f"{at}/{key}/{escaped(name)}", below, depth=depth + (key == "patternProperties"))
    for key in _LISTS:
        for number, below in enumerate(schema[key] if isinstance(schema.get(key), list) else ()):
            yield SchemaPlace(f"{at}/{key}/{number}", below, place.name, place.required, depth + (key == "prefixItems"))
    for key in _SINGLE:
        if isinstance(schema.get(key), dict):
            yield SchemaPlace(
                f"{at}/{key}", schema[key], depth=depth + (key in ("items", "additionalProperties", "contains"))
            )


def resolved(schema: dict[str, Any], root: Json) -> Json:
    """Return what a `$ref` within the document leads to, or `schema` itself where there is none."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    found = root
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return schema if found is None else found


def properties_of(place: SchemaPlace) -> dict[str, dict[str, Any]]:
    """Return the properties of an object by name, without those whose schema is true or false."""
    return {name: below for name, below in _table(place.schema.get("properties")) if isinstance(below, dict)}


def _table(value: Json) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ()


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
