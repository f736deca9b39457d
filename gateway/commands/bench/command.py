"""`sluicegate bench URL`: what callers of a running gateway see, over a sweep of how many there are."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import httpx

from sluicegate.gateway.commands.arguments import cannot_read, count, count_or_none, positive
from sluicegate.gateway.commands.bench.load import BenchLoad, LoadLevel, measure
from sluicegate.gateway.commands.bench.overload import overload, overload_table
from sluicegate.gateway.commands.bench.plot import plot
from sluicegate.gateway.commands.progress import bar
from sluicegate.gateway.commands.reasons import FAULTS, reason
from sluicegate.plugins import ConfigurationError

KEY_ENV = "SLUICEGATE_API_KEY"
KEY = f"the environment's {KEY_ENV}"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}, "total": {"type": "number"}},
    "required": ["name", "city", "total"],
    "additionalProperties": False,
}
TOWNS = ("Aarhus", "Lisbon", "Tromsø", "Leiden", "Galway", "Graz", "Turku", "Bergen")


def define(bench: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench`."""
    bench.add_argument("url", nargs="?", default="http://127.0.0.1:8000", help="address of the gateway (%(default)s)")
    bench.add_argument("--model", help="model to ask (default: the first one served)")
    bench.add_argument("--concurrency", default="1,2,4,8", help="callers at once, one level each (%(default)s)")
    bench.add_argument("--requests", type=count, default=32, help="requests of each level (%(default)s)")
    bench.add_argument("--max-tokens", type=count, default=128, help="longest answer (%(default)s)")
    bench.add_argument("--free", action="store_true", help="free text instead of structured answers")
    bench.add_argument("--schema", type=Path, help="a JSON schema for the answers")
    bench.add_argument("--slo-first-s", type=positive, default=1.0, help="objective: first text (%(default)s)")
    bench.add_argument("--slo-token-s", type=positive, default=0.1, help="objective: each further token (%(default)s)")
    bench.add_argument("--overload", metavar="FACTORS", help="then offer so many times the capacity, like 0.5,1,2,4")
    bench.add_argument(
        "--capacity", type=positive, help="requests a second for --overload (default: as the sweep found)"
    )
    bench.add_argument(
        "--seconds", type=positive, default=15.0, help="length of each level of --overload (%(default)s)"
    )
    bench.add_argument("--batch-lines", type=count_or_none, default=0, help="a batch behind --overload (default: none)")
    bench.add_argument("--plot", type=Path, metavar="FILE", help="write the sweep as SVG")
    bench.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    bench.set_defaults(run=_bench)


def _bench(parsed: argparse.Namespace) -> int:
    key = os.environ.get(KEY_ENV)
    url = parsed.url.rstrip("/")
    model = parsed.model or _first_model(url, key)
    load = BenchLoad(url, _bodies(parsed, model), key, slo_first_s=parsed.slo_first_s, slo_token_s=parsed.slo_token_s)
    levels = asyncio.run(_sweep(load, _levels(parsed.concurrency), parsed.requests))
    print(_table(levels))
    if parsed.plot is not None:
        parsed.plot.write_text(plot(levels, f"{model} at {url}, {parsed.requests} requests a level"), "utf-8")
        print(f"plotted to {parsed.plot}")
    found: dict[str, Any] = {"model": model, "levels": [dataclasses.asdict(level) for level in levels]}
    if parsed.overload is not None:
        found |= _overload(parsed, load, levels)
    if parsed.json:
        print(json.dumps(found))
    return 1 if any(level.failed for level in levels) else 0


def _overload(parsed: argparse.Namespace, load: BenchLoad, levels: list[LoadLevel]) -> dict[str, Any]:
    """Print the sweep past the capacity that the levels before found, and return it as JSON."""
    capacity = parsed.capacity or max(level.requests_per_s for level in levels)
    factors = _numbers("--overload", parsed.overload)
    try:
        found, batch = asyncio.run(overload(load, capacity, factors, parsed.seconds, parsed.batch_lines))
    except FAULTS as error:
        raise ConfigurationError(f"the batch could not be handed in: {reason(error, KEY)}") from error
    print(overload_table(found, batch, capacity, parsed.slo_first_s))
    return {
        "capacity_per_s": capacity,
        "overload": [dataclasses.asdict(level) for level in found],
        "batch": dataclasses.asdict(batch) if batch is not None else None,
    }


async def _sweep(load: BenchLoad, levels: list[int], requests: int) -> list[LoadLevel]:
    await measure(load, 1, 2)  # compiles the schema, warms the connection
    found = []
    for concurrency in levels:
        found.append(await measure(load, concurrency, requests, bar(f"{concurrency} callers")))
    return found


def _numbers(option: str, text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigurationError(f"{option} {text!r} must look like 0.5,1,2,4") from error
    if not all(0 < number < math.inf for number in found):
        raise ConfigurationError(f"{option} must name numbers above 0")
    return found


def _levels(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigurationError(f"--concurrency {text!r} must look like 1,2,4,8") from error
    if not found or min(found) < 1:
        raise ConfigurationError("--concurrency must name numbers of at least 1")
    return found


def _first_model(url: str, key: str | None) -> str:
    try:
        answer = httpx.get(f"{url}/v1/models", headers={"authorization": f"Bearer {key}"} if key else {}, timeout=10)
        return str(answer.raise_for_status().json()["data"][0]["id"])
    except FAULTS as error:
        raise ConfigurationError(
            f"{url} names no model: {reason(error, KEY)}; its address is the first argument of `bench`"
        ) from error


def _bodies(parsed: argparse.Namespace, model: str) -> tuple[dict[str, Any], ...]:
    """Return the body of each request. Each prompt is another, so that no cache answers for the engine."""
    shape = {} if parsed.free else {"response_format": _format(parsed.schema)}
    return tuple(
        {
            "model": model,
            "messages": [{"role": "user", "content": _prompt(number)}],
            "max_tokens": parsed.max_tokens,
            "temperature": 0,
            "sluicegate": {"cache": False},
            **shape,
        }
        for number in range(parsed.requests)
    )


def _prompt(number: int) -> str:
    town = TOWNS[number % len(TOWNS)]
    return f"Order {1000 + number}: Clara Winther from {town} owes {17 + 3 * number}.50 EUR for {2 + number % 5} boxes."


def _format(path: Path | None) -> dict[str, Any]:
    try:
        schema = SCHEMA if path is None else json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise cannot_read(f"--schema {path}", error) from error
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _table(levels: list[LoadLevel]) -> str:
    lines = ["callers  requests  failed  tokens/s  first p50  first p99    gap p50    gap p99  whole p50  goodput"]
    for level in levels:
        cells = [level.first_s.get("p50"), level.first_s.get("p99"), level.gap_s.get("p50"), level.gap_s.get("p99")]
        times = "  ".join(_ms(value) for value in (*cells, level.total_s.get("p50")))
        head = f"{level.concurrency:>7}  {level.requests:>8}  {level.failed:>6}  {level.tokens_per_s:>8.1f}"
        lines.append(f"{head}  {times}  {level.goodput:>6.0%}")
        lines += [f"         {count} x {error}" for error, count in level.errors.items()]
    return "\n".join(lines)


def _ms(seconds: float | None) -> str:
    return "        -" if seconds is None else f"{seconds * 1e3:>6.1f} ms"
