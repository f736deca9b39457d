"""Recognise fields that no table knows and that could change the answer all the same, by their names and their values.

Servers and clients name constraints and sampling options in many ways (`json_mode`, `stop_strings`, `inputSchema`), and
ever new ones. A name with such a word in it, or a JSON Schema as the value, is enough to refuse the field.

Not covered: a name that says nothing (`mode`, `policy`) with a value that is no schema. Such a field is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CONSTRAINTS = frozenset((
    "schema", "schemas", "json", "regex", "regexp", "grammar", "grammars", "gbnf", "ebnf", "bnf", "lark", "guided",
    "structured", "constraint", "constraints", "constrained",
))  # fmt: skip
_DRAWS = frozenset((
    "stop", "stops", "temp", "temperature", "penalty", "penalties", "sampler", "samplers", "sampling", "logit",
    "logits", "beam", "beams", "seed",
))  # fmt: skip
_RESULTS = frozenset(("output", "outputs", "result", "results", "return", "returns", "response"))
"""What a tool answers: a schema of that is a description."""
_EARLIER = ("messages[].", "input[].")
"""Notes of earlier answers, which constrain nothing."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SCHEMA_WORDS = frozenset(("properties", "$ref", "$defs", "$schema", "regex", "grammar", "json_schema"))

_SHAPE: Mapping[str, str] = {
    "chat": "response_format", "completions": "structured_outputs", "responses": "text.format",
    "messages": "output_config.format",
}  # fmt: skip
_ARGUMENTS: Mapping[str, str] = {
    "chat": "tools[].function.parameters", "responses": "tools[].parameters", "messages": "tools[].input_schema",
}  # fmt: skip
"""By dialect: where the schema of an answer stands, and that of a tool's arguments."""


def could_constrain(path: str, name: str, value: Any) -> bool:
    """Return whether an unknown field at `path` could say what the answer looks like or how it is drawn. A value that
    asks for nothing (false, 0, an empty one) never does."""
    if not value or path.startswith(_EARLIER):
        return False
    words = _words(name)
    if path.startswith("tools[]."):
        return words.isdisjoint(_RESULTS) and (not words.isdisjoint(_CONSTRAINTS) or _is_schema(value))
    return not words.isdisjoint(_CONSTRAINTS | _DRAWS) or _is_schema(value)


def what_to_send(path: str, name: str, dialect: str) -> str:
    """Return what to do about such a field, in the words of the body's dialect."""
    named = _ARGUMENTS if path.startswith("tools[].") else _SHAPE
    if dialect not in named or not _DRAWS.isdisjoint(_words(name)):
        return "leave it out; /docs names every option"
    kind = "the arguments' schema" if named is _ARGUMENTS else "the answer's schema"
    return f"leave it out; {kind} stands in `{named[dialect]}`, and /docs names every option"


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _is_schema(value: Any) -> bool:
    """Return whether a value is a JSON Schema of an object, or an object that names a constraint."""
    return isinstance(value, dict) and not _SCHEMA_WORDS.isdisjoint(value)
