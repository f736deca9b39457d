"""The well-behaved of `benchmarks.neighbours`: callers at a steady rate, and a prober of `/healthz`."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

GOOD, BAD = "well-behaved", "hostile"
"""Ids of the keys, and the keys."""
TEXTS = ("My name is Ada Lovelace and I am 36.", "Order 7 apples for Bob, please.", "What is the capital of Norway?")
PROBE_S = 0.05
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "count": {"type": "integer"}},
    "required": ["name", "count"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "found", "schema": SCHEMA}}


async def well_behaved(url: str, rate: float, seconds: float) -> dict[str, float]:
    """Send the requests of well-behaved callers. Each begins when its time has come, whether those before have ended or
    not; no cache answers."""
    callers = Callers(url, TEXTS)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60), headers=_key()) as session:
        began, tasks = time.monotonic(), []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(callers.ask(session, number)))
        await asyncio.gather(*tasks)
    return {**_quantiles("first", callers.first_s), **_quantiles("whole", callers.whole_s), "failed": callers.failed}


class Callers:
    def __init__(self, url: str, texts: Sequence[str]) -> None:
        self._url = url
        self._texts = itertools.cycle(texts)
        self.first_s: list[float] = []
        self.whole_s: list[float] = []
        self.failed = 0.0

    async def ask(self, session: aiohttp.ClientSession, number: int) -> None:
        body: dict[str, Any] = {
            "model": "bundled",
            "messages": [{"role": "user", "content": next(self._texts)}],
            "sluicegate": {"cache": False},
            "max_tokens": 24,
            "stream": True,
        }
        if number % 2:
            body["response_format"] = FORMAT
        began, first_s = time.perf_counter(), None
        try:
            async with session.post(f"{self._url}/v1/chat/completions", json=body) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if first_s is None and _text_of(line):
                        first_s = time.perf_counter() - began
        except (aiohttp.ClientError, TimeoutError, ValueError):
            self.failed += 1
            return
        self.whole_s.append(time.perf_counter() - began)
        self.first_s.append(first_s or self.whole_s[-1])


async def probe(url: str, seconds: float) -> dict[str, float]:
    """Ask `/healthz` again and again, each time when it is due, or at once where the one before took longer."""
    took: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
        began = time.monotonic()
        for number in range(int(seconds / PROBE_S)):
            await asyncio.sleep(max(0.0, began + number * PROBE_S - time.monotonic()))
            if time.monotonic() > began + seconds:
                break
            asked = time.perf_counter()
            async with session.get(f"{url}/healthz") as answer:
                await answer.read()
            took.append(time.perf_counter() - asked)
    return {**_quantiles("health", took), "health_worst_ms": 1e3 * max(took), "health_probes": float(len(took))}


def _key() -> dict[str, str]:
    return {"authorization": f"Bearer {GOOD}"}


def _text_of(line: bytes) -> str:
    if not line.startswith(b"data: {"):
        return ""
    choices = json.loads(line[6:]).get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("content") or ""


def _quantiles(name: str, found: list[float]) -> dict[str, float]:
    ordered = sorted(found) or [float("inf")]
    parts = {f"{name}_p50_ms": 0.5, f"{name}_p99_ms": 0.99}
    return {key: 1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * part))] for key, part in parts.items()}
