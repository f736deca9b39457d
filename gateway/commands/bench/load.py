"""Streamed chat completions, a fixed number at a time, timed at the client's edge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from sluicegate.gateway.commands.reasons import FAULTS, reason

OnDone = Callable[[int, int], None]
"""Called with (finished, total) requests of a level."""


@dataclass(frozen=True, slots=True)
class BenchLoad:
    """What is asked. `bodies`: the fields of each request in turn, `model` and `messages` among them."""

    url: str
    bodies: tuple[Mapping[str, Any], ...]
    api_key: str | None = None
    timeout_s: float = 120.0
    slo_first_s: float = 1.0
    slo_token_s: float = 0.1


@dataclass(slots=True)
class RequestTiming:
    """One request. Seconds from its sending; `gaps_s` between two texts."""

    first_s: float | None = None
    total_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    tokens: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """What one number of callers at once saw."""

    concurrency: int
    requests: int
    failed: int
    wall_s: float
    first_s: Mapping[str, float]
    gap_s: Mapping[str, float]
    total_s: Mapping[str, float]
    tokens_per_s: float
    requests_per_s: float
    goodput: float
    """Share of requests that met both objectives."""
    errors: Mapping[str, int]


async def measure(load: BenchLoad, concurrency: int, requests: int, on_done: OnDone | None = None) -> LoadLevel:
    """Send `requests` requests by `concurrency` callers, each of whom asks again as soon as it has its answer."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(timeout=load.timeout_s, limits=limits, trust_env=False) as client:
        waiting = iter(range(requests))
        shots: list[RequestTiming] = []
        began = time.perf_counter()

        async def caller() -> None:
            for number in waiting:
                shots.append(await _shot(client, load, load.bodies[number % len(load.bodies)]))
                if on_done is not None:
                    on_done(len(shots), requests)

        await asyncio.gather(*(caller() for _ in range(concurrency)))
        return _level(load, concurrency, shots, time.perf_counter() - began)


async def _shot(client: httpx.AsyncClient, load: BenchLoad, body: Mapping[str, Any]) -> RequestTiming:
    shot, began = RequestTiming(), time.perf_counter()
    last = began
    heads = {"authorization": f"Bearer {load.api_key}"} if load.api_key else {}
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with client.stream("POST", f"{load.url}/v1/chat/completions", json=asked, headers=heads) as answer:
            if answer.status_code != 200:
                shot.error = f"HTTP {answer.status_code}"
            async for line in answer.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                now, event = time.perf_counter(), orjson.loads(line[6:])
                shot.error = shot.error or error_of(event)
                shot.tokens = tokens_of(event) or shot.tokens
                if not text_of(event):
                    continue
                if shot.first_s is None:
                    shot.first_s = now - began
                else:
                    shot.gaps_s.append(now - last)
                last = now
    except FAULTS as error:
        shot.error = reason(error)
    shot.total_s = time.perf_counter() - began
    return shot


def text_of(event: Mapping[str, Any]) -> bool:
    return any(choice.get("delta", {}).get("content") for choice in event.get("choices", ()))


def tokens_of(event: Mapping[str, Any]) -> int:
    return int((event.get("usage") or {}).get("completion_tokens", 0))


def error_of(event: Mapping[str, Any]) -> str | None:
    return str(event["error"].get("code") or "error") if "error" in event else None


def _level(load: BenchLoad, concurrency: int, shots: list[RequestTiming], wall_s: float) -> LoadLevel:
    good = [shot for shot in shots if shot.error is None]
    errors: dict[str, int] = {}
    for shot in shots:
        if shot.error is not None:
            errors[shot.error] = errors.get(shot.error, 0) + 1
    return LoadLevel(
        concurrency=concurrency,
        requests=len(shots),
        failed=len(shots) - len(good),
        wall_s=wall_s,
        first_s=spread(shot.first_s for shot in good if shot.first_s is not None),
        gap_s=spread(gap for shot in good for gap in shot.gaps_s),
        total_s=spread(shot.total_s for shot in good),
        tokens_per_s=sum(shot.tokens for shot in good) / wall_s,
        requests_per_s=len(good) / wall_s,
        goodput=sum(kept(load, shot) for shot in good) / max(1, len(shots)),
        errors=errors,
    )


def kept(load: BenchLoad, shot: RequestTiming) -> bool:
    """Return whether an answer kept both objectives."""
    per_token = sum(shot.gaps_s) / max(1, shot.tokens - 1)
    return (shot.first_s or 0.0) <= load.slo_first_s and per_token <= load.slo_token_s


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return p50, p90 and p99 by the nearest rank; empty for no values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share}": ordered[max(0, -(-share * len(ordered) // 100) - 1)] for share in (50, 90, 99)}
