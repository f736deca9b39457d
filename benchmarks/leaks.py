"""Measure how much the ways in which guardrails read a stream leak, given a perfect detector.

    python -m benchmarks.leaks [--data FILE] [--limit N] [--json]

Each case is a text with forbidden spans, cut as a model's tokens came. The ways are those that guardrail products
document; they are simulated here, with the case's own spans as their detector, so that nothing is lost but by the way
of reading: windows of W tokens that are judged together with the last C tokens before them, let out before or after
the verdict; every piece judged alone; a verdict that comes N characters late. A span is found where it lies whole in
what is judged together, and then nothing behind what is out already follows it. `sluicegate` is no simulation: the
built-in rails with their own patterns, on the same cases.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import common
from benchmarks.streaming import FIELDS, CaseRails, leaked, pieces, run, without_spans

Case = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is judged together, and which part of it is let out: before the verdict, or where nothing was found."""

    parts: Sequence[tuple[int, int, int]]
    """(where the judged text begins, where the part begins, where both end)."""
    first_out: bool


def windows(cut: Sequence[int], size: int, context: int, first_out: bool) -> Verdicts:
    """Return windows of `size` tokens, each judged with the `context` tokens before it. `cut` holds the ends of the
    tokens, from 0."""
    parts = []
    for at in range(0, len(cut) - 1, size):
        end = min(at + size, len(cut) - 1)
        parts.append((cut[max(0, at - context)], cut[at], cut[end]))
    return Verdicts(parts, first_out)


def let_out(case: Case, verdicts: Verdicts) -> int:
    """Return up to where the text is out when the first verdict is bad, or its length."""
    for begin, part, end in verdicts.parts:
        if any(begin <= span["start"] and span["end"] <= end for span in case["spans"]):
            return end if verdicts.first_out else part
    return len(case["text"])


def late(case: Case, cut: Sequence[int], by: int) -> int:
    """Return how many characters are out where the verdict on everything up to a place comes `by` characters later."""
    first = min(int(span["end"]) for span in case["spans"])
    return min(len(case["text"]), first + by)


def by_windows(case: Case, cut: Sequence[int], *, size: int, context: int, first_out: bool = False) -> int:
    return let_out(case, windows(cut, size, context, first_out))


WAYS: dict[str, Callable[[Case, Sequence[int]], int]] = {
    "200 tokens, 50 before, let out first": partial(by_windows, size=200, context=50, first_out=True),
    "200 tokens, 50 before": partial(by_windows, size=200, context=50),
    "50 tokens, 25 before": partial(by_windows, size=50, context=25),
    "10 tokens, 5 before": partial(by_windows, size=10, context=5),
    "every piece alone": partial(by_windows, size=1, context=0),
    "a verdict at once, nothing held": partial(late, by=0),
    "a verdict 1,000 characters late": partial(late, by=1000),
}


def simulated(case: Case, way: Callable[[Case, Sequence[int]], int]) -> int:
    """Return how many characters of forbidden spans are out."""
    cut = [0]
    for piece in pieces(case, case["text"], "stored", random.Random(1)):
        cut.append(cut[-1] + len(piece))
    until = way(case, cut)
    return sum(max(0, min(until, span["end"]) - span["start"]) for span in case["spans"])


def ours(case: Case, gate: CaseRails) -> int:
    out, _, _ = run(case, gate.rails(case), "stored", random.Random(1), False)
    return sum(leaked(case, span, out, without_spans(case)) for span in case["spans"])


def measure(cases: list[Case]) -> dict[str, dict[str, float]]:
    """Return for each way the share of the characters of forbidden spans that came out, and of cases in which any
    did."""
    gate = CaseRails()
    counters: dict[str, Callable[[Case], int]] = {"sluicegate": partial(ours, gate=gate)}
    counters |= {name: partial(simulated, way=way) for name, way in WAYS.items()}
    characters = sum(span["end"] - span["start"] for case in cases for span in case["spans"])
    found = {}
    for name, count in counters.items():
        out = [count(case) for case in cases]
        found[name] = {
            "characters": round(sum(out) / max(1, characters), 4),
            "cases": round(sum(map(bool, out)) / max(1, len(cases)), 4),
        }
    return found


def main() -> None:
    args = common.parser(__doc__, "safety/streaming_visible.jsonl.gz", 0, "cases with forbidden spans").parse_args()
    read = common.records(args.data, fields=FIELDS)
    cases = [case for case in read if case["label"] == "leak" and not case["hard"]]
    if not cases:
        raise SystemExit(f"{args.data}: no case has the label `leak` and is not `hard`; name other cases with --data")
    chosen = cases[: args.limit or None]
    found = measure(chosen)
    for name, row in found.items():
        print(f"{name:40}{row['characters']:>8.1%} of characters{row['cases']:>8.1%} of cases")
    common.report(args, {"cases": len(chosen), "ways": found})


if __name__ == "__main__":
    main()
