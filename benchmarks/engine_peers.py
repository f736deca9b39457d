"""CPU time of a decode step beside the peers, on one thread: ratios that hold on a machine others use too.

    python -m benchmarks.engine_peers [--data HARNESS_FOLDER] [--engines hf,adapter,llamacpp] [-c 1,8,32]

HARNESS_FOLDER holds `baseline.py`, which runs the peers (transformers; llama.cpp through the wheels `xllamacpp` and
`gguf`) and us (`benchmarks/adapter_engine.py`) on the same random weights. CPU time of 33 tokens less that of 1 token,
by 32: prompts, loading and waiting for the processor are not in it; waiting for memory is.
`WEIGHTS=int8 KV=int8` (us) and `--gguf-type q8_0` (llama.cpp) compare smaller numbers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.common import DATA, machine, parser, report

_LONG, _SHORT = 33, 1

HARNESS = DATA.parent / "bench" / "engine"


def main() -> None:
    args = _arguments()
    engines = _chosen(args.engines)
    torch.set_num_threads(1)
    sys.path.insert(0, str(args.data))
    if not (args.data / "baseline.py").exists():
        raise SystemExit(f"{args.data} holds no baseline.py; name the harness's folder with --data")
    harness: Any = importlib.import_module("baseline")
    print(f"# {machine()}")
    print("| engine | c | CPU ms a step | tokens a CPU second | prompt tokens a CPU second |\n|---|--:|--:|--:|--:|")
    found = {}
    for level, name in list(product(map(int, args.c.split(",")), engines))[: args.limit or None]:
        row = found[f"{name} c={level}"] = _measure(harness, name, level, args)
        numbers = f"{row['step_ms']:.2f} | {row['tok_s']:.0f} | {row['prompt_tok_s']:.0f}"
        print(f"| {name} | {level} | {numbers} |", flush=True)
    report(args, found)
    sys.stdout.flush()
    os._exit(0)  # peers leave threads behind that do not end


def _chosen(asked: str | None) -> list[str]:
    """Return the engines to measure, without those that are not installed. End with one line if one was asked for."""
    chosen = (asked or "hf,adapter,llamacpp").split(",")
    missing = [name for name in ("xllamacpp", "gguf") if "llamacpp" in chosen and find_spec(name) is None]
    if not missing:
        return chosen
    said = f"llamacpp needs the packages {' and '.join(missing)}, of an environment of its own"
    if asked:
        raise SystemExit(f"{said}; or leave it out of --engines")
    print(f"# left out: {said}")
    return [name for name in chosen if name != "llamacpp"]


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, HARNESS, 0, "rows, the first ones", form="folder with baseline.py")
    made.add_argument("--repeats", type=int, default=2, help="the best counts")
    made.add_argument("--engines", help="some of hf,adapter,llamacpp; by default those that are installed")
    made.add_argument("-c", default="1,8,32")
    made.add_argument("--shape", default="llama-60m")
    made.add_argument("--prompt-len", type=int, default=128)
    made.add_argument("--gguf-type", default="f32")
    return made.parse_args()


def _measure(harness: Any, name: str, level: int, args: argparse.Namespace) -> dict[str, float]:
    adapter = str(Path(__file__).with_name("adapter_engine.py"))
    wanted = SimpleNamespace(
        shape=args.shape, prompt_len=args.prompt_len, output_len=_LONG, c=[level], gguf_type=args.gguf_type,
        device="cpu", dtype="float32", threads=1, limit_s=600, hf_dir=None, hf_cache=None, adapter=adapter,
    )  # fmt: skip
    if hasattr(harness.run_adapter, "eng"):
        del harness.run_adapter.eng
    model = None if name == "adapter" else harness.build_hf(wanted)
    _cpu_of(harness, name, model, wanted, _LONG)
    prompts, steps = [], []
    for _ in range(args.repeats):
        prompts.append(_cpu_of(harness, name, model, wanted, _SHORT))
        steps.append((_cpu_of(harness, name, model, wanted, _LONG) - prompts[-1]) / (_LONG - _SHORT))
    step, prompt = min(steps), min(prompts)
    return {"step_ms": 1e3 * step, "tok_s": level / step, "prompt_tok_s": level * args.prompt_len / prompt}


def _cpu_of(harness: Any, name: str, model: Any, wanted: SimpleNamespace, tokens: int) -> float:
    wanted.output_len = tokens
    began = time.process_time()
    harness.ENGINES[name](model, wanted, wanted.c[0])
    return time.process_time() - began


if __name__ == "__main__":
    main()
