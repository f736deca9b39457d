"""Measure a served model's accuracy over the length of the prompt, on generated cases.

    python -m benchmarks.long_context --url http://127.0.0.1:8000 --lengths 128,256,512,896 --json | tail -1 > it.json
    python -m benchmarks.long_context --suite cases.jsonl            # for `sluicegate eval`, nothing is asked

Every case hides facts in filler at chosen depths, among facts of the same form about others, and asks for one value
under a schema, so that an answer is right or wrong and nothing else.

    needle   the code stands in one sentence
    hops 2   a person keeps the key in a locker; the locker stands in a room: which room?
    hops 3   and the room belongs to a floor: which floor?

Names and values are drawn from a seed. Lengths are in tokens of the model, reported as the model counted them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from sluicegate.gateway.commands.eval.asking import AskedCase, Variant, ask_all, first_model
from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.statistics import share
from sluicegate.plugins import ConfigurationError

KINDS: Mapping[str, int] = {"needle": 1, "hops 2": 2, "hops 3": 3}
"""Facts that have to be found and joined."""
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
PEOPLE = ("Amara", "Boris", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kofi", "Lena")
COLOURS = (
    "amber",
    "bronze",
    "copper",
    "green",
    "indigo",
    "ivory",
    "olive",
    "pearl",
    "ruby",
    "silver",
    "teal",
    "violet",
)
FLOORS = ("first", "second", "third", "fourth", "fifth", "sixth")
SUBJECTS = ("The harbour crew", "A visiting engineer", "The night shift", "The archive team", "A local florist")
VERBS = ("counted", "repainted", "photographed", "inspected", "moved", "listed", "cleaned", "measured")
OBJECTS = ("the wooden crates", "two spare ladders", "the delivery vans", "a row of lamps", "the old window frames")
WHEN = ("before lunch", "on Tuesday", "in light rain", "without delay", "for the third time", "near the south gate")
TOKENS_A_SENTENCE = 12.0
PROBE = 6
"""Sentences that say how many tokens one takes for the model that is asked."""


def main(arguments: list[str] | None = None) -> None:
    parsed = _arguments(arguments)
    if parsed.suite is not None:
        cases = cases_of(_lengths(parsed), parsed.limit, parsed.seed, TOKENS_A_SENTENCE)
        parsed.suite.write_text("".join(json.dumps(_row(case)) + "\n" for case in cases), "utf-8")
        common.report(parsed, {"suite": str(parsed.suite), "cases": len(cases)})
        return
    try:
        found = asyncio.run(measure(parsed))
    except ConfigurationError as error:
        raise SystemExit(f"{error}") from None
    if parsed.trained_to is not None:
        found["trained_to"] = parsed.trained_to
    print(table(found))
    common.report(parsed, found)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = common.parser(__doc__, None, 4, "cases of each kind, length and depth")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", default=os.environ.get("SLUICEGATE_API_KEY", ""))
    parser.add_argument("--model", default="", help="the first that is served")
    parser.add_argument("--lengths", default="128,256,512,896", help="of the text, in tokens")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suite", type=Path, help="write the cases as a suite instead")
    parser.add_argument(
        "--trained-to", type=int, help="tokens of the longest text that the model learned from, for the plot"
    )
    return parser.parse_args(arguments)


def _lengths(parsed: argparse.Namespace) -> list[int]:
    return [int(part) for part in parsed.lengths.split(",")]


# --- cases --------------------------------------------------------------------------------------------------------


def cases_of(lengths: Sequence[int], each: int, seed: int, tokens_a_sentence: float) -> list[Case]:
    """Make cases of every kind, length and depth. They are the same for the same arguments."""
    return [
        case_of(kind, length, depth, random.Random(f"{seed} {kind} {length} {depth} {number}"), tokens_a_sentence)
        for kind in KINDS
        for length in lengths
        for depth in DEPTHS
        for number in range(each)
    ]


def case_of(kind: str, length: int, depth: float, rng: random.Random, tokens_a_sentence: float) -> Case:
    """Make one case. `depth` is where the first fact stands, 0 = at the beginning; the others are spread over the rest
    at random."""
    sentences = [filler(rng) for _ in range(max(1, round(length / tokens_a_sentence) - 2 * KINDS[kind]))]
    facts, others, question, answer, allowed = _facts(kind, rng)
    for other in others:
        sentences.insert(rng.randrange(len(sentences) + 1), other)
    for number, fact in enumerate(facts):
        at = round(depth * len(sentences)) if number == 0 else rng.randrange(len(sentences) + 1)
        sentences.insert(at, fact)
    schema = {
        "type": "object",
        "properties": {"answer": {**allowed, "description": question}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    tags = (f"kind {kind}", f"length {length}", f"depth {depth:g}")
    text = f"{' '.join(sentences)}\n\n{question}"
    return Case(
        id=f"{kind} {length} {depth:g} {rng.getrandbits(32):08x}",
        messages=({"role": "user", "content": text},),
        schema=schema,
        expected={"answer": answer},
        checks=({"type": "json"},),
        tags=tags,
    )


def filler(rng: random.Random) -> str:
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(WHEN)}."


def _facts(kind: str, rng: random.Random) -> tuple[list[str], list[str], str, str, dict[str, Any]]:
    """Draw (facts, facts about another, question, answer, what an answer may be). Whoever joins the wrong facts finds
    an answer, too."""
    who, other = rng.sample(PEOPLE, 2)
    if kind == "needle":
        code, wrong = (str(number) for number in rng.sample(range(1000, 10_000), 2))
        statement = f"The access code of {who} is {code}."
        return (
            [statement],
            [f"The access code of {other} is {wrong}."],
            f"What is the access code of {who}?",
            code,
            _TEXT,
        )
    (locker, second), (room, near) = rng.sample(COLOURS, 2), rng.sample(range(11, 99), 2)
    facts = [f"{who} keeps the key in the {locker} locker.", f"The {locker} locker stands in room {room}."]
    others = [f"{other} keeps the key in the {second} locker.", f"The {second} locker stands in room {near}."]
    if kind == "hops 2":
        return facts, others, f"In which room is the key of {who}?", str(room), _TEXT
    floor, above = rng.sample(FLOORS, 2)
    facts.append(f"Room {room} is on the {floor} floor.")
    others.append(f"Room {near} is on the {above} floor.")
    return facts, others, f"On which floor is the key of {who}?", floor, {"enum": list(FLOORS)}


_TEXT: dict[str, Any] = {"type": "string", "maxLength": 16}


def _row(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "messages": list(case.messages),
        "schema": case.schema,
        "expected": case.expected,
        "checks": list(case.checks),
        "tags": list(case.tags),
    }


# --- asking -------------------------------------------------------------------------------------------------------


async def measure(parsed: argparse.Namespace) -> dict[str, Any]:
    model = parsed.model or first_model(parsed.url, parsed.key)
    variant = Variant("", parsed.url, model, key=parsed.key, request={"max_tokens": 40})
    async with httpx.AsyncClient(timeout=600, trust_env=False) as client:

        async def ask(cases: Sequence[Case]) -> list[AskedCase]:
            return await ask_all(
                client, [variant], cases, repeat=1, seed=0, parallel=parsed.parallel, on_done=lambda done, of: None
            )

        per_sentence = await _tokens_a_sentence(ask)
        cases = cases_of(_lengths(parsed), parsed.limit, parsed.seed, per_sentence)
        asked = await ask(cases)
    return report(model, parsed.seed, asked)


async def _tokens_a_sentence(ask: Any) -> float:
    """Measure the tokens of a sentence by two prompts, so that what stands around them does not count."""
    rng = random.Random("probe")
    sentences = [filler(rng) for _ in range(2 * PROBE)]
    texts = [" ".join(sentences[:PROBE]), " ".join(sentences)]
    probes = [Case(id=str(i), messages=({"role": "user", "content": text},), checks=()) for i, text in enumerate(texts)]
    short, long = [one.reply for one in await ask(probes)]
    if short.error or long.error:
        sys.exit(f"the model could not be asked: {short.error or long.error}")
    return max(1.0, float(long.prompt_tokens - short.prompt_tokens) / PROBE)


def report(model: str, seed: int, asked: Sequence[AskedCase]) -> dict[str, Any]:
    """Return shares of right answers with Wilson's interval. What could not be asked (a text too long) is told
    apart."""
    rows: defaultdict[tuple[str, int], list[AskedCase]] = defaultdict(list)
    depths: defaultdict[tuple[str, float], list[AskedCase]] = defaultdict(list)
    for one in asked:
        kind, length, depth = (tag.partition(" ")[2] for tag in one.case.tags)
        rows[kind, int(length)].append(one)
        depths[kind, float(depth)].append(one)
    return {
        "model": model,
        "seed": seed,
        "rows": [{"kind": kind, "length": length, **_figures(found)} for (kind, length), found in rows.items()],
        "depths": [{"kind": kind, "depth": depth, **_figures(found)} for (kind, depth), found in depths.items()],
    }


def _figures(found: Sequence[AskedCase]) -> dict[str, Any]:
    answered = [one for one in found if not one.reply.error]
    right = sum(is_right(one) for one in answered)
    interval = share(right, len(answered))
    tokens = sum(one.reply.prompt_tokens for one in answered) / max(1, len(answered))
    row = {"n": len(answered), "not_asked": len(found) - len(answered), "right": right, "tokens": round(tokens)}
    if interval is None:
        return row
    return {**row, "value": round(interval.value, 4), "low": round(interval.low, 4), "high": round(interval.high, 4)}


def is_right(one: AskedCase) -> bool:
    try:
        return bool(one.reply.value == one.case.expected)
    except ValueError:
        return False


def table(found: Mapping[str, Any]) -> str:
    lines = [f"{found['model']}: share of right answers, by length of the prompt in tokens"]
    for row in (*found["rows"], *found["depths"]):
        at = f"{row['tokens']:6,} tokens" if "length" in row else f"depth {row['depth']:<7g}"
        shown = f"{row['value']:6.1%} [{row['low']:.1%}, {row['high']:.1%}]" if row["n"] else "none could be asked"
        lines.append(f"  {row['kind']:8} {at:>13}  {shown}  of {row['n']}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
