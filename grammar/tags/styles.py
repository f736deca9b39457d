"""Arguments of a call in the style of a model, as formats: one tag for each property, in the order of the schema or in
any, and one for all names that the schema does not list, where it allows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.tags.exclusions import without_texts
from sluicegate.grammar.tags.nodes import (
    ConstFormat,
    Format,
    OptionalFormat,
    OrFormat,
    RawFormat,
    RegexFormat,
    RepeatFormat,
    SchemaFormat,
    SequenceFormat,
    TagFormat,
    UnorderedFormat,
)
from sluicegate.plugins.errors import GrammarError, InvalidGrammar, Unsatisfiable, UnsupportedGrammar
from sluicegate.plugins.parameter_styles import BETWEEN, NAME_CHARS, NAME_LENGTH, PARAMETER_STYLES, ParameterStyle

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
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NOT_A_STRING = {"not": {"type": "string"}}
_MOST_HOPS = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """How arguments are asked for beside their schema, see `json_schema` in `formats`."""

    excludes: tuple[str, ...] = ()
    any_order: bool = False
    blanks: int | None = None


def styled(schema: Any, style: str, at: str, wanted: Wanted = Wanted()) -> Format:
    """Return the format of arguments in `style` that satisfy `schema`. Raises a `GrammarError` with a pointer.

    Listed properties come in the order of the schema, each once, unless `wanted` says otherwise, and others behind
    them; `at` leads to the format. No string and no name, of the arguments and inside them, holds an excluded text.
    """
    known = PARAMETER_STYLES.get(style)
    if known is None:
        styles = ", ".join(["json", *PARAMETER_STYLES])
        raise InvalidGrammar(f"unknown style {style!r}; the styles are {styles}", pointer=f"{at}/style")
    place = f"{at}/json_schema"
    schema = _root(schema, style, place)
    _refuse_whole(schema, place)
    properties, more = _properties(schema, style, place)
    required = schema.get("required", [])
    arguments = _Arguments(known, wanted)
    elements: dict[str, Format] = {}
    for name, inner in properties.items():
        inside = f"{place}/properties/{_escaped(name)}"
        held = any(text in name for text in wanted.excludes)
        ways = () if held else tuple(arguments.of_name(name, _with_definitions(inner, schema), inside))
        if ways:
            elements[name] = ways[0] if len(ways) == 1 else OrFormat(ways)
        elif name in required:
            raise Unsatisfiable(f"no value satisfies the required property {name!r}", pointer=inside)
    others = None
    if more is not None:
        others = arguments.of_others(properties, _with_definitions(more, schema), f"{place}/additionalProperties")
    blanks = RegexFormat(f"[ \\t\\r\\n]{{0,{BETWEEN if wanted.blanks is None else wanted.blanks}}}", at)
    if wanted.any_order:
        needed = frozenset(i for i, name in enumerate(elements) if name in required)
        return UnorderedFormat(tuple(elements.values()), needed, others, blanks)
    spaced = {name: SequenceFormat((blanks, element)) for name, element in elements.items()}
    parts: list[Format] = [each if name in required else OptionalFormat(each) for name, each in spaced.items()]
    if others is not None:
        parts.append(RepeatFormat(SequenceFormat((blanks, others)), 0, None, at))
    return SequenceFormat((*parts, blanks))


def _root(schema: Any, style: str, at: str) -> dict[str, Any]:
    """Return the schema of the arguments, behind references to a definition. Raises `UnsupportedGrammar` for keywords
    that no style can follow."""
    whole = schema
    for _ in range(_MOST_HOPS):
        if not (isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and "properties" not in schema):
            break
        schema = {**_definitions(whole), **_pointed(whole, schema["$ref"], at)}
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise Unsatisfiable("no arguments satisfy this schema", pointer=at)
    for keyword in schema:
        if keyword not in _READ:
            what = (
                f"style {style!r} does not know {keyword!r} beside `properties`; put it into a property, or use 'json'"
            )
            raise UnsupportedGrammar(what, pointer=f"{at}/{keyword}")
    kinds = schema.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise UnsupportedGrammar(
            f"style {style!r} writes the properties of an object, not {kinds!r}; use style 'json'", pointer=f"{at}/type"
        )
    return schema


def _definitions(schema: Any) -> dict[str, Any]:
    return {name: schema[name] for name in _DEFINED if name in schema}


def _pointed(whole: dict[str, Any], reference: str, at: str) -> dict[str, Any]:
    found: Any = whole
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    if not reference.startswith("#/") or not isinstance(found, dict):
        raise InvalidGrammar(f"{reference!r} leads to no schema of an object in this document", pointer=f"{at}/$ref")
    return found


def _refuse_whole(schema: dict[str, Any], at: str) -> None:
    """Raise `UnsupportedGrammar` for a reference that is read from the root and leads to no definition: each property
    becomes a schema of its own, so that it would lead elsewhere."""
    waiting: list[tuple[Any, str]] = [(schema, at)]
    while waiting:
        found, place = waiting.pop()
        for key, inner in found.items() if isinstance(found, dict) else enumerate(found):
            inside = f"{place}/{_escaped(str(key))}"
            if isinstance(inner, (dict, list)):
                waiting.append((inner, inside))
            elif key in _REFERENCES and isinstance(inner, str) and _is_of_whole(inner):
                what = (
                    f"{inner!r} is read from the whole schema, which a style takes apart; put what it leads to under "
                    "`$defs`, or use style 'json'"
                )
                raise UnsupportedGrammar(what, pointer=inside)


def _is_of_whole(reference: str) -> bool:
    return reference == "#" or (
        reference.startswith("#/") and not reference.startswith(tuple(f"#/{name}/" for name in _DEFINED))
    )


def _properties(schema: dict[str, Any], style: str, at: str) -> tuple[dict[str, Any], Any]:
    """Return the listed properties, and the schema of others; None where there are none."""
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise InvalidGrammar("properties must be an object", pointer=f"{at}/properties")
    more = schema.get("additionalProperties", "properties" not in schema)
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InvalidGrammar("required must be a list of names", pointer=f"{at}/required")
    for name in required:
        if name not in properties and more is False:
            raise UnsupportedGrammar(
                f"{name!r} is required and not listed under `properties`", pointer=f"{at}/required"
            )
        properties = {**properties, name: properties.get(name, more)}
    for name in properties:
        if set(name) & set('<>"\n') or not name:
            raise UnsupportedGrammar(
                f"the name {name!r} cannot be written in style {style!r}", pointer=f"{at}/properties"
            )
    return properties, None if more is False else more


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _with_definitions(inner: Any, schema: dict[str, Any]) -> Any:
    """Return a property's schema with what its references lead to."""
    return {**_definitions(schema), **inner} if isinstance(inner, dict) else inner


class _Arguments:
    """Makes the formats of single arguments."""

    def __init__(self, style: ParameterStyle, wanted: Wanted) -> None:
        self._style, self._wanted = style, wanted

    def of_name(self, name: str, schema: Any, at: str) -> Iterator[Format]:
        """Yield one tag for each kind of value that satisfies `schema`."""
        for kind, value in self._values(schema, at):
            for begin in self._style.begins(name, kind):
                yield TagFormat(begin, value, (self._style.closes,))

    def of_others(self, listed: dict[str, Any], schema: Any, at: str) -> Format | None:
        """Return the format of an argument whose name is none of `listed`; None where no value satisfies `schema`."""
        values = list(self._values(schema, at))
        ways: dict[str, list[Format]] = {}
        for kind, value in values:
            for before, after in self._style.around(kind):
                ways.setdefault(before, []).append(TagFormat(after, value, (self._style.closes,)))
        held = "".join(f"(?!.*{re.escape(text)})" for text in self._wanted.excludes)
        taken = f"(?!(?:{'|'.join(map(re.escape, listed))})\\Z)" if listed else ""
        name = RegexFormat(f"{held}{taken}{NAME_CHARS}{{1,{NAME_LENGTH}}}", at)
        found = [SequenceFormat((ConstFormat(before), name, OrFormat(tuple(after)))) for before, after in ways.items()]
        return OrFormat(tuple(found)) if found else None

    def _values(self, schema: Any, at: str) -> Iterator[tuple[str, Format]]:
        """Yield each kind of value that satisfies `schema`, and the format of its text."""
        style, wanted = self._style, self._wanted
        text = without_texts(_restricted(schema, {"type": "string"}), wanted.excludes)
        if _is_satisfiable(text, at):
            yield style.text, RawFormat(text, at)
        kinds: dict[str, list[str]] = {}
        for type_name, kind in style.other:
            kinds.setdefault(kind, []).append(type_name)
        for kind, types in kinds.items():
            other = _restricted(schema, _NOT_A_STRING if types == [""] else {"type": types})
            if _is_satisfiable(without_texts(other, wanted.excludes), at):
                line = RegexFormat(r"\n?", at)
                value = SchemaFormat(other, at, wanted.any_order, wanted.blanks, wanted.excludes)
                yield kind, SequenceFormat((line, value, line))


def _restricted(schema: Any, other: dict[str, Any]) -> dict[str, Any]:
    definitions = _definitions(schema) if isinstance(schema, dict) else {}
    return {**definitions, "allOf": [schema, other]}


def _is_satisfiable(schema: dict[str, Any] | bool, at: str) -> bool:
    try:
        satisfiable_values(schema, GrammarOptions())
    except Unsatisfiable:
        return False
    except GrammarError as error:
        raise type(error)(error.reason, pointer=at) from error
    return True
