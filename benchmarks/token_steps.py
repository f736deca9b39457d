"""Measure the token step of JSON schemas, mask and accepted token, and llguidance's, schema by schema in one process.

    python -m benchmarks.token_steps [--data FILE] [--tokenizer RANKS] [--limit N] [--llguidance FOLDER] [--json]

FILE, RANKS: as for `benchmarks.masks`. FOLDER: the site-packages of an environment of its own in which llguidance is
installed (`python -m venv V; V/bin/pip install llguidance`); without it ours is measured alone. Both engines follow the
instances of a schema one right after the other, by turns who begins, so that a busy machine slows both alike. TTFM =
compile, new matcher, first mask; TBM = a mask; accept = a token; step = both. CPU time of this process; the garbage
collector is off meanwhile. With a peer only schemas count that both compile and follow to the same places. The whole
visible half of MaskBench (`--limit 0`) takes some three minutes.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks import common
from benchmarks.grammars import Follower, Ours, Theirs
from benchmarks.grammars import peer as find_peer
from benchmarks.masks import Encode, load, quantiles
from sluicegate.grammar import GrammarError, TokenRejected, Vocabulary, compile_json_schema
from sluicegate.plugins import Mask


class Compiled(Protocol):
    def __call__(self) -> Follower:
        """Make a new matcher."""


class Engine(NamedTuple):
    """`compile` raises `ValueError` where it refuses a schema."""

    name: str
    compile: Callable[[Any], Compiled]


class Times(NamedTuple):
    """Seconds of one schema; `followed`: how many tokens of each instance."""

    first_s: float
    masks_s: list[float]
    takes_s: list[float]
    steps_s: list[float]
    followed: list[int]


def ours(vocabulary: Vocabulary) -> Engine:
    def compiled(schema: Any) -> Compiled:
        try:
            grammar = compile_json_schema(schema, vocabulary)
        except GrammarError as error:
            raise ValueError(str(error)) from error
        return lambda: Ours(grammar.matcher())

    return Engine("sluicegate", compiled)


def theirs(folder: Path, vocabulary: Vocabulary, encode: Encode) -> Engine:
    llguidance = find_peer(folder)
    fill: Callable[..., None] = import_module("llguidance.numpy").fill_next_token_bitmask
    encoding: Any = getattr(encode, "__self__", None)
    tokenizer = import_module("llguidance.tiktoken").lltokenizer_from_encoding(
        encoding, n_vocab=vocabulary.size, eos_token=vocabulary.eos_token_ids[0]
    )

    def compiled(schema: Any) -> Compiled:
        made = llguidance.LLMatcher(tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0)
        if made.is_error():
            raise ValueError(made.get_error())
        return lambda: Theirs(made.deep_copy(), fill)

    return Engine("llguidance", compiled)


def measured(engine: Engine, schema: Any, instances: list[list[int]], row: Mask) -> Times | None:
    """Measure a schema and its instances; None where the engine refuses the schema or fails on the way."""
    clock = time.process_time
    began = clock()
    try:
        compiled = engine.compile(schema)
        compiled().fill(row)
    except ValueError:
        return None
    found = Times(clock() - began, [], [], [], [])
    try:
        for tokens in instances:
            found.followed.append(_follow(compiled(), tokens, row, found))
    except (ValueError, TokenRejected, GrammarError):
        return None
    return found


def _follow(matcher: Follower, tokens: list[int], row: Mask, found: Times) -> int:
    clock = time.process_time
    for place, token in enumerate(tokens):
        began = clock()
        matcher.fill(row)
        masked = clock() - began
        found.masks_s.append(masked)
        if not int(row[token >> 5]) >> (token & 31) & 1:
            found.steps_s.append(masked)
            return place
        began = clock()
        matcher.take(token)
        found.takes_s.append(clock() - began)
        found.steps_s.append(masked + found.takes_s[-1])
    return len(tokens)


def summary(times: list[Times]) -> dict[str, dict[str, float]]:
    """Return microseconds by kind and quantile."""
    kinds = {
        "TTFM": [each.first_s for each in times],
        "TBM": [value for each in times for value in each.masks_s],
        "accept": [value for each in times for value in each.takes_s],
        "step": [value for each in times for value in each.steps_s],
    }
    return {kind: {name: value * 1e6 for name, value in quantiles(values)} for kind, values in kinds.items()}


def compared(engines: list[Engine], records: list[dict[str, Any]], encode: Encode, words: int) -> list[list[Times]]:
    """Measure all engines; return for each the times of the schemas that all follow alike."""
    row = np.zeros(words, np.int32)
    found: list[list[Times]] = [[] for _ in engines]
    for number, record in enumerate(records):
        instances = [encode(json.dumps(test["data"], ensure_ascii=False)) for test in record["tests"]]
        times: dict[int, Times] = {}
        for k in range(len(engines)) if number % 2 else reversed(range(len(engines))):
            gc.collect()
            gc.freeze()  # not to go through all that is kept for each schema: 20 times the time of the rest
            gc.disable()
            each = measured(engines[k], record["schema"], instances, row)
            gc.enable()
            if each is not None:
                times[k] = each
        if len(times) == len(engines) and len({tuple(each.followed) for each in times.values()}) == 1:
            for k, each in times.items():
                found[k].append(each)
    gc.unfreeze()
    return found


def main() -> None:
    parser = common.parser(__doc__, "maskbench.jsonl.gz", 600, "schemas, from one fixed shuffle")
    parser.add_tokenizer()
    parser.add_argument("--llguidance", type=Path, help="site-packages with the peer")
    given = parser.parse_args()
    vocabulary, encode = load(given.tokenizer)
    engines = [ours(vocabulary)] + ([theirs(given.llguidance, vocabulary, encode)] if given.llguidance else [])
    warm = [{"id": "", "schema": {"properties": {"a": {"type": "integer"}}}, "tests": [{"data": {"a": 1}}]}]
    compared(engines, warm, encode, vocabulary.row_words)
    records = common.records(given.data, given.limit, fields=("schema", "tests"))
    times = compared(engines, records, encode, vocabulary.row_words)
    found = [summary(each) for each in times]
    print(f"# {common.machine()}; {len(times[0])} schemas, {len([1 for t in times[0] for _ in t.masks_s])} masks")
    for kind, values in found[0].items():
        for name, value in values.items():
            peer = [f"{each[kind][name]:10.2f}  ratio {value / each[kind][name]:.2f}" for each in found[1:]]
            print(f"{kind:7} {name:6} {value:10.2f} us", *peer)
    common.report(given, {engine.name: each for engine, each in zip(engines, found, strict=True)})


if __name__ == "__main__":
    main()
