"""Draw random schemas that mix all keywords, with realistic lengths and counts and some extreme ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = Any
_NAMES = (
    *("id", "name", "type", "a", "ab", "abc", "b", "é", "", "x-ray", "createdAt", "user_name", "$ref", "description"),
    *("aws:region", "e-mail", "items", "0", "12", "value", "values", "a b", '"', "\\"),
)
_PATTERNS = (
    *("^[a-z]+$", "^(a|b)*c{2,9}$", "[0-9]{3}", "^.{1,200}$", "^[A-Z]{2}$", "^x-", "^[^/]*$", "\\d+", "^$", "a|b|c"),
    *("^(a|b)*a(a|b){9}$", "^[a-zA-Z0-9._-]{3,64}$", "^\\S+( \\S+){0,20}$", "^(?!foo)[a-z]+$", "[\\u00e0-\\u00ff]"),
    *("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "^\\w+(\\.\\w+)*$", "e.*e", "^.*$", "^(([a-z]+),)*[a-z]+$"),
    *("^arn:aws:[a-z0-9-]+:[a-z0-9-]*:\\d{12}:.+$", "^[^\\s]{2,}$", "^-?\\d{1,9}(\\.\\d{1,4})?$", "(ab)+$", "^v\\d+"),
)
_FORMATS = (
    *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "ipv4", "ipv6", "uri", "iri"),
    *("uri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex"),
)
_LENGTHS = (0, 1, 2, 3, 8, 20, 36, 40, 64, 100, 255, 256, 1_000, 2_048, 4_096, 65_535, 1_000_000)
_COUNTS = (0, 1, 2, 3, 5, 10, 40, 100, 300, 1_000)
_NUMBERS = (-1e9, -273.15, -100, -1, 0, 0.5, 1, 2, 7, 10, 99, 100, 255, 1_000, 65_535, 2**31 - 1, 2**53, 1e21)
_STEPS = (1, 2, 3, 5, 7, 10, 12, 60, 97, 100, 0.01, 0.25, 0.1, 1e-6)
_SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 12, -1, 3.5, 1e9, "", "a", "ab", "b c", "é", "x" * 30, "draft", "2024-01-01", [], {}),
)
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_DEEPEST = 4
_NODES = 60
"""Subschemas of one schema, after which only plain ones are drawn."""


_LARGE = 0.15
"""Share of schemas that are one large thing."""


def schema(pick: random.Random) -> Schema:
    """Draw a schema whose parts may refer to each other, or one of a shape that is known to be dear, perhaps inside of
    another value."""
    if pick.random() > _LARGE:
        return _Draw(pick).root()
    made = pick.choice(_SHAPES)(pick)
    return pick.choice((made, made, {"type": "array", "items": made, "minItems": 1}, _object({"a": made}, ["a"])))


class _Draw:
    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.nodes = 0
        self.definitions = [f"d{n}" for n in range(pick.choice((0, 0, 1, 3)))]
        self._keywords: tuple[tuple[str, Callable[[int], dict[str, Any]]], ...] = (
            ("string", self._string),
            ("number", self._number),
            ("array", self._array),
            ("object", self._object),
        )

    def root(self) -> Schema:
        made = self.one(0, "object") if self.pick.random() < 0.5 else self.one(0)
        if self.definitions and isinstance(made, dict):
            made["$defs"] = {name: self.one(1) for name in self.definitions}
        return made

    def one(self, depth: int, kind: str | None = None) -> Schema:
        """Draw a schema for a place `depth` below the root."""
        self.nodes += 1
        pick = self.pick
        if depth >= _DEEPEST or self.nodes > _NODES:
            return pick.choice((True, {"type": "string"}, {"type": "integer"}, {"enum": ["a", "b"]}, {"maxLength": 40}))
        way = pick.random()
        if kind is None and way < 0.05:
            return pick.choice((True, {}, {"not": {"type": pick.choice(_TYPES)}}))
        if kind is None and way < 0.12 and self.definitions:
            return {"$ref": f"#/$defs/{pick.choice(self.definitions)}"}
        if kind is None and way < 0.22:
            return self._listed()
        made = self._typed(depth, kind)
        if pick.random() < 0.3:
            made |= self._combined(depth)
        return made

    def _typed(self, depth: int, kind: str | None) -> dict[str, Any]:
        """Draw the keywords of one type, seldom of several: those of other types say nothing."""
        pick = self.pick
        chosen = [each for each in self._keywords if each[0] == kind] or [pick.choice(self._keywords)]
        if kind is None and pick.random() < 0.15:
            chosen = pick.sample(self._keywords, 2)
        made: dict[str, Any] = {}
        for _, draw in chosen:
            made |= draw(depth)
        names = [pick.choice(("integer", "number")) if name == "number" else name for name, _ in chosen]
        if len(names) > 1 or pick.random() < 0.1:
            made["type"] = sorted({*names, pick.choice(_TYPES)})
        elif kind is not None or pick.random() < 0.9:
            made["type"] = names[0]
        return made

    def _listed(self) -> dict[str, Any]:
        pick = self.pick
        way = pick.random()
        if way < 0.2:
            return {"const": pick.choice(_SCALARS)}
        if way < 0.8:
            return {"enum": pick.sample(_SCALARS, pick.randint(1, 9))}
        many = pick.choice((50, 300, 2_000))
        form = pick.choice(("{:05d}", "code {}", "{0:x}-{0}"))
        return {"enum": [form.format(n * n) for n in range(many)] if pick.random() < 0.7 else list(range(many))}

    def _some(self, **ways: Callable[[], Any]) -> dict[str, Any]:
        """Draw each keyword with a chance of a third."""
        return {name: draw() for name, draw in ways.items() if self.pick.random() < 0.33}

    def _bounds(self, low: str, high: str, of: tuple[Any, ...]) -> dict[str, Any]:
        pick = self.pick
        first, second = sorted((pick.choice(of), pick.choice(of)))
        return {**({low: first} if pick.random() < 0.4 else {}), **({high: second} if pick.random() < 0.4 else {})}

    def _string(self, _: int) -> dict[str, Any]:
        pick = self.pick
        return self._bounds("minLength", "maxLength", _LENGTHS) | self._some(
            pattern=lambda: pick.choice(_PATTERNS), format=lambda: pick.choice(_FORMATS)
        )

    def _number(self, _: int) -> dict[str, Any]:
        pick = self.pick
        low, high = pick.choice((("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")))
        return self._bounds(low, high, _NUMBERS) | self._some(multipleOf=lambda: pick.choice(_STEPS))

    def _array(self, depth: int) -> dict[str, Any]:
        pick = self.pick
        made = self._bounds("minItems", "maxItems", _COUNTS) | self._some(
            uniqueItems=lambda: True,
            prefixItems=lambda: [self.one(depth + 1) for _ in range(pick.randint(1, 4))],
            contains=lambda: self.one(depth + 1),
            unevaluatedItems=lambda: pick.choice((False, self.one(depth + 1))),
        )
        if pick.random() < 0.7:
            made["items"] = self.one(depth + 1)
        if "contains" in made:
            made |= self._bounds("minContains", "maxContains", (0, 1, 2, 3, 10, 100))
        return made

    def _object(self, depth: int) -> dict[str, Any]:
        pick = self.pick
        names = self._names(pick.choice((0, 1, 3, 3, 8, 8, 20, 60, 300)))
        made: dict[str, Any] = {}
        if names:
            made["properties"] = {name: self.one(depth + 1) for name in names}
        if names and pick.random() < 0.6:
            made["required"] = pick.sample(names, pick.choice((1, min(3, len(names)), len(names) // 2, len(names))))
        some = self._some(
            patternProperties=lambda: {p: self.one(depth + 1) for p in pick.sample(_PATTERNS, pick.randint(1, 4))},
            additionalProperties=lambda: pick.choice((False, False, self.one(depth + 1))),
            propertyNames=lambda: {"type": "string", **self._string(depth)},
            dependentRequired=lambda: {self._name(names): [self._name(names)] for _ in range(pick.randint(1, 3))},
            dependentSchemas=lambda: {self._name(names): self.one(depth + 2, "object")},
            unevaluatedProperties=lambda: pick.choice((False, self.one(depth + 1))),
        )
        kept = {key: value for key, value in some.items() if pick.random() < 0.6}
        bounds = self._bounds("minProperties", "maxProperties", _COUNTS) if pick.random() < 0.3 else {}
        return made | kept | bounds

    def _names(self, count: int) -> list[str]:
        pick = self.pick
        if count <= 8:
            return pick.sample(_NAMES, count)
        stem = pick.choice(("field", "p", "Item name ", "x" * 20))
        return [f"{stem}{n}" for n in range(count)]

    def _name(self, names: list[str]) -> str:
        return self.pick.choice(names if names and self.pick.random() < 0.8 else _NAMES)

    def _combined(self, depth: int) -> dict[str, Any]:
        pick = self.pick

        def several() -> list[Schema]:
            return [self.one(depth + 1) for _ in range(pick.choice((1, 2, 2, 3, 6)))]

        ways: tuple[Callable[[], dict[str, Any]], ...] = (
            lambda: {"allOf": several()},
            lambda: {"anyOf": several()},
            lambda: {"oneOf": several()},
            lambda: {"not": self.one(depth + 1)},
            lambda: {"if": self.one(depth + 1), "then": self.one(depth + 1), "else": self.one(depth + 1)},
        )
        return pick.choice(ways)()


# --- shapes that are known to be dear ---------------------------------------------------------------------------------


def _object(properties: dict[str, Any], required: list[str], **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, **more}


def _names_of(pick: random.Random, count: int) -> list[str]:
    form = pick.choice(("p{}", "{0}", "a name of some length {}", "x" * 200 + "{}", "{:032x}"))
    return [form.format(pick.getrandbits(96) if "032" in form else at) for at in range(count)]


def _value(pick: random.Random) -> Schema:
    return pick.choice(
        (
            {"type": "string"},
            {"type": "integer"},
            {"type": "string", "pattern": pick.choice(_PATTERNS)},
            {"type": "string", "format": pick.choice(_FORMATS), "maxLength": 300},
            {"anyOf": [{"type": "null"}, {"type": "number", "multipleOf": 0.01}]},
            {"type": "object", "minProperties": 2},
            {"enum": ["a", 1, None, {"b": [2]}]},
        )
    )


def _many_required(pick: random.Random) -> Schema:
    names = _names_of(pick, pick.choice((30, 300, 2_000, 5_000)))
    properties = {name: _value(pick) for name in names[:60]} | {name: {"type": "string"} for name in names[60:]}
    return _object(properties, pick.sample(names, pick.choice((len(names), len(names) // 2))))


def _many_conditions(pick: random.Random) -> Schema:
    count = pick.choice((7, 14, 40, 300))
    parts = []
    for at in range(count):
        of = {"properties": {"type": pick.choice(({"const": f"T{at}"}, {"enum": [f"T{at}", f"U{at % 5}"]}))}}
        then = _object({f"p{at}": _value(pick), "shared": _value(pick)}, pick.choice(([], [f"p{at}"], ["shared"])))
        ways = ({"if": of, "then": then}, {"if": of, "then": then, "else": {"required": ["type"]}}, {"not": of})
        parts.append(pick.choice((*ways[:2], *ways)))
    return _object({"type": {"type": "string"}}, pick.choice(([], ["type"])), allOf=parts)


def _many_dependencies(pick: random.Random) -> Schema:
    count = pick.choice((20, 60, 300))
    names = [f"p{at}" for at in range(count + 1)]
    schemas = {f"p{at}": _object({f"p{at + 1}": _value(pick)}, [f"p{at + 1}"]) for at in range(count)}
    lists = {f"p{at}": pick.sample(names, pick.choice((1, 5))) for at in range(count)}
    more = pick.choice(({"dependentSchemas": schemas}, {"dependentRequired": lists}))
    return _object({name: _value(pick) for name in names}, ["p0"], **more)


def _new_names(pick: random.Random) -> Schema:
    least = pick.choice((5, 40, 300))
    kinds = {pattern: _value(pick) for pattern in pick.sample(_PATTERNS, pick.randint(0, 6))}
    more: dict[str, Any] = pick.choice(({}, {"propertyNames": {"format": "uuid"}}, {"propertyNames": {"maxLength": 9}}))
    return {
        "type": "object",
        "patternProperties": kinds,
        "additionalProperties": _value(pick),
        "minProperties": least,
        **more,
    }


def _many_items(pick: random.Random) -> Schema:
    made: dict[str, Any] = {"type": "array", "items": _value(pick), "minItems": pick.choice((30, 300, 10_000))}
    if pick.random() < 0.4:
        made["uniqueItems"] = True
    if pick.random() < 0.3:
        made |= {"contains": _value(pick), "minContains": pick.choice((1, 30, 300))}
    return made


def _long_text(pick: random.Random) -> Schema:
    count = pick.choice((300, 10_000, 100_000))
    text = pick.choice(("x", "a\\b", "é", '"')) * count
    many = {f"k{at}": "v" * 9 for at in range(count // 20)}
    bounded = {
        "type": "string",
        "minLength": count,
        **pick.choice(({}, {"pattern": "^[a-z]+$"}, {"pattern": "( [a-z]{3})+$"})),
    }
    return pick.choice(({"const": text}, {"enum": [text, text + "y", "z"]}, {"const": many}, bounded))


def _many_alternatives(pick: random.Random) -> Schema:
    count = pick.choice((10, 60, 200))
    parts = [
        _object({"kind": {"const": f"k{at}"}, f"v{at}": _value(pick)}, pick.choice((["kind"], ["kind", f"v{at}"], [])))
        for at in range(count)
    ]
    return {pick.choice(("oneOf", "anyOf")): parts}


_SHAPES: tuple[Callable[[random.Random], Schema], ...] = (
    _many_required,
    _many_conditions,
    _many_dependencies,
    _new_names,
    _many_items,
    _long_text,
    _many_alternatives,
)
