"""Arguments of a call in the style of a model, as formats: one tag for each property, in the order of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.tags.exclusions import without_texts
from sluicegate.grammar.tags.nodes import (
    Format,
    OptionalFormat,
    OrFormat,
    RawFormat,
    RegexFormat,
    SchemaFormat,
    SequenceFormat,
    TagFormat,
)
from sluicegate.plugins.errors import GrammarError, InvalidGrammar, Unsatisfiable, UnsupportedGrammar
from sluicegate.plugins.parameter_styles import BETWEEN, PARAMETER_STYLES, ParameterStyle

_READ = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "$defs",
        "definitions",
        "$schema",
        "$id",
        "title",
        "description",
    ]
)
_DEFINED = ("$defs", "definitions")
_BLANKS = f"[ \\t\\r\\n]{{0,{BETWEEN}}}"
_NOT_A_STRING = {"not": {"type": "string"}}


def styled(schema: Any, style: str, at: str, excludes: tuple[str, ...] = ()) -> Format:
    """Return the format of arguments in `style` that satisfy `schema`. Raises a `GrammarError` with a pointer.

    Properties come in the order of the schema, and no others; `at` leads to the format. No string and no name, of the
    arguments and inside them, holds one of `excludes`.
    """
    known = PARAMETER_STYLES.get(style)
    if known is None:
        styles = ", ".join(["json", *PARAMETER_STYLES])
        raise InvalidGrammar(f"unknown style {style!r}; the styles are {styles}", pointer=f"{at}/style")
    properties = _properties(schema, style, f"{at}/json_schema")
    required = schema.get("required", [])
    elements: list[Format] = []
    for name, inner in properties.items():
        place = f"{at}/json_schema/properties/{name.replace('~', '~0').replace('/', '~1')}"
        held = any(text in name for text in excludes)
        ways = () if held else tuple(_ways(known, name, _with_definitions(inner, schema), place, excludes))
        if ways:
            spaced = SequenceFormat((RegexFormat(_BLANKS, place), ways[0] if len(ways) == 1 else OrFormat(ways)))
            elements.append(spaced if name in required else OptionalFormat(spaced))
        elif name in required:
            raise Unsatisfiable(f"no value satisfies the required property {name!r}", pointer=place)
    return SequenceFormat((*elements, RegexFormat(_BLANKS, at)))


def _properties(schema: Any, style: str, at: str) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise UnsupportedGrammar(
            f"style {style!r} writes one argument after the other: list them under `properties`, or use style 'json'",
            pointer=at,
        )
    for keyword in schema:
        if keyword not in _READ:
            what = (
                f"style {style!r} does not know {keyword!r} beside `properties`; put it into a property, or use 'json'"
            )
            raise UnsupportedGrammar(what, pointer=f"{at}/{keyword}")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InvalidGrammar("required must be a list of names", pointer=f"{at}/required")
    for name in required:
        if name not in properties:
            raise UnsupportedGrammar(
                f"{name!r} is required and not listed under `properties`", pointer=f"{at}/required"
            )
    for name in properties:
        if set(name) & set('<>"\n') or not name:
            raise UnsupportedGrammar(
                f"the name {name!r} cannot be written in style {style!r}", pointer=f"{at}/properties"
            )
    return properties


def _with_definitions(inner: Any, schema: dict[str, Any]) -> Any:
    """Return a property's schema with what its references lead to."""
    if not isinstance(inner, dict):
        return inner
    return {**{name: schema[name] for name in _DEFINED if name in schema}, **inner}


def _ways(style: ParameterStyle, name: str, schema: Any, at: str, excludes: tuple[str, ...]) -> Iterator[Format]:
    """Yield one tag for each kind of value that satisfies `schema`."""
    text = without_texts(_restricted(schema, {"type": "string"}), excludes)
    if _is_satisfiable(text, at):
        for begin in style.begins(name, style.text):
            yield TagFormat(begin, RawFormat(text, at), (style.closes,))
    kinds: dict[str, list[str]] = {}
    for type_name, kind in style.other:
        kinds.setdefault(kind, []).append(type_name)
    for kind, types in kinds.items():
        other = _restricted(schema, _NOT_A_STRING if types == [""] else {"type": types})
        if _is_satisfiable(without_texts(other, excludes), at):
            line = RegexFormat(r"\n?", at)
            value = SequenceFormat((line, SchemaFormat(other, at, excludes=excludes), line))
            for begin in style.begins(name, kind):
                yield TagFormat(begin, value, (style.closes,))


def _restricted(schema: Any, other: dict[str, Any]) -> dict[str, Any]:
    definitions = {name: schema[name] for name in _DEFINED if isinstance(schema, dict) and name in schema}
    return {**definitions, "allOf": [schema, other]}


def _is_satisfiable(schema: dict[str, Any] | bool, at: str) -> bool:
    try:
        satisfiable_values(schema, GrammarOptions())
    except Unsatisfiable:
        return False
    except GrammarError as error:
        raise type(error)(error.reason, pointer=at) from error
    return True
