"""Time of a forward pass beside a llama.cpp that was built for this machine, by turns on the same GGUF file.

    python -m benchmarks.native_peers [--data FILE.gguf] --llama ENVIRONMENT/bin/python [--weights int8,file]

`FILE`: see `benchmarks.gguf_files`; made if its name is `SHAPE-KINDS.gguf`, as the default is. `--llama` names the
interpreter of an environment with `llama-cpp-python` from source, which makes it of the machine's own instructions:

    CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python

Each side is a process that has the model; only one computes at a time, some steps each, in turns. A step computes one
token of each of `c` sequences behind 128 others, with all logits (`llama_decode` there, the runner's step here).
Printed are the tenth percentile and the least of all steps: CPU time with one thread, wall-clock time with several, as
threads that spin use more CPU. `ratio` is theirs by ours, by tenth percentiles.
`--transformers`: also the module's own forward pass in float32, in memory of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import machine, parser, report
from benchmarks.gguf_files import KINDS, SHAPES, write_random

_SIDES = Path(__file__).with_name("native_sides.py")
Found = dict[str, list[tuple[float, float]]]


class Worker:
    """A side in a process of its own."""

    def __init__(self, python: str, side: str, file: Path, threads: int, weights: str) -> None:
        self._command = [python, str(_SIDES), side, str(file), "--threads", str(threads), "--weights", weights]
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.about: dict[str, Any] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit(f"a side ended with {self._process.wait()}: {self._command}")
        return json.loads(line)

    def ask(self, kind: str, size: int, times: int) -> list[tuple[float, float]]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {size} {times}\n")
        self._process.stdin.flush()
        return [(cpu, wall) for cpu, wall in self._answer()]

    def huge_mb(self) -> float:
        """Return how much of its memory lies in huge pages."""
        [(kilobytes, _)] = self.ask("huge", 0, 1)
        return kilobytes / 1024

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(workers: dict[str, Worker], kind: str, size: int, given: argparse.Namespace) -> Found:
    """Return (CPU, wall) seconds of every step, by side."""
    found: Found = {name: [] for name in workers}
    for worker in workers.values():
        worker.ask(kind, size, 1)
    for _ in range(given.limit):
        for name, worker in workers.items():
            found[name] += worker.ask(kind, size, given.slice if kind == "step" else 1)
    return found


def _tenth(values: list[float]) -> float:
    return sorted(values)[len(values) // 10]


FILE = Path(tempfile.gettempdir()) / "sluicegate-gguf" / "300m-q8_0.gguf"


def main() -> None:
    form = "a GGUF file, made if its name is SHAPE-KINDS.gguf"
    made = parser(__doc__, FILE, 10, "rounds", form=form, endless=True, exists=False)
    made.add_argument(
        "--llama", default="", help="interpreter of an environment with llama-cpp-python; empty: no llama.cpp"
    )
    made.add_argument("--weights", default="file", help="ours: file, int8, int4; several by commas are several sides")
    made.add_argument("--transformers", action="store_true")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("-c", default="1,4,8,32")
    made.add_argument("--prompts", default="128")
    made.add_argument("--slice", type=int, default=3, help="steps of one side before the other's turn")
    given = made.parse_args()
    shape, _, kinds = given.data.stem.rpartition("-")
    if not given.data.exists() and shape in SHAPES and kinds in KINDS:
        given.data.parent.mkdir(parents=True, exist_ok=True)
        write_random(given.data, shape, kinds)
    if not given.data.is_file():
        raise SystemExit(f"no file at {given.data}; name a GGUF file with --data")
    workers = {}
    if given.llama:
        workers["llama.cpp"] = Worker(given.llama, "llama", given.data, given.threads, "file")
    for weights in given.weights.split(","):
        workers[f"ours, {weights}"] = Worker(sys.executable, "ours", given.data, given.threads, weights)
    if given.transformers:
        workers["transformers"] = Worker(sys.executable, "transformers", given.data, given.threads, "file")
    print(f"# {machine()}; {given.data.name}, threads {given.threads}")
    for name, worker in workers.items():
        print(f"# {name}: {worker.about}")
    print("| | side | p10 ms | least ms | ratio |\n|---|---|--:|--:|--:|")
    kept = _table(workers, given)
    print(f"# {machine()}")
    for name, worker in workers.items():
        print(f"# {name}: {worker.huge_mb():.0f} MiB in huge pages")
        worker.close()
    report(given, kept)


def _table(workers: dict[str, Worker], given: argparse.Namespace) -> dict[str, dict[str, float]]:
    asked = [("step", int(size)) for size in given.c.split(",") if size]
    asked += [("prompt", int(size)) for size in given.prompts.split(",") if size]
    kept: dict[str, dict[str, float]] = {}
    for kind, size in asked:
        clock = 0 if given.threads == 1 else 1
        found = {name: [one[clock] for one in took] for name, took in measure(workers, kind, size, given).items()}
        tenths = {name: 1e3 * _tenth(took) for name, took in found.items()}
        peer = next(iter(tenths.values()))
        for name, tenth in tenths.items():
            cells = f"{tenth:.2f} | {1e3 * min(found[name]):.2f} | {peer / tenth:.2f}"
            print(f"| {kind} {size} | {name} | {cells} |", flush=True)
        kept[f"{kind} {size}"] = tenths
    return kept


if __name__ == "__main__":
    main()
