"""Check that a schema is well-formed, once, before anything is compiled, and note what is not enforced."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.formats import FORMAT_NAMES, format_dfa
from sluicegate.grammar.limits import GrammarLimits
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.document import SchemaDocument, Subschema
from sluicegate.grammar.schema.refusals.circular import refuse_circular
from sluicegate.grammar.schema.refusals.foreign import refuse_foreign
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar
from sluicegate.plugins.json_schema import KEYWORDS, Form

Json = Any
_ENFORCED = tuple(
    name for name, one in KEYWORDS.items() if one.role not in ("identifier", "annotation") and len(name) > 4
)
_LETTERS = {name: frozenset(name) for name in _ENFORCED}
_NEAR = 0.85
"""Least ratio of `difflib` for a similar name."""
_LARGE = 100
"""States of an automaton over characters that take some 10 ms to convert."""
_MANY = 1_000
"""Values of an `enum` whose list takes a millisecond."""
_CONDITIONS = 8
"""Conditions whose alternatives take some milliseconds to put together."""
_LONGEST_KEYWORD = max(map(len, _ENFORCED)) + 2
_DEPENDENCIES = ("dependentRequired", "dependentSchemas", "dependencies")
_MOST_UNKNOWN = 64
"""Most unknown names of a schema that are compared with keywords: one comparison takes tenths of a millisecond."""
_TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")


def _is_schema(value: Json) -> bool:
    return isinstance(value, dict | bool)


def _is_number(value: Json) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )


def _is_count(value: Json) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_strings(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_type(value: Json) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return isinstance(value, list) and bool(value) and all(isinstance(n, str) and n in _TYPES for n in value)


def _is_mapping_to_schemas(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _is_list_of_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_dependencies(value: Json) -> bool:
    return isinstance(value, dict) and all(
        _is_schema(below) or _is_strings(below) or isinstance(below, str) for below in value.values()
    )


_FORMS: dict[Form, tuple[Callable[[Json], bool], str]] = {
    "type": (_is_type, f"one or several of {', '.join(_TYPES)}"),
    "values": (lambda value: isinstance(value, list), "a list of values"),
    "names": (lambda value: _is_strings(value) or isinstance(value, bool), "a list of property names"),
    "lists of names": (
        lambda value: isinstance(value, dict) and all(map(_is_strings, value.values())),
        "an object of lists of names",
    ),
    "pattern": (lambda value: isinstance(value, str), "a regular expression in a string"),
    "string": (lambda value: isinstance(value, str), "a string"),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
    "count": (_is_count, "a whole number, 0 or more"),
    "number": (_is_number, "a number"),
    "limit": (lambda value: _is_number(value) or isinstance(value, bool), "a number"),
    "positive": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "schema": (_is_schema, "a schema (an object, true or false)"),
    "schemas": (_is_list_of_schemas, "a list of at least one schema"),
    "items": (lambda value: _is_schema(value) or isinstance(value, list), "a schema"),
    "table": (_is_mapping_to_schemas, "an object whose values are schemas"),
    "dependencies": (_is_dependencies, "an object of schemas or lists of names"),
}


class SchemaLint:
    """Walks every schema that can matter, following references. `notes`: what the author should know.

    Raises `InvalidGrammar`, `UnsupportedGrammar` or `GrammarLimit` with a pointer.
    """

    def __init__(self, document: SchemaDocument, limits: GrammarLimits) -> None:
        self.limits = limits
        self.notes: list[str] = []
        self.large: dict[Subschema, None] = {}
        """Schemas of strings whose automata are so large that no mask must wait for them."""
        self.conditional: dict[Subschema, None] = {}
        """Schemas with so many conditions that no mask must wait for the alternatives that they make."""
        self._unknown: set[str] = set()
        self._named_draft = isinstance(document.schema, dict) and "$schema" in document.schema
        self._pending = [(document.root, 0)]
        seen: dict[int, Subschema] = {}
        while self._pending:
            node, depth = self._pending.pop()
            if id(node) in seen or isinstance(node.value, bool):
                continue
            seen[id(node)] = node
            if depth > limits.depth:
                raise GrammarLimit(
                    f"schemas nest deeper than {limits.depth} levels; make it flatter, or raise limits.depth in "
                    "[stages.constrain.grammar]",
                    pointer=node.pointer,
                )
            if not isinstance(node.value, dict):
                raise InvalidGrammar(
                    f"a schema must be an object, true or false, not {_shown(node.value)}", pointer=node.pointer
                )
            self._check(node, depth)
            if _conditions(node.value) >= _CONDITIONS:
                self.conditional[node] = None
        refuse_circular(seen.values())
        refuse_foreign(document.root, seen.values())

    def _check(self, node: Subschema, depth: int) -> None:
        value = node.value
        if "$ref" in value and node.draft <= 7:
            self._pending.append((node.document.resolve(node, "$ref"), depth))
            return
        if "$ref" in value and "$id" in value and node.pointer and not self._named_draft:
            raise UnsupportedGrammar(
                "$id beside $ref means one thing up to draft 7 and another since; name the draft in $schema",
                pointer=node.at("$id"),
            )
        for key, below in value.items():
            keyword = KEYWORDS.get(key)
            if keyword is None:
                self._note_unknown(key, node)
                continue
            if keyword.role in ("identifier", "annotation"):
                continue
            form = _FORMS.get(keyword.form)
            if form is not None and not form[0](below):
                raise InvalidGrammar(f"{key} must be {form[1]}, not {_shown(below)}", pointer=node.at(key))
            if keyword.form in ("value", "values"):
                _check_constant(node, key, below)
                if isinstance(below, list) and len(below) > _MANY:
                    self.large[node] = None
            elif keyword.role == "reference":
                self._pending.append((node.document.resolve(node, key), depth))
            elif key == "pattern":
                self._note_size(node, self._check_pattern(below, node.at(key)))
            elif key == "format":
                self._note_format(node, below)
            elif keyword.role == "applicator":
                self._descend(node, key, below, depth + 1)

    def _note_unknown(self, key: str, node: Subschema) -> None:
        """Note a key that is nearly a keyword: it was meant as that. JSON Schema lets any other key stand for a note of
        the author."""
        self._unknown.add(key)
        if len(self._unknown) > _MOST_UNKNOWN or len(key) > _LONGEST_KEYWORD:
            return
        if near := nearest_keyword(key):
            self.notes.append(f"{key!r} at {node.pointer!r} is no keyword and has no effect; did you mean {near!r}?")

    def _note_format(self, node: Subschema, name: str) -> None:
        if name in FORMAT_NAMES:
            self._note_size(node, format_dfa(name))  # made once: a mask must not wait for it
        else:
            self.notes.append(
                f"format {name!r} at {node.at('format')!r} is not one of JSON Schema's; it only annotates"
            )

    def _descend(self, node: Subschema, key: str, below: Json, depth: int) -> None:
        form = KEYWORDS[key].form
        if isinstance(below, list):
            _check_items(node, key, below)
            self._pending.extend((node.child(key, i), depth) for i in range(len(below)))
        elif form in ("table", "dependencies"):
            self._pending.extend((node.child(key, name), depth) for name, sub in below.items() if isinstance(sub, dict))
            for text in below if key == "patternProperties" else ():
                self._check_pattern(text, node.at(key, text))
        elif isinstance(below, dict):
            self._pending.append((node.child(key), depth))

    def _note_size(self, node: Subschema, dfa: CharDfa) -> None:
        if dfa.state_count > _LARGE or "not" in node.value:
            self.large[node] = None

    def _check_pattern(self, text: str, pointer: str) -> CharDfa:
        dfa, is_ecma = _read_pattern(text, self.limits, pointer)
        if not is_ecma:
            self.notes.append(
                f"pattern {_shown(text)} at {pointer!r} is not one of ECMA 262; it is enforced as Python's re reads it"
            )
        return dfa


@lru_cache(maxsize=4096)
def nearest_keyword(key: str) -> str | None:
    """Return the keyword that `key` is nearly. Those with too few letters in common are not compared."""
    letters = set(key)
    alike = [
        name
        for name, its in _LETTERS.items()
        if 2 * min(len(key) - len(letters - its), len(name) - len(its - letters)) >= _NEAR * (len(key) + len(name))
    ]
    return next(iter(get_close_matches(key, alike, 1, _NEAR)), None)


def compile_pattern(text: str, limits: GrammarLimits, pointer: str) -> CharDfa:
    """Compile a pattern that is found anywhere. Raises a `GrammarError` that names it and carries `pointer`."""
    return _read_pattern(text, limits, pointer)[0]


def _read_pattern(text: str, limits: GrammarLimits, pointer: str) -> tuple[CharDfa, bool]:
    """Compile a pattern; False: it is not one of ECMA 262."""
    try:
        return strings.pattern(text, limits.string_states)
    except GrammarError as error:
        raise type(error)(f"pattern {_shown(text)}: {error.reason}", pointer=pointer) from error


def _conditions(value: Json) -> int:
    """Return how many conditions meet in the schema `value`, those of its `allOf` included."""
    if not isinstance(value, dict):
        return 0
    found = sum(len(value[key]) for key in _DEPENDENCIES if isinstance(value.get(key), dict))
    found += ("if" in value) + ("not" in value)
    return found + sum(map(_conditions, value["allOf"])) if isinstance(value.get("allOf"), list) else found


def _check_constant(node: Subschema, key: str, value: Json) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidGrammar(f"{key} is not JSON: {error}", pointer=node.at(key)) from error


def _check_items(node: Subschema, key: str, below: list[Json]) -> None:
    for i, item in enumerate(below):
        if not _is_schema(item):
            pointer = node.at(key, i)
            raise InvalidGrammar(f"a schema must be an object, true or false, not {_shown(item)}", pointer=pointer)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
