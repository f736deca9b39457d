"""Hold the cores that are served, those that are draining, and the engine thread that steps them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from sluicegate.engine.construction import make_core
from sluicegate.engine.kernel_list import kernels_of
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.metrics import gauges, totals
from sluicegate.engine.loop.worker import Worker
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.registry import ModelRegistry
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins import GenerationFailed
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE, Compilable

_LOG = logging.getLogger(__name__)


class Cores:
    """The cores of an engine. Call it on the event loop; `make` and `make_compiled` may run on any thread."""

    def __init__(self, settings: EngineSettings) -> None:
        self.registry = ModelRegistry()
        self.worker = Worker(settings)
        self.changing = asyncio.Lock()
        """Held while a core is loaded or replaced."""
        self._settings = settings
        self._leaving: list[EngineCore] = []
        """Cores that no longer have a name, whose last requests still run."""
        self._dropped: dict[str, float] = {}
        """Counter totals of cores that no longer exist."""
        self._restarts = 0

    def make(self, model: LoadedModel) -> EngineCore:
        """Build a core; one without kernels while these are still being compiled in the background. On any thread."""
        compiled = COMPILE_MODE.builder is None or all(one.load() for one in self.kernels(model))
        return make_core(model, self._settings, self.worker.outbox, compiled=compiled)

    def kernels(self, model: LoadedModel) -> Sequence[Compilable]:
        """Return the kernels that a compiled core of `model` calls."""
        return kernels_of(model, self._settings)

    def make_compiled(self, core: EngineCore) -> EngineCore:
        """Build the compiled core that replaces `core`, once the kernels of its model exist. On any thread."""
        return make_core(core.model, self._settings, self.worker.outbox, expected=core.expected)

    def take_in(self, core: EngineCore, aliases: Sequence[str] = ()) -> EngineCore | None:
        """Serve a core under its model's name and `aliases`; return the core it replaces, if any."""
        self.worker.adopt(core)
        return self.registry.put(core, aliases)

    def exchange(self, old: EngineCore, new: EngineCore) -> None:
        """Send new requests to `new`; running ones stay with `old`."""
        self.worker.adopt(new)
        self.registry.exchange(old, new)

    async def let_go(self, core: EngineCore, drain_s: float) -> None:
        """Drain a core without a name for `drain_s`, cancel its remaining requests, and free its memory."""
        self._leaving.append(core)
        await self.worker.dismiss(core, drain_s)
        self._leaving.remove(core)
        self._dropped = totals([core], self._dropped)

    def replace_worker(self, stuck_s: float, reason: str) -> None:
        """Fail all requests of an engine thread stuck for `stuck_s`, and start a new thread.

        Models stay in memory, but get new KV pools, since the old thread may still write to the old ones. `reason` is
        passed to the processes of tensor-parallel models.
        """
        old, self.worker = self.worker, Worker(self._settings)
        _LOG.critical("the engine thread stood still for %.1f s and is replaced; it is at\n%s", stuck_s, old.where())
        message = f"the engine made no progress for {stuck_s:.1f} s and was restarted; send the request again"
        old.abandon(GenerationFailed(message))
        self._restarts += 1
        self._dropped = totals(self.registry.cores, self._dropped)
        for core in self.registry.cores:
            core.give_up_device()
            if core.model.group is not None:
                core.model.group.fail(reason)
        self.registry.renew(lambda core: self.make(core.model))
        for core in self.registry.cores:
            self.worker.adopt(core)
        self.worker.start()

    def waiting(self) -> int:
        """Count the requests that have not started."""
        return self.worker.arriving + sum(core.scheduler.waiting_count for core in self.registry.cores)

    def stats(self) -> Mapping[str, float]:
        """Return gauges, and totals since the start (names ending in `_total`); times are in seconds."""
        cores = [*self.registry.cores, *self._leaving]
        computed = [core.is_compiled for core in self.registry.cores]
        return (
            gauges(cores, self.worker.arriving, self._restarts)
            | totals(cores, self._dropped)
            | {
                "adapters_loaded": float(self.registry.adapter_count),
                "models_uncompiled": float(len(computed) - sum(computed)),
            }
        )
