"""Measure the effect of a long prompt on decoding sequences: inter-token latency of 8 before and while it is read.

    python -m benchmarks.mixed_load [--model llama-60m] [--long 4000] [-c 8] [--slowdown 1.8]

Beside wall-clock time stands CPU time of the process between two tokens, which others who use the machine disturb less;
with `--threads 1` it is what a step costs.

`--lengths 1000,4000,16000,32000` is `benchmarks.lengths`: what length itself costs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from itertools import pairwise
from typing import Any

from benchmarks.common import machine, model_parser, report
from benchmarks.lengths import measure, prompt_of
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import Job, Sampling


def main() -> None:
    args = _arguments()
    if lengths := [int(length) for length in args.lengths.split(",") if length][: args.limit or None]:
        found = measure(args.model, lengths, args.threads)
    else:
        model = loaded(args.model)
        print(f"# {machine()}\n# {args.model}, {model.parameter_count / 1e6:.1f} M parameters")
        found = asyncio.run(_mixed(model, args))
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "llama-60m", 0, "settings or lengths, the first ones")
    made.add_argument("--long", type=int, default=4000)
    made.add_argument("-c", type=int, default=8)
    made.add_argument("--slowdown", default="1.8,0", help="settings to compare, one after another")
    made.add_argument("--lengths", default="")
    made.add_argument("--threads", type=int)
    return made.parse_args()


_CELLS = (("wall", "alone"), ("wall", "beside"), ("cpu", "alone"), ("cpu", "beside"))
_Stamp = tuple[float, float]
"""When a token came: wall-clock and CPU seconds."""


async def _mixed(model: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    print("| slowdown | ITL alone p50/p99 ms | beside the prompt | p99 ratio | CPU alone | beside | ratio | TTFT s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    rows = {}
    for name in args.slowdown.split(",")[: args.limit or None]:
        row = rows[name] = await _one_setting(model, float(name), args)
        line = [f"{row[f'{at}_{clock}_ms'][0]:.1f}/{row[f'{at}_{clock}_ms'][1]:.1f}" for clock, at in _CELLS]
        for clock in ("wall", "cpu"):
            row[f"{clock}_ratio"] = row[f"beside_{clock}_ms"][1] / row[f"alone_{clock}_ms"][1]
        line.insert(2, f"{row['wall_ratio']:.2f}")
        print(f"| {name} | {' | '.join(line)} | {row['cpu_ratio']:.2f} | {row['ttft_s']:.2f} |", flush=True)
    return rows


async def _one_setting(model: LoadedModel, slowdown: float, args: argparse.Namespace) -> dict[str, Any]:
    blocks = (args.long + args.c * 3000) // 16
    settings = EngineSettings(
        prefill_slowdown=slowdown, threads=args.threads, draft_tokens=0, prefix_caching=False, num_blocks=blocks
    )
    engine = Engine(settings, [model])
    await engine.start()
    stamps: list[list[_Stamp]] = [[] for _ in range(args.c)]
    decoding = [asyncio.create_task(_decode(engine, model, seed, stamps[seed])) for seed in range(args.c)]
    ttft_s = 0.0
    for _ in range(2):  # the first teaches prefill chunking what a prompt's token costs
        await _reach(stamps, [20] * args.c)
        marks = [len(mine) for mine in stamps]
        await _reach(stamps, [mark + 60 for mark in marks])
        began = time.perf_counter()
        await _first_token(engine, model, args.long)
        ended = time.perf_counter()
        ttft_s = ended - began
        gaps = [pair for mine, mark in zip(stamps, marks, strict=True) for pair in pairwise(mine[mark:])]
        alone = [gap for gap in gaps if gap[1][0] < began]
        beside = [gap for gap in gaps if began < gap[1][0] < ended]
    for task in decoding:
        task.cancel()
    await asyncio.gather(*decoding, return_exceptions=True)
    await engine.close()
    found: dict[str, Any] = {"ttft_s": ttft_s}
    for name, pairs in (("alone", alone), ("beside", beside)):
        for at, clock in enumerate(("wall", "cpu")):
            found[f"{name}_{clock}_ms"] = _quantiles([after[at] - before[at] for before, after in pairs])
    return found


async def _reach(stamps: list[list[_Stamp]], counts: list[int]) -> None:
    """Wait until every sequence has as many tokens."""
    for mine, count in zip(stamps, counts, strict=True):
        for _ in range(60_000):
            if len(mine) >= count:
                break
            await asyncio.sleep(0.01)


async def _decode(engine: Engine, model: LoadedModel, seed: int, stamps: list[_Stamp]) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=2800, ignore_eos=True)
    async for piece in await engine.generate(Job(f"d{seed}", model.name, prompt_of(model, seed, 64), sampling)):
        stamps += [(time.perf_counter(), time.process_time())] * len(piece.token_ids)


async def _first_token(engine: Engine, model: LoadedModel, length: int) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=1, ignore_eos=True)
    async for _ in await engine.generate(Job("long", model.name, prompt_of(model, 99, length), sampling)):
        pass


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return 1e3 * cuts[49], 1e3 * cuts[98]


if __name__ == "__main__":
    main()
