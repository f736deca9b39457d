"""Decode speed on a CUDA device: tokens/s, the share of what the device's memory allows, and the ratio to transformers.

    python -m benchmarks.engine_gpu [--shape llama-1b,llama-8b] [-b 1,8,64,256] [--context 1024] [--output-len 64]
                                    [--kinds greedy,top-p] [--no-graphs] [--no-peer] [--profile FOLDER] [--json]

Weights are random and made on the device. The ceilings are measured in the same process: bytes a second by a copy and
by a sum, operations a second by a product. The floor of a step is what reading every weight and every kept number once
takes, or computing with them; a share is floor / step. A step is all that the engine's thread does: scheduling, forward
pass, draws, text. `transformers` is `generate` with SDPA, a dynamic cache and a static batch, its time for many tokens
less that for one. `attention` is our kernel for single tokens alone, over all layers' pools. A whole run takes some
minutes. To try the program where there is no such device:

    TRITON_INTERPRET=1 python -m benchmarks.engine_gpu --device cpu --shape tiny -b 1,2 --context 40 --output-len 6

With `--count`, on any machine that has Triton: the kernels that a layer of a decode step launches, and what crosses
between host and device in a step, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import machine, parser, report
from benchmarks.device_models import SHAPES, Ceilings, make_model, seconds, submit
from sluicegate.engine import EngineSettings, LoadedModel
from sluicegate.engine.attention.paged import Scoring, TokenSpan
from sluicegate.engine.construction import make_core
from sluicegate.engine.cuda.memory import usable_device
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins import ModelLoadError, Sampling

KINDS = {
    "greedy": Sampling(temperature=0.0),
    "drawn": Sampling(temperature=0.8, seed=1),
    "top-p": Sampling(temperature=0.8, top_p=0.95, seed=1),
    "top-k": Sampling(temperature=0.8, top_k=50, seed=1),
    "schema": Sampling(temperature=0.8, seed=1),
}
_ENDLESS = {"type": "array", "items": {"type": "string", "minLength": 5}, "minItems": 100_000}
"""The schema of the kind `schema`: every token is drawn under a mask."""
_BLOCK = 16
_PROMPT_TOKENS = 8192
"""Of a step."""
_ROOM = 256
"""Tokens that the first prompts of a batch get before the last was read."""


def main() -> int:
    args = _arguments()
    if args.count:
        return _print_counts()
    try:
        device = usable_device(args.device, "the benchmark's model")
    except ModelLoadError as error:
        print(f"{error.code}: {error.message}", file=sys.stderr)
        return 2
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    big = device.type == "cuda"
    ceilings = Ceilings.of(device, dtype, megabytes=4096 if big else 64, width=8192 if big else 512)
    print(f"# {machine()}\n# {_device_name(device)}, torch {torch.__version__}, {dtype}")
    print(f"# measured: copy {ceilings.copied / 1e9:.0f} GB/s, sum {ceilings.read / 1e9:.0f} GB/s, "
          f"product {ceilings.operations / 1e12:.1f} TFLOP/s")  # fmt: skip
    found: dict[str, Any] = {"ceilings": [ceilings.copied, ceilings.read, ceilings.operations]}
    for name in args.shape.split(","):
        found[name] = _measure_shape(name, device, dtype, ceilings, args)
        _empty(device)
    report(args, found)
    return 0


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, None, 0, "batch sizes, the first ones")
    made.add_argument("--device", default="cuda")
    made.add_argument("--shape", default="llama-1b,llama-8b", help=f"of {', '.join(SHAPES)}")
    made.add_argument("-b", "--batches", default="1,8,64,256")
    made.add_argument("--context", type=int, default=1024, help="tokens of each prompt")
    made.add_argument("--output-len", type=int, default=64)
    made.add_argument("--kinds", default="greedy,top-p", help=f"of {', '.join(KINDS)}")
    made.add_argument("--attention", default="auto", choices=["auto", "reference", "triton"])
    made.add_argument("--no-graphs", action="store_true")
    made.add_argument("--no-peer", action="store_true", help="leave transformers out")
    made.add_argument("--profile", type=Path, help="a folder for tables of where a step's time goes, one for each row")
    made.add_argument("--count", action="store_true", help="count launches and copies instead; needs no device")
    return made.parse_args()


def _print_counts() -> int:
    """Count on the CPU, with Triton's interpreter. It is chosen before Triton is imported, which other libraries do: so
    this program begins anew where it is not."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        os.environ["TRITON_INTERPRET"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.engine_gpu", *sys.argv[1:]])
    from benchmarks.launches import count_step, table

    for family in ("tiny", "tiny-qwen3"):
        for weights in ("full", "int8"):
            found = count_step(family, torch.device("cpu"), torch.bfloat16, weights=weights)
            print(f"\n## {SHAPES[family].family}, weights {weights}\n\n{table(found)}")
            print(f"\n32 layers: {found.of(32)} launches a step")
    from benchmarks.transfers import counted_steps
    from benchmarks.transfers import table as of_copies

    print(f"\n## Copies and waits of a step of two requests\n\n{of_copies(counted_steps())}")
    return 0


def _measure_shape(
    name: str, device: torch.device, dtype: torch.dtype, ceilings: Ceilings, args: argparse.Namespace
) -> dict[str, Any]:
    batches = [int(batch) for batch in args.batches.split(",")][: args.limit or None]
    began = time.perf_counter()
    model = make_model(name, device, dtype, args.context + args.output_len + _ROOM)
    print(f"\n## {name}: {model.parameter_count / 1e9:.2f} G parameters, made in {time.perf_counter() - began:.1f} s; "
          f"prompts of {args.context}, {args.output_len} tokens out\n")  # fmt: skip
    peers = {} if args.no_peer else {batch: _try(lambda b=batch: _peer_tokens_s(model, b, args)) for batch in batches}
    print(
        "| sampling | batch | decode tok/s | step ms p50 / worst | floor ms | share | to transformers | prompt tok/s |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    rows = asyncio.run(_measure_engine(model, batches, ceilings, peers, args))
    attention = _try(lambda: _attention_shares(model, batches, ceilings, args))
    if isinstance(attention, dict):
        print("\n| attention, batch | us a layer | GB/s | share of the ceiling |\n|--:|--:|--:|--:|")
        for batch, (layer_s, bandwidth) in attention.items():
            share = bandwidth / max(ceilings.copied, ceilings.read)
            print(f"| {batch} | {1e6 * layer_s:.1f} | {bandwidth / 1e9:.0f} | {share:.2f} |")
    else:
        print(f"\nattention alone: not measured, {attention}")
    return {"engine": rows, "transformers": peers, "attention": attention}


async def _measure_engine(
    model: LoadedModel, batches: list[int], ceilings: Ceilings, peers: dict[int, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Measure the engine and print a row for each batch. It runs on an event loop, since generations belong to one;
    nothing else runs there."""
    blocks = -(-model.context_length // _BLOCK)
    settings = EngineSettings(
        max_batch_size=max(batches), max_batch_tokens=max(_PROMPT_TOKENS, 2 * max(batches)),
        num_blocks=max(batches) * blocks, block_size=_BLOCK, prefix_caching=False, draft_tokens=0, prefill_slowdown=0,
        attention=args.attention, graphs=not args.no_graphs,
    )  # fmt: skip
    core, found = make_core(model, settings, Outbox()), {}
    for kind in args.kinds.split(","):
        grammar = _grammar(model) if kind == "schema" else None
        for batch in batches:
            _run(core, KINDS[kind], batch, min(24, args.context), 3, grammar)  # compiles what this batch needs
            with _profiled(args.profile, f"{model.name}-{kind}-{batch}", model.device):
                prompt_s, steps = _run(core, KINDS[kind], batch, args.context, args.output_len, grammar)
            step_s = statistics.median(steps)
            length = args.context + args.output_len // 2
            floor_s = ceilings.decode_step_s(SHAPES[model.name], batch, length, model.dtype.itemsize)
            peer = peers.get(batch)
            ratio = f"{batch / step_s / peer:.2f}" if isinstance(peer, float) else (peer or "-")
            print(
                f"| {kind} | {batch} | {batch / step_s:.0f} | {1e3 * step_s:.3f} / {1e3 * max(steps):.3f} | "
                f"{1e3 * floor_s:.3f} | {floor_s / step_s:.2f} | {ratio} | {batch * args.context / prompt_s:.0f} |",
                flush=True,
            )
            found[f"{kind} {batch}"] = {"step_s": step_s, "floor_s": floor_s, "prompt_s": prompt_s}
    return found


def _grammar(model: LoadedModel) -> Any:
    vocabulary = Vocabulary.from_tokenizer(model.tokenizer, model.vocab_size)
    return compile_json_schema(_ENDLESS, vocabulary)


def _run(
    core: EngineCore, sampling: Sampling, batch: int, prompt: int, output: int, grammar: Any = None
) -> tuple[float, list[float]]:
    """Return the seconds until every prompt has its first token, and those of `output` steps that only decode. Steps
    are made on this thread, as the engine's own thread makes them; each ends when its tokens are here."""
    generations = [submit(core, sampling, seed, prompt, grammar) for seed in range(batch)]
    began = time.perf_counter()
    while any(generation.completion_tokens == 0 for generation in generations):
        core.step()
    prompt_s, steps = time.perf_counter() - began, []
    for _ in range(output):
        began = time.perf_counter()
        core.step()
        core.requests.outbox.flush()
        steps.append(time.perf_counter() - began)
    core.requests.cancel_all()
    core.requests.outbox.flush()
    return prompt_s, steps


@torch.inference_mode()
def _peer_tokens_s(model: LoadedModel, batch: int, args: argparse.Namespace) -> float:
    """Decode tokens a second of `generate`."""
    module, ours = model.module, model.module.config._attn_implementation
    module.set_attn_implementation("sdpa")
    ids = torch.randint(5, model.usable_vocab, (batch, args.context), device=model.device)
    mask = torch.ones_like(ids)

    def spent(tokens: int) -> float:
        _wait(model.device)
        began = time.perf_counter()
        module.generate(ids, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        _wait(model.device)
        return time.perf_counter() - began

    try:
        many = max(3, args.output_len // 2)
        spent(2)
        return float(batch * (many - 1) / max(1e-9, spent(many) - spent(1)))
    finally:
        module.set_attn_implementation(ours)
        _empty(model.device)


@torch.inference_mode()
def _attention_shares(
    model: LoadedModel, batches: list[int], ceilings: Ceilings, args: argparse.Namespace
) -> dict[int, tuple[float, float]]:
    """Batch -> (seconds of a layer, bytes of keys and values a second), over as many pools as the model has layers."""
    from sluicegate.engine.cuda.layout import TritonLayout

    found: dict[int, tuple[float, float]] = {}
    blocks = -(-args.context // _BLOCK)
    for batch in batches:
        pool = KVPool(model.layers, batch * blocks, _BLOCK, model.dtype, model.device)
        for tensor in (*pool.keys, *pool.values):
            tensor.normal_()
        tables = np.random.default_rng(0).permutation(batch * blocks).reshape(batch, blocks)
        stretches = [TokenSpan(args.context - 1, 1, table) for table in tables]
        nowhere = torch.full((batch,), -1, dtype=torch.int64, device=model.device)
        layout, shape = TritonLayout(pool, stretches, nowhere), model.layers[0]
        query, key, value = (
            torch.randn(1, heads, batch, dim, device=model.device).to(model.dtype)
            for heads, dim in (
                (shape.query_heads, shape.key_dim), (shape.kv_heads, shape.key_dim), (shape.kv_heads, shape.value_dim)
            )
        )  # fmt: skip

        def work(layout: TritonLayout = layout, query: Any = query, key: Any = key, value: Any = value) -> None:
            for layer, of in enumerate(model.layers):
                layout.attend(layer, query, key, value, Scoring(window=of.window))

        layer_s = seconds(work, model.device, repeats=10 if model.device.type == "cuda" else 1) / len(model.layers)
        read = batch * args.context * model.kv_bytes_per_token / len(model.layers)
        found[batch] = layer_s, read / layer_s
        del pool, layout
        _empty(model.device)
    return found


@contextmanager
def _profiled(folder: Path | None, name: str, device: torch.device) -> Iterator[None]:
    """Write `name`.txt: kernels (or, on a CPU, operations) by the time they took."""
    if folder is None:
        yield
        return
    from torch.profiler import ProfilerActivity, profile

    on_cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU]) as profiler:
        yield
    folder.mkdir(parents=True, exist_ok=True)
    key = "self_cuda_time_total" if on_cuda else "self_cpu_time_total"
    (folder / f"{name}.txt").write_text(profiler.key_averages().table(sort_by=key, row_limit=40), "utf-8")


def _try(work: Any) -> Any:
    """Return the result of `work`, or a description of its error."""
    try:
        return work()
    except torch.OutOfMemoryError:
        gc.collect()
        return "out of memory"
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _empty(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
