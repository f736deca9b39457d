"""Requests that come when they come, each on a connection of its own, with as little work as can be while they run.

Under overload the client competes with the gateway for the machine: bytes are only stamped as they arrive and read when
the level is over. What is left of the client's own lateness is measured and reported.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from sluicegate.gateway.commands.bench.load import BenchLoad, RequestTiming, error_of, text_of, tokens_of
from sluicegate.gateway.commands.reasons import reason

PATH = "/v1/chat/completions"


@dataclass(slots=True)
class TimedRequest:
    """One request: when it was due and sent, and what came when. Times are those of `time.perf_counter`."""

    due_s: float
    sent_s: float = 0.0
    ended_s: float = 0.0
    parts: list[tuple[float, bytes]] = field(default_factory=list)
    error: str | None = None

    @property
    def late_s(self) -> float:
        """Return how many seconds later than due the client sent it."""
        return self.sent_s - self.due_s


class _TimedStream(asyncio.Protocol):
    """Sends one request, and stamps what comes until the server closes the connection."""

    def __init__(self, arrived: TimedRequest, request: bytes, ended: asyncio.Future[None]) -> None:
        self._arrived = arrived
        self._request = request
        self._ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._arrived.parts.append((time.perf_counter(), data))

    def connection_lost(self, error: Exception | None) -> None:
        self._arrived.ended_s = time.perf_counter()
        if not self._ended.done():
            self._ended.set_result(None)


async def ask(load: BenchLoad, number: int, due_s: float) -> TimedRequest:
    """Send request `number` of `load` and wait for its end."""
    parts = urlsplit(load.url)
    arrived = TimedRequest(due_s, time.perf_counter())
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    request = _request(load, parts.netloc, load.bodies[number % len(load.bodies)])
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(load.timeout_s):
            transport, _ = await loop.create_connection(
                lambda: _TimedStream(arrived, request, ended), parts.hostname or "", port, ssl=secure
            )
            try:
                await ended
            finally:
                transport.close()
    except (OSError, TimeoutError) as error:
        arrived.error, arrived.ended_s = reason(error), time.perf_counter()
    return arrived


def _request(load: BenchLoad, host: str, body: Mapping[str, Any]) -> bytes:
    data = orjson.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
    lines = [f"POST {PATH} HTTP/1.1", f"host: {host}", "content-type: application/json", "connection: close"]
    lines += [f"authorization: Bearer {load.api_key}"] if load.api_key else []
    return "\r\n".join([*lines, f"content-length: {len(data)}", "", ""]).encode() + data


def shot_of(arrived: TimedRequest) -> RequestTiming:
    """Read what came: events are lines, between which the lines of the transfer encoding are passed over."""
    shot = RequestTiming(total_s=arrived.ended_s - arrived.due_s, error=arrived.error)
    status, rest, last = b"", b"", arrived.due_s
    for at_s, data in arrived.parts:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            status = status or line
            if not line.startswith(b"data: {"):
                continue
            event = orjson.loads(line[6:])
            shot.error = shot.error or error_of(event)
            shot.tokens = tokens_of(event) or shot.tokens
            if not text_of(event):
                continue
            if shot.first_s is None:
                shot.first_s = at_s - arrived.due_s
            else:
                shot.gaps_s.append(at_s - last)
            last = at_s
    code = status.split(b" ")[1:2]
    if shot.error is None and code != [b"200"]:
        shot.error = f"HTTP {code[0].decode()}" if code else "cut"
    return shot


def arrivals(rate: float, seconds: float) -> Iterator[float]:
    """Yield when requests come, in seconds from the beginning; the same for the same arguments."""
    dice, at_s = random.Random(f"{rate}/{seconds}"), 0.0
    while (at_s := at_s + dice.expovariate(rate)) < seconds:
        yield at_s
