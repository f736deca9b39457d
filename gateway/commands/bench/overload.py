"""Offer a gateway more than it can answer: open arrivals at multiples of its capacity, and batch lines behind them.

Callers of a closed loop wait for their answers before they ask again, and so never overload anything. Here requests
come as a Poisson process, whatever becomes of the ones before (Schroeder et al., "Open Versus Closed", NSDI 2006).

On one machine the client takes CPU time that the gateway would need, the more the more it offers. So each level says
how much either took, and how many answers in time a second of the gateway's own CPU time gave.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from sluicegate.gateway.commands.bench.arrivals import TimedRequest, arrivals, ask, shot_of
from sluicegate.gateway.commands.bench.load import BenchLoad, kept, spread

SHED = "HTTP 503"
POLL_S = 0.2
PROCESS_CPU = "process_cpu_seconds_total "
BATCH_WAIT_S = 600.0
"""How long to wait for the lines of a batch once there is no other load."""


@dataclass(frozen=True, slots=True)
class OverloadLevel:
    """What became of the requests that came at one pace. Rates are a second, of the time in which requests came."""

    factor: float
    """Offered load relative to the measured capacity."""
    seconds: float
    offered: int
    shed: int
    failed: int
    good: int
    """Answers that met both objectives."""
    first_s: Mapping[str, float]
    """Seconds to the first text of requests that were answered."""
    lines: int
    """Lines of the batch that ended meanwhile."""
    late_s: float
    """By how many seconds the client itself sent requests late, at the 99th percentile."""
    late: int
    """Complete answers that missed an objective."""
    refused_s: Mapping[str, float]
    """Seconds until shed requests were refused."""
    cpu_s: float | None
    """CPU time of the gateway's process; None where its `/metrics` does not report it."""
    client_cpu_s: float

    @property
    def goodput_per_s(self) -> float:
        return self.good / self.seconds

    @property
    def goodput_per_cpu_s(self) -> float | None:
        return self.good / self.cpu_s if self.cpu_s else None


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
        levels = [await _level(client, load, batch, factor, capacity_per_s, seconds) for factor in factors]
        return levels, await batch.end() if batch is not None else None


async def _level(
    client: httpx.AsyncClient,
    load: BenchLoad,
    batch: BenchBatch | None,
    factor: float,
    capacity_per_s: float,
    seconds: float,
) -> OverloadLevel:
    before = await batch.completed() if batch is not None else 0
    cpu_before_s, own_before_s = await _cpu_s(client, load), time.process_time()
    tasks: list[asyncio.Task[TimedRequest]] = []
    began = time.perf_counter()
    for number, at_s in enumerate(arrivals(factor * capacity_per_s, seconds)):
        await asyncio.sleep(max(0.0, began + at_s - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(load, number, began + at_s)))
    took_s = max(seconds, time.perf_counter() - began)  # a client without CPU to spare offers less than it was to
    lines = await batch.completed() - before if batch is not None else 0
    found, own_s, cpu_s = await asyncio.gather(*tasks), time.process_time() - own_before_s, await _cpu_s(client, load)
    took_cpu_s = None if cpu_s is None or cpu_before_s is None else cpu_s - cpu_before_s
    return _summed(load, factor, took_s, found, lines, (took_cpu_s, own_s))


async def _cpu_s(client: httpx.AsyncClient, load: BenchLoad) -> float | None:
    """Return the CPU seconds that the gateway's process has taken so far; None where it does not report them."""
    try:
        answer = await client.get(f"{load.url}/metrics", headers=_heads(load))
    except httpx.HTTPError:
        return None
    lines = answer.text.splitlines() if answer.status_code == 200 else []
    return next((float(line[len(PROCESS_CPU) :]) for line in lines if line.startswith(PROCESS_CPU)), None)


def _summed(
    load: BenchLoad,
    factor: float,
    seconds: float,
    found: Sequence[TimedRequest],
    lines: int,
    cpu_s: tuple[float | None, float],
) -> OverloadLevel:
    """Summarise what came of the requests of one level. `cpu_s`: CPU seconds of the gateway, and of this process."""
    shots = [shot_of(arrived) for arrived in found]
    answered = [shot for shot in shots if shot.error is None]
    refused = [shot for shot in shots if shot.error == SHED]
    good = sum(kept(load, shot) for shot in answered)
    return OverloadLevel(
        factor=factor,
        seconds=seconds,
        offered=len(shots),
        shed=len(refused),
        failed=len(shots) - len(answered) - len(refused),
        good=good,
        first_s=spread(shot.first_s for shot in answered if shot.first_s is not None),
        lines=lines,
        late_s=spread(arrived.late_s for arrived in found).get("p99", 0.0),
        late=len(answered) - good,
        refused_s=spread(shot.total_s for shot in refused),
        cpu_s=cpu_s[0],
        client_cpu_s=cpu_s[1],
    )


HEADINGS = (
    *("offered", "requests", "shed", "failed", "late", "goodput/s", "of peak", "first p50", "first p99"),
    *("of objective", "refused p50", "lines", "gateway CPU", "good/CPU s", "of peak", "client CPU", "client late"),
)


def overload_table(levels: Sequence[OverloadLevel], batch: BatchEnd | None, capacity_per_s: float, slo_s: float) -> str:
    """Return the levels as a table of text. `slo_s` is the objective for the first text, in seconds."""
    peak = max(level.goodput_per_s for level in levels) or 1.0
    by_cpu = max(level.goodput_per_cpu_s or 0.0 for level in levels)
    rows = [HEADINGS, *(_row(level, slo_s, peak, by_cpu) for level in levels)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"capacity {capacity_per_s:.1f} requests/s; first text within {slo_s:g} s"]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if batch is not None:
        lines.append(f"batch: {batch.completed} of {batch.lines} lines answered, the last {batch.after_s:.1f} s after")
    return "\n".join(lines)


def _row(level: OverloadLevel, slo_s: float, peak: float, by_cpu: float) -> tuple[str, ...]:
    """Return the cells of one level. `peak`, `by_cpu`: over all levels, the most answers in time per second, and per
    second of the gateway's CPU time."""
    p50, p99 = level.first_s.get("p50", 0.0), level.first_s.get("p99", 0.0)
    per_cpu_s = level.goodput_per_cpu_s
    return (
        *(f"{level.factor:g}x", str(level.offered), str(level.shed), str(level.failed), str(level.late)),
        *(f"{level.goodput_per_s:.1f}", f"{level.goodput_per_s / peak:.0%}"),
        *(f"{p50 * 1e3:.0f} ms", f"{p99 * 1e3:.0f} ms", f"{p99 / slo_s:.2f}"),
        *(f"{level.refused_s.get('p50', 0.0) * 1e3:.0f} ms", str(level.lines)),
        *("-" if level.cpu_s is None else f"{level.cpu_s:.1f} s", "-" if per_cpu_s is None else f"{per_cpu_s:.1f}"),
        "-" if per_cpu_s is None or not by_cpu else f"{per_cpu_s / by_cpu:.0%}",
        *(f"{level.client_cpu_s:.1f} s", f"{level.late_s * 1e3:.0f} ms"),
    )


class BenchBatch:
    """Lines that a gateway answers behind everybody else."""

    def __init__(self, client: httpx.AsyncClient, load: BenchLoad, number: str) -> None:
        self._client = client
        self._load = load
        self._number = number

    @classmethod
    async def begin(cls, client: httpx.AsyncClient, load: BenchLoad, lines: int) -> BenchBatch:
        """Upload the lines and begin a batch of them. Raises `httpx.HTTPError`."""
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
        answer = await self._client.request(
            method, f"{self._load.url}/v1/{path}", headers=_heads(self._load), **content
        )
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


def _heads(load: BenchLoad) -> dict[str, str]:
    return {"authorization": f"Bearer {load.api_key}"} if load.api_key else {}


def _body(load: BenchLoad, at: int) -> Mapping[str, Any]:
    return load.bodies[at % len(load.bodies)]
