"""Offer a gateway more than it can answer: open arrivals at multiples of its capacity, and batch lines behind them.

Callers of a closed loop wait for their answers before they ask again, and so never overload anything. Here requests
come as a Poisson process, whatever becomes of the ones before (Schroeder et al., "Open Versus Closed", NSDI 2006).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from sluicegate.gateway.commands.bench.arrivals import Arrived, arrivals, ask, shot_of
from sluicegate.gateway.commands.bench.load import BenchLoad, kept, spread

SHED = "HTTP 503"
POLL_S = 0.2
BATCH_WAIT_S = 600.0
"""How long the lines of a batch are waited for once nobody else asks."""


@dataclass(frozen=True, slots=True)
class OverloadLevel:
    """What became of the requests that came at one pace. Rates are a second, of the time in which requests came."""

    factor: float
    """Of the capacity that was measured."""
    seconds: float
    offered: int
    shed: int
    failed: int
    good: int
    """Answers that kept both objectives."""
    first_s: Mapping[str, float]
    """Of requests that were answered."""
    lines: int
    """BenchBatch lines that ended meanwhile."""
    late_s: float
    """How much later than due the client itself sent a request, at the 99th percentile."""

    @property
    def goodput_per_s(self) -> float:
        return self.good / self.seconds


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """What became of the batch. `after_s`: from the end of the last level."""

    lines: int
    completed: int
    after_s: float


async def overload(
    load: BenchLoad, capacity_per_s: float, factors: Sequence[float], seconds: float, lines: int
) -> tuple[list[OverloadLevel], BatchEnd | None]:
    """Offer `capacity_per_s` times each factor for `seconds`, one level after the other, with a batch of `lines`
    behind them (0: none). Raises `httpx.HTTPError` where the batch cannot be handed in."""
    async with httpx.AsyncClient(timeout=load.timeout_s, trust_env=False) as client:
        batch = await BenchBatch.begin(client, load, lines) if lines else None
        levels = [await _level(load, batch, factor, capacity_per_s, seconds) for factor in factors]
        return levels, await batch.end() if batch is not None else None


async def _level(
    load: BenchLoad, batch: BenchBatch | None, factor: float, capacity_per_s: float, seconds: float
) -> OverloadLevel:
    before = await batch.completed() if batch is not None else 0
    tasks: list[asyncio.Task[Arrived]] = []
    began = time.perf_counter()
    for number, at_s in enumerate(arrivals(factor * capacity_per_s, seconds)):
        await asyncio.sleep(max(0.0, began + at_s - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(load, number, began + at_s)))
    took_s = max(seconds, time.perf_counter() - began)  # a client without CPU to spare offers less than it was to
    lines = await batch.completed() - before if batch is not None else 0
    return _summed(load, factor, took_s, await asyncio.gather(*tasks), lines)


def _summed(load: BenchLoad, factor: float, seconds: float, found: Sequence[Arrived], lines: int) -> OverloadLevel:
    shots = [shot_of(arrived) for arrived in found]
    answered = [shot for shot in shots if shot.error is None]
    shed = sum(shot.error == SHED for shot in shots)
    return OverloadLevel(
        factor=factor,
        seconds=seconds,
        offered=len(shots),
        shed=shed,
        failed=len(shots) - len(answered) - shed,
        good=sum(kept(load, shot) for shot in answered),
        first_s=spread(shot.first_s for shot in answered if shot.first_s is not None),
        lines=lines,
        late_s=spread(arrived.late_s for arrived in found).get("p99", 0.0),
    )


def overload_table(levels: Sequence[OverloadLevel], batch: BatchEnd | None, capacity_per_s: float, slo_s: float) -> str:
    """`slo_s`: the objective for the first text."""
    peak = max(level.goodput_per_s for level in levels) or 1.0
    lines = [
        f"capacity {capacity_per_s:.1f} requests/s; first text within {slo_s:g} s",
        "offered  requests   shed  failed  goodput/s  of peak  first p50  first p99  of objective  lines  client late",
    ]
    for level in levels:
        p50, p99 = level.first_s.get("p50", 0.0), level.first_s.get("p99", 0.0)
        cells = [
            f"{level.factor:>6g}x  {level.offered:>8}  {level.shed:>5}  {level.failed:>6}",
            f"{level.goodput_per_s:>9.1f}  {level.goodput_per_s / peak:>7.0%}",
            f"{p50 * 1e3:>6.0f} ms  {p99 * 1e3:>6.0f} ms  {p99 / slo_s:>12.2f}",
            f"{level.lines:>5}  {level.late_s * 1e3:>8.0f} ms",
        ]
        lines.append("  ".join(cells))
    if batch is not None:
        lines.append(f"batch: {batch.completed} of {batch.lines} lines answered, the last {batch.after_s:.1f} s after")
    return "\n".join(lines)


class BenchBatch:
    """Lines that a gateway answers behind everybody else."""

    def __init__(self, client: httpx.AsyncClient, load: BenchLoad, number: str) -> None:
        self._client = client
        self._load = load
        self._number = number

    @classmethod
    async def begin(cls, client: httpx.AsyncClient, load: BenchLoad, lines: int) -> BenchBatch:
        """Raises `httpx.HTTPError`."""
        text = "\n".join(
            json.dumps({"custom_id": str(at), "method": "POST", "url": "/v1/chat/completions", "body": _body(load, at)})
            for at in range(lines)
        )
        made = cls(client, load, "")
        sent = await made._call("POST", "files", data={"purpose": "batch"}, files={"file": ("lines.jsonl", text)})
        asked = {"input_file_id": sent["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        made._number = (await made._call("POST", "batches", json=asked))["id"]
        return made

    async def completed(self) -> int:
        return int((await self._state())["request_counts"]["completed"])

    async def end(self) -> BatchEnd:
        """Wait for its last line."""
        began = time.perf_counter()
        while True:
            state, after_s = await self._state(), time.perf_counter() - began
            over = state["status"] in ("completed", "failed", "expired", "cancelled")
            if over or after_s > BATCH_WAIT_S:
                counts = state["request_counts"]
                return BatchEnd(int(counts["total"]), int(counts["completed"]), after_s)
            await asyncio.sleep(POLL_S)

    async def _state(self) -> dict[str, Any]:
        return await self._call("GET", f"batches/{self._number}")

    async def _call(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        key = self._load.api_key
        heads = {"authorization": f"Bearer {key}"} if key else {}
        answer = await self._client.request(method, f"{self._load.url}/v1/{path}", headers=heads, **content)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


def _body(load: BenchLoad, at: int) -> Mapping[str, Any]:
    return load.bodies[at % len(load.bodies)]
