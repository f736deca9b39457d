"""Measure loading a checkpoint: peak and settled resident memory, and CPU time, for each kind of weights.

    python -m benchmarks.loading                          # a random one of Llama-3.2-1B's shape, in bfloat16
    python -m benchmarks.loading --data DIR --weights int8
    python -m benchmarks.loading --shape moe gguf gguf-4  # random ones of 0.3 B parameters: 32 experts a layer, Q8_0,
                                                          # Q4_K beside Q6_K

Checkpoints are made once in the folder for temporary files (2.5 GB, 0.7, 0.3, 0.2). Each load is a process of its own
that does nothing else; `libraries` is what it holds before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig

from benchmarks.common import Parser, model_parser, report
from benchmarks.gguf_files import write_random
from benchmarks.shapes import folder_of, numbered_words
from sluicegate.engine import load_model

KINDS = ("int8", "int4", "full", "float32", "blocks")
"""`float32`: `full`, and what a file has in half precision is widened; `blocks`: a GGUF file stays in its blocks; it is
`full` of any other checkpoint."""
GB = 1e9


def main() -> None:
    asked = _parser().parse_args()
    if asked.inside:
        print(json.dumps(_load(asked.model, asked.weights[0])))
        return
    print("shape   weights  libraries GB  peak GB  settled GB  weights GB  peak / settled  CPU s")
    rows = []
    for shape, kind in list(product(asked.shape, asked.weights))[: asked.limit or None]:
        folder = folder_of(asked.model) if asked.model else str(SHAPES[shape]())
        command = [sys.executable, "-m", "benchmarks.loading", "--inside", "--model", folder, "--weights", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{folder} was not loaded; name a checkpoint with --data: {done.stderr.splitlines()[-1]}")
        found = json.loads(done.stdout.splitlines()[-1])
        sizes = [found[name] / GB for name in ("libraries", "peak", "settled", "weights")]
        line = "  ".join(f"{size:10.2f}" for size in sizes)
        print(f"{'given' if asked.model else shape:<8}{kind:<7}{line}{sizes[1] / sizes[2]:16.2f}{found['cpu_s']:7.1f}")
        rows.append({"shape": "given" if asked.model else shape, "weights": kind, **found})
    report(asked, {"loads": rows})


def _parser() -> Parser:
    parser = model_parser(__doc__, "", 0, "loads, the first ones")
    parser.add_argument("--weights", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["dense"], help="of the random ones")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser


def _load(folder: str, kind: Any) -> dict[str, float]:
    before, started = _resident("VmRSS"), time.process_time()
    weights: Any = kind if kind in ("int8", "int4") else "full"
    dtype = "float32" if kind == "float32" else None
    model = load_model(folder, weights=weights, dtype=dtype, gguf="blocks" if kind == "blocks" else "full")
    spent = time.process_time() - started
    sizes = {"peak": _resident("VmHWM"), "settled": _resident("VmRSS"), "weights": float(model.weight_bytes)}
    return {"libraries": before, "cpu_s": spent, **sizes}


def _resident(name: str) -> float:
    """Return bytes, as Linux counts them: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def _llama_1b() -> Path:
    """Return the folder of a random checkpoint with the shape of Llama-3.2-1B."""
    folder = Path(tempfile.gettempdir()) / "sluicegate-llama-1b-bf16"
    if not (folder / "tokenizer.json").exists():
        config = LlamaConfig(
            hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
            intermediate_size=8192, vocab_size=128_256, tie_word_embeddings=True, max_position_embeddings=8192,
            rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=None, pad_token_id=0, dtype=torch.bfloat16,
            architectures=["LlamaForCausalLM"],
        )  # fmt: skip
        config.save_pretrained(folder)
        _save_random(config, folder)
    return folder


def _mixture() -> Path:
    """Return the folder of a random mixture of 32 small experts a layer, nearly all of it experts."""
    folder = Path(tempfile.gettempdir()) / "sluicegate-moe-bf16"
    if not (folder / "tokenizer.json").exists():
        config = Qwen3MoeConfig(
            hidden_size=1024, num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4, head_dim=64,
            moe_intermediate_size=512, num_experts=32, num_experts_per_tok=4, vocab_size=8192,
            max_position_embeddings=4096, bos_token_id=1, eos_token_id=None, pad_token_id=0, dtype=torch.bfloat16,
            architectures=["Qwen3MoeForCausalLM"],
        )  # fmt: skip
        with torch.device("meta"):
            made = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        made.to_empty(device="cpu")
        for one in made.parameters():
            torch.nn.init.normal_(one, 0, 0.02) if one.ndim > 1 else torch.nn.init.ones_(one)
        made.save_pretrained(folder)
        numbered_words(config.vocab_size).save_pretrained(folder)
    return folder


def _gguf() -> Path:
    """Return a random GGUF file of the Llama family whose matrices are in Q8_0."""
    return write_random(Path(tempfile.gettempdir()) / "sluicegate-gguf" / "llama-q8_0.gguf", "300m", "q8_0")


def _gguf_4() -> Path:
    """Return one in Q4_K and Q6_K."""
    return write_random(Path(tempfile.gettempdir()) / "sluicegate-gguf-4" / "llama-q4_k_m.gguf", "300m", "q4_k_m")


def _save_random(config: LlamaConfig, folder: Path) -> None:
    """Write random tensors one after another's shape, in bfloat16."""
    with torch.device("meta"):
        shapes = {n: p.shape for n, p in AutoModelForCausalLM.from_config(config).named_parameters()}
    generator = torch.Generator().manual_seed(0)
    state = {
        name: torch.ones(shape, dtype=torch.bfloat16)
        if len(shape) == 1
        else torch.empty(shape, dtype=torch.bfloat16).normal_(0, 0.02, generator=generator)
        for name, shape in shapes.items()
    }
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    numbered_words(config.vocab_size).save_pretrained(folder)


SHAPES = {"dense": _llama_1b, "moe": _mixture, "gguf": _gguf, "gguf-4": _gguf_4}


if __name__ == "__main__":
    main()
