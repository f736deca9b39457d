"""What a long prompt does to those who decode: inter-token latency of 8 sequences before and while it is read.

    python -m benchmarks.mixed_load [--model llama-60m] [--long 4000] [-c 8] [--slowdown 1.8]

`--lengths 1000,4000,16000,32000` is `benchmarks.lengths`: what length itself costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from itertools import pairwise
from typing import Any

from benchmarks.common import machine
from benchmarks.lengths import measure, prompt_of
from benchmarks.shapes import folder_of
from engine import Engine, EngineSettings, LoadedModel, load_model
from plugins import Job, Sampling


def main() -> None:
    args = _arguments()
    if lengths := [int(length) for length in args.lengths.split(",") if length]:
        found = measure(args.model, lengths, args.threads)
    else:
        model = load_model(folder_of(args.model))
        print(f"# {machine()}\n# {args.model}, {model.parameter_count / 1e6:.1f} M parameters")
        found = asyncio.run(_mixed(model, args))
    if args.json:
        print(json.dumps(found))


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", "--data", default="llama-60m")
    made.add_argument("--long", type=int, default=4000)
    made.add_argument("-c", type=int, default=8)
    made.add_argument("--slowdown", default="1.8,0", help="settings to compare, one after another")
    made.add_argument("--lengths", default="")
    made.add_argument("--threads", type=int)
    made.add_argument("--limit", type=int, default=0, help="unused: every benchmark takes it")
    made.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return made.parse_args()


async def _mixed(model: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    print("| slowdown | ITL alone p50/p99 ms | ITL beside the prompt p50/p99 ms | p99 ratio | long prompt TTFT s |")
    print("|---|--:|--:|--:|--:|")
    rows = {}
    for name in args.slowdown.split(","):
        row = rows[name] = await _one_setting(model, float(name), args)
        alone, beside = row["alone_ms"], row["beside_ms"]
        ratio = row["ratio"] = beside[1] / alone[1]
        latencies = f"{alone[0]:.1f}/{alone[1]:.1f} | {beside[0]:.1f}/{beside[1]:.1f}"
        print(f"| {name} | {latencies} | {ratio:.2f} | {row['ttft_s']:.2f} |", flush=True)
    return rows


async def _one_setting(model: LoadedModel, slowdown: float, args: argparse.Namespace) -> dict[str, Any]:
    blocks = (args.long + args.c * 3000) // 16
    settings = EngineSettings(
        slowdown=slowdown, threads=args.threads, draft_tokens=0, prefix_caching=False, num_blocks=blocks
    )
    engine = Engine(settings, [model])
    await engine.start()
    stamps: list[list[float]] = [[] for _ in range(args.c)]
    decoding = [asyncio.create_task(_decode(engine, model, seed, stamps[seed])) for seed in range(args.c)]
    ttft_s = 0.0
    for _ in range(2):  # the first teaches the pacer what a prompt's token costs
        await _reach(stamps, [20] * args.c)
        marks = [len(mine) for mine in stamps]
        await _reach(stamps, [mark + 60 for mark in marks])
        began = time.perf_counter()
        await _first_token(engine, model, args.long)
        ended = time.perf_counter()
        ttft_s = ended - began
        before = [
            b - a for mine, mark in zip(stamps, marks, strict=True) for a, b in pairwise(mine[mark:]) if b < began
        ]
        beside = [b - a for mine in stamps for a, b in pairwise(mine) if began < b < ended]
    for task in decoding:
        task.cancel()
    await asyncio.gather(*decoding, return_exceptions=True)
    await engine.close()
    return {"alone_ms": _quantiles(before), "beside_ms": _quantiles(beside), "ttft_s": ttft_s}


async def _reach(stamps: list[list[float]], counts: list[int]) -> None:
    """Until every sequence has as many tokens."""
    for mine, count in zip(stamps, counts, strict=True):
        for _ in range(60_000):
            if len(mine) >= count:
                break
            await asyncio.sleep(0.01)


async def _decode(engine: Engine, model: LoadedModel, seed: int, stamps: list[float]) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=2800, ignore_eos=True)
    async for piece in await engine.generate(Job(f"d{seed}", model.name, prompt_of(model, seed, 64), sampling)):
        stamps += [time.perf_counter()] * len(piece.token_ids)


async def _first_token(engine: Engine, model: LoadedModel, length: int) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=1, ignore_eos=True)
    async for _ in await engine.generate(Job("long", model.name, prompt_of(model, 99, length), sampling)):
        pass


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return 1e3 * cuts[49], 1e3 * cuts[98]


if __name__ == "__main__":
    main()
