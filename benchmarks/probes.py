"""What probes add to decoding: processor time of the engine for the same answers, with and without.

    python -m benchmarks.probes [--model FOLDER] [--requests 8] [--tokens 200] [--rounds 7] [--json]

Both engines run in turns, in this process, on the same prompts; each round gives a ratio, and their median stands with
the lowest and the highest. There is one linear probe, on one layer in the middle.
Wall-clock time is left out: other processes stretch it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from benchmarks import common
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.construction import load
from sluicegate.engine.probes.probe import ProbeSet, StateProbe, digest_of
from sluicegate.engine.settings import ModelSettings
from sluicegate.plugins import Job, Prompt, Sampling


def with_probe(model: LoadedModel) -> LoadedModel:
    width, layer = model.module.config.get_text_config(decoder=True).hidden_size, max(1, len(model.layers) // 2)
    weights = {"w": torch.randn(width) / width**0.5, "b": torch.zeros(1)}
    probe = StateProbe("harm", (layer,), weights, digest_of(model.version), {})
    return replace(model, probes=ProbeSet([probe], model.device))


async def spent(engine: Engine, model: str, requests: int, tokens: int, probed: bool) -> float:
    """Return the processor seconds of all threads for a batch of answers."""
    sampling = Sampling(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    prompts = [tuple(range(3 + at, 40 + at)) for at in range(requests)]
    jobs = [Job(f"b-{at}", model, Prompt("", ids), sampling, probed=probed) for at, ids in enumerate(prompts)]
    began = time.process_time()
    await asyncio.gather(*[_read(engine, job) for job in jobs])
    return time.process_time() - began


async def _read(engine: Engine, job: Job) -> None:
    async for _ in await engine.generate(job):
        pass


async def measure(path: str, requests: int, tokens: int, rounds: int) -> dict[str, Any]:
    model = load(ModelSettings(path))
    settings = EngineSettings(threads=1, draft_tokens=0, max_batch_size=max(8, requests))
    engines = [Engine(settings, [one]) for one in (model, with_probe(model))]
    for engine in engines:
        await engine.start()
    try:
        await _round(engines, model.name, requests, 8)
        found = [await _round(engines, model.name, requests, tokens) for _ in range(rounds)]
    finally:
        for engine in engines:
            await engine.close()
    ratios = sorted(held / plain for plain, held in found)
    step_ms = 1e3 * median(plain for plain, _ in found) / tokens
    added_us = 1e6 * median(held - plain for plain, held in found) / tokens / requests
    return {
        "model": model.name,
        "parameters": model.parameter_count,
        "requests": requests,
        "step_ms": round(step_ms, 3),
        "added_us_a_token": round(added_us, 2),
        "ratio": [round(value, 4) for value in (median(ratios), ratios[0], ratios[-1])],
        "machine": common.machine(),
    }


async def _round(engines: list[Engine], model: str, requests: int, tokens: int) -> tuple[float, float]:
    plain = await spent(engines[0], model, requests, tokens, False)
    return plain, await spent(engines[1], model, requests, tokens, True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="bundled")
    options.add_argument("--requests", type=int, default=8)
    options.add_argument("--tokens", type=int, default=200)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    given = options.parse_args()
    found = asyncio.run(measure(given.model, given.requests, given.tokens, given.rounds))
    print(json.dumps(found, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
