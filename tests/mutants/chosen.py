"""Which tests run which line: one run of the tests with coverage, kept for the changes that follow."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage.numbits import numbits_to_nums

from tests.mutants.copied import ROOT, Copy

PACKAGES = {"gateway", "safety", "grammar", "engine", "cache", "plugins"}
ENOUGH_S = 120.0
"""Of tests for one change, as long as without it; the fastest come first."""


@dataclass(frozen=True)
class Tests:
    lines: dict[str, dict[str, list[str]]]
    """Names of tests by path and line."""
    seconds: dict[str, float]

    def through(self, path: Path, line: int) -> dict[str, float]:
        """Return seconds by name, fastest first. For lines that run at import: every test that comes to the module."""
        of_file = self.lines.get(str(path), {})
        names = set(of_file.get(str(line), ())) or {name for tests in of_file.values() for name in tests}
        chosen, sum_s = {}, 0.0
        for name in sorted(names & self.seconds.keys(), key=lambda name: (self.seconds[name], name)):
            sum_s += self.seconds[name]
            if sum_s > ENOUGH_S and chosen:
                break
            chosen[name] = self.seconds[name]
        return chosen


def followed(copy: Copy, paths: Sequence[str], tests: Sequence[str] | None, kept: Path | None) -> Tests:
    """Run `tests` once in the copy, or read what an earlier run left in the file `kept`."""
    if kept is not None and kept.exists():
        return Tests(**json.loads(kept.read_text("utf-8")))
    chosen = tests or of_packages(paths)
    data, clock = copy.root / ".coverage", copy.root / "clock.json"
    arguments = [*chosen, f"--clock={clock}", "--cov-context=test", "--cov-report="]
    done = copy.pytest([*arguments, *(f"--cov={package}" for package in sorted({p.split("/")[0] for p in paths}))])
    if done.returncode:
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        print("left out, for they fail without any change:", *failed, sep="\n", flush=True)
    if not clock.exists():
        sys.exit(f"the tests did not run:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    found = Tests(lines_of(data, copy.root.resolve()), json.loads(clock.read_text("utf-8")))
    if kept is not None:
        kept.write_text(json.dumps({"lines": found.lines, "seconds": found.seconds}), "utf-8")
    return found


def of_packages(paths: Sequence[str]) -> list[str]:
    """Return the folder of tests of each package, or of the part of it that has one of its own."""
    found = {}
    for path in paths:
        folder = Path("tests") / path
        while not (ROOT / folder).is_dir() or (
            folder.parts[1] in PACKAGES and not any((ROOT / folder).rglob("test_*.py"))
        ):
            folder = folder.parent
        found[str(folder)] = None
    return list(found)


def lines_of(data: Path, root: Path) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    with sqlite3.connect(data) as base:
        rows = base.execute(
            "select file.path, context.context, line_bits.numbits from line_bits"
            " join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
        )
        for path, context, bits in rows:
            name = context.rpartition("|")[0]
            if name:
                for line in numbits_to_nums(bits):
                    found.setdefault(os.path.relpath(root / path, root), {}).setdefault(str(line), []).append(name)
    return found
