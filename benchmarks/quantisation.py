"""Measure quantisation of weights and KV cache: memory, tokens a second, perplexity.

    python -m benchmarks.quantisation [--models llama-60m,bundled] [-c 1,8,32] [--kinds full/full,int8/full ...]

The text whose perplexity is measured is what the model in full precision generates (temperature 1, fixed seeds), so the
full row is the model's own entropy and every other row can only be worse, up to the noise of a finite text.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
from itertools import product
from typing import Any

import numpy as np
import torch

from benchmarks.common import machine, model_parser, report
from benchmarks.engine import KINDS, measure
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.plugins import Job, Prompt, Sampling

VARIANTS = ("full/full", "int8/full", "int4/full", "full/int8", "full/fp8", "int8/int8", "int8/fp8", "int4/int8")
"""weights/KV cache."""


def main() -> None:
    args = _arguments()
    print(f"# {machine()}")
    found = {name: asyncio.run(_measure(name, args)) for name in _rows(args)}
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "llama-60m,bundled", 0, "rows and texts, the first ones")
    made.add_argument("--kinds", default=",".join(VARIANTS), help="weights/kv, one after another")
    made.add_argument("-c", default="1,8,32")
    made.add_argument("--prompt-len", type=int, default=128)
    made.add_argument("--output-len", type=int, default=32)
    made.add_argument("--threads", type=int)
    made.add_argument("--texts", type=int, default=8, help="whose perplexity is measured (%(default)s)")
    made.add_argument("--text-len", type=int, default=200)
    made.add_argument("--repeats", type=int, default=2, help="of each speed; the best counts")
    made.set_defaults(draft_tokens=0)
    return made.parse_args()


def _rows(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return by model the kinds to measure, of all together as many as `--limit` says."""
    found: dict[str, list[str]] = {}
    for name, kind in list(product(args.model.split(","), args.kinds.split(",")))[: args.limit or None]:
        found.setdefault(name, []).append(kind)
    return found


async def _measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    levels = [int(level) for level in args.c.split(",")]
    columns = " | ".join(f"tok/s c={level}" for level in levels)
    print(f"\n{name}\n\n| weights/KV | weights MB | KV bytes a token | {columns} | perplexity | ratio |")
    print("|---|--:|--:|" + "--:|" * len(levels) + "--:|--:|")
    texts = await _texts(loaded(name), args)
    rows: dict[str, Any] = {}
    for kind in _rows(args)[name]:
        row = rows[kind] = await _measure_kind(name, kind, texts, levels, args)
        ratio = row["perplexity"] / next(iter(rows.values()))["perplexity"]
        speeds = " | ".join(f"{row[f'tok_s_{level}']:.0f}" for level in levels)
        sizes = f"{row['weight_mb']:.1f} | {row['kv_bytes']}"
        print(f"| {kind} | {sizes} | {speeds} | {row['perplexity']:.3f} | {ratio:.4f} |", flush=True)
    return rows


async def _measure_kind(
    name: str, kind: str, texts: list[list[int]], levels: list[int], args: argparse.Namespace
) -> dict[str, Any]:
    weights, _, kv = kind.partition("/")
    model = loaded(name, weights=weights)
    row: dict[str, Any] = {
        "weight_mb": model.weight_bytes / 1e6,
        "kv_bytes": model.kv_bytes_in(model.dtype if kv == "full" else torch.int8),
        "perplexity": _perplexity(model, kv, texts),
    }
    settings = EngineSettings(
        max_batch_size=max(levels),
        threads=args.threads,
        draft_tokens=0,
        prefix_caching=False,
        kv=kv,  # type: ignore[arg-type]
    )
    engine = Engine(settings, [model])
    await engine.start()
    for level in levels:
        await measure(engine, model, KINDS["greedy"], level, args)
        runs = [await measure(engine, model, KINDS["greedy"], level, args) for _ in range(args.repeats)]
        row[f"tok_s_{level}"] = max(float(run["decode_tok_s"]) for run in runs)
    await engine.close()
    return row


def _perplexity(model: LoadedModel, kv: str, texts: list[list[int]]) -> float:
    """Compute the perplexity: e to the mean surprise at the tokens after the first 16 of each text."""
    longest = max(map(len, texts))
    runner = ModelRunner(model, longest // 16 + 1, 16, RunnerOptions(kv=kv))  # type: ignore[arg-type]
    scores = [runner.score(np.array(text, np.int64), chunk=64)[15:] for text in texts]
    return math.exp(-float(np.concatenate(scores).mean()))


async def _texts(model: LoadedModel, args: argparse.Namespace) -> list[list[int]]:
    engine = Engine(EngineSettings(draft_tokens=0, prefix_caching=False), [model])
    await engine.start()
    texts = [
        await _text(engine, model, seed, args.text_len) for seed in range(min(args.texts, args.limit or args.texts))
    ]
    await engine.close()
    return texts


async def _text(engine: Engine, model: LoadedModel, seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    prompt = [draw.randrange(5, model.usable_vocab) for _ in range(16)]
    sampling = Sampling(temperature=1.0, seed=seed, max_tokens=length - 16, ignore_eos=True)
    generation = await engine.generate(Job(f"text-{seed}", model.name, Prompt("", tuple(prompt)), sampling))
    return prompt + [token async for piece in generation for token in piece.token_ids]


if __name__ == "__main__":
    main()
