"""Say in words why no value satisfies a schema, where keywords plainly contradict each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import Conjunction, SchemaRef
from sluicegate.grammar.schema.document import Subschema

_MOST = 64
"""Most schemas examined for one value."""
_LONGEST = 60
_BOUNDS = (
    ("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"),
)  # fmt: skip
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),), "boolean": (bool,), "string": (str,), "array": (list,), "object": (dict,),
    "integer": (int, float), "number": (int, float),
}  # fmt: skip
Schema = dict[str, Any]


def reason(terms: Conjunction) -> str:
    """Return a description of a contradiction among schemas that one value must satisfy; "" if none is found. A pattern
    may exclude a length, for example, without any keyword showing it."""
    found = list(_schemas(terms))
    if False in [schema for schema in found if isinstance(schema, bool)]:
        return "`false` allows none"
    schemas = [schema for schema in found if isinstance(schema, dict)]
    return next(filter(None, (rule(schemas) for rule in (_types, _constants, _bounds, _names))), "")


def _schemas(terms: Conjunction) -> Iterator[Schema | bool]:
    """Yield each schema that holds for the value, those behind `$ref` and `allOf` too."""
    waiting = [fact.node for fact in terms if isinstance(fact, SchemaRef) and fact.positive]
    seen: set[Subschema] = set()
    while waiting and len(seen) < _MOST:
        node = waiting.pop(0)
        if node in seen:
            continue
        seen.add(node)
        yield node.value
        if isinstance(node.value, dict):
            waiting += [node.child("allOf", i) for i in range(len(node.value.get("allOf", ())))]
            if "$ref" in node.value:
                waiting.append(node.document.resolve(node, "$ref"))


def _types(schemas: Sequence[Schema]) -> str:
    asked = [_listed(schema["type"]) for schema in schemas if "type" in schema]
    for i, one in enumerate(asked):
        for other in asked[:i]:
            if not any(_TYPES[a] == _TYPES[b] for a in one for b in other):
                return f"`type` {_shown(other)} and `type` {_shown(one)} exclude each other"
    return ""


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _constants(schemas: Sequence[Schema]) -> str:
    lists = [("enum", schema["enum"]) for schema in schemas if "enum" in schema]
    lists += [("const", [schema["const"]]) for schema in schemas if "const" in schema]
    if not lists:
        return ""
    name, values = min(lists, key=lambda one: len(one[1]))
    if not values:
        return "`enum` is empty"
    for other, allowed in lists:
        if not {canonical(value) for value in values} & {canonical(value) for value in allowed}:
            return f"`{name}` and `{other}` have no value in common"
    for types in [_listed(schema["type"]) for schema in schemas if "type" in schema]:
        if not any(_is_of(value, types) for value in values):
            return f"no value of `{name}` is of `type` {_shown(types)}"
    return f"no value of `{name}` satisfies what stands beside it"


def _is_of(value: Any, types: Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, float) and not value.is_integer() and "number" not in types:
        return False
    return any(isinstance(value, _TYPES[name]) for name in types)


def _bounds(schemas: Sequence[Schema]) -> str:
    for low, high in _BOUNDS:
        lows = [schema[low] for schema in schemas if low in schema]
        highs = [schema[high] for schema in schemas if high in schema]
        if lows and highs and max(lows) > min(highs):
            return f"`{low}` {_shown(max(lows))} is above `{high}` {_shown(min(highs))}"
    return _exclusive(schemas)


def _exclusive(schemas: Sequence[Schema]) -> str:
    """Say which bounds leave no number where one of them is exclusive; "" where they leave some. `exclusiveMinimum` and
    `exclusiveMaximum` are flags beside a bound in draft 4, numbers since."""
    lows = [(s[name], name) for s in schemas for name in ("minimum", "exclusiveMinimum") if _is_number(s.get(name))]
    highs = [(s[name], name) for s in schemas for name in ("maximum", "exclusiveMaximum") if _is_number(s.get(name))]
    if not lows or not highs or (max(lows)[0] < min(highs)[0]):
        return ""
    (least, low), (most, high) = max(lows), min(highs)
    if least == most and not {low, high} & {"exclusiveMinimum", "exclusiveMaximum"}:
        return ""
    return f"`{low}` {_shown(least)} leaves no number below `{high}` {_shown(most)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(schemas: Sequence[Schema]) -> str:
    needed = list(dict.fromkeys(name for schema in schemas for name in schema.get("required", ())))
    for schema in schemas:
        if isinstance(most := schema.get("maxProperties"), int | float) and len(needed) > most:
            return f"{len(needed)} names are `required`, above `maxProperties` {_shown(most)}"
        if schema.get("additionalProperties") is not False:
            continue
        patterns = schema.get("patternProperties", {})
        for name in needed:
            if name not in schema.get("properties", {}) and not any(_matches(pattern, name) for pattern in patterns):
                return f"{_shown(name)} is `required`, and `additionalProperties` false refuses it"
    return ""


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern may allow the name; True where `re` cannot read the pattern."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def _shown(value: Any) -> str:
    text = json.dumps(value[0] if isinstance(value, list) and len(value) == 1 else value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
