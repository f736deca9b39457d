"""Is a schema well-formed, and is everything in it enforced? Looked at once, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammar.options import GrammarLimits
from grammar.schema.document import Document, Node
from plugins.errors import GrammarLimit, InvalidGrammar

Json = Any
_TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
_ONE = frozenset({
    "additionalProperties", "additionalItems", "unevaluatedItems", "unevaluatedProperties", "propertyNames", "contains",
    "not", "if", "then", "else", "items",
})  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_COUNTS = frozenset({
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
})  # fmt: skip
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})


def _is_schema(value: Json) -> bool:
    return isinstance(value, dict | bool)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_strings(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_type(value: Json) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)


def _is_mapping_to_schemas(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _is_list_of_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_dependencies(value: Json) -> bool:
    return isinstance(value, dict) and all(
        _is_schema(below) or _is_strings(below) or isinstance(below, str) for below in value.values()
    )


_SHAPES: dict[str, tuple[Callable[[Json], bool], str]] = {
    "type": (_is_type, f"one or several of {', '.join(_TYPES)}"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "required": (lambda value: _is_strings(value) or isinstance(value, bool), "a list of property names"),
    "pattern": (lambda value: isinstance(value, str), "a regular expression in a string"),
    "format": (lambda value: isinstance(value, str), "a string"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "minimum": (_is_number, "a number"),
    "maximum": (_is_number, "a number"),
    "exclusiveMinimum": (lambda value: _is_number(value) or isinstance(value, bool), "a number"),
    "exclusiveMaximum": (lambda value: _is_number(value) or isinstance(value, bool), "a number"),
    "items": (lambda value: _is_schema(value) or isinstance(value, list), "a schema"),
    "dependencies": (_is_dependencies, "an object of schemas or lists of names"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_strings, value.values())),
        "an object of lists of names",
    ),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number, 0 or more")),
    **dict.fromkeys(_ONE - {"items"}, (_is_schema, "a schema (an object, true or false)")),
    **dict.fromkeys(_MANY, (_is_list_of_schemas, "a list of at least one schema")),
    **dict.fromkeys(_NAMED, (_is_mapping_to_schemas, "an object whose values are schemas")),
}  # fmt: skip


def check(document: Document, limits: GrammarLimits) -> bool:
    """Look at every schema that can matter, following references.

    Returns whether any may need a check of whole values. Raises `InvalidGrammar`, `UnsupportedGrammar` or
    `GrammarLimit` with a pointer.
    """
    pending = [(document.root, 0)]
    seen: set[int] = set()
    whole = False
    while pending:
        node, depth = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if depth > limits.depth:
            raise GrammarLimit(f"schemas nest deeper than {limits.depth}", pointer=node.pointer)
        value = node.value
        if isinstance(value, bool):
            continue
        if not isinstance(value, dict):
            raise InvalidGrammar(f"a schema must be an object, true or false, not {value!r}", pointer=node.pointer)
        whole = _look_at(node, pending, depth) or whole
    return whole


_WHOLE = frozenset({"not", "oneOf", "if", "unevaluatedItems", "unevaluatedProperties"})


def _look_at(node: Node, pending: list[tuple[Node, int]], depth: int) -> bool:
    value = node.value
    if "$ref" in value and node.draft <= 7:
        pending.append((node.document.resolve(node, "$ref"), depth))
        return False
    whole = False
    for key, below in value.items():
        shape = _SHAPES.get(key)
        if shape is not None:
            if not shape[0](below):
                raise InvalidGrammar(f"{key} must be {shape[1]}, not {_shown(below)}", pointer=node.at(key))
            whole = whole or key in _WHOLE
        if key in ("$ref", "$dynamicRef", "$recursiveRef"):
            pending.append((node.document.resolve(node, key), depth))
        elif key in _ONE and isinstance(below, dict):
            pending.append((node.child(key), depth + 1))
        elif (key in _MANY or key == "items") and isinstance(below, list):
            _check_items(node, key, below)
            pending.extend((node.child(key, i), depth + 1) for i in range(len(below)))
        elif key in _NAMED or key == "dependencies":
            pending.extend((node.child(key, name), depth + 1) for name, sub in below.items() if isinstance(sub, dict))
    return whole


def _check_items(node: Node, key: str, below: list[Json]) -> None:
    for i, item in enumerate(below):
        if not _is_schema(item):
            pointer = node.at(key, i)
            raise InvalidGrammar(f"a schema must be an object, true or false, not {_shown(item)}", pointer=pointer)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
