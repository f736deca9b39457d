"""Compile the keywords of one schema that look at the value itself, type by type."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sluicegate.grammar.automata.formats import FORMAT_NAMES, format_dfa
from sluicegate.grammar.limits import GrammarLimits
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.containers import (
    NO_ITEMS,
    NO_MEMBERS,
    Array,
    Conjunction,
    Contains,
    Items,
    Members,
    Object,
    SchemaRef,
)
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.lint import compile_pattern
from sluicegate.grammar.schema.numbers import WHOLE_DOUBLES, Numbers, NumberSet
from sluicegate.grammar.schema.strings import Strings, StringSet


def exact(number: int | float) -> Fraction:
    """Return the decimal that the schema spells; of a double that is too large for a fraction, its own value, which is
    what validators compare whole numbers with."""
    if isinstance(number, int) or abs(number) >= WHOLE_DOUBLES:
        return Fraction(number)
    return Fraction(repr(number))


def numbers_of(node: Subschema) -> NumberSet:
    """Return the numbers that the keywords about numbers allow."""
    found = numbers.EVERY
    for keyword, read in NUMBERS.items():
        if keyword in node.value:
            found = numbers.intersect(found, (read(node),))
    return found


def strings_of(node: Subschema, limits: GrammarLimits) -> StringSet:
    """Return the strings that the keywords about strings allow. Raises a `GrammarError` for a pattern."""
    found = strings.EVERY
    for keyword, read in STRINGS.items():
        if keyword in node.value:
            found = strings.intersect(found, (read(node, limits),))
    return found


def _low(node: Subschema) -> Numbers:
    """Read `minimum`. In draft 4 a flag beside the bound says that it is excluded."""
    return Numbers(low=(exact(node.value["minimum"]), node.value.get("exclusiveMinimum") is True))


def _high(node: Subschema) -> Numbers:
    return Numbers(high=(exact(node.value["maximum"]), node.value.get("exclusiveMaximum") is True))


def _above(node: Subschema) -> Numbers:
    value = node.value["exclusiveMinimum"]
    return Numbers() if isinstance(value, bool) else Numbers(low=(exact(value), True))


def _below(node: Subschema) -> Numbers:
    value = node.value["exclusiveMaximum"]
    return Numbers() if isinstance(value, bool) else Numbers(high=(exact(value), True))


def _pattern(node: Subschema, limits: GrammarLimits) -> Strings:
    return Strings(dfa=compile_pattern(node.value["pattern"], limits, node.at("pattern")))


def _format(node: Subschema, limits: GrammarLimits) -> Strings:
    """Return the strings of a format. Unknown formats annotate only."""
    name = node.value["format"]
    return Strings(dfa=format_dfa(name)) if name in FORMAT_NAMES else Strings()


NUMBERS: dict[str, Callable[[Subschema], Numbers]] = {
    "minimum": _low,
    "maximum": _high,
    "exclusiveMinimum": _above,
    "exclusiveMaximum": _below,
    "multipleOf": lambda node: Numbers(step=exact(node.value["multipleOf"])),
    "divisibleBy": lambda node: Numbers(step=exact(node.value["divisibleBy"])),
}
STRINGS: dict[str, Callable[[Subschema, GrammarLimits], Strings]] = {
    "minLength": lambda node, limits: Strings(low=int(node.value["minLength"])),
    "maxLength": lambda node, limits: Strings(high=int(node.value["maxLength"])),
    "pattern": _pattern,
    "format": _format,
}
"""Keywords about one type, each read separately; all of them apply together."""


def object_of(node: Subschema, names: StringSet) -> Object:
    """Return the constraint on objects that `node` states. `names`: what `propertyNames` allows."""
    schema = node.value
    named = tuple((name, (SchemaRef(node.child("properties", name)),)) for name in schema.get("properties", ()))
    patterns = tuple(
        (text, (SchemaRef(node.child("patternProperties", text)),)) for text in schema.get("patternProperties", ())
    )
    rest = (SchemaRef(node.child("additionalProperties")),) if "additionalProperties" in schema else None
    members = Members(named, patterns, rest)
    return Object(
        parts=() if members == NO_MEMBERS else (members,),
        required=required(schema),
        low=_count(schema, "minProperties") or 0,
        high=_count(schema, "maxProperties"),
        names=names,
    )


def required(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the properties that an object must have."""
    names = schema.get("required", ())
    return tuple(dict.fromkeys(names)) if isinstance(names, list) else ()  # draft 3 has a boolean beside the property


def array_of(node: Subschema) -> Array:
    schema = node.value
    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction | None = None
    if "prefixItems" in schema:
        prefix = tuple((SchemaRef(node.child("prefixItems", i)),) for i in range(len(schema["prefixItems"])))
    if isinstance(schema.get("items"), list):
        prefix = tuple((SchemaRef(node.child("items", i)),) for i in range(len(schema["items"])))
        if "additionalItems" in schema:
            rest = (SchemaRef(node.child("additionalItems")),)
    elif "items" in schema:
        rest = (SchemaRef(node.child("items")),)
    items = Items(prefix, rest)
    return Array(
        parts=() if items == NO_ITEMS else (items,),
        low=_count(schema, "minItems") or 0,
        high=_count(schema, "maxItems"),
        unique=schema.get("uniqueItems") is True,
        contains=_contains(node),
    )


def _contains(node: Subschema) -> tuple[Contains, ...]:
    if "contains" not in node.value:
        return ()
    low = _count(node.value, "minContains")
    return (Contains(SchemaRef(node.child("contains")), 1 if low is None else low, _count(node.value, "maxContains")),)


def _count(schema: dict[str, Any], keyword: str) -> int | None:
    value = schema.get(keyword)
    return None if value is None else int(value)
