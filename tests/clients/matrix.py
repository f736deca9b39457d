"""A table of clients: which versions were tried, what of them works here, and what fails with what words.

    make clients                        # what is not installed is a row that says so
    python -m tests.clients.matrix

Each script of `scripts` names what it does in comments at the beginning of a line. A part that ran to its end works;
the first that did not has failed, and those behind it were not tried.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sluicegate.gateway.testing import TestApp
from tests.clients.finding import SCRIPTS, environ, find_python, say
from tests.gateway.conftest import running

HERE = Path(__file__).parent / "scripts"
LIMIT_S = 300
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1].replace('_', '-')))"


@dataclass(frozen=True)
class Row:
    client: str
    version: str
    feature: str
    outcome: str


def features(script: str) -> list[tuple[int, str]]:
    """Return (line, name) of the parts of a script; one that names none is a whole."""
    lines = enumerate(script.splitlines(), start=1)
    found = [(number, line.removeprefix("# ")) for number, line in lines if line.startswith("# ")]
    return found or [(1, "all")]


def outcomes(script: str, status: int, said: str, file: str) -> list[tuple[str, str]]:
    """Return (feature, outcome). `said`: what the script wrote to stderr, with the lines of a trace."""
    parts = features(script)
    if status == 0:
        return [(name, "works") for _, name in parts]
    places = [int(number) for number in re.findall(rf'{re.escape(file)}", line (\d+)', said)]
    failed = max((i for i, (line, _) in enumerate(parts) if places and line <= places[0]), default=0)
    words = (said.strip().splitlines() or [f"ended with status {status}"])[-1][:200].replace("|", "/")
    told = ["works"] * failed + [f"fails: {words}"] + ["not tried"] * (len(parts) - failed - 1)
    return [(name, outcome) for (_, name), outcome in zip(parts, told, strict=True)]


def rows_of(name: str, module: str, urls: list[str]) -> list[Row]:
    python = find_python(module)
    if python is None:
        return [Row(module, "", "all", "not installed; `make clients`")]
    version = subprocess.run(
        [python, "-c", VERSION, module], capture_output=True, text=True, check=False, env=environ()
    )
    path = HERE / name
    done = subprocess.run(
        [python, str(path), *urls], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environ()
    )
    found = outcomes(path.read_text("utf-8"), done.returncode, done.stderr, name)
    return [Row(module, version.stdout.strip(), feature, outcome) for feature, outcome in found]


def main() -> None:
    print("| client | version | feature | outcome |\n|---|---|---|---|")
    with running() as real, TestApp(script=say) as scripted:
        for name, module in SCRIPTS.items():
            for row in rows_of(name, module, [real.url, scripted.url]):
                print(f"| {row.client} | {row.version} | {row.feature} | {row.outcome} |", flush=True)


if __name__ == "__main__":
    main()
