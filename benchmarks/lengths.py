"""Measure the cost of length: one prompt of each length, then 24 tokens after it.

    python -m benchmarks.lengths [--model llama-60m] [--lengths 1000,4000,16000,32000]
    python -m benchmarks.lengths --json | python -m benchmarks.lengths_plot > lengths.svg

CPU seconds to the first token and CPU milliseconds of a token after it (wall-clock time beside them), the KV cache's
own bytes and what the process has resident while the sequence runs. The linear part of a prompt's cost is the model's
products, the quadratic part attention; a fit of both says which share attention has.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import Job, Prompt, Sampling

_AFTER = 24
"""Tokens decoded after each prompt."""


def main() -> None:
    args = _arguments()
    lengths = [int(length) for length in args.lengths.split(",")][: args.limit or None]
    rows = measure(args.model, lengths, args.threads)
    report(args, rows)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "llama-60m", 0, "of the lengths, the first ones")
    made.add_argument("--lengths", default="1000,4000,16000,32000")
    made.add_argument("--threads", type=int, default=1)
    return made.parse_args()


def measure(name: str, lengths: Sequence[int], threads: int | None) -> dict[str, Any]:
    """Measure one row for each length, printed as it comes."""
    model = loaded(name, max([8192, *(length + 64 for length in lengths)]))
    print(f"# {machine()}\n# {name}, {model.parameter_count / 1e6:.1f} M parameters, threads {threads or 'auto'}")
    return asyncio.run(_measure(model, lengths, threads))


async def _measure(model: LoadedModel, lengths: Sequence[int], threads: int | None) -> dict[str, Any]:
    print(
        "| prompt tokens | to the first token, CPU s (wall) | prompt tok/CPU s | a token after it, CPU ms (wall) "
        "| KV cache MB | resident MB |\n|--:|--:|--:|--:|--:|--:|"
    )
    blocks = max(lengths) // 16 + 8
    engine = Engine(EngineSettings(threads=threads, draft_tokens=0, num_blocks=blocks, prefix_caching=False), [model])
    await engine.start()
    rows: dict[str, Any] = {}
    for length in lengths:
        row = rows[str(length)] = await _one(engine, model, length)
        print(
            f"| {length:,} | {row['prompt_cpu_s']:.2f} ({row['ttft_s']:.2f}) | {length / row['prompt_cpu_s']:,.0f} "
            f"| {row['token_cpu_ms']:.2f} ({row['itl_ms']:.2f}) | {row['kv_mb']:,.0f} | {row['resident_mb']:,.0f} |",
            flush=True,
        )
    await engine.close()
    if len(lengths) > 2:
        print(f"# attention's share of the prompt: {_attention_shares(list(rows.values()))}")
    return rows


async def _one(engine: Engine, model: LoadedModel, length: int) -> dict[str, float]:
    stamps: list[tuple[float, float]] = []
    sampling = Sampling(temperature=0.0, max_tokens=_AFTER, ignore_eos=True)
    began = time.perf_counter(), time.process_time()
    async for piece in await engine.generate(Job("l", model.name, prompt_of(model, 5, length), sampling)):
        stamps += [(time.perf_counter(), time.process_time())] * len(piece.token_ids)
    resident = _resident_mb()
    walls, cpus = [began[0], *(at[0] for at in stamps)], [began[1], *(at[1] for at in stamps)]
    return {
        "tokens": length,
        "ttft_s": walls[1] - walls[0],
        "prompt_cpu_s": cpus[1] - cpus[0],
        "itl_ms": 1e3 * statistics.median(b - a for a, b in pairwise(walls[1:])),
        "token_cpu_ms": 1e3 * statistics.median(b - a for a, b in pairwise(cpus[1:])),
        "kv_mb": length * model.kv_bytes_in(model.dtype) / 1e6,
        "resident_mb": resident,
    }


def _attention_shares(rows: Sequence[dict[str, float]]) -> str:
    """Fit seconds = a * n + b * n^2 by least squares, each row weighed by its own size. Return for each length the
    share of the quadratic part."""
    n = np.array([row["tokens"] for row in rows])
    seconds = np.array([row["prompt_cpu_s"] for row in rows])
    (_, quadratic), *_ = np.linalg.lstsq(np.stack([n, n**2], 1) / seconds[:, None], np.ones(len(n)), rcond=None)
    return ", ".join(f"{length:,}: {quadratic * length**2 / s:.0%}" for length, s in zip(n, seconds, strict=True))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def prompt_of(model: LoadedModel, seed: int, length: int) -> Prompt:
    """Draw a prompt of tokens that mean nothing."""
    draw = random.Random(seed)
    return Prompt("", tuple(draw.randrange(5, model.usable_vocab) for _ in range(length)))


if __name__ == "__main__":
    main()
