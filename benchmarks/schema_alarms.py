"""Measure how often the detectors take a harmless schema for an attack, and whether they find an attack inside one.

    python -m benchmarks.schema_alarms [--data FILE.jsonl.gz] [--attacks FILE.jsonl.gz ...]

`FILE` has one JSON object a line with `schema` (MaskBench's form) or with `text` and `label` (that of `redteam`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import common
from sluicegate.plugins import Caller, Constraint, Registry, ScreenResult, texts_of
from sluicegate.plugins.testing import make_request
from sluicegate.safety.detection import register


def main(argv: Sequence[str] | None = None) -> None:
    parser = common.parser(__doc__, "maskbench.jsonl.gz", 1_000, "schemas and attacks")
    parser.add_argument("--attacks", type=Path, nargs="*", default=[], help="files of labelled texts")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    chance, most = random.Random(asked.seed), asked.limit or None
    schemas = [row["schema"] for row in common.records(asked.data, fields=("schema",))]
    chance.shuffle(schemas)
    read = [row for path in asked.attacks for row in common.records(path, fields=("text", "label"))]
    attacks = [row["text"] for row in read if is_attack(row)]
    chance.shuffle(attacks)
    registry = Registry()
    register(registry)
    found: dict[str, dict[str, float]] = {}
    for name in ("injection", "harm"):
        rail = registry.build("screen", name, {})
        found[name] = summary([judged(rail, schema) for schema in schemas[:most]])
        if attacks and name == "injection":
            planted = [plant(chance.choice(schemas), text) for text in attacks[:most]]
            found[f"{name}, attacks in a description"] = summary([judged(rail, schema) for schema in planted])
    for name, row in found.items():
        print(f"{name}: {row['refused']} of {row['schemas']} refused; p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms")
    common.report(asked, found)


def is_attack(row: Any) -> bool:
    return str(row.get("label")).lower() in ("injection", "jailbreak", "attack", "harmful")


def plant(schema: Any, text: str) -> Any:
    return {"type": "object", "properties": {"value": schema, "note": {"type": "string", "description": text}}}


def judged(rail: Any, schema: Any) -> tuple[ScreenResult, float]:
    request = make_request(constraint=Constraint("json_schema", schema))
    began = time.perf_counter()
    result: ScreenResult = rail.screen_now(request, texts_of(request), Caller())
    return result, time.perf_counter() - began


def summary(found: Sequence[tuple[ScreenResult, float]]) -> dict[str, float]:
    refused = sum(result.action != "pass" for result, _ in found)
    took = sorted(seconds for _, seconds in found)
    p50, p99 = (round(took[len(took) * share // 100] * 1e3, 2) for share in (50, 99))
    return {"schemas": len(found), "refused": refused, "p50_ms": p50, "p99_ms": p99}


if __name__ == "__main__":
    main()
