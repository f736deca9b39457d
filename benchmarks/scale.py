"""Estimate the nodes for a day's requests: measure one node, run two, simulate both, then simulate a day of any size.

    python -m benchmarks.scale --json > scale.json; python -m benchmarks.scale_plot scale.json

`one`: a gateway with the bundled model is asked alone and eight at a time; the fastest tenth of its answers counts, as
others may use the machine. `two`: two whole gateways behind a third one that chooses (`urls`), over HTTP; their engines
keep time by the clock instead of computing (`benchmarks.scale_node`), since two that compute would share the cores of
one machine. Their figures are measured on one of them alone, and the model is fed these. `days`: what the model says of
a mix for the measured bundled engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import machine, parser, report
from benchmarks.scale_model import Arrival, Fleet, Objective, RequestClass, Simulated, arrivals, fewest, most_per_s
from benchmarks.scale_node import MODEL
from sluicegate.gateway.commands.bench.arrivals import ask, shot_of
from sluicegate.gateway.commands.bench.load import BenchLoad, RequestTiming, spread
from sluicegate.gateway.commands.size.capacity import DAY_S, DailyDemand, NodeFigures

CLOCK = NodeFigures(prefill_tokens_per_s=4000, step_s=0.2, step_each_s=0.02, places=8)
"""Of the timed engines: slow, so that what the machine does besides is small beside a step."""
PAIR_MIX = (
    RequestClass(0.7, 600, 24, prefix=512, prefixes=6, spread=0.4),
    RequestClass(0.3, 900, 12, spread=0.4),
)
DAY_MIX = (
    RequestClass(0.5, 300, 60, prefix=192, prefixes=40),
    RequestClass(0.3, 500, 120, prefix=320, prefixes=200),
    RequestClass(0.2, 800, 40),
)
"""For a model of 1,024 positions: extraction with a tenant's rules before it, chat with a longer prompt, documents."""
HELD = 40_000
"""Tokens of prefixes that a node keeps: about as many as 64 sequences of the bundled model."""
WANTED = Objective(first_s=1.0, token_s=0.1)
PEAK = 2.0
FEW = 4
"""Tokens of a short answer."""
COMPARED = ("mean_first_s", "mean_total_s", "tokens_per_s")


def main() -> None:
    made = parser(__doc__, None, 0, "requests at --rate, which shortens --seconds")
    made.add_argument("--only", choices=("one", "two", "days"), help="one of the three parts")
    made.add_argument("--seconds", type=float, default=120.0, help="of each run, real or simulated")
    made.add_argument("--rate", type=float, default=1.0, help="requests a second of that run (%(default)s)")
    made.add_argument("--figures", type=Path, help="figures of a node for `days`, instead of measuring it")
    given = made.parse_args()
    seconds = min(given.seconds, given.limit / given.rate) if given.limit else given.seconds
    found: dict[str, Any] = {"machine": machine()}
    print(found["machine"])
    node = _known(given.figures)
    if given.only in (None, "one"):
        node = asyncio.run(one_node())
        found["one"] = {"figures": dataclasses.asdict(node)}
        print("one node:", node)
    if given.only in (None, "two"):
        found["two"] = asyncio.run(two_nodes(given.rate, seconds))
    if given.only in (None, "days"):
        found["days"] = days(node, seconds)
    report(given, found)


def _known(path: Path | None) -> NodeFigures:
    if path is None:
        return BUNDLED
    from sluicegate.gateway.commands.size.capacity import read_figures

    return read_figures(path)


# --- one node -----------------------------------------------------------------------------------------------------


async def one_node() -> NodeFigures:
    """Measure a gateway with the bundled model."""
    with _process("-m", "sluicegate.gateway.commands.cli", "serve", "--port", "0") as lines:
        url = next(line.split()[-1] for line in lines if line.startswith("Sluicegate serves"))
        return await measured(url, "bundled", places=8, tenth=0.1, long=700, answer=64)


async def measured(url: str, model: str, *, places: int, tenth: float, long: int, answer: int) -> NodeFigures:
    """Fit figures to the whole times of answers, long and short, to short and long prompts, alone and together: rails
    may hold texts back, so that the times of pieces are not those of steps.
    `tenth`: which quantile counts; 0.5 where nothing else disturbs."""

    async def shots(count: int, at_once: int, prompt: int, tokens: int) -> list[RequestTiming]:
        load = BenchLoad(url, tuple(_body(model, f"{prompt}-{n}", prompt, tokens, None) for n in range(count)), "a")
        found: list[RequestTiming] = []
        for begin in range(0, count, at_once):
            due = time.perf_counter()
            asked = [ask(load, number, due) for number in range(begin, begin + at_once)]
            found += [shot_of(arrived) for arrived in await asyncio.gather(*asked)]
        assert not any(shot.error for shot in found), found[0]
        return found

    async def took_s(at_once: int, prompt: int, tokens: int) -> float:
        return _quantile((shot.total_s for shot in await shots(2 * at_once + 4, at_once, prompt, tokens)), tenth)

    await shots(2, 1, 16, FEW)
    short, far, alone = [await took_s(1, *sizes) for sizes in ((16, FEW), (long, FEW), (16, answer))]
    together, full = await took_s(places, 16, FEW), await took_s(places, 16, answer)
    step, wide = (alone - short) / (answer - FEW), (full - together) / (answer - FEW)
    if step <= 0:
        raise SystemExit("a long answer took no more time than a short one: the machine is too busy to measure a node")
    return NodeFigures((long - 16) / max(far - short, 1e-6), step, max(0.0, (wide - step) / (places - 1)), places)


def _quantile(values: Any, q: float) -> float:
    ordered = sorted(values)
    return float(ordered[int(q * (len(ordered) - 1))])


# --- two nodes ----------------------------------------------------------------------------------------------------


async def two_nodes(rate: float, seconds: float) -> dict[str, Any]:
    """Run the same requests by each way of choosing, and simulate them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "figures.json").write_text(json.dumps(dataclasses.asdict(CLOCK)))
        node = ("-m", "benchmarks.scale_node", str(folder / "figures.json"))
        with _process(*node) as lines:
            url = json.loads(next(lines))["url"]
            figures = await measured(url, MODEL, places=CLOCK.places, tenth=0.5, long=4000, answer=12)
        print("one timed node:", figures)
        found: dict[str, Any] = {"figures": dataclasses.asdict(figures), "rate": rate, "seconds": seconds, "runs": {}}
        for choice in ("prefix", "load"):
            with ExitStack() as pair:
                nodes = [json.loads(next(pair.enter_context(_process(*node))))["url"] for _ in range(2)]
                front = json.loads(next(pair.enter_context(_process("-m", "benchmarks.scale_node", choice, *nodes))))
                asked = list(arrivals(PAIR_MIX, rate, seconds, seed=3))
                seen = await _run(front["url"], asked)
            said = dataclasses.asdict(Fleet(figures, 2, choice).run(arrivals(PAIR_MIX, rate, seconds, seed=3)))
            off = {name: said[name] / seen[name] - 1 for name in COMPARED} | {
                "first_p90_s": said["first_s"]["p90"] / seen["first_s"]["p90"] - 1
            }
            found["runs"][choice] = {"seen": seen, "simulated": said, "off": off}
            print(f"two nodes, by {choice:6}", " ".join(f"{name} {value:+.1%}" for name, value in off.items()))
        return found


async def _run(url: str, asked: Sequence[Arrival]) -> dict[str, Any]:
    bodies = tuple(_body(MODEL, str(n), one.prompt, one.answer, one.prefix) for n, one in enumerate(asked))
    load = BenchLoad(url, bodies, "a", timeout_s=600)
    began = time.perf_counter()

    async def later(number: int, at_s: float) -> RequestTiming:
        await asyncio.sleep(max(0.0, began + at_s - time.perf_counter()))
        return shot_of(await ask(load, number, began + at_s))

    shots = await asyncio.gather(*(later(number, one.at_s) for number, one in enumerate(asked)))
    wall_s = time.perf_counter() - began
    errors = [shot.error for shot in shots if shot.error]
    assert not errors, errors[:3]
    firsts = [shot.first_s or 0.0 for shot in shots]
    return {
        "requests": len(shots),
        "first_s": spread(firsts),
        "total_s": spread(shot.total_s for shot in shots),
        "mean_first_s": sum(firsts) / len(shots),
        "mean_total_s": sum(shot.total_s for shot in shots) / len(shots),
        "tokens_per_s": sum(one.answer for one in asked) / wall_s,
    }


def _body(model: str, name: str, prompt: int, answer: int, prefix: tuple[int, int] | None) -> dict[str, Any]:
    """Return the body of a request. `prompt` is in characters, which are the tokens of timed engines."""
    begin = f"{prefix[0]}:".ljust(prefix[1], "r") if prefix is not None else ""
    own = f"{name}:".ljust(max(1, prompt - len(begin)), "q")
    message = {"role": "user", "content": begin + own}
    return {
        "model": model,
        "messages": [message],
        "max_tokens": answer,
        "temperature": 1,
        "sluicegate": {"cache": False},
    }


@contextmanager
def _process(*arguments: str) -> Iterator[Iterator[str]]:
    """Run Python and yield its lines; it ends with the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, *arguments], stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.stdin.close()
        process.terminate()
        process.wait()


# --- days ---------------------------------------------------------------------------------------------------------

BUNDLED = NodeFigures(prefill_tokens_per_s=7128, step_s=0.0005, step_each_s=0.0003, places=8)
"""As measured once; `days` alone takes them where no others are named."""
Change = Callable[[Fleet], Fleet]
CHANGES: dict[str, Change] = {
    "as it is": lambda fleet: fleet,
    "least loaded instead of by prefix": lambda fleet: dataclasses.replace(fleet, choice="load"),
    "drawn at random": lambda fleet: dataclasses.replace(fleet, choice="random"),
    "20 % of answers kept": lambda fleet: dataclasses.replace(fleet, kept=0.2),
    "speculation, 1.6 tokens a step": lambda fleet: dataclasses.replace(
        fleet, figures=dataclasses.replace(fleet.figures, tokens_per_step=1.6)
    ),
}


def days(node: NodeFigures, seconds: float) -> dict[str, Any]:
    """Compute the nodes for a million and a hundred million requests a day, and what changes them."""
    fleet = Fleet(node, 1, held=HELD)
    found: dict[str, Any] = {"figures": dataclasses.asdict(node), "nodes": {}, "curve": []}
    for name, change in CHANGES.items():
        found["nodes"][name] = {str(day): nodes_for(change(fleet), day, seconds) for day in (10**6, 10**8)}
        print(f"{name:36}", found["nodes"][name])
    canary = {str(day): with_canary(fleet, day, seconds) for day in (10**6, 10**8)}
    found["nodes"]["a canary of 10 % on nodes of its own"] = canary
    print(f"{'a canary of 10 % on nodes of its own':36}", canary)
    found["curve"] = list(curve(fleet, seconds))
    return found


MOST_SIMULATED = 8
"""Nodes; where more are needed, the most that so many can do is scaled."""


def nodes_for(fleet: Fleet, day: float, seconds: float) -> int:
    """Return the nodes for the busiest second of a day."""
    rate = day / DAY_S * PEAK
    ideal_s = demand(fleet, day).node_s(fleet.figures)
    if (ideal := max(1.0, rate * ideal_s)) <= MOST_SIMULATED:
        return fewest(dataclasses.replace(fleet, nodes=int(ideal)), DAY_MIX, rate, seconds, WANTED)
    most = most_per_s(dataclasses.replace(fleet, nodes=MOST_SIMULATED), DAY_MIX, ideal_s, seconds, WANTED)
    return math.ceil(rate / (most / MOST_SIMULATED))


def with_canary(fleet: Fleet, day: float, seconds: float) -> int:
    """Compute the nodes where a tenth of the requests goes to a new version, which runs on nodes of its own."""
    return nodes_for(fleet, day * 0.9, seconds) + nodes_for(fleet, day * 0.1, seconds)


def demand(fleet: Fleet, day: float) -> DailyDemand:
    """Return the mix in one line, with no prompt read before."""
    weights = [kind.share for kind in DAY_MIX]
    prompt = sum(kind.share * kind.prompt for kind in DAY_MIX) / sum(weights)
    answer = sum(kind.share * kind.answer for kind in DAY_MIX) / sum(weights)
    return DailyDemand(day, prompt, answer, kept=fleet.kept, peak=PEAK)


def curve(fleet: Fleet, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield what callers of eight nodes see as the load rises, by each way of choosing."""
    eight = dataclasses.replace(fleet, nodes=8)
    full = 8 / demand(fleet, 1).node_s(fleet.figures)
    for share in (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0):
        row: dict[str, Any] = {"share": share}
        for choice in ("prefix", "load", "random"):
            seen: Simulated = dataclasses.replace(eight, choice=choice).run(arrivals(DAY_MIX, share * full, seconds))
            row[choice] = {"first_p99_s": seen.first_s["p99"], "busy": seen.busy, "read": seen.read}
        yield row


if __name__ == "__main__":
    main()
