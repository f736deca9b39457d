"""How often the detectors take an honest schema for an attack, and whether they find an attack inside of one.

    python -m benchmarks.schema_alarms --schemas FILE.jsonl.gz [--attacks FILE.jsonl.gz ...]

`FILE` has one JSON object a line with `schema` (MaskBench's form) or with `text` and `label` (that of `redteam`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sluicegate.plugins import Caller, Constraint, Registry, ScreenResult, texts_of
from sluicegate.plugins.testing import make_request
from sluicegate.safety.detection import register


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, required=True)
    parser.add_argument("--attacks", type=Path, nargs="*", default=[])
    parser.add_argument("--limit", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    chance = random.Random(asked.seed)
    schemas = [row["schema"] for row in rows(asked.schemas)]
    chance.shuffle(schemas)
    attacks = [row["text"] for path in asked.attacks for row in rows(path) if is_attack(row)]
    chance.shuffle(attacks)
    registry = Registry()
    register(registry)
    for name in ("injection", "harm"):
        rail = registry.build("screen", name, {})
        print(name, "honest:", told([judged(rail, schema) for schema in schemas[: asked.limit]]))
        if attacks and name == "injection":
            planted = [plant(chance.choice(schemas), text) for text in attacks[: asked.limit]]
            print(name, "attacks in a description:", told([judged(rail, schema) for schema in planted]))


def rows(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def is_attack(row: Any) -> bool:
    return str(row.get("label")).lower() in ("injection", "jailbreak", "attack", "harmful")


def plant(schema: Any, text: str) -> Any:
    return {"type": "object", "properties": {"value": schema, "note": {"type": "string", "description": text}}}


def judged(rail: Any, schema: Any) -> tuple[ScreenResult, float]:
    request = make_request(constraint=Constraint("json_schema", schema))
    began = time.perf_counter()
    result: ScreenResult = rail.screen_now(request, texts_of(request), Caller())
    return result, time.perf_counter() - began


def told(found: Sequence[tuple[ScreenResult, float]]) -> str:
    refused = sum(result.action != "pass" for result, _ in found)
    took = sorted(seconds for _, seconds in found)
    share = f"{refused} of {len(found)} refused ({refused / len(found):.2%})"
    return f"{share}; p50 {took[len(took) // 2] * 1e3:.2f} ms, p99 {took[len(took) * 99 // 100] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
