"""Measure the cost of adapters chosen by each request, compared with the base model alone.

    python -m benchmarks.adapters [--models bundled,llama-60m] [--rank 16] [-c 8]

Random factors beside every linear layer of a decoder. CPU milliseconds a token of the whole process, so that a busy
machine counts less: the least of several rounds, ways by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.plugins import Job, Prompt, Sampling

WAYS = ("base", "one adapter", "an adapter each")


def main() -> None:
    args = _arguments()
    print(f"# {machine()}\n# {args.c} requests at once, prompts of {args.prompt_len}, answers of {args.output_len}")
    print(f"# rank {args.rank} beside every linear layer\n")
    print("| model | " + " | ".join(WAYS) + " |\n|---|" + "--:|" * len(WAYS))
    found = {}
    for name in args.model.split(","):
        found[name] = asyncio.run(_measure(name, args))
        print(f"| {name} | " + " | ".join(f"{found[name][way]:.3f}" for way in WAYS) + " |", flush=True)
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled,llama-60m", 5, "rounds")
    made.add_argument("--rank", type=int, default=16)
    made.add_argument("-c", type=int, default=8, help="requests at once, and adapters")
    made.add_argument("--prompt-len", type=int, default=64)
    made.add_argument("--output-len", type=int, default=48)
    made.add_argument("--threads", type=int)
    made.add_argument("--weights", default="full")
    return made.parse_args()


async def _measure(name: str, args: argparse.Namespace) -> dict[str, float]:
    model = loaded(name, name="base", weights=args.weights)
    settings = EngineSettings(max_batch_size=args.c, threads=args.threads, draft_tokens=0, prefix_caching=False)
    engine = Engine(settings, [model])
    await engine.start()
    with tempfile.TemporaryDirectory() as folder:
        for at in range(args.c):
            path = write_random(model, Path(folder) / str(at), args.rank, at)
            await engine.add_model({"path": str(path), "base": "base", "name": f"a{at}"})
    names = {"base": ["base"], "one adapter": ["a0"], "an adapter each": [f"a{at}" for at in range(args.c)]}
    rounds = [{way: await _round(engine, names[way], args) for way in WAYS} for _ in range(args.limit + 1)]
    await engine.close()
    return {way: min(one[way] for one in rounds[1:]) for way in WAYS}


async def _round(engine: Engine, names: list[str], args: argparse.Namespace) -> float:
    """Return the CPU milliseconds a token of one round, in which `args.c` jobs run at once and take the adapters in
    turn."""
    jobs = [
        Job(
            f"adapters-{at}",
            names[at % len(names)],
            Prompt("", tuple((7 * at + 3 * i) % 250 for i in range(args.prompt_len))),
            Sampling(max_tokens=args.output_len, temperature=0.0, ignore_eos=True),
        )
        for at in range(args.c)
    ]
    began = time.process_time()
    await asyncio.gather(*[_drain(engine, job) for job in jobs])
    tokens: int = args.c * args.output_len
    return 1000 * (time.process_time() - began) / tokens


async def _drain(engine: Engine, job: Job) -> None:
    async for _ in await engine.generate(job):
        pass


def write_random(model: LoadedModel, to: Path, rank: int, seed: int) -> Path:
    """Write an adapter of random factors for every linear layer of a decoder but the vocabulary. Return `to`."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Any] = {}
    for name, layer in model.module.named_modules():
        if hasattr(layer, "in_features") and name != "lm_head":
            prefix = f"base_model.model.{name}.lora_"
            tensors[f"{prefix}A.weight"] = torch.randn(rank, layer.in_features, generator=generator) * 0.01
            tensors[f"{prefix}B.weight"] = torch.randn(layer.out_features, rank, generator=generator) * 0.01
    to.mkdir(parents=True)
    save_file(tensors, to / "adapter_model.safetensors")
    (to / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank}))
    return to


if __name__ == "__main__":
    main()
