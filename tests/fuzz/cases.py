"""Run the cases of a fuzz program, each by a seed, until its time is over. A case gives its outcome as a word; one that
begins with FINDING is printed with the seed that runs it again."""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence


class Finding(Exception):
    """What a case found wrong."""


def unexpected(error: Exception) -> str:
    """Return the outcome of a case that raised what it must not."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"FINDING {type(error).__name__}: {str(error)[:200]} ({last.filename.split('/')[-1]}:{last.lineno})"


def run(about: str | None, case: Callable[[str, int], str], names: Sequence[str] = ("",)) -> None:
    """Read the command line, try `case` with each of `names` and one seed after the other, and print how often each
    outcome came."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[name for name in names if name])
    parser.add_argument("--case", help="one of those printed, run once")
    asked = parser.parse_args()
    if asked.case is not None:
        name, _, seed = asked.case.rpartition(":")
        print(case(name, int(seed)))
        return
    counts: Counter[str] = Counter()
    ends_s, at = time.monotonic() + 60 * asked.minutes, asked.seed
    while time.monotonic() < ends_s:
        for name in [asked.only] if asked.only else names:
            outcome = case(name, at)
            counts[f"{name} {outcome.split(' ')[0]}".lstrip()] += 1
            if outcome.startswith("FINDING"):
                print(f"{name}:{at} {outcome}".lstrip(":"), flush=True)
        at += 1
    print(json.dumps(dict(sorted(counts.items()))))
