"""A gateway under work and faults for minutes: what was lost?

    python -m benchmarks.service_soak --minutes 5

A real `sluicegate serve` in a process of its own: the bundled model and one with a poisoned token, a key with limits,
batches, a plug-in that throws, the cache in a Redis where `redis-server` is installed. Clients ask for structured
answers, whole and streamed, some of them again; some leave half way, some stop reading, some send rubbish, some send
what breaks a rail or the model. Every `--kill-s` seconds the gateway is killed (-9) and started again; half way
between, Redis is, for ten seconds.

Counted as lost: an answer that breaks its schema, a stream that ends without an end, a 5xx where nothing was broken, a
line of a batch that is missing or there twice, usage of an answer that is not in the books.
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

from benchmarks.common import machine
from benchmarks.soak_clients import Soak
from benchmarks.soak_place import REDIS, Gateway

REDIS_AWAY_S = 10.0


async def soak(minutes: float, kill_s: float, clients: int, folder: Path) -> dict[str, Any]:
    gateway = Gateway(folder)
    gateway.start_redis()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
            await gateway.start(session)
            running = Soak(gateway, session)
            running.ends_s = time.monotonic() + minutes * 60
            work = [asyncio.create_task(running.worker()) for _ in range(clients)]
            work.append(asyncio.create_task(running.batches()))
            memory = await faults(running, gateway, session, kill_s)
            await asyncio.gather(*work)
            if status := await asyncio.to_thread(gateway.end, signal.SIGTERM):
                running.lost[f"exit status {status} after SIGTERM"] += 1
    finally:
        gateway.kill_redis()
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.process.kill()
    booked = books(gateway.path)
    if booked < running.tokens:
        running.lost["tokens that are not in the books"] = running.tokens - booked
    told = {"tokens_answered": running.tokens, "tokens_booked": booked, "memory_mb": [round(m) for m in memory]}
    return {"did": dict(running.did), "lost": dict(running.lost), **told}


async def faults(running: Soak, gateway: Gateway, session: aiohttp.ClientSession, kill_s: float) -> list[float]:
    """Until the end; resident memory every minute and before each kill."""
    memory: list[float] = []
    while (left_s := running.ends_s - time.monotonic()) > 0:
        period = asyncio.create_task(asyncio.sleep(min(kill_s, left_s)))
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


async def away(running: Soak, gateway: Gateway, after_s: float) -> None:
    """Redis is killed after so long, and comes back empty."""
    if REDIS is None:
        return
    await asyncio.sleep(after_s)
    running.did["kills of Redis"] += 1
    await asyncio.to_thread(gateway.kill_redis)
    try:
        await asyncio.sleep(REDIS_AWAY_S)
    finally:
        gateway.start_redis()


def books(path: Path) -> int:
    command = [sys.executable, "-m", "gateway.cli", "keys", "usage", "--format", "json", "--by", "key_id"]
    environ = {**os.environ, "SLUICEGATE_ACCOUNTS__PATH": str(path)}
    rows = json.loads(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
    return sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--kill-s", type=float, default=45)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    given = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soak(given.minutes, given.kill_s, given.clients, Path(folder)))
    for name, value in found.items():
        print(f"{name:16} {value}")
    print("lost: nothing" if not found["lost"] else f"lost: {found['lost']}")
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
