"""Replace cores while requests run: by compiled ones once their kernels are built, by new ones after processes of a
tensor-parallel model have ended or the engine thread hangs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from math import inf
from typing import Any

from sluicegate.engine.cores import Cores
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.parallel.group import TensorParallelGroup
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE

_LOG = logging.getLogger(__name__)
LONGEST_PAUSE_S = 60.0
"""Longest pause between two attempts to start the processes of a sharded model."""


class CoreReplacement:
    """Watches the cores of an engine that has started. Used on the event loop."""

    def __init__(self, cores: Cores, settings: EngineSettings) -> None:
        self._cores = cores
        self._settings = settings
        self._switches = 0
        """How often a model was switched from its own code to the compiled pass."""
        self._regroupings = 0
        """How often the processes of a sharded model were restarted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch the cores served now, and the engine thread if `watchdog_s` is set. May be called again."""
        for core in self._cores.registry.cores:
            self.follow(core)
        if self._settings.watchdog_s is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self._settings.watchdog_s))

    def follow(self, core: EngineCore) -> None:
        """Replace `core` when its kernels are compiled, or when a process that computes it ends."""
        self._await_compiled(core)
        self._await_loss(core)

    def close(self) -> None:
        """Stop watching."""
        for task in (self._watching, *self._tasks):
            if task is not None:
                task.cancel()

    def stats(self) -> Mapping[str, float]:
        """Return totals since the start."""
        return {
            "compiled_switches_total": float(self._switches),
            "shared_model_restarts_total": float(self._regroupings),
        }

    def _begin_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        """Return a function that schedules `work` on this event loop and may be called from any thread."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            if not self._cores.worker.is_closing:
                self._tasks.add(task := asyncio.create_task(work()))
                task.add_done_callback(self._tasks.discard)

        def post() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(begin)

        return post

    # --- from the model's own code to the compiled ---------------------------------------------------------------

    def _await_compiled(self, core: EngineCore) -> None:
        """Compile the kernels of an uncompiled core in the background, then switch to a compiled core."""
        if core.is_compiled or COMPILE_MODE.builder is None:
            return
        switch = self._begin_soon(lambda: self._switch(core))

        def then(failed: Mapping[str, str]) -> None:
            if not failed:
                switch()

        COMPILE_MODE.builder.request_all(self._cores.kernels(core.model), then)

    async def _switch(self, core: EngineCore) -> None:
        """Send new requests of a model to a compiled core.

        Running requests finish on `core`: no answer is computed by both, and no KV block is shared. If the compiled
        core cannot be made, `core` stays.
        """
        async with self._cores.changing:
            if core not in self._cores.registry.cores:
                return
            try:
                made = await asyncio.to_thread(self._cores.make_compiled, core)
            except Exception:
                _LOG.exception("model %s goes on by its own code: the compiled core could not be made", core.model.name)
                return
            self._cores.exchange(core, made)
            self._switches += 1
        _LOG.info("model %s: new requests are computed by the compiled loops from now on", core.model.name)
        await self._cores.let_go(core, inf)

    # --- models of several processes ---------------------------------------------------------------------------

    def _await_loss(self, core: EngineCore) -> None:
        """Restart the processes of a tensor-parallel model when one of them ends."""
        if (group := core.model.group) is not None:
            group.watch(self._begin_soon(lambda: self._regroup(core.model)))

    async def _regroup(self, model: LoadedModel) -> None:
        """Restart the processes of `model`, retrying until it succeeds, with new KV pools. Running requests have failed
        with the old ones."""
        pause_s = 1.0
        while True:
            async with self._cores.changing:
                core = next((one for one in self._cores.registry.cores if one.model is model), None)
                if core is None or model.group is None or model.group.end_reason is None:
                    return
                _LOG.error("model %s: %s; its processes are started again", model.name, model.group.end_reason)
                try:
                    made = await asyncio.to_thread(self._renewed, model, model.group)
                    break
                except Exception:
                    _LOG.exception("model %s: its processes could not be started", model.name)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._cores.exchange(core, made)
        self._regroupings += 1
        await self._cores.let_go(core, inf)

    def _renewed(self, model: LoadedModel, group: TensorParallelGroup) -> EngineCore:
        group.restart(model.version.rpartition("+")[2])
        return self._cores.make(model)

    # --- the watchdog ------------------------------------------------------------------------------------------

    async def _watch(self, limit_s: float) -> None:
        """Replace an engine thread that has died or has spent longer than `limit_s` in one turn."""
        while True:
            await asyncio.sleep(min(1.0, limit_s / 4))
            worker = self._cores.worker
            if not worker.is_closing and (stuck_s := worker.stuck_s()) > limit_s:
                self._cores.replace_worker(stuck_s, f"a step took longer than {limit_s} s")
