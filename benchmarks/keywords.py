"""Measure the cost of a keyword of JSON Schema: a small schema without it and with it, one right after the other.

    python -m benchmarks.keywords [--data FILE] [--tokenizer RANKS] [--rounds N] [--limit N] [--json]

FILE: lines of JSON, each `{"keyword", "without", "with", "value"}`; without one, the cases below. Times are CPU time.
`first`: a schema that was never seen, compiled, and its first mask. `mask`: the mean over the tokens of `value` as
JSON, for a second request. A case is repeated with other property names each round, so that nothing but what any
schema shares is remembered; the median counts.
"""

from __future__ import annotations

import gc
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.masks import Encode, Run, load
from sluicegate.grammar import GrammarOptions, Vocabulary

BUNDLED = Path(__file__).resolve().parent.parent / "engine" / "bundled"
"""Whose tokenizer is taken where there is no other."""
TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NAMES = ("alpha", "beta", "gamma", "delta")
WORDS = "The quick brown fox jumps over the lazy dog"
STRINGS: dict[str, tuple[dict[str, Any], str]] = {
    "minLength, maxLength": ({"minLength": 3, "maxLength": 80}, WORDS),
    "pattern": ({"pattern": r"^[A-Z]{2,4}-\d{3,6}$"}, "INV-20417"),
    "pattern, a lookahead": ({"pattern": r"^(?!.*--)[A-Za-z-]{3,40}$"}, "well-kept-names"),
    "format: date": ({"format": "date"}, "2026-11-21"),
    "format: date-time": ({"format": "date-time"}, "2026-11-21T09:30:00Z"),
    "format: email": ({"format": "email"}, "clara.winther@harbour.example"),
    "format: uri": ({"format": "uri"}, "https://harbour.example/orders/20417"),
    "format: uuid": ({"format": "uuid"}, "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
    "const": ({"const": "settled"}, "settled"),
    "enum of 5": ({"enum": ["open", "paid", "late", "void", "draft"]}, "late"),
    "enum of 500": ({"enum": [f"code {number:03}" for number in range(500)]}, "code 417"),
}
NUMBERS: dict[str, tuple[dict[str, Any], float]] = {
    "minimum, maximum": ({"minimum": 0, "maximum": 999_999}, 1284.5),
    "multipleOf: 0.01": ({"multipleOf": 0.01}, 1284.5),
    "type: integer": ({"type": "integer"}, 1284),
}


def cases() -> list[dict[str, Any]]:
    """Return one case for each keyword. The value fits both schemas."""
    found = [_case(name, TEXT, {**TEXT, **extra}, [value] * 4) for name, (extra, value) in STRINGS.items()]
    found += [_case(name, NUMBER, {**NUMBER, **extra}, [value] * 4) for name, (extra, value) in NUMBERS.items()]
    person = {"type": "object", "properties": {"name": TEXT, "age": NUMBER}, "required": ["name"]}
    people, values = {"type": "array", "items": person}, [{"name": "Clara", "age": 41}, {"name": "Bo", "age": 7}]
    either = [person, {"type": "object", "properties": {"id": NUMBER}, "required": ["id"]}]
    whole = {**person, "additionalProperties": False}
    found += [
        _case("additionalProperties: false", person, whole, values[:1] * 4),
        _case("required, all", person, {**person, "required": ["name", "age"]}, values[:1] * 4),
        _case("anyOf of two objects", person, {"anyOf": either}, values[:1] * 4),
        _case("oneOf of two objects", person, {"oneOf": either}, values[:1] * 4),
        _case("allOf of two objects", person, {"allOf": [person, {"required": ["age"]}]}, values[:1] * 4),
        _case("not", person, {**person, "not": {"required": ["id"]}}, values[:1] * 4),
        _case("if, then, else", person, {**person, **_conditional()}, values[:1] * 4),
        _case("patternProperties", person, {**person, "patternProperties": {"^x-": TEXT}}, values[:1] * 4),
        _case("propertyNames", person, {**person, "propertyNames": {"maxLength": 8}}, values[:1] * 4),
        _case("dependentRequired", person, {**person, "dependentRequired": {"age": ["name"]}}, values[:1] * 4),
        _case("minItems, maxItems", people, {**people, "minItems": 1, "maxItems": 50}, [values] * 4),
        _case("uniqueItems", people, {**people, "uniqueItems": True}, [values] * 4),
        _case("contains", people, {**people, "contains": {"required": ["age"]}}, [values] * 4),
        _case("prefixItems", people, {**people, "prefixItems": [person, person]}, [values] * 4),
        _case("unevaluatedProperties: false", person, {**person, "unevaluatedProperties": False}, values[:1] * 4),
        _case("$ref, recursive", person, _tree(), [{"name": "Clara", "below": [{"name": "Bo"}]}] * 4),
    ]
    return found


def _case(keyword: str, without: dict[str, Any], given: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    defs = given.pop("$defs", None)
    made = [
        {"type": "object", "properties": dict.fromkeys(NAMES, below), "required": list(NAMES)}
        for below in (without, given)
    ]
    if defs is not None:
        made[1]["$defs"] = defs
    return {"keyword": keyword, "without": made[0], "with": made[1], "value": dict(zip(NAMES, values, strict=True))}


def _conditional() -> dict[str, Any]:
    grown = {"properties": {"age": {"minimum": 18}}, "required": ["age"]}
    return {"if": grown, "then": {"required": ["name"]}, "else": {"properties": {"guardian": TEXT}}}


def _tree() -> dict[str, Any]:
    node = {
        "type": "object",
        "properties": {"name": TEXT, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


def measured(case: dict[str, Any], vocabulary: Vocabulary, encode: Encode, rounds: int) -> dict[str, Any]:
    """Measure a case without and with the keyword in turn; return medians over the rounds."""
    first: dict[str, list[float]] = {"without": [], "with": []}
    masks: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(rounds):
        renamed = json.loads(_renamed(json.dumps(case), number))
        for which in ("without", "with") if number % 2 else ("with", "without"):
            record = {"schema": renamed[which], "tests": [{"valid": True, "data": renamed["value"]}]}
            times = [_followed(record, vocabulary, encode) for _ in range(2)]
            first[which].append(times[0].first_s[0] * 1e3)
            masks[which].append(statistics.fmean(times[1].masks_s) * 1e6)
    return {
        "keyword": case["keyword"],
        "first_ms": {which: round(statistics.median(found), 2) for which, found in first.items()},
        "mask_us": {which: round(statistics.median(found), 1) for which, found in masks.items()},
    }


def _followed(record: dict[str, Any], vocabulary: Vocabulary, encode: Encode) -> Run:
    run = Run(vocabulary, encode, GrammarOptions())
    gc.collect()
    gc.disable()
    run.schema(record)
    gc.enable()
    if run.counts["valid accepted"] != 1:
        raise SystemExit(f"the value of {json.dumps(record)[:300]} does not fit its schema: {dict(run.refusals)}")
    return run


def _renamed(text: str, number: int) -> str:
    for name in NAMES:
        text = text.replace(f'"{name}"', f'"{name}{number}"')
    return text


def main() -> None:
    form = "lines of JSON, each with `keyword`, `without`, `with` and `value`"
    options = common.parser(__doc__, None, 0, "keywords", form=form)
    options.add_argument("--tokenizer", type=Path, default=common.DATA / "llama3" / "tokenizer.model")
    options.add_argument("--rounds", type=int, default=7)
    asked = options.parse_args()
    place = asked.tokenizer if asked.tokenizer.exists() else BUNDLED
    vocabulary, encode = load(place)
    chosen = common.records(asked.data, fields=("keyword", "without", "with", "value")) if asked.data else cases()
    measured(chosen[0], vocabulary, encode, 2)  # loops are loaded, and what all schemas share is worked out
    rows = [measured(case, vocabulary, encode, asked.rounds) for case in chosen[: asked.limit or None]]
    print(f"{common.machine()}; vocabulary of {vocabulary.size:,} tokens")
    print("| keyword | first mask without, ms | with | a mask later without, us | with |\n|---|--:|--:|--:|--:|")
    for row in rows:
        first, mask = row["first_ms"], row["mask_us"]
        print(f"| {row['keyword']} | {first['without']} | {first['with']} | {mask['without']} | {mask['with']} |")
    common.report(asked, {"rows": rows, "rounds": asked.rounds, "tokens": vocabulary.size})


if __name__ == "__main__":
    main()
