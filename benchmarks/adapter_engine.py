"""Our engine behind the peers' harness: `baseline.py --engines adapter --adapter benchmarks/adapter_engine.py`.

The harness calls `load(folder, args)` once and `run(engine, prompts, output_len)` per measurement; stamps are taken
where a caller of the engine would see the tokens, on the event loop. `WEIGHTS=int8` and `KV=int8` in the environment
measure smaller numbers (the harness's roofline then still counts float32).
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import AutoConfig, PreTrainedTokenizerFast

from sluicegate.engine import Engine, EngineSettings, LoadedModel, load_model
from sluicegate.plugins import Job, Prompt, Sampling

Stamps = list[tuple[float, int]]


def load(folder: str | Path, args: Any) -> tuple[Engine, LoadedModel]:
    """Return an engine for the checkpoint in `folder`, and the loaded model. `args` are the harness's own; `dtype`,
    `device`, `c`, `prompt_len`, `output_len` and `threads` are read."""
    weights: Any = os.environ.get("WEIGHTS", "full")
    folder = with_tokenizer(Path(folder))
    model = load_model(folder, name="bench", dtype=args.dtype, device=args.device, weights=weights)
    longest = args.prompt_len + args.output_len + 16
    settings = EngineSettings(
        max_batch_size=max(args.c),
        max_batch_tokens=max(512, 2 * max(args.c)),
        num_blocks=max(args.c) * -(-longest // 16) + 16,
        prefix_caching=False,  # the harness sends the same prompts again
        draft_tokens=0,  # and random weights repeat themselves, which guessing would profit from
        threads=args.threads or torch.get_num_threads(),
        kv=os.environ.get("KV", "full"),  # type: ignore[arg-type]
    )
    return Engine(settings, [model]), model


def run(
    served: tuple[Engine, LoadedModel], prompts: Sequence[Sequence[int]], output_len: int
) -> tuple[float, list[Stamps]]:
    return asyncio.run(_run(*served, prompts, output_len))


async def _run(
    engine: Engine, model: LoadedModel, prompts: Sequence[Sequence[int]], output_len: int
) -> tuple[float, list[Stamps]]:
    await engine.start()
    t0 = time.perf_counter()
    return t0, await asyncio.gather(*[_consume(engine, model, prompt, output_len) for prompt in prompts])


async def _consume(engine: Engine, model: LoadedModel, prompt: Sequence[int], output_len: int) -> Stamps:
    sampling = Sampling(max_tokens=output_len, temperature=0.0, ignore_eos=True)
    generation = await engine.generate(Job("bench", model.name, Prompt("", tuple(prompt)), sampling))
    return [(time.perf_counter(), len(piece.token_ids)) async for piece in generation if piece.token_ids]


def with_tokenizer(folder: Path) -> Path:
    """Return `folder`; for checkpoints that have no tokenizer, a folder of links to it with a tokenizer of numbered
    words."""
    if (folder / "tokenizer.json").exists():
        return folder
    made = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
    for path in folder.iterdir():
        (made / path.name).symlink_to(path)
    size = AutoConfig.from_pretrained(folder).vocab_size
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0"))
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(made)
    return made
