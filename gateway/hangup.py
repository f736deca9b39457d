"""SIGHUP: read certificates, secrets and the configuration again, once for all signals that come meanwhile."""

from __future__ import annotations

import asyncio
import logging

from sluicegate.gateway.admin.reload import reload_audited
from sluicegate.gateway.runtime import Runtime

log = logging.getLogger("sluicegate")


class HangupHandler:
    """Answers signals on the event loop. One that comes while the configuration is read asks for one more reading, and
    however many come, for no more than that: 300 in two seconds kept a gateway reading for twenty."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        while self._asked:
            self._asked = False
            await _reload(self._runtime)


async def _reload(runtime: Runtime) -> None:
    try:
        await runtime.renewal.look()
        done = await reload_audited(runtime, "SIGHUP")
    except Exception as error:
        log.error("SIGHUP: not reloaded, the old stays: %s", error)
        return
    for place in done.restart:
        log.warning("SIGHUP: %s changed, which needs a restart to count", place)
