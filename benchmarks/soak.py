"""Check that the engine's memory does not grow: thousands of requests with every kind of end, and what stays in memory.

    python -m benchmarks.soak [--limit 10000] [--concurrent 32]

A fifth is cancelled at a random piece, a fifth has a deadline that may pass, the rest runs to its end; prompts share
beginnings, tenants change. Printed after 100 requests, and then after each tenth of the whole: resident memory, live
objects of Python, of these the engine's own; and the ratio of the waits that admission estimated to the actual ones.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import DeadlineExceeded, Job, Overloaded, Prompt, Sampling

OWN = ("LiveGeneration", "Sequence", "ChoiceText", "PromptLookup", "StopChecker", "Submission")


def main() -> None:
    args = _arguments()
    model = loaded(args.model)
    print(f"# {machine()}\n# {model.name}, {model.parameter_count / 1e6:.2f} M parameters")
    found = asyncio.run(_soak(model, args))
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled", 10_000, "requests")
    made.add_argument("--concurrent", type=int, default=32)
    return made.parse_args()


async def _soak(model: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    engine = Engine(EngineSettings(max_batch_size=16, kv_cache_bytes=64 << 20), [model])
    await engine.start()
    chance, waits = random.Random(1), list[tuple[float, float]]()
    tenth = max(1, args.limit // 10)
    marks = sorted({min(100, args.limit), *range(tenth, args.limit + 1, tenth)})
    rows, done = [], 0
    print("| requests | resident MB | objects | of these the engine's | s |\n|--:|--:|--:|--:|--:|")
    began = time.perf_counter()
    for mark in marks:
        left = iter(range(mark - done))
        await asyncio.gather(*[_some(engine, model, chance, waits, left) for _ in range(args.concurrent)])
        done = mark
        rows.append(_row(done, time.perf_counter() - began))
        print("| " + " | ".join(str(value) for value in rows[-1].values()) + " |", flush=True)
    await engine.close()
    ratio = _compare(waits)
    print(f"\nwait foretold / wait that came, where a place had to become free ({len(waits)} requests): {ratio}")
    return {"rows": rows, "wait_ratio": ratio, "stats": dict(engine.stats())}


async def _some(
    engine: Engine, model: LoadedModel, chance: random.Random, waits: list[tuple[float, float]], left: Iterator[int]
) -> None:
    for _ in left:
        await _one(engine, model, chance, waits)


async def _one(engine: Engine, model: LoadedModel, chance: random.Random, waits: list[tuple[float, float]]) -> None:
    job, leaves_after = _job(model, chance)
    foretold, began, pieces = engine.load().wait_s, time.perf_counter(), 0
    try:
        generation = await engine.generate(job)
        async for _ in generation:
            if pieces == 0 and foretold > 0:
                waits.append((foretold, time.perf_counter() - began))
            pieces += 1
            if pieces == leaves_after:
                generation.cancel()
    except (DeadlineExceeded, Overloaded):
        pass


def _job(model: LoadedModel, chance: random.Random) -> tuple[Job, int | None]:
    shared = [7 + chance.randrange(4)] * chance.choice((0, 16, 64))
    ids = shared + [chance.randrange(5, model.usable_vocab) for _ in range(chance.randrange(1, 24))]
    sampling = Sampling(max_tokens=chance.randrange(1, 12), temperature=1.0, ignore_eos=True)
    deadline_s = chance.choice((None, None, None, None, 0.05))
    tenant = f"tenant-{chance.randrange(5000)}"
    job = Job("soak", model.name, Prompt("", tuple(ids)), sampling, tenant=tenant, deadline_s=deadline_s)
    return job, chance.choice((None, None, None, None, chance.randrange(1, 6)))


def _row(done: int, seconds: float) -> dict[str, float]:
    gc.collect()
    objects = gc.get_objects()
    own = sum(type(thing).__name__ in OWN for thing in objects)
    return {
        "requests": done,
        "resident_mb": round(_resident_bytes() / 2**20, 1),
        "objects": len(objects),
        "own": own,
        "seconds": round(seconds, 1),
    }


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _compare(waits: list[tuple[float, float]]) -> str:
    if len(waits) < 10:
        return "too few"
    ratios = sorted(foretold / max(came, 1e-3) for foretold, came in waits)
    deciles = statistics.quantiles(ratios, n=10)
    return f"p10 {deciles[0]:.2f}, p50 {deciles[4]:.2f}, p90 {deciles[8]:.2f}"


if __name__ == "__main__":
    main()
