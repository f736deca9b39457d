"""Keywords that look at the value itself: what one schema says of numbers, strings, objects and arrays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.formats import FORMAT_NAMES
from sluicegate.grammar.options import GrammarLimits
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.containers import Array, Conjunction, Contains, Items, Members, Object, SchemaRef
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.lint import compile_pattern
from sluicegate.grammar.schema.numbers import Numbers, NumberSet
from sluicegate.grammar.schema.strings import Strings, StringSet


def exact(number: int | float) -> Fraction:
    """The decimal that the schema's author wrote."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def numbers_of(node: Subschema) -> NumberSet:
    schema = node.value
    low: list[numbers.Bound] = []
    high: list[numbers.Bound] = []
    for bounds, plain, strict in ((low, "minimum", "exclusiveMinimum"), (high, "maximum", "exclusiveMaximum")):
        if plain in schema:
            bounds.append((exact(schema[plain]), schema.get(strict) is True))
        if strict in schema and not isinstance(schema[strict], bool):
            bounds.append((exact(schema[strict]), True))
    steps = [schema[key] for key in ("multipleOf", "divisibleBy") if key in schema]
    result = numbers.EVERY
    for bound in low:
        result = numbers.intersect(result, (Numbers(low=bound),))
    for bound in high:
        result = numbers.intersect(result, (Numbers(high=bound),))
    for step in steps:
        result = numbers.intersect(result, (Numbers(step=exact(step)),))
    return result


def strings_of(node: Subschema, limits: GrammarLimits) -> StringSet:
    schema = node.value
    found = Strings(low=_count(schema, "minLength") or 0, high=_count(schema, "maxLength"))
    result: StringSet = strings.EVERY if found == Strings() else (found,)
    if "pattern" in schema:
        dfa = compile_pattern(schema["pattern"], limits, node.at("pattern"))
        result = strings.intersect(result, (Strings(dfa=dfa),))
    if schema.get("format") in FORMAT_NAMES:
        result = strings.intersect(result, (Strings(dfa=CharDfa.from_format(schema["format"])),))
    return result


def object_of(node: Subschema, names: StringSet) -> Object:
    """`names`: what `propertyNames` allows."""
    schema = node.value
    named = tuple((name, (SchemaRef(node.child("properties", name)),)) for name in schema.get("properties", ()))
    patterns = tuple(
        (text, (SchemaRef(node.child("patternProperties", text)),)) for text in schema.get("patternProperties", ())
    )
    rest = (SchemaRef(node.child("additionalProperties")),) if "additionalProperties" in schema else None
    members = Members(named, patterns, rest)
    return Object(
        parts=() if members == Members() else (members,),
        required=required(schema),
        low=_count(schema, "minProperties") or 0,
        high=_count(schema, "maxProperties"),
        names=names,
    )


def required(schema: dict[str, Any]) -> tuple[str, ...]:
    """Names of the properties that an object must have."""
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
        parts=() if items == Items() else (items,),
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
