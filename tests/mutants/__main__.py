"""Report which changes to the code no test notices.

    python -m tests.mutants --paths safety cache gateway/accounts --count 40 --seed 1

Draws places at random, changes one at a time in a copy of the tree (see `changes.py`), runs the tests that pass through
the changed line, fastest first, and prints for each change whether a test failed. Exits with 1 where fewer than
`--least` percent are noticed.

Not covered: the bodies of loops that numba compiles, through which no line is followed. Their tests compare them with
plain twins in `tests/reference/`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.changes import Change, changes
from tests.mutants.chosen import Tests, followed
from tests.mutants.copied import ROOT, Copy

IMPORTANT = [
    "safety",
    "cache",
    "gateway/accounts",
    "engine/memory",
    "engine/batching",
    "engine/loop",
    "grammar/matching",
]
"""Where a change that nobody notices costs most."""


def main() -> int:
    options = arguments()
    places = [change for path in sources(options.paths) for change in changes(path, ROOT, options.finer)]
    drawn = sorted(random.Random(options.seed).sample(places, min(options.count, len(places))))
    if options.only:
        drawn = [change for change in places if change.place in options.only]
    if options.list:
        print(*drawn, sep="\n")
        return 0
    print(f"{len(drawn)} of {len(places)} changes, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        tests = followed(copy, options.paths, options.tests, options.map)
        survivors = [change for change in drawn if not noticed(change, copy, tests)]
    rate = 100 * (len(drawn) - len(survivors)) / max(1, len(drawn))
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} noticed: {rate:.0f} %")
    print(*(f"not noticed: {change}" for change in survivors), sep="\n")
    return int(rate < options.least)


def noticed(change: Change, copy: Copy, tests: Tests) -> bool:
    start = time.monotonic()
    chosen = tests.through(change.path, change.line)
    outcome = copy.run(chosen, change) if chosen else "no test passes here"
    print(f"{outcome:20} {change} ({len(chosen)} tests, {time.monotonic() - start:.0f} s)", flush=True)
    return outcome in ("noticed", "too slow")


def sources(paths: list[str]) -> list[Path]:
    """Return every module below `paths`, relative to the root, in the order of their names."""
    found = {
        file for path in paths for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    }
    missing = [path for path in paths if not (ROOT / path).exists()]
    if missing:
        sys.exit(f"not in the tree: {', '.join(missing)}")
    return sorted(file.relative_to(ROOT) for file in found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paths", nargs="+", default=IMPORTANT, metavar="PATH", help="folders and modules to change")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="tests to choose from (default: by the names of PATHs)"
    )
    parser.add_argument("--count", type=int, default=40, help="changes to try (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="PATH:LINE", help="try every change of these lines instead")
    parser.add_argument("--finer", action="store_true", help="move borders by one and turn every truth, too")
    parser.add_argument("--least", type=float, default=88.0, help="percent that must be noticed (default: %(default)s)")
    parser.add_argument(
        "--map", type=Path, help="file that keeps which test runs which line, read again if it is there"
    )
    parser.add_argument("--list", action="store_true", help="print the changes without trying them")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
