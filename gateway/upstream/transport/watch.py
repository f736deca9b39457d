"""Probe the servers of a model periodically for health and load."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from sluicegate.gateway.upstream.dialects import SERVER_DIALECTS
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.load_report import MOST_BYTES, LoadReport, read_report
from sluicegate.gateway.upstream.transport.server import PROBES_TO_LEAVE, UpstreamServer
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate.upstream")
NO_METRICS = "none"


class ServerWatch:
    """One task for each server: a server that hangs holds up nobody else's probe."""

    def __init__(self, name: str, settings: UpstreamModelSettings, servers: Sequence[UpstreamServer]) -> None:
        dialect = SERVER_DIALECTS[settings.dialect]
        self._name = name
        self._servers = servers
        self._every_s = settings.probe_s
        self._health = settings.health or dialect.health
        self._metrics = "" if settings.metrics == NO_METRICS else settings.metrics or dialect.metrics
        self._names = dialect.names
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, headers: Callable[[], bytes]) -> None:
        """Start to watch all servers. `headers` returns them as they are now, since keys are renewed."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow(server, headers)) for server in self._servers]

    async def close(self) -> None:
        await end_tasks(self._tasks)

    async def _follow(self, server: UpstreamServer, headers: Callable[[], bytes]) -> None:
        while True:
            answers = await self._get(server, self._health, headers()) is not None
            if not answers and server.missed + 1 == PROBES_TO_LEAVE:
                log.warning("model %s: server %s does not answer its probes", self._name, server.label)
            server.probed(answers=answers)
            page = await self._get(server, self._metrics, headers()) if self._metrics and answers else None
            server.reported(read_report(page, self._names) if page is not None else LoadReport())
            await asyncio.sleep(self._every_s)

    async def _get(self, server: UpstreamServer, path: str, headers: bytes) -> bytes | None:
        """Return a body, at most `MOST_BYTES` of it; None where there is none in time. A server that wants a key, or
        does not know the path, answers all the same: an empty body."""
        until, body = asyncio.get_running_loop().time() + self._every_s, bytearray()
        try:
            async with server.getting(path, headers, until) as answer:
                while len(body) < MOST_BYTES and (piece := await answer.read(until)):
                    body += piece
                if answer.status >= 500:
                    return None
                return bytes(body) if answer.status == 200 else b""
        except OSError:
            return None
