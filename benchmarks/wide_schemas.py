"""Measure objects of thousands of properties: compile, masks and tokens along a text with all of them, and memory.

    python -m benchmarks.wide_schemas [--data RANKS] [--limit N] [--widths N,N] [--llguidance FOLDER] [--json]

RANKS: a tiktoken file, or a tokenizer's folder. Properties are strings, integers, booleans, dates and choices, a fifth
of them required. The text names all of them, under `property_order="any"` in a drawn order; `--limit` ends it after so
many members. A step is a mask and an accepted token: it is linear in the text where the last tenth of the steps takes
as long as the first. Each case is a process of its own that is forked with the vocabulary ready, so that its peak of
memory is no other's. FOLDER: the site-packages of an environment in which llguidance is installed, which has no order
but the schema's. CPU time; the garbage collector is off meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.grammars import Ours
from benchmarks.hostile import in_child, peak_kb
from benchmarks.masks import Encode, load
from benchmarks.token_steps import Compiled, Engine, ours, theirs
from sluicegate.grammar import GrammarOptions, Vocabulary, compile_json_schema

WORDS = ("customer", "billing", "primary", "shipping", "archive", "region", "quality", "external", "metric", "signal")
KINDS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"type": "string"}, "as agreed on the phone"),
    ({"type": "integer"}, 4711),
    ({"type": "boolean"}, True),
    ({"type": "string", "format": "date"}, "2026-03-14"),
    ({"enum": ["draft", "open", "closed"]}, "open"),
)
_PART = 10
"""Steps are compared by tenths of the text."""


class Case(NamedTuple):
    """`text`: a value with all properties, as far as `--limit` allows, in the order in which they are written."""

    schema: dict[str, Any]
    text: str


def case(width: int, members: int, shuffled: bool) -> Case:
    """Make a schema of `width` properties, and a text that names `members` of them, the required ones first."""
    pick = random.Random(width)
    names = [f"{pick.choice(WORDS)}_{pick.choice(WORDS)}_{number}" for number in range(width)]
    kinds = {name: pick.choice(KINDS) for name in names}
    given = names[:members]
    if shuffled:
        pick.shuffle(given)
    schema = {
        "type": "object",
        "properties": {name: kind for name, (kind, _) in kinds.items()},
        "required": names[:members][::5],
        "additionalProperties": False,
    }
    return Case(schema, json.dumps({name: kinds[name][1] for name in given}))


def any_order(vocabulary: Vocabulary) -> Engine:
    """Return our engine with members in any order."""
    options = GrammarOptions(property_order="any")

    def compiled(schema: Any) -> Compiled:
        grammar = compile_json_schema(schema, vocabulary, options=options)
        return lambda: Ours(grammar.matcher())

    return Engine("sluicegate, any order", compiled)


def measured(engine: Engine, made: Case, encode: Encode, words: int) -> dict[str, Any]:
    """Return what one case costs. Raises `ValueError` where the engine does not follow the text."""
    row, clock = np.zeros(words, np.int32), time.process_time
    tokens = encode(made.text)
    gc.collect()
    gc.disable()
    before, began = peak_kb(), clock()
    compiled = engine.compile(made.schema)
    matcher = compiled()
    matcher.fill(row)
    first = clock() - began
    steps: list[float] = []
    for token in tokens:
        began = clock()
        matcher.fill(row)
        if not int(row[token >> 5]) >> (token & 31) & 1:
            raise ValueError(f"{engine.name} does not offer token {len(steps)} of the text")
        matcher.take(token)
        steps.append(clock() - began)
    tenth = max(1, len(steps) // _PART)
    return {
        "engine": engine.name,
        "text_kb": round(len(made.text) / 1024, 1),
        "tokens": len(tokens),
        "first_mask_ms": round(first * 1e3, 1),
        "all_s": round(sum(steps), 2),
        "step_us": round(float(np.mean(steps)) * 1e6, 1),
        "first_tenth_us": round(float(np.mean(steps[:tenth])) * 1e6, 1),
        "last_tenth_us": round(float(np.mean(steps[-tenth:])) * 1e6, 1),
        "slowest_step_ms": round(max(steps) * 1e3, 1),
        "peak_mb": round((peak_kb() - before) / 1024, 1),
    }


def widths(text: str) -> Sequence[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} are no widths; expected numbers from 1, by commas")
    return found


def main() -> None:
    parser = common.parser(__doc__, "llama3/tokenizer.model", 0, "members of each text")
    parser.add_argument("--widths", type=widths, default="500,1000,2000,5000,10000", help="properties of each object")
    parser.add_argument("--llguidance", type=Path, help="site-packages with the peer")
    given = parser.parse_args()
    vocabulary, encode = load(given.data)
    engines = [any_order(vocabulary), ours(vocabulary)]
    engines += [theirs(given.llguidance, vocabulary, encode)] if given.llguidance else []
    for engine in engines:
        measured(engine, case(5, 5, False), encode, vocabulary.row_words)
    rows = []
    print(common.machine())
    for width in given.widths:
        for engine in engines:
            made = case(width, min(width, given.limit or width), engine is engines[0])
            row = {"width": width, **in_child(lambda: measured(engine, made, encode, vocabulary.row_words))}  # noqa: B023
            rows.append(row)
            print(json.dumps(row), flush=True)
    common.report(given, {"rows": rows})


if __name__ == "__main__":
    main()
