"""Measure how soon a rollout stops a worse canary, and how often an equal one, on simulated requests.

    python -m benchmarks.rollouts [--limit 100] [--requests 2000]

The threshold is that of `alpha` = 0.05 shared by five metrics.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from benchmarks import common
from sluicegate.gateway.rollout.evidence import Evidence

THRESHOLD = 100.0
PROOF = 20.0
Outcome = Callable[[random.Random], float]


def failing(rate: float) -> Outcome:
    return lambda rng: float(rng.random() < rate)


def ranked(mean: float) -> Outcome:
    """Return an outcome that is drawn as ranks of latency are: near to uniform where the mean is one half."""
    return lambda rng: min(1.0, max(0.0, rng.gauss(mean, 0.29)))


CASES: dict[str, tuple[Outcome, Outcome]] = {
    "equal, 2 % fail": (failing(0.02), failing(0.02)),
    "2 % fail, then 20 %": (failing(0.02), failing(0.2)),
    "2 % fail, then 50 %": (failing(0.02), failing(0.5)),
    "equal latency": (ranked(0.5), ranked(0.5)),
    "latency 0.5, then 0.7": (ranked(0.5), ranked(0.7)),
}


def rollout(baseline: Outcome, canary: Outcome, p: float, requests: int, seed: int) -> tuple[int | None, int | None]:
    """Simulate a rollout. Return the requests at which it was stopped, and proven fine; None for never."""
    rng, evidence = random.Random(seed), Evidence(0.1)
    stopped = proven = None
    for number in range(1, requests + 1):
        is_canary = rng.random() < p
        evidence.add(is_canary, p, (canary if is_canary else baseline)(rng))
        if stopped is None and evidence.worse.log >= math.log(THRESHOLD):
            stopped = number
        if proven is None and evidence.fine.log >= math.log(PROOF):
            proven = number
        if stopped is not None:
            break
    return stopped, proven


def main() -> None:
    parser = common.parser(__doc__, None, 100, "rollouts of each case")
    parser.add_argument("--requests", type=int, default=2000)
    asked = parser.parse_args()
    rows = []
    print("share  case                    stopped  of  9 of 10 within   proven  half within")
    for p in (0.05, 0.25, 0.5):
        for name, (baseline, canary) in CASES.items():
            runs = [rollout(baseline, canary, p, asked.requests, seed) for seed in range(asked.limit)]
            stops, proofs = [stopped for stopped, _ in runs], [proven for _, proven in runs]
            said = f"{p:5.0%}  {name:22}  {_seen(stops):7}  {len(runs):2}  {_within(stops, 0.9):>14}"
            print(f"{said}  {_seen(proofs):6}  {_within(proofs, 0.5):>11}")
            rows.append({"share": p, "case": name, "runs": len(runs), "stopped_at": stops, "proven_at": proofs})
    common.report(asked, {"requests": asked.requests, "rows": rows})


def _seen(found: list[int | None]) -> int:
    return sum(one is not None for one in found)


def _within(found: list[int | None], share: float) -> str:
    ordered = sorted(math.inf if one is None else one for one in found)
    at = ordered[math.ceil(share * len(ordered)) - 1]
    return "-" if at == math.inf else f"{at:,.0f}"


if __name__ == "__main__":
    main()
