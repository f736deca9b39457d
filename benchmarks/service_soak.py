"""Run a gateway under load and faults for minutes, and report what was lost.

    python -m benchmarks.service_soak --minutes 5

A real `sluicegate serve` in a process of its own: the bundled model and one with a poisoned token, a key with limits,
batches, a plug-in that raises, the cache in Redis if `redis-server` is installed. Clients ask for structured answers,
whole and streamed, some repeatedly; some disconnect, some stop reading, some send invalid requests or ones that break a
rail or the model. Every `--kill-s` seconds the gateway is killed (-9) and restarted; half way between, Redis is, for
ten seconds. With `--hostile` a hostile tenant and a hostile server behind a model attack in every second period of
`--stretch-s`; the waits of the other clients are reported for quiet and hostile periods.

Counted as lost: an answer that violates its schema, a stream without an end, a 5xx without a fault, a line of a batch
that is missing or there twice, an answer whose usage was not recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.common import machine, parser, report
from benchmarks.soak_clients import Soak
from benchmarks.soak_gateway import REDIS, Gateway
from benchmarks.soak_hostile import HOSTILE, MOST_TOKENS, HostileTenant, HostileUpstream

REDIS_AWAY_S = 10.0


async def soak(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    upstream = HostileUpstream() if given.hostile else None
    if upstream is not None:
        await upstream.start()
    gateway = Gateway(folder, upstream.port if upstream is not None else None)
    gateway.start_redis()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
            await gateway.start(session)
            running = Soak(gateway, session)
            running.ends_s = time.monotonic() + given.minutes * 60
            work = [asyncio.create_task(running.worker()) for _ in range(given.clients)]
            work.append(asyncio.create_task(running.batches()))
            over = asyncio.Event()
            if given.limit:
                work.append(asyncio.create_task(enough(running, given.limit, over)))
            if given.hostile:
                work += [
                    asyncio.create_task(torment(running, gateway, session, given.stretch_s)),
                    asyncio.create_task(alive(running)),
                ]
            memory = await faults(running, gateway, session, given.kill_s, over)
            await asyncio.gather(*work)
            if status := await asyncio.to_thread(gateway.end, signal.SIGTERM):
                running.lost[f"exit status {status} after SIGTERM"] += 1
    finally:
        if upstream is not None:
            await upstream.close()
        gateway.kill_redis()
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.process.kill()
    rows = books(gateway.path)
    booked = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
    claimed = sum(row["completion_tokens"] for row in rows if row["key_id"] == HOSTILE)
    if claimed > (most := MOST_TOKENS * sum(n for did, n in running.did.items() if did.startswith(HOSTILE))):
        running.lost["tokens booked past max_tokens"] = claimed - most
    if booked < running.tokens:
        running.lost["tokens that are not in the books"] = running.tokens - booked
    counts = {"tokens_answered": running.tokens, "tokens_booked": booked, "memory_mb": [round(m) for m in memory]}
    return {"did": dict(running.did), "lost": dict(running.lost), **counts, "waits": running.waits.report()}


async def torment(running: Soak, gateway: Gateway, session: aiohttp.ClientSession, stretch_s: float) -> None:
    """Run two hostile callers at a time, in every second stretch."""
    tenant = HostileTenant(gateway.url, session, running.lost, running.did)
    while (left_s := running.ends_s - time.monotonic()) > 0:
        await asyncio.sleep(min(stretch_s, left_s))
        running.waits.hostile = True
        until_s = min(running.ends_s, time.monotonic() + stretch_s)
        await asyncio.gather(*(attacks(tenant, gateway, until_s) for _ in range(2)))
        running.waits.hostile = False


async def attacks(tenant: HostileTenant, gateway: Gateway, until_s: float) -> None:
    while time.monotonic() < until_s:
        if gateway.up:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                await tenant.act()
        await asyncio.sleep(0.2)


async def enough(running: Soak, limit: int, over: asyncio.Event) -> None:
    """End the minutes as soon as so many requests were made."""
    while time.monotonic() < running.ends_s:
        if sum(running.did.values()) >= limit:
            running.ends_s = time.monotonic()
            over.set()
        await asyncio.sleep(0.1)


async def alive(running: Soak) -> None:
    """Ask `/healthz` ten times a second, over a connection of its own."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
        while time.monotonic() < running.ends_s:
            began, starts = time.monotonic(), running.gateway.starts
            if running.gateway.up:
                with contextlib.suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                    async with session.get(f"{running.gateway.url}/healthz") as answer:
                        await answer.read()
                    if running.gateway.starts == starts:
                        running.waits.health(time.monotonic() - began)
            await asyncio.sleep(0.1)


async def faults(
    running: Soak, gateway: Gateway, session: aiohttp.ClientSession, kill_s: float, over: asyncio.Event
) -> list[float]:
    """Cause faults until the end. Return the resident memory of every minute and before each kill, in megabytes."""
    memory: list[float] = []
    while (left_s := running.ends_s - time.monotonic()) > 0:
        period = asyncio.create_task(passed(over, min(kill_s, left_s)))
        redis = asyncio.create_task(away(running, gateway, kill_s / 2))
        while not period.done():
            memory.append(gateway.rss_mb())
            await asyncio.wait((period,), timeout=60)
        redis.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await redis
        memory.append(gateway.rss_mb())
        if time.monotonic() < running.ends_s - 15:
            running.did["kills of the gateway"] += 1
            await asyncio.to_thread(gateway.end, signal.SIGKILL)
            await gateway.start(session)
    return memory


async def passed(over: asyncio.Event, seconds: float) -> None:
    """Return after so many seconds, or when the work is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()


async def away(running: Soak, gateway: Gateway, after_s: float) -> None:
    """Kill Redis after so many seconds; it comes back empty."""
    if REDIS is None:
        return
    await asyncio.sleep(after_s)
    running.did["kills of Redis"] += 1
    await asyncio.to_thread(gateway.kill_redis)
    try:
        await asyncio.sleep(REDIS_AWAY_S)
    finally:
        gateway.start_redis()


def books(path: Path) -> list[dict[str, Any]]:
    """Read the usage by key."""
    command = [
        sys.executable,
        "-m",
        "sluicegate.gateway.commands.cli",
        "keys",
        "usage",
        "--format",
        "json",
        "--by",
        "key_id",
    ]
    environ = {**os.environ, "SLUICEGATE_ACCOUNTS__PATH": str(path)}
    out = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    return list(json.loads(out))


def main() -> None:
    made = parser(__doc__, None, 0, "requests, after which the minutes are over")
    made.add_argument("--minutes", type=float, default=5)
    made.add_argument("--kill-s", type=float, default=45)
    made.add_argument("--clients", type=int, default=12)
    made.add_argument("--hostile", action="store_true", help="add a hostile tenant and a hostile upstream")
    made.add_argument("--stretch-s", type=float, default=60, help="how long they act, and rest")
    given = made.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soak(given, Path(folder)))
    for name, value in found.items():
        print(f"{name:16} {value}")
    print("lost: nothing" if not found["lost"] else f"lost: {found['lost']}")
    report(given, found)


if __name__ == "__main__":
    main()
