"""Measure the cost of a grammar on every sequence: tokens a second of a full batch with and without, vocabulary of
Llama 3.

    python -m benchmarks.constrained [--data SCHEMAS] [--tokenizer RANKS] [--limit 32] [--model SHAPE]

`unconstrained`, then `grammar` (each sequence a schema of its own from the data set), then `forced` (schemas made here
whose answers are mostly fixed text), then the same `compact`, without blanks between the values. All draw at
temperature 1 from a model of random weights, which says whatever the masks allow; every run generates the same number
of tokens from the same prompts.

They take turns, round by round, so that what else the machine does hits all alike. A ratio is that of one round
(tokens a second, or tokens a CPU second, to `unconstrained`), of which the median counts: CPU ratios hold on a busy
machine, the others on an idle one only. Aims: 95 % for `grammar`, 110 % for `forced`. Mask milliseconds are spent on a
thread of their own while the forward pass runs; with fewer free cores than threads nothing hides them.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from benchmarks import common
from benchmarks.masks import load
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.grammar import GrammarError, GrammarOptions, Vocabulary, compile_json_schema
from sluicegate.plugins import Job, Prompt, Sampling


def main() -> None:
    made = common.parser(__doc__, "maskbench.jsonl.gz", 32, "sequences at once", endless=True)
    made.add_tokenizer()
    made.add_argument("--model", default="llama-100m-128k")
    made.add_argument("--weights", default="full")
    made.add_argument("--tokens", type=int, default=48)
    made.add_argument("--threads", type=int)
    made.add_argument("--rounds", "--repeats", type=int, default=3, help="after one that only warms up")
    args = made.parse_args()
    vocabulary, encode = load(args.tokenizer)
    vocabulary.encode = encode  # forced tokens are spelled as the tokenizer spells them
    model = loaded(args.model, weights=args.weights)
    print(f"# {common.machine()}\n# {args.model}, weights {args.weights}, {args.limit} sequences", flush=True)
    print(
        "| run | tok/s, best | ratio | CPU ms a token, best | ratio | masks | mask ms a step | forced tokens |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    rows = asyncio.run(_measure_all(model, _kinds(args, vocabulary), args))
    common.report(args, rows)


def _kinds(args: Any, vocabulary: Vocabulary) -> dict[str, list[Any]]:
    made = [_forced_schema(seed) for seed in range(args.limit)]
    schemas = (record["schema"] for record in common.records(args.data, fields=("schema",)))
    return {
        "unconstrained": [None] * args.limit,
        "grammar": _compiled(schemas, vocabulary, args.limit),
        "forced": _compiled(iter(made), vocabulary, args.limit),
        "forced, compact": _compiled(iter(made), vocabulary, args.limit, GrammarOptions(whitespace="compact")),
    }


def _compiled(schemas: Any, vocabulary: Vocabulary, count: int, options: GrammarOptions | None = None) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        try:
            found.append(compile_json_schema(next(schemas), vocabulary, options=options))
        except GrammarError:
            continue
    return found


def _forced_schema(seed: int) -> dict[str, Any]:
    """Draw a schema of twelve required properties with long names. Most values are one of two words, some are
    numbers."""
    draw = random.Random(seed)
    words = ["account", "balance", "currency", "delivery", "estimate", "fragment", "guarantee", "household"]
    names = ["_".join(draw.sample(words, 3)) + f"_{index}" for index in range(12)]
    kinds: list[Any] = [{"enum": ["confirmed", "cancelled"]}, {"const": "not applicable"}, {"type": "boolean"}]
    values = {name: draw.choice(kinds) for name in names}
    return {"type": "object", "properties": values, "required": names, "additionalProperties": False}


async def _measure_all(model: LoadedModel, kinds: dict[str, list[Any]], args: Any) -> dict[str, Any]:
    settings = EngineSettings(
        max_batch_size=args.limit, threads=args.threads, prefix_caching=False, num_blocks=args.limit * 40
    )
    engine = Engine(settings, [model])
    await engine.start()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for turn in range(args.rounds + 1):
        for name, grammars in kinds.items():
            found = await _measure(engine, model, grammars, args.tokens)
            if turn:  # the first round compiles grammars' masks and warms caches
                runs[name].append(found)
    await engine.close()
    return {name: _row(name, mine, runs["unconstrained"]) for name, mine in runs.items()}


def _row(name: str, runs: list[dict[str, float]], plain: list[dict[str, float]]) -> dict[str, float]:
    """Print one line of the table, and return it."""
    pairs = list(zip(runs, plain, strict=True))
    row = {
        "tok_s": max(run["tok_s"] for run in runs),
        "tok_s_ratio": statistics.median(run["tok_s"] / other["tok_s"] for run, other in pairs),
        "cpu_ms": min(run["cpu_ms"] for run in runs),
        "cpu_ratio": statistics.median(other["cpu_ms"] / run["cpu_ms"] for run, other in pairs),
        **{each: statistics.median(run[each] for run in runs) for each in ("masks", "mask_ms_step", "forced")},
    }
    speeds = f"{row['tok_s']:.0f} | {row['tok_s_ratio']:.2f} | {row['cpu_ms']:.2f} | {row['cpu_ratio']:.2f}"
    print(f"| {name} | {speeds} | {row['masks']:.0f} | {row['mask_ms_step']:.2f} | {row['forced']:.0f} |", flush=True)
    return row


async def _measure(engine: Engine, model: LoadedModel, grammars: list[Any], tokens: int) -> dict[str, float]:
    before, began, cpu = dict(engine.stats()), time.perf_counter(), time.process_time()
    await asyncio.gather(*[_one(engine, model, seed, grammar, tokens) for seed, grammar in enumerate(grammars)])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    spent = {name: value - before[name] for name, value in engine.stats().items()}
    made = spent["tokens_generated_total"]
    return {
        "tok_s": made / seconds,
        "cpu_ms": 1e3 * cpu / made,
        "masks": spent.get("masks_total", 0.0),
        "mask_ms_step": 1e3 * spent.get("mask_seconds_total", 0.0) / spent["steps_total"],
        "forced": spent["tokens_forced_total"],
    }


async def _one(engine: Engine, model: LoadedModel, seed: int, grammar: Any, tokens: int) -> None:
    """Generate `tokens` tokens. Sequences that finish early begin again, so that the batch stays full."""
    left, turn = tokens, 0
    while left > 0:
        draw = random.Random(seed)
        prompt = tuple(draw.randrange(5, model.usable_vocab) for _ in range(32))
        sampling = Sampling(temperature=1.0, seed=seed + 1000 * turn, max_tokens=left, ignore_eos=grammar is None)
        job = Job(f"bench-{seed}-{turn}", model.name, Prompt("", prompt), sampling, grammar=grammar)
        made = 0
        async for piece in await engine.generate(job):
            made += len(piece.token_ids)
        left, turn = left - max(1, made), turn + 1


if __name__ == "__main__":
    main()
