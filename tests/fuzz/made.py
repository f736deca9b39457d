"""Random schemas, values, patterns, grammars and tags, out of a small world so that they meet."""

from __future__ import annotations

import random
from typing import Any

NAMES = ["a", "b", "ab", "", "x-é", "😀"]
WORDS = ["", "a", "ab", "b", "aab", "é", "x\n", "2020-01-01", "😀", '"', "\\", "a/b"]
NUMBERS = [0, 1, -1, 2, 3, 10, 12, 0.5, -2.5, 1e3, 100, 1.5]
PATTERNS = ["^a", "b$", "^a*b$", "a|b", "^[ab]{1,3}$", "^(?!a)", "\\d", "^\\S*$", "^(ab)+$", "é", "(?=.*b)a", "^.{2}$"]
FORMATS = ["date", "ipv4", "uuid", "email", "uri", "time", "unknown"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def value(pick: random.Random, depth: int = 0) -> Any:
    kind = pick.randrange(7 if depth < 3 else 4)
    if kind == 0:
        return pick.choice([None, True, False])
    if kind in (1, 2):
        return pick.choice(NUMBERS)
    if kind in (3, 4):
        return pick.choice(WORDS)
    if kind == 5:
        return [value(pick, depth + 1) for _ in range(pick.randrange(4))]
    return {name: value(pick, depth + 1) for name in pick.sample(NAMES, pick.randrange(4))}


def schema(pick: random.Random, depth: int = 0) -> Any:
    if depth > 3 or pick.random() < 0.08:
        return pick.choice([True, False, {}, {"type": "string"}, {"type": "integer"}, {"$ref": "#/$defs/d"}])
    found: dict[str, Any] = {}
    if pick.random() < 0.7:
        found["type"] = pick.choice(TYPES) if pick.random() < 0.8 else pick.sample(TYPES, 2)
    for _ in range(pick.randrange(4)):
        name, made = pick.choice(_KEYWORDS)
        found[name] = made(pick, depth + 1)
    if depth == 0:
        found["$defs"] = {"d": schema(pick, 2)}
    return found


def _schemas(pick: random.Random, depth: int) -> list[Any]:
    return [schema(pick, depth) for _ in range(pick.randrange(1, 4))]


def _named(pick: random.Random, depth: int) -> dict[str, Any]:
    return {name: schema(pick, depth) for name in pick.sample(NAMES, pick.randrange(1, 4))}


def _small(pick: random.Random, _: int) -> int:
    return pick.randrange(4)


_KEYWORDS: list[Any] = [
    ("properties", _named),
    ("properties", _named),
    ("required", lambda pick, _: pick.sample(NAMES, pick.randrange(3))),
    ("additionalProperties", schema),
    ("patternProperties", lambda pick, depth: {pick.choice(PATTERNS): schema(pick, depth)}),
    ("propertyNames", schema),
    ("dependentRequired", lambda pick, _: {pick.choice(NAMES): pick.sample(NAMES, pick.randrange(3))}),
    ("dependentSchemas", _named),
    ("minProperties", _small),
    ("maxProperties", _small),
    ("unevaluatedProperties", schema),
    ("items", schema),
    ("prefixItems", _schemas),
    ("contains", schema),
    ("minContains", _small),
    ("maxContains", _small),
    ("minItems", _small),
    ("maxItems", _small),
    ("uniqueItems", lambda pick, _: pick.choice([True, True, False])),
    ("unevaluatedItems", schema),
    ("anyOf", _schemas),
    ("oneOf", _schemas),
    ("allOf", _schemas),
    ("not", schema),
    ("if", schema),
    ("then", schema),
    ("else", schema),
    ("enum", lambda pick, _: [value(pick, 1) for _ in range(pick.randrange(1, 5))]),
    ("const", value),
    ("pattern", lambda pick, _: pick.choice(PATTERNS)),
    ("format", lambda pick, _: pick.choice(FORMATS)),
    ("minLength", _small),
    ("maxLength", _small),
    ("minimum", lambda pick, _: pick.choice(NUMBERS)),
    ("exclusiveMaximum", lambda pick, _: pick.choice(NUMBERS)),
    ("multipleOf", lambda pick, _: pick.choice([1, 2, 3, 0.5, 10])),
    ("$ref", lambda pick, _: pick.choice(["#", "#/$defs/d"])),
]


def damaged(pick: random.Random, given: Any) -> Any:
    """Return `given` with one part replaced by something that need not make sense there."""
    if isinstance(given, dict) and given and pick.random() < 0.8:
        name = pick.choice(list(given))
        return {**given, name: damaged(pick, given[name])}
    if isinstance(given, list) and given and pick.random() < 0.8:
        at = pick.randrange(len(given))
        return [*given[:at], damaged(pick, given[at]), *given[at + 1 :]]
    return pick.choice([None, -1, 1e400, 10**400, "", "(", "\ud800", [], {}, "#/x", {"$ref": 1}, [[[]]], True])


def pattern(pick: random.Random, depth: int = 0) -> str:
    if depth > 3 or pick.random() < 0.35:
        return pick.choice(
            ["a", "b", "é", ".", r"\d", r"\w", r"\s", "[ab]", "[^a]", r"\n", "😀", "[a-c]", r"\.", "(?:)"]
        )
    kind = pick.randrange(7)
    if kind == 0:
        return f"{pattern(pick, depth + 1)}|{pattern(pick, depth + 1)}"
    if kind in (1, 2):
        return pattern(pick, depth + 1) + pattern(pick, depth + 1)
    if kind == 3:
        return f"({pattern(pick, depth + 1)})" + pick.choice(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
    if kind == 4:
        return f"(?{pick.choice('=!')}{pattern(pick, depth + 1)})"
    if kind == 5:
        return pick.choice(["^", "$", r"\b", "(?i:a)"]) + pattern(pick, depth + 1)
    return f"(?:{pattern(pick, depth + 1)})"


def text(pick: random.Random) -> str:
    return "".join(pick.choices("aabbc é1\n.😀A", k=pick.randrange(7)))


def lark(pick: random.Random) -> str:
    names = ["start", "p", "q"]
    lines = []
    for name in names:
        ways = [
            " ".join(
                pick.choice(['"a"', '"ab"', '"b"', "X", "p", "q", '"c"i', "(p|X)"])
                + pick.choice(["", "", "?", "*", "+"])
                for _ in range(pick.randrange(1, 4))
            )
            for _ in range(pick.randrange(1, 3))
        ]
        lines.append(f"{name}: {' | '.join(ways)}")
    lines.append(f"X: /{pick.choice(['a+', '[bc]+', 'x', 'b(ac)?'])}/")
    if pick.random() < 0.3:
        lines.append('%ignore " "')
    return "\n".join(lines)


def gbnf(pick: random.Random) -> str:
    lines = []
    for name in ("root", "p", "q-r"):
        ways = [
            " ".join(
                pick.choice(['"a"', '"ab"', "[b-c]", "[^a]", "p", "q-r", '("x" | p)', '"\\n"', "."])
                + pick.choice(["", "", "?", "*", "+", "{1,2}"])
                for _ in range(pick.randrange(1, 4))
            )
            for _ in range(pick.randrange(1, 3))
        ]
        lines.append(f"{name} ::= {' | '.join(ways)}")
    return "\n".join(lines)


def tag(pick: random.Random) -> dict[str, Any]:
    def content(depth: int = 0) -> dict[str, Any]:
        made = [
            {"type": "json_schema", "json_schema": schema(pick, 2)},
            {"type": "any_text"},
            {"type": "const_string", "value": pick.choice(["a", "{", "<"])},
        ]
        return pick.choice(made) if depth or pick.random() < 0.7 else whole(depth + 1)

    def tags() -> list[dict[str, Any]]:
        return [
            {"type": "tag", "begin": begin, "content": content(1), "end": pick.choice(["</a>", "</b>", "\n</a>"])}
            for begin in pick.sample(["<a>", "<a>\n", "<b>", "<a=x>"], 2)
        ]

    def whole(depth: int = 0) -> dict[str, Any]:
        counts = {
            name: made
            for name, made in (("at_least_one", True), ("stop_after_first", True), ("max_count", 2))
            if pick.random() < 0.2
        }
        ways: list[dict[str, Any]] = [
            {"type": "triggered_tags", "triggers": pick.choice([["<a", "<b"], ["<"]]), "tags": tags(), **counts},
            {"type": "tags_with_separator", "tags": tags(), "separator": pick.choice(["", ",", "\n"]), **counts},
            {"type": "sequence", "elements": [content(1), tags()[0], content(1)]},
            {"type": "or", "elements": [content(1), tags()[0]]},
            tags()[0],
        ]
        return pick.choice(ways)

    return {"format": whole()}
