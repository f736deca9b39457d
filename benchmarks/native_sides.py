"""Both sides of `benchmarks.native_peers`, each a process of its own: steps as its parent asks for them, on standard
input, and what each took, on standard output.

    python native_sides.py ours|llama|transformers FILE --threads N --weights int8

`llama` runs in an environment that has `llama-cpp-python` and nothing of Sluicegate.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

AT = 128
"""Tokens before the one that a step computes."""
MOST = 32
"""Sequences at once."""
VOCAB = 16_000
"""Of the smallest shape of `benchmarks.gguf_files`."""


class Side(Protocol):
    def step(self, rows: int) -> None:
        """Compute one token of each of `rows` sequences behind `AT` others, with all their logits."""

    def prompt(self, tokens: int) -> None:
        """Compute a prompt, with the logits of its last token."""

    def about(self) -> str: ...


def ids_of(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(300, VOCAB, count)


class Ours:
    """The engine's runner: what a step is without scheduling and draws."""

    def __init__(self, file: str, threads: int, weights: str) -> None:
        import torch

        from sluicegate.engine import load_model
        from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions

        torch.set_num_threads(threads)
        asked: Any = "full" if weights == "file" else weights
        self._model = load_model(file, name="bench", weights=asked)
        blocks = MOST * (AT // 16 + 1) + 64
        self._runner = ModelRunner(self._model, blocks, 16, RunnerOptions(max_tokens=512, threads=threads))
        assert self._runner.is_compiled
        for row in range(MOST):
            self._run(ids_of(AT, row), [(row, 0, AT)])

    def _run(self, ids: Any, parts: list[tuple[int, int, int]]) -> None:
        import torch

        from sluicegate.engine.attention.paged import TokenSpan
        from sluicegate.engine.batching.step_inputs import StepInputs

        each = AT // 16 + 1
        positions = np.concatenate([np.arange(start, start + count) for _, start, count in parts])
        tables = [np.arange(row * each, row * each + max(each, -(-count // 16))) for row, _, count in parts]
        slots = np.concatenate(
            [table[at // 16] * 16 + at % 16 for table, (_, start, count) in zip(tables, parts, strict=True)
             for at in [np.arange(start, start + count)]]
        )  # fmt: skip
        stretches = [TokenSpan(start, count, table) for table, (_, start, count) in zip(tables, parts, strict=True)]
        wanted = np.cumsum([count for _, _, count in parts]) - 1
        with torch.inference_mode():
            self._runner.compute(StepInputs(ids, positions, slots, wanted, stretches))

    def step(self, rows: int) -> None:
        self._run(ids_of(rows, 1), [(row, AT, 1) for row in range(rows)])

    def prompt(self, tokens: int) -> None:
        self._run(ids_of(tokens, 2), [(0, 0, tokens)])

    def about(self) -> str:
        from sluicegate.engine.cpu import weight_bytes

        return f"weights {weight_bytes(self._model.module) / 2**20:.0f} MiB"


class Transformers:
    """The module's own `forward` with a cache, cut back after each step."""

    def __init__(self, file: str, threads: int, weights: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        folder, name = os.path.split(os.path.abspath(file))
        self._model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
        self._kept: dict[int, Any] = {}

    def step(self, rows: int) -> None:
        import torch

        with torch.inference_mode():
            if rows not in self._kept:
                self._kept.clear()
                ids = torch.from_numpy(np.stack([ids_of(AT, row) for row in range(rows)]))
                self._kept[rows] = self._model(ids, use_cache=True, logits_to_keep=1).past_key_values
            self._model(torch.from_numpy(ids_of(rows, 1))[:, None], past_key_values=self._kept[rows], use_cache=True)
            self._kept[rows].crop(-1)

    def prompt(self, tokens: int) -> None:
        import torch

        with torch.inference_mode():
            self._model(torch.from_numpy(ids_of(tokens, 2))[None], use_cache=True, logits_to_keep=1)

    def about(self) -> str:
        return "float32"


class Llama:
    """`llama_decode`."""

    def __init__(self, file: str, threads: int, weights: str) -> None:
        self._lib: Any = import_module("llama_cpp")
        lib = self._lib
        lib.llama_backend_init()
        asked = lib.llama_model_default_params()
        self._model = lib.llama_model_load_from_file(file.encode(), asked)
        wanted = lib.llama_context_default_params()
        wanted.n_ctx, wanted.n_batch, wanted.n_ubatch, wanted.n_seq_max = MOST * 512, 512, 512, MOST
        wanted.n_threads = wanted.n_threads_batch = threads
        self._context = lib.llama_init_from_model(self._model, wanted)
        self._batch = lib.llama_batch_init(512, 0, 1)
        for row in range(MOST):
            self._run(ids_of(AT, row), [(row, 0, AT)])

    def _run(self, ids: Any, parts: list[tuple[int, int, int]]) -> None:
        lib, batch, at = self._lib, self._batch, 0
        memory = lib.llama_get_memory(self._context)
        for row, start, count in parts:
            lib.llama_memory_seq_rm(memory, row, start, -1)
            for place in range(start, start + count):
                batch.token[at], batch.pos[at] = int(ids[at]), place
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, row
                batch.logits[at] = place == start + count - 1
                at += 1
        batch.n_tokens = at
        if found := lib.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode: {found}")
        lib.llama_synchronize(self._context)

    step, prompt = Ours.step, Ours.prompt

    def about(self) -> str:
        return str(self._lib.llama_print_system_info().decode()).strip()


SIDES: dict[str, Callable[[str, int, str], Side]] = {"ours": Ours, "llama": Llama, "transformers": Transformers}


def huge_kb() -> int:
    """Return how much of this process lies in huge pages."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("AnonHugePages", "FilePmdMapped")))


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("side", choices=SIDES)
    made.add_argument("file")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--weights", default="file", help="file: as it has them; int8, int4")
    given = made.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    began = time.process_time()
    side = SIDES[given.side](given.file, given.threads, given.weights)
    took = time.process_time() - began
    print(json.dumps({"about": side.about(), "load_cpu_s": took}), file=answers, flush=True)
    for line in sys.stdin:
        kind, size, times = line.split()
        if kind == "huge":
            found = [(float(huge_kb()), 0.0)]
        else:
            found = [_timed(getattr(side, kind), int(size)) for _ in range(int(times))]
        print(json.dumps(found), file=answers, flush=True)
    answers.flush()
    os._exit(0)  # threads of libraries do not end


def _timed(call: Callable[[int], None], size: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    call(size)
    return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
