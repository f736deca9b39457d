"""Change real grammars and schemas at random: parts exchanged, repeated, left out, or put into one another."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from benchmarks import random_schemas
from benchmarks.random_grammars import GBNF, IGNORED, LARK, Notation, with_extension

_LARK_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"i?|/(?:\\.|[^/\\\n])+/[a-z]*|%\w+[^\n]*|//[^\n]*|\.\.|->\s*\w+'
    r"|[?!]?[A-Za-z_][\w.]*|\n|[ \t]+|."
)
_GBNF_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|::=|[A-Za-z_][\w-]*|\n|[ \t]+|.')
_ITEM = re.compile(r'["/\[A-Za-z_]')


def is_gbnf(grammar: str) -> bool:
    return "::=" in grammar


# --- grammars ---------------------------------------------------------------------------------------------------------


def grammar(pick: random.Random, text: str) -> str:
    """Return a grammar with up to five changes."""
    notation = GBNF if is_gbnf(text) else LARK
    for _ in range(pick.choice((0, 1, 1, 2, 3, 5))):
        text = _changed(pick, text, notation)
    if notation is LARK:
        if pick.random() < 0.25:
            text = f"{text}\n{pick.choice(IGNORED)}\n"
        text = with_extension(pick, text, 0.1)
    return text


def _changed(pick: random.Random, text: str, notation: Notation) -> str:
    """Change one item of the right side of a rule."""
    tokens: list[str] = (_GBNF_TOKEN if notation is GBNF else _LARK_TOKEN).findall(text)
    items = _items(tokens, notation)
    if not items:
        return text
    at, other = pick.choice(items), tokens[pick.choice(items)]
    broad = pick.choice(notation.terminals)
    tokens[at] = pick.choice(
        (
            other,
            broad,
            "",
            f"{tokens[at]} {tokens[at]}",
            f"({tokens[at]} | {other})",
            f"({tokens[at]} | {broad})",
            f"({tokens[at]} {other}?)",
            f"({tokens[at]}){pick.choice(notation.repeated)}",
            f"({tokens[at]} {other}){pick.choice(notation.repeated)}",
            f"({other} {tokens[at]} | {tokens[at]} {other})",
            _loosened(tokens[at]),
        )
    )
    return "".join(tokens)


def _items(tokens: list[str], notation: Notation) -> list[int]:
    """Return where terminals and names stand that define nothing."""
    found: list[int] = []
    solid = [at for at, token in enumerate(tokens) if token.strip(" \t")]
    for place, at in enumerate(solid):
        before = tokens[solid[place - 1]] if place else "\n"
        after = tokens[solid[place + 1]] if place + 1 < len(solid) else "\n"
        if not _ITEM.match(tokens[at]) or (notation is LARK and tokens[at][0] == "["):
            continue
        defines = after == "::=" if notation is GBNF else before == "\n" and after in (":", ".", "{", "[")
        if not defines and not (notation is LARK and ".." in (before, after)):
            found.append(at)
    return found


def _loosened(item: str) -> str:
    """Return a terminal that reads more: a class that excludes less, or a repetition without end."""
    if item.startswith("/"):
        return re.sub(r"\[\^[^\]]*\]", ".", item, count=1) if "[^" in item else item.replace("+", "*", 1)
    return "[^a]*" if item.startswith("[") else item


# --- schemas ----------------------------------------------------------------------------------------------------------


def schema(pick: random.Random, given: Any, others: Sequence[Any]) -> Any:
    """Return a schema with up to four changes, some made of parts of `others`, or two schemas in one."""
    found = deepcopy(given)
    for _ in range(pick.choice((0, 1, 2, 4))):
        places = list(_places(found))
        if not places:
            return found
        holder, key = pick.choice(places)
        holder[key] = pick.choice(_CHANGES)(pick, holder[key], others)
    return pick.choice(_COMBINED)(found, deepcopy(pick.choice(others))) if pick.random() < 0.15 else found


def _places(schema: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of each subschema."""
    found: list[tuple[Any, Any]] = []
    pending = [schema]
    while pending:
        value = pending.pop()
        if not isinstance(value, dict):
            continue
        below: list[tuple[Any, Any]] = []
        for name in _MAPS:
            if isinstance(value.get(name), dict):
                below += [(value[name], key) for key in value[name]]
        for name in _LISTS:
            if isinstance(value.get(name), list):
                below += [(value[name], at) for at in range(len(value[name]))]
        below += [(value, name) for name in _SINGLE if isinstance(value.get(name), dict)]
        found += below
        pending += [holder[key] for holder, key in below]
    return found


_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames")
Change = Callable[[random.Random, Any, Sequence[Any]], Any]


def _exchanged(pick: random.Random, _: Any, given: Sequence[Any]) -> Any:
    other = deepcopy(pick.choice(given))
    places = _places(other)
    if not places:
        return other
    holder, key = pick.choice(places)
    found = holder[key]
    return found if "$ref" not in json.dumps(found) else {"type": "object"}


def _with(*keywords: dict[str, Any]) -> Change:
    def change(pick: random.Random, part: Any, _: Sequence[Any]) -> Any:
        return {**part, **pick.choice(keywords)} if isinstance(part, dict) else pick.choice(keywords)

    return change


def _combined(name: str) -> Change:
    def change(pick: random.Random, part: Any, given: Sequence[Any]) -> Any:
        return {name: [part, *(_exchanged(pick, part, given) for _ in range(pick.randint(1, 4)))]}

    return change


_CHANGES: tuple[Change, ...] = (
    _exchanged,
    lambda pick, _, __: random_schemas.schema(pick),
    lambda _, __, ___: {},
    lambda _, part, __: {"not": part},
    lambda pick, part, __: {"type": "array", "items": part, "uniqueItems": pick.random() < 0.5},
    lambda pick, part, __: {"type": "array", "contains": part, "minContains": pick.choice((1, 3)), "maxContains": 5},
    lambda pick, part, __: {"type": "object", "additionalProperties": part, "minProperties": pick.choice((0, 2, 9))},
    lambda _, part, __: {"type": "object", "patternProperties": {"^[a-z]+$": part, "e": {}, "[0-9]$": part}},
    lambda _, part, __: {"type": "array", "prefixItems": [part, part], "unevaluatedItems": False},
    _combined("anyOf"),
    _combined("oneOf"),
    _combined("allOf"),
    _with({"uniqueItems": True}, {"maxItems": 7}, {"minItems": 30}, {"minLength": 40}, {"maxLength": 4_000}),
    _with({"pattern": "^(a|b)*a(a|b){9}$"}, {"pattern": "^\\S+( \\S+){0,20}$"}, {"format": "email"}, {"format": "uri"}),
    _with({"propertyNames": {"pattern": "^[a-z]{1,30}$"}}, {"minProperties": 5}, {"additionalProperties": False}),
    _with({"additionalProperties": True}, {"unevaluatedProperties": False}, {"required": []}, {"minimum": 17}),
)
_COMBINED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: {"anyOf": [a, b]},
    lambda a, b: {"oneOf": [a, b]},
    lambda a, b: {"allOf": [a, b]},
    lambda a, b: {"type": "array", "items": {"anyOf": [a, b]}, "uniqueItems": True},
    lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "additionalProperties": b},
    lambda a, b: {"if": a, "then": b, "else": {"type": ["object", "string"]}},
)
