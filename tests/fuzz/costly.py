"""Small grammars out of parts that are dear to follow: ambiguous, recursive, nullable, counted, long."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.fuzz import made

WORDS = [
    "/[a-z]+/",
    r"/\w+/",
    r"/[^\s]+/",
    r"/[A-Za-z_]\w*/",
    "/[a-z0-9]+/",
    r"/\d+/",
    r"/(a|b|[a-z])+/",
    r"/[^\x00-\x1f]*[a-z]/",
    "/./",
    "/é|ü|[à-ÿ]+/",
    r"/[^a-z\n]+/",
    "/(a+)+b?/",
    "/[a-z]{1,40}/",
    "/(ab?c?){0,60}d/",
    "/[a-f0-9]{200}/",
    r"/(?!end)[a-z]+x/",
    r"/a(?=[a-z])[a-z]+/",
    '"a"',
    '"ab"',
    '"aa"i',
    '" "',
    '"\\n"',
]
IGNORED = ['" "', r"/\s+/", r"/[ \t\n]+/", '"a"', "/#[^\\n]*/", "/[a-c]/"]
MARKS = ["", "", "?", "*", "+", "~2", "~1..5", "~0..40", "~200"]
GBNF_PARTS = ["[a-z]", "[a-z]+", "[^a]", '"a"', '"ab"', '""', ".", r"[^\"\\]", "[0-9]{1,9}"]
GBNF_PARTS += ["[é-ÿ]", "[a-z]{0,300}", "[^\\n]*"]
GBNF_MARKS = ["", "", "?", "*", "+", "{2}", "{1,5}", "{0,40}", "{200}", "{3,}"]
SCHEMAS: list[Any] = [
    {},
    {"type": "string"},
    {"type": "string", "pattern": "^(a|b)*a(a|b){9}$"},
    {"type": "string", "maxLength": 3000},
    {"type": "array", "uniqueItems": True},
    {"type": "array", "uniqueItems": True, "items": {"enum": [1, 12, 123, "1", [1], [12]]}, "minItems": 3},
    {"type": "array", "contains": {"type": "array"}, "minContains": 3, "maxContains": 900},
    {"anyOf": [{"type": "array", "items": {"type": "array", "maxItems": n}} for n in range(12)]},
    {"oneOf": [{"type": "string", "pattern": f"^.{{0,{n}}}[a-z]"} for n in range(5)]},
    {"type": "object", "additionalProperties": {"$ref": "#"}},
    {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(60)}, "minProperties": 30},
    {"type": "object", "patternProperties": {"^[a-z]+": {}, "[0-9]+$": {"type": "array"}, ".": {}}},
    {"type": "number", "multipleOf": 0.0001, "minimum": -7.25, "maximum": 1e9},
    {"type": "string", "format": "email"},
    {"enum": [f"{n:04d}" for n in range(900)]},
]
SHAPES = [
    "{0}: {1} {0} | {1}",  # from the right
    "{0}: {0} {1} | {1}",
    "{0}: {0} {0} | {1}",
    "{0}: {1} {0} {1} | {1}",
    "{0}: {2} {1}? | {1}",
    "{0}: ({1}* {2}?)* {1}",
    "{0}: {1}? {2}? {1}? {2}?",
    '{0}: {1} ("," {1})*',
    '{0}: {0} "+" {0} | "(" {0} ")" | {1}',
]


def _rule(pick: random.Random, name: str, parts: list[str], marks: list[str]) -> str:
    """Draw `name: ...`, of a shape that recurs, or of anything."""
    if pick.random() < 0.5:
        return pick.choice(SHAPES).format(name, pick.choice(parts), pick.choice(parts))
    if pick.random() < 0.05:
        return f"{name}: " + " | ".join(f'"{n:04d}"' for n in range(pick.choice([40, 300, 2000])))
    ways = [
        " ".join(pick.choice(parts) + pick.choice(marks) for _ in range(pick.randrange(1, 4)))
        for _ in range(pick.randrange(1, 4))
    ]
    return f"{name}: {' | '.join(ways)}"


def lark(pick: random.Random) -> str:
    terminals = [f"T{n}" for n in range(pick.randrange(1, 4))]
    rules = ["start", "p", "q"]
    parts = [*terminals, *terminals, *rules[1:], '"a"', '"b"', f"({terminals[0]} | p)"]
    schema = pick.random() < 0.1
    lines = [_rule(pick, name, parts, MARKS) for name in rules]
    if schema:
        lines[1] = "p: %json " + json.dumps(pick.choice(SCHEMAS[:9]))
    lines += [f"{name}: {pick.choice(WORDS)}" for name in terminals]
    if not schema:
        lines += [f"%ignore {pick.choice(IGNORED)}" for _ in range(pick.choice([0, 1, 1, 2]))]
    return "\n".join(lines) + "\n"


def gbnf(pick: random.Random) -> str:
    parts = [*pick.sample(GBNF_PARTS, 3), "p", "q-r"]
    lines = [_rule(pick, name, parts, GBNF_MARKS) for name in ("root", "p", "q-r")]
    return "\n".join(line.replace(": ", " ::= ", 1) for line in lines) + "\n"


def schema(pick: random.Random) -> Any:
    kind = pick.randrange(4)
    if kind == 0:
        return made.schema(pick)
    if kind == 1:
        return {"allOf": pick.sample(SCHEMAS, 2)}
    if kind == 2:
        return {"type": "array", "items": pick.choice(SCHEMAS), "minItems": pick.choice([0, 3, 400])}
    names = pick.sample(["a", "ab", "b", "é", ""], 3)
    return {"type": "object", "properties": {name: pick.choice(SCHEMAS) for name in names}, "required": names[:1]}


def tag(pick: random.Random) -> dict[str, Any]:
    """Draw a tag whose parts may begin and end alike."""
    kind = pick.randrange(3)
    if kind == 0:
        return made.tag(pick)
    parts = [_part(pick) for _ in range(pick.randrange(1, 4))]
    if kind == 1:
        return {"format": {"type": "sequence", "elements": parts}}
    tags = [
        {"type": "tag", "begin": begin, "content": part, "end": pick.choice(["</a>", "a", "\n", ">>"])}
        for begin, part in zip(["<a>", "<a", "aa"], parts, strict=False)
    ]
    return {"format": {"type": "triggered_tags", "triggers": ["<a", "aa"][: len(tags)], "tags": tags}}


def _part(pick: random.Random) -> dict[str, Any]:
    ways: list[dict[str, Any]] = [
        {"type": "grammar", "grammar": lark(pick)},
        {"type": "grammar", "grammar": gbnf(pick)},
        {"type": "json_schema", "json_schema": pick.choice(SCHEMAS)},
        {"type": "regex", "pattern": pick.choice(["[a-z]*", "(a|b)+", r"\w+ ?", "(a?){50}"])},
        {"type": "any_text"},
    ]
    return pick.choice(ways)
