"""Measure the gain of the prefix cache: time to the first token, cold and warm.

    python -m benchmarks.reuse [--prefix 1000] [--limit 20]

For each of `--limit` random beginnings one request computes it, and four more continue it in other ways, one request
at a time. Time to the first token in seconds of the clock and of the processor, and what the prefix cache reports.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import Job, Prompt, Sampling


def main() -> None:
    args = _arguments()
    model = loaded(args.model)
    print(f"# {machine()}\n# {model.name}, {model.parameter_count / 1e6:.2f} M parameters, {args.prefix} shared tokens")
    found = asyncio.run(_measure(model, args))
    print("| | p50 ms | CPU ms, mean |\n|---|--:|--:|")
    for name in ("cold", "warm"):
        print(f"| {name} | {found[f'{name}_p50_ms']:.2f} | {found[f'{name}_cpu_ms']:.2f} |")
    print(f"\nsooner by {found['sooner']:.1f}x (CPU {found['sooner_cpu']:.1f}x); hit rate {found['hit_rate']:.1%}")
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled", 20, "beginnings")
    made.add_argument("--prefix", type=int, default=1000, help="tokens that requests share")
    return made.parse_args()


async def _measure(model: LoadedModel, args: argparse.Namespace) -> dict[str, float]:
    engine, chance = Engine(EngineSettings(draft_tokens=0), [model]), random.Random(1)
    await engine.start()
    times: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": []}
    await _first_token(engine, model, _ids(chance, model, args.prefix + 12))
    for _ in range(args.limit):
        prefix = _ids(chance, model, args.prefix)
        for at in range(5):
            ids = prefix + _ids(chance, model, 12)
            times["warm" if at else "cold"].append(await _first_token(engine, model, ids))
    stats = engine.stats()
    await engine.close()
    found: dict[str, float] = {
        "hit_rate": stats["prefix_cache_hit_tokens_total"] / stats["prefix_cache_asked_tokens_total"]
    }
    for name, values in times.items():
        found[f"{name}_p50_ms"] = 1000 * statistics.median(wall for wall, _ in values)
        found[f"{name}_cpu_ms"] = 1000 * statistics.fmean(cpu for _, cpu in values)
    found["sooner"] = found["cold_p50_ms"] / found["warm_p50_ms"]
    found["sooner_cpu"] = found["cold_cpu_ms"] / found["warm_cpu_ms"]
    return found


def _ids(chance: random.Random, model: LoadedModel, count: int) -> list[int]:
    return [chance.randrange(5, model.usable_vocab) for _ in range(count)]


async def _first_token(engine: Engine, model: LoadedModel, ids: list[int]) -> tuple[float, float]:
    """Measure the time to the first token, as (seconds of the clock, seconds of the processor)."""
    job = Job("reuse", model.name, Prompt("", tuple(ids)), Sampling(max_tokens=1, temperature=0.0, ignore_eos=True))
    wall, cpu = time.perf_counter(), time.process_time()
    async for _ in await engine.generate(job):
        pass
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
