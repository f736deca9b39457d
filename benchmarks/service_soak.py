"""A gateway under work and faults for minutes: what was lost?

    python -m benchmarks.service_soak --minutes 5

A real `sluicegate serve` in a process of its own, the bundled model, keys with limits. Clients ask for structured
answers, whole and streamed; some leave half way, some stop reading, some send rubbish. Every `--kill-s` seconds the
gateway is killed (-9) and started again. Counted as lost: an answer that breaks its schema, a stream that ends without
an end, a 5xx where the gateway was up and not full, usage of an answer that is not in the books, memory that grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.common import machine

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "total": {"type": "number"}},
    "required": ["name", "total"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
KEY = "soak-key"
RUBBISH = (b"{", b"\xff\xfe", b'{"a":' * 5000, b"[]", b'{"model": 1}', b"")


class Gateway:
    """A process that can be killed and started again on the same port and books."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.path = folder / "accounts.db"
        config = folder / "gateway.toml"
        config.write_text(
            f'[server]\nport = {self.port}\nlog_level = "error"\nstall_s = 5\n'
            f'[accounts]\npath = "{self.path}"\nflush_s = 0.5\n'
            f'[[keys]]\nid = "soak"\nkey = "{KEY}"\nlimits = {{ concurrency = 64 }}\n',
            "utf-8",
        )
        self._command = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(config)]
        self.process: subprocess.Popen[bytes] | None = None
        self.up = False

    async def start(self, session: aiohttp.ClientSession) -> None:
        self.process = await asyncio.to_thread(subprocess.Popen, self._command, stdout=subprocess.DEVNULL)
        while not self.up:
            await asyncio.sleep(0.1)
            try:
                async with session.get(f"http://127.0.0.1:{self.port}/readyz") as answer:
                    self.up = answer.status == 200
            except aiohttp.ClientError:
                continue

    def end(self, number: int) -> None:
        self.up = False
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(30)

    def rss_mb(self) -> float:
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6


class Soak:
    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.session = session
        self.did: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.tokens = 0
        """Of answers that came whole, as they said themselves."""
        self.ends_s = 0.0

    async def worker(self) -> None:
        acts = (self.whole, self.whole, self.stream, self.stream, self.leave, self.stall, self.rubbish)
        while time.monotonic() < self.ends_s:
            if not self.gateway.up:
                await asyncio.sleep(0.1)
                continue
            started, act = time.monotonic(), random.choice(acts)
            try:
                await act()
            except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
                if self.gateway.up and time.monotonic() - started < 30:
                    self.lost[f"{act.__name__}: {type(error).__name__}"] += 1
                self.did["cut by a kill"] += 1

    async def ask(self, **fields: Any) -> Any:
        text = f"Invoice {random.random()} from Harbour Tools, total {random.randint(1, 999)} EUR."
        body = {"model": "bundled", "messages": [{"role": "user", "content": text}], "max_tokens": 120, **fields}
        return self.session.post(self.url, json=body, headers={"authorization": f"Bearer {KEY}"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}/v1/chat/completions"

    async def whole(self) -> None:
        async with await self.ask(response_format=FORMAT) as answer:
            told = await answer.json()
            if self._refused(answer.status):
                return
            self._judge(told["choices"][0]["message"]["content"], told["choices"][0]["finish_reason"])
            self._used(told["usage"])

    async def stream(self) -> None:
        async with await self.ask(
            response_format=FORMAT, stream=True, stream_options={"include_usage": True}
        ) as answer:
            lines = [line.strip() async for line in answer.content]
            if self._refused(answer.status):
                return
            events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
            choices = [choice for event in events for choice in event["choices"]]
            if b"data: [DONE]" not in lines:
                raise aiohttp.ClientPayloadError("cut")
            reason = next((c["finish_reason"] for c in choices if c["finish_reason"]), None)
            self._judge("".join(c["delta"].get("content") or "" for c in choices), reason)
            self._used(events[-1]["usage"])

    async def leave(self) -> None:
        async with await self.ask(stream=True) as answer:
            await answer.content.readany()
        self.did["left half way"] += 1

    async def stall(self) -> None:
        """Open a stream and read nothing for a moment."""
        async with await self.ask(stream=True):
            await asyncio.sleep(random.random())
        self.did["stalled"] += 1

    async def rubbish(self) -> None:
        headers = {"authorization": f"Bearer {KEY}"}
        async with self.session.post(self.url, data=random.choice(RUBBISH), headers=headers) as answer:
            await answer.read()
            if answer.status != 400:
                self.lost[f"rubbish answered with {answer.status}"] += 1
        self.did["rubbish refused"] += 1

    def _refused(self, status: int) -> bool:
        if status == 200:
            return False
        self.did[f"refused with {status}"] += 1
        if status not in (429, 503):
            self.lost[f"status {status}"] += 1
        return True

    def _judge(self, text: str, reason: str | None) -> None:
        self.did["answers"] += 1
        if reason == "length":
            self.did["out of tokens"] += 1
            return
        try:
            value = json.loads(text)
            if reason != "stop" or set(value) != {"name", "total"}:
                raise ValueError
        except ValueError:
            self.lost["answer that breaks its schema"] += 1

    def _used(self, usage: dict[str, int]) -> None:
        self.tokens += usage["prompt_tokens"] + usage["completion_tokens"]


async def soak(minutes: float, kill_s: float, clients: int, folder: Path) -> dict[str, Any]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
        gateway = Gateway(folder)
        await gateway.start(session)
        running = Soak(gateway, session)
        running.ends_s = time.monotonic() + minutes * 60
        workers = [asyncio.create_task(running.worker()) for _ in range(clients)]
        memory: list[float] = []
        while time.monotonic() < running.ends_s:
            await asyncio.sleep(min(kill_s, max(0.1, running.ends_s - time.monotonic())))
            memory.append(gateway.rss_mb())
            if time.monotonic() < running.ends_s - 15:
                running.did["kills"] += 1
                await asyncio.to_thread(gateway.end, signal.SIGKILL)
                await gateway.start(session)
        await asyncio.gather(*workers)
        await asyncio.to_thread(gateway.end, signal.SIGTERM)
    booked = books(gateway.path)
    if booked < running.tokens:
        running.lost["tokens that are not in the books"] = running.tokens - booked
    told = {"tokens_answered": running.tokens, "tokens_booked": booked, "memory_mb": [round(m) for m in memory]}
    return {"did": dict(running.did), "lost": dict(running.lost), **told}


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
