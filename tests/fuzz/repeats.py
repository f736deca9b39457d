"""Arrays of unique objects at random that often begin alike: with one member of many values, and others of few.

    python -m tests.fuzz.repeats [--minutes 5] [--seed 0] [--case SEED]

A walk under the masks draws short texts, so that items repeat. A mask must be what trying every token says, no place
may be without a way on, and what is finished must be valid.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs

from sluicegate.grammar import GrammarError, GrammarOptions, LazyGrammar, compile_json_schema
from tests.fuzz.cases import Finding, run, unexpected
from tests.fuzz.grammar import finish, offered
from tests.grammar.grammar_checks import byte_vocabulary

_NAMES = ("a", "b", "ab", "on", "name")
_FEW: tuple[Any, ...] = (
    {"type": "boolean"},
    {"enum": ["x", "xy", 1]},
    {"const": None},
    {"enum": [{"a": 1}, {"b": 2}, [1]]},
    {"type": "integer", "minimum": 0, "maximum": 1},
    {"type": "object", "properties": {"q": {"type": "boolean"}}, "required": ["q"], "additionalProperties": False},
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
    {"enum": ["", "a"]},
)
_MANY: tuple[Any, ...] = (
    {"type": "string"},
    {"type": "integer"},
    {},
    {"type": "string", "pattern": "^[ab]*$"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": ["string", "null"]},
    {"type": "number"},
    {"type": "integer", "minimum": 0, "maximum": 80},
    {"type": "string", "pattern": "^[ab]{7}$"},
    {"type": "string", "format": "date"},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 2},
    {
        "type": "object",
        "properties": {"q": {"type": "integer", "minimum": 0, "maximum": 80}, "r": {"type": "boolean"}},
        "required": ["q"],
        "additionalProperties": False,
    },
)
_ROWS: tuple[dict[str, Any], ...] = (
    {"items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 2},
    {"items": {"type": "integer"}, "maxItems": 2},
    {"prefixItems": [{"type": "string"}, {"type": "boolean"}, {"enum": ["x", "xy"]}], "items": False, "minItems": 2},
    {"items": {"type": ["number", "boolean"]}, "maxItems": 1},
    {"items": {"type": "string", "pattern": "^[ab]{7}$"}, "maxItems": 2},
)
_OTHERS: tuple[Any, ...] = (
    {"type": "boolean"},
    {"type": "string"},
    {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
)


def schema(pick: random.Random) -> dict[str, Any]:
    names = pick.sample(_NAMES, pick.randrange(2, 5))
    members = {name: pick.choice(_FEW) for name in names}
    members[pick.choice(names)] = pick.choice(_MANY)
    item: dict[str, Any] = {"type": "object", "properties": members, "additionalProperties": False}
    more: list[tuple[float, dict[str, Any]]] = [
        (0.8, {"required": pick.sample(names, pick.randrange(len(names) + 1))}),
        (0.2, {"minProperties": pick.randrange(4)}),
        (0.2, {"maxProperties": pick.randrange(1, 4)}),
        (0.15, {"dependentRequired": {names[0]: [names[1]]}}),
        (0.15, {"patternProperties": {"^x": {"type": "boolean"}}}),
        (0.1, {"patternProperties": {"^[a]$": {"type": ["boolean", "string", "integer"]}}}),
    ]
    for chance, keyword in more:
        item |= keyword if pick.random() < chance else {}
    items = {"anyOf": [item, pick.choice(_OTHERS)]} if pick.random() < 0.15 else item
    if pick.random() < 0.15:
        items = {"type": "array", **pick.choice(_ROWS)}
    elif pick.random() < 0.1:
        few = {"enum": pick.sample([{"a": 1}, {"b": 2}, {"a": 1, "b": 2}, [1], [], [[1]]], 3)}
        items = {"anyOf": [few, {"type": pick.choice(("string", "integer"))}]}
    found: dict[str, Any] = {"type": "array", "items": items, "uniqueItems": True}
    found |= {"minItems": pick.randrange(1, 5)} if pick.random() < 0.2 else {}
    found |= {"maxItems": pick.randrange(2, 6)} if pick.random() < 0.2 else {}
    if pick.random() < 0.1:
        return {"type": "object", "properties": {"l": found}, "required": ["l"], "additionalProperties": False}
    return found


def walk(compiled: LazyGrammar, pick: random.Random) -> bytes:
    """Draw a text in which most strings are empty, and finish it."""
    vocabulary, matcher, text = compiled.vocabulary, compiled.matcher(), b""
    for _ in range(90):
        tokens = offered(matcher, text, compared=pick.random() < 0.05)
        if not tokens:
            break
        likely = [byte for byte, chance in ((0x22, 0.7), (0x7D, 0.1)) if byte in tokens and pick.random() < chance]
        token = pick.choice(likely or tokens)
        matcher.accept(token)
        text += vocabulary.words[token]
    return text + finish(matcher, text)


def case(seed: int) -> str:
    """Try one schema. Return what came of it: a kind of refusal, "compiled", or a finding."""
    pick = random.Random(f"repeats:{seed}")
    made = schema(pick)
    options = GrammarOptions(
        property_order=pick.choice(("schema", "any", "required_first")),
        whitespace=pick.choice(("compact", "flexible")),
    )
    try:
        judge = jsonschema_rs.validator_for(made)
        compiled = compile_json_schema(made, byte_vocabulary(), options=options)
        for _ in range(4):
            text = walk(compiled, pick)
            if not judge.is_valid(json.loads(text)):
                raise Finding(f"invalid: {text!r}")
    except GrammarError as error:
        return type(error).__name__
    except Finding as error:
        return f"FINDING {error} under {json.dumps(made)}"
    except Exception as error:
        return f"{unexpected(error)} under {json.dumps(made)}"
    return "compiled"


if __name__ == "__main__":
    run(__doc__, lambda _, seed: case(seed))
