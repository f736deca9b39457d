"""What slow grammars of a tenant cost small schemas, of that tenant and of another one, and the event loop.

    python -m benchmarks.compile_turns [--slow 0,1,4,16] [--limit 120] [--json]

So many grammars of several seconds are sent at once by one tenant; then it and another one send a new small schema each
50 ms, one after the other. The stage is the gateway's own, on the bundled model's vocabulary.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import SimpleNamespace
from typing import Any

from transformers import AutoTokenizer

from benchmarks.common import machine, parser, report
from benchmarks.random_model import BUNDLED
from sluicegate.grammar.constrainer import GrammarConstrainer
from sluicegate.grammar.settings import GrammarSettings
from sluicegate.plugins import Constraint, RateLimited
from sluicegate.plugins.errors import GrammarError

REST_S = 0.05
PATTERNS = 60
"""Of a slow grammar: each takes a tenth of a second."""


def main() -> None:
    made = parser(__doc__, None, 120, "small schemas of each tenant")
    made.add_argument("--slow", default="0,1,4,16", help="how many slow grammars, several by commas")
    args = made.parse_args()
    print(f"# {machine()}")
    print("| slow | own: p50 / p95 / worst, ms | another's | event loop: p95 / worst |\n|--:|--:|--:|--:|")
    rows = {}
    for slow in map(int, args.slow.split(",")):
        rows[str(slow)] = found = asyncio.run(measured(slow, args.limit))
        print(f"| {slow} | {told(found['own'])} | {told(found['other'])} | {told(found['loop'][1:])} |", flush=True)
    print(f"# {machine()}")
    report(args, rows)


def told(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


async def measured(slow: int, count: int) -> dict[str, list[float]]:
    """Return p50, p95 and the worst in ms: of small schemas of the tenant with the slow ones, of another tenant, and by
    how much the event loop is late."""
    stage, model = GrammarConstrainer(GrammarSettings(cache_dir="")), bundled()
    await stage.warm(model)
    for number in range(20):
        await stage.compile_for("warm", small(f"w{number}"), model)
    gaps: list[float] = []
    beside = [asyncio.create_task(late(gaps))]
    for number in range(slow):
        beside.append(asyncio.create_task(compiled(stage, "own", large(number), model)))
    own, other = await asyncio.gather(*(small_ones(stage, tenant, model, count) for tenant in ("own", "other")))
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    await stage.close()
    return {"own": quantiles(own), "other": quantiles(other), "loop": quantiles(gaps)}


async def small_ones(stage: GrammarConstrainer, tenant: str, model: Any, count: int) -> list[float]:
    found = []
    for number in range(count):
        began = time.perf_counter()
        await stage.compile_for(tenant, small(f"{tenant}{number}"), model)
        found.append(time.perf_counter() - began)
        await asyncio.sleep(REST_S)
    return found


async def compiled(stage: GrammarConstrainer, tenant: str, constraint: Constraint, model: Any) -> None:
    with contextlib.suppress(GrammarError, RateLimited):
        await stage.compile_for(tenant, constraint, model)


async def late(gaps: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        gaps.append(time.perf_counter() - began - 0.01)


def quantiles(values: list[float]) -> list[float]:
    found = sorted(1000 * value for value in values)
    return [found[len(found) // 2], found[int(len(found) * 0.95)], found[-1]]


def small(name: str) -> Constraint:
    return Constraint("json_schema", {"properties": {"title": {"type": "string"}, name: {"type": "integer"}}})


def large(number: int) -> Constraint:
    names = {f"p{i}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{12}}{number}x{i}$"} for i in range(PATTERNS)}
    return Constraint("json_schema", {"type": "object", "properties": names})


def bundled() -> Any:
    """Return the bundled model as far as a constrainer asks it."""
    made = AutoTokenizer.from_pretrained(BUNDLED)
    size, ends = len(made), (made.eos_token_id,)
    return SimpleNamespace(name="bundled", version="1", vocab_size=size, eos_token_ids=ends, tokenizer=made)


if __name__ == "__main__":
    main()
