"""`sluicegate redteam FILE`: attack and harmless texts against a running gateway, and what it made of them.

A row is a JSON object with `text` and `label`; `category` is reported apart. Rows that were refused, that ended with
`content_filter`, or that wait for a person count as caught. Texts go as the only message of a one-token chat request,
or, with `--via moderations`, are only judged. What could not be asked counts as neither, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import reprlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from sluicegate.gateway.commands.arguments import count, count_or_none, numbered_lines
from sluicegate.gateway.commands.reasons import FAULTS, reason, words_of
from sluicegate.gateway.commands.statistics import share
from sluicegate.plugins import ConfigurationError

HARMLESS = ("benign", "safe", "clean", "near_miss", "harmless", "0", "false")
HARMFUL = ("attack", "unsafe", "leak", "toxic", "harmful", "1", "true")
CAUGHT_CODES = ("content_filter", "pending_review")
PASSED_CODES = ("context_length_exceeded",)
"""Error codes of requests that passed the input rails and were refused for another reason."""
TRIES = 8
MOST_REPORTS = 10_000
"""Reports that are fetched from a gateway, the newest."""


@dataclass(frozen=True, slots=True)
class RedteamRow:
    text: str
    harmful: bool
    category: str


@dataclass(frozen=True, slots=True)
class Result:
    """`caught` None: it could not be asked, `error` says why."""

    row: RedteamRow
    caught: bool | None
    seconds: float
    error: str = ""


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `redteam`."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="JSON lines or .gz: text, label, category")
    parser.add_argument("--regressions", action="store_true", help="also all texts reported as false positives there")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway")
    parser.add_argument("--key", default=os.environ.get("SLUICEGATE_API_KEY", ""), help="API key ($SLUICEGATE_API_KEY)")
    parser.add_argument("--model", default="", help="model to ask (the first that is served)")
    parser.add_argument("--via", choices=("chat", "moderations"), default="chat")
    parser.add_argument("--limit", type=count_or_none, default=0, help="rows of each file (all)")
    parser.add_argument("--parallel", type=count, default=4, help="requests at the same time")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    rows = [row for path in parsed.files for row in rows_of(path, parsed.limit)]
    if not rows and not parsed.regressions:
        raise ConfigurationError("redteam needs at least one FILE with rows, or --regressions")
    results = asyncio.run(_attack(parsed, rows))
    report = summary(results)
    print(json.dumps(report) if parsed.json else table(report))
    for line in sorted({result.error for result in results if result.error}):
        print(f"sluicegate redteam: {line}", file=sys.stderr)
    return 1 if report["not_asked"] else 0


def rows_of(path: Path, limit: int = 0) -> Iterator[RedteamRow]:
    """Yield the rows of a file. Raises `ConfigurationError` that names the line. Rows with another label are left out;
    stderr says how many, and which is the first."""
    left_out: list[tuple[int, str]] = []
    for number, line in numbered_lines(path, limit):
        text, label, category = _fields(line, f"{path}, line {number}")
        if label in (*HARMLESS, *HARMFUL):
            yield RedteamRow(text, label in HARMFUL, category or path.name.removesuffix(".jsonl.gz"))
        else:
            left_out.append((number, label))
    if left_out:
        number, label = left_out[0]
        print(
            f"sluicegate: {path}: {len(left_out)} rows left out, the first in line {number}: label {label!r} "
            f"is neither harmful ({', '.join(HARMFUL)}) nor harmless ({', '.join(HARMLESS)})",
            file=sys.stderr,
        )


def _fields(line: str, where: str) -> tuple[str, str, str]:
    """Return text, label in lower case, and category of a row; "" for no category."""
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: expected an object with `text` and `label`, found no JSON") from error
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{where}: expected an object with `text` and `label`, found {type(tree).__name__}")
    label = tree.get("label")
    found: list[Any] = [tree.get("text"), str(label) if isinstance(label, int) else label, tree.get("category") or ""]
    for name, value in zip(("text", "label", "category"), found, strict=True):
        if not isinstance(value, str) or (name != "category" and not value.strip()):
            raise ConfigurationError(f"{where}: `{name}` is {reprlib.repr(value)}, expected a text")
    return found[0], found[1].lower(), found[2]


async def _attack(parsed: argparse.Namespace, rows: list[RedteamRow]) -> list[Result]:
    headers = {"authorization": f"Bearer {parsed.key}"} if parsed.key else {}
    async with httpx.AsyncClient(base_url=parsed.url, headers=headers, timeout=120, trust_env=False) as client:
        try:
            model = parsed.model or (await _got(client, "/v1/models"))["data"][0]["id"]
            if parsed.regressions:
                told = await _got(client, f"/v1/safety/false_positives?limit={MOST_REPORTS}")
                say_what_is_missing(told, parsed.url)
                rows = [*rows, *map(_reported, told["data"])]
        except FAULTS as error:
            raise ConfigurationError(f"no gateway answers at {parsed.url}: {reason(error)}") from error
        places = asyncio.Semaphore(max(1, parsed.parallel))
        asking = _judged if parsed.via == "moderations" else _chatted
        return list(await asyncio.gather(*(_one(client, places, asking, model, row) for row in rows)))


def say_what_is_missing(told: Mapping[str, Any], url: str) -> None:
    """Name the reports of a gateway that its list lacks."""
    if told.get("has_more"):
        print(f"{url} has more reports than the newest {MOST_REPORTS}, which were read", file=sys.stderr)
    if told.get("unreadable"):
        print(f"{url} cannot decrypt {told['unreadable']} reports, which are left out", file=sys.stderr)


def _reported(one: dict[str, Any]) -> RedteamRow:
    return RedteamRow(one["text"], one.get("kind") == "miss", f"reported {one['rail']}".strip())


async def _got(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    if answer.status_code != 200:
        raise ConfigurationError(f"{path} answered {words_of(answer)}")
    return answer.json()


async def _one(
    client: httpx.AsyncClient, places: asyncio.Semaphore, asking: Any, model: str, row: RedteamRow
) -> Result:
    async with places:
        for _ in range(TRIES):
            began = time.perf_counter()
            try:
                answer = await asking(client, model, row.text)
            except httpx.HTTPError as error:
                return Result(row, None, 0.0, reason(error))
            took = time.perf_counter() - began
            if answer.status_code not in (429, 503):
                break
            await asyncio.sleep(min(30.0, float(answer.headers.get("retry-after", 1))))
    return _read(row, answer, took)


async def _chatted(client: httpx.AsyncClient, model: str, text: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 1}
    return await client.post("/v1/chat/completions", json={**body, "sluicegate": {"cache": False}})


async def _judged(client: httpx.AsyncClient, model: str, text: str) -> httpx.Response:
    return await client.post("/v1/moderations", json={"model": model, "input": text})


def _read(row: RedteamRow, answer: httpx.Response, took: float) -> Result:
    try:
        body = answer.json()
    except ValueError:
        return Result(row, None, took, f"status {answer.status_code}, no JSON")
    if answer.status_code == 200 and "results" in body:
        return Result(row, bool(body["results"][0]["flagged"]), took)
    if answer.status_code == 200:
        return Result(row, body["choices"][0]["finish_reason"] == "content_filter", took)
    if body.get("error", {}).get("code") in CAUGHT_CODES:
        return Result(row, True, took)
    if body.get("error", {}).get("code") in PASSED_CODES:
        return Result(row, False, took)
    return Result(row, None, took, f"status {words_of(answer)}")


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Return shares with their 95 % intervals (Wilson 1927), and latency, over all and by category."""
    asked = [result for result in results if result.caught is not None]
    categories = sorted({(result.row.category, result.row.harmful) for result in asked})
    return {
        "recall": _share(result for result in asked if result.row.harmful),
        "false_positive_rate": _share(result for result in asked if not result.row.harmful),
        "not_asked": len(results) - len(asked),
        "latency_ms": _latency([result.seconds for result in asked]),
        "categories": [
            {
                "category": category,
                "kind": "attack" if harmful else "harmless",
                **_share(r for r in asked if (r.row.category, r.row.harmful) == (category, harmful)),
            }
            for category, harmful in categories
        ],
    }


def _share(results: Iterable[Result]) -> dict[str, Any]:
    caught = [bool(result.caught) for result in results]
    found = share(sum(caught), len(caught))
    if found is None:
        return {"rows": 0, "caught": 0, "share": None, "low": None, "high": None}
    edges = {"share": round(found.value, 4), "low": round(found.low, 4), "high": round(found.high, 4)}
    return {"rows": found.n, "caught": sum(caught), **edges}


def _latency(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {f"p{q}": round(ordered[min(len(ordered) - 1, len(ordered) * q // 100)] * 1e3, 1) for q in (50, 95, 99)}


def table(report: dict[str, Any]) -> str:
    lines = [f"{'category':36} {'kind':9} {'rows':>5} {'caught':>7} {'share':>8}   95 %"]
    rows = [*report["categories"], *_totals(report)]
    for row in rows:
        share = "-" if row["share"] is None else f"{row['share']:.1%}"
        between = "" if row["share"] is None else f"{row['low']:.1%} - {row['high']:.1%}"
        line = f"{row['category'][:36]:36} {row['kind']:9} {row['rows']:5} {row['caught']:7} {share:>8}   {between}"
        lines.append(line.rstrip())
    latency = ", ".join(f"{name} {value:g} ms" for name, value in report["latency_ms"].items())
    return "\n".join([*lines, f"latency {latency or '-'}; {report['not_asked']} could not be asked"])


def _totals(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"category": "all attacks: recall", "kind": "attack", **report["recall"]}
    yield {"category": "all harmless: false positives", "kind": "harmless", **report["false_positive_rate"]}
