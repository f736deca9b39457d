"""Check that every structured answer is valid, whatever the model: real schemas, random weights, the whole gateway.

    python -m benchmarks.validity --limit 300

Each schema that the compiler accepts is asked for once through the pipeline, sampled at temperature 1. An answer that
finishes is judged by an independent validator; one that does not must say `length`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs

from benchmarks import common
from benchmarks.random_model import save_random_model
from sluicegate.gateway import load
from sluicegate.gateway.compose import compose
from sluicegate.gateway.lifecycle import close, start
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Constraint, GrammarError, Message, Request, Sampling, ServiceError


async def measure(path: Path, limit: int, max_tokens: int) -> dict[str, Any]:
    """Count the outcomes (accepted, refused, finished, length, invalid, failed), and the refusals by error code."""
    records = common.records(path, limit, fields=("schema",))
    with tempfile.TemporaryDirectory() as folder:
        save_random_model(Path(folder))
        engine = {"models": [{"name": "random", "path": folder}]}
        settings = load(overrides={"pipeline": {"record": []}, "stages": {"generate": {"engine": engine}}})
        runtime = compose(settings, {})
        await start(runtime)
        if runtime.progress.failure is not None:
            raise runtime.progress.failure
        counts: Counter[str] = Counter()
        started = time.perf_counter()
        gate = asyncio.Semaphore(16)
        await asyncio.gather(*(_ask(runtime, gate, i, r["schema"], max_tokens, counts) for i, r in enumerate(records)))
        await close(runtime)
    return {"schemas": len(records), **counts, "seconds": round(time.perf_counter() - started, 1)}


async def _ask(
    runtime: Runtime, gate: asyncio.Semaphore, i: int, schema: Any, max_tokens: int, counts: Counter[str]
) -> None:
    request = Request(
        id=f"validity-{i}",
        model="random",
        messages=(Message("user", "x"),),
        sampling=Sampling(max_tokens=max_tokens, temperature=1.0, seed=i),
        constraint=Constraint("json_schema", schema),
        cache=False,
    )
    async with gate:
        try:
            exchange = await runtime.pipeline.open(request)
        except GrammarError as refusal:
            counts["refused"] += 1
            counts[f"refused: {refusal.code}"] += 1
            return
        counts["accepted"] += 1
        try:
            [answer] = await runtime.pipeline.collect(exchange)
        except ServiceError as failure:
            counts["failed"] += 1
            print(f"failed: schema {i}: {failure.message}")
            return
    if answer.finish_reason == "stop":
        counts["finished"] += 1
        counts["invalid"] += not _valid(schema, answer.text)
    else:
        counts[answer.finish_reason] += 1


def _valid(schema: Any, text: str) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(json.loads(text))


def main() -> None:
    made = common.parser(__doc__, "maskbench.jsonl.gz", 300, "schemas, from one fixed shuffle")
    made.add_argument("--max-tokens", type=int, default=400)
    arguments = made.parse_args()
    found = {"invalid": 0, **asyncio.run(measure(arguments.data, arguments.limit, arguments.max_tokens))}
    print(common.machine())
    for name, value in found.items():
        print(f"{name:32} {value}")
    common.report(arguments, found)


if __name__ == "__main__":
    main()
