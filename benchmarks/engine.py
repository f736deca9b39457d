"""Tokens a second, latency and the engine's own overhead on the bundled model (or any other).

    python -m benchmarks.engine [--model bundled] [-c 1,8,32] [--prompt-len 128] [--output-len 64] [--threads N]

For each number of concurrent requests: decode and whole tokens/s, TTFT and ITL, and a step's time split into the
forward pass (preparation of its inputs included) and the rest: scheduling, sampling, bookkeeping, text, delivery. The
rest is given in CPU time of the engine's thread, too: others who use the machine disturb it less.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import Job, Prompt, Sampling

KINDS: dict[str, Sampling] = {
    "greedy": Sampling(temperature=0.0),
    "top-p": Sampling(temperature=0.8, top_p=0.95, seed=1),
    "penalties": Sampling(temperature=0.8, repetition_penalty=1.1, presence_penalty=0.2, seed=1),
    "logprobs": Sampling(temperature=0.0, logprobs=5),
}


def main() -> None:
    args = _arguments()
    model = loaded(args.model)
    print(f"# {machine()}\n# {model.name}, {model.parameter_count / 1e6:.2f} M parameters, {model.dtype}")
    print(
        "| sampling | c | decode tok/s | all tok/s | TTFT p50/p99 ms | ITL p50/p99 ms | step ms | rest ms | its CPU |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    report(args, asyncio.run(_measure_all(model, args)))


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled", 0, "rows, the first ones")
    made.add_argument("-c", default="1,8,32")
    made.add_argument("--prompt-len", type=int, default=128)
    made.add_argument("--output-len", type=int, default=64)
    made.add_argument("--threads", type=int)
    made.add_argument(
        "--draft-tokens", type=int, default=0, help="guess this far; random prompts do not show its worth"
    )
    made.add_argument("--kinds", default=",".join(KINDS))
    return made.parse_args()


async def _measure_all(model: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    levels = [int(level) for level in args.c.split(",")]
    settings = EngineSettings(
        max_batch_size=max(levels), threads=args.threads, draft_tokens=args.draft_tokens, prefix_caching=False
    )
    engine = Engine(settings, [model])
    cpu = _cpu_clock(engine)
    await engine.start()
    found = {}
    for kind, level in list(product(args.kinds.split(","), levels))[: args.limit or None]:
        await measure(engine, model, KINDS[kind], level, args)
        cpu.clear()
        row = await measure(engine, model, KINDS[kind], level, args)
        row["rest_cpu_ms"] = f"{1e3 * sum(cpu) / (len(cpu) // 2):.3f}"
        found[f"{kind} c={level}"] = row
        print(f"| {kind} | {level} | {' | '.join(row.values())} |", flush=True)
    await engine.close()
    return found


async def measure(
    engine: Engine, model: LoadedModel, sampling: Sampling, level: int, args: argparse.Namespace
) -> dict[str, str]:
    before, began = dict(engine.stats()), time.perf_counter()
    jobs = [_job(model, sampling, seed, args) for seed in range(level)]
    stamps = await asyncio.gather(*[_consume(engine, job) for job in jobs])
    spent = {name: value - before[name] for name, value in engine.stats().items()}
    return _row(stamps, began, spent)


def _cpu_clock(engine: Engine) -> list[float]:
    """Note two numbers of every step from now on: CPU seconds of the engine's thread, and with a minus those of the
    forward pass."""
    spent: list[float] = []
    for core in engine._registry.cores:
        core.step = _clocked(core.step, spent, 1)  # type: ignore[method-assign]
        core._runner.run = _clocked(core._runner.run, spent, -1)  # type: ignore[method-assign]
    return spent


def _clocked(call: Callable[..., Any], spent: list[float], sign: int) -> Callable[..., Any]:
    def timed(*given: Any) -> Any:
        began = time.thread_time()
        try:
            return call(*given)
        finally:
            spent.append(sign * (time.thread_time() - began))

    return timed


def _row(stamps: Sequence[list[float]], began: float, spent: dict[str, float]) -> dict[str, str]:
    first, last = max(s[0] for s in stamps), max(s[-1] for s in stamps)
    decoded = sum(stamp > first for s in stamps for stamp in s)
    waits = [1e3 * (s[0] - began) for s in stamps]
    gaps = [1e3 * (b - a) for s in stamps for a, b in pairwise(s)]
    step = 1e3 * spent["step_seconds_total"] / spent["steps_total"]
    own = step - 1e3 * spent["forward_seconds_total"] / spent["steps_total"]
    return {
        "decode_tok_s": f"{decoded / (last - first):.0f}",
        "all_tok_s": f"{sum(map(len, stamps)) / (last - began):.0f}",
        "ttft_ms_p50_p99": _quantiles(waits),
        "itl_ms_p50_p99": _quantiles(gaps),
        "step_ms": f"{step:.2f}",
        "rest_ms": f"{own:.3f}",
    }


def _quantiles(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}/{values[0]:.1f}"
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return f"{cuts[49]:.1f}/{cuts[98]:.1f}"


def _job(model: LoadedModel, sampling: Sampling, seed: int, args: argparse.Namespace) -> Job:
    random_ids = random.Random(seed)
    ids = tuple(random_ids.randrange(5, model.usable_vocab) for _ in range(args.prompt_len))
    fields = {name: getattr(sampling, name) for name in sampling.__slots__}
    asked = Sampling(**{**fields, "max_tokens": args.output_len, "ignore_eos": True})
    return Job(f"bench-{seed}", model.name, Prompt("", ids), asked)


async def _consume(engine: Engine, job: Job) -> list[float]:
    """Read a generation to its end; return when each token came."""
    stamps: list[float] = []
    async for piece in await engine.generate(job):
        stamps += [time.perf_counter()] * len(piece.token_ids)
    return stamps


if __name__ == "__main__":
    main()
