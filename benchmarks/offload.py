"""Compare reading an evicted block of the prefix cache back from a file with computing it again.

    python -m benchmarks.offload [--models bundled,llama-60m,llama-0.5b] [--folder /tmp]

A prompt of 512 tokens is computed, its blocks are saved and read back: from the page cache, and from the disk after the
system was told to forget the file (cold). Milliseconds a block of 16 tokens, the least of several rounds: CPU time of
the whole process for all but the cold reads, which wait.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.memory.offload import WAITING, OffloadStore

TOKENS, SIZE = 512, 16
COLUMNS = ("KB a block", "computed again", "saved", "restored", "restored cold", "gain", "gain cold")


def main() -> None:
    args = _arguments()
    print(f"# {machine()}\n# milliseconds a block of {SIZE} tokens\n")
    print("| model | M parameters | " + " | ".join(COLUMNS) + " |\n|---|--:|" + "--:|" * len(COLUMNS))
    found = {}
    for name in args.model.split(","):
        row = found[name] = _measure(name, args)
        cells = " | ".join(f"{row[column]:.3g}" for column in ("parameters", *COLUMNS))
        print(f"| {name} | {cells} |", flush=True)
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled,llama-60m", 5, "rounds")
    made.add_argument("--folder", default="/var/tmp", help="where the file lies; on a real disk for the cold reads")
    made.add_argument("--kv", default="full")
    return made.parse_args()


@torch.inference_mode()
def _measure(name: str, args: argparse.Namespace) -> dict[str, float]:
    model = loaded(name)
    blocks = TOKENS // SIZE
    runner = ModelRunner(model, blocks, SIZE, RunnerOptions(kv=args.kv))
    ids = np.random.default_rng(0).integers(0, 250, TOKENS)
    whole = _least(args.limit, lambda: runner.score(ids, TOKENS), time.process_time)
    rounds = [_round(runner.pool, blocks, args.folder) for _ in range(args.limit)]
    saved, warm, cold = (min(one[at] for one in rounds) for at in range(3))
    again = 1000 * whole / blocks
    return {
        "parameters": model.parameter_count / 1e6,
        "KB a block": runner.pool.block_bytes / 1024,
        "computed again": again,
        "saved": saved,
        "restored": warm,
        "restored cold": cold,
        "gain": again / warm,
        "gain cold": again / cold,
    }


def _round(pool: KVPool, blocks: int, folder: str) -> tuple[float, float, float]:
    offload = OffloadStore(pool, 2 * blocks * pool.block_bytes, folder)
    names = [bytes([at]) * 16 for at in range(min(blocks, WAITING))]

    def save() -> None:
        for at, name in enumerate(names):
            offload.save(at, name, (at,))
        offload._writer.submit(lambda: None).result()

    def load() -> None:
        for at, name in enumerate(names):
            assert offload.load(at, name)

    saved = _least(1, save, time.process_time)
    warm = _least(3, load, time.process_time)
    os.fsync(offload._file.fileno())
    os.posix_fadvise(offload._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cold = _least(1, load, time.perf_counter)
    return tuple(1000 * seconds / len(names) for seconds in (saved, warm, cold))  # type: ignore[return-value]


def _least(rounds: int, act: Callable[[], Any], clock: Callable[[], float]) -> float:
    found = []
    for _ in range(rounds):
        began = clock()
        act()
        found.append(clock() - began)
    return min(found)


if __name__ == "__main__":
    main()
