"""Exchange rails, policies and keys while requests run; a request ends on the rails that it began with.

Read again: the slots `admit`, `screen` and `moderate`, their stages' settings, policies, and `[[keys]]`. Installed
plug-ins are imported anew, so that a new version counts. All is built and started before anything is exchanged; on an
error the old stays. Changes of any other setting need a restart, and are named.

Not covered: what a plug-in keeps outside of its own package, and stages of its other slots, which stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.rails.guard_model import bind_guards
from sluicegate.gateway.rails.health import RailHealth
from sluicegate.gateway.rails.stage_calls import answered
from sluicegate.gateway.rails.states import check_probes
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.stage_set import Built, StageSet, version_of
from sluicegate.plugins import ConfigurationError, Lifecycle, SlotName, Trouble
from sluicegate.plugins.registry import GROUP

log = logging.getLogger("sluicegate.reload")
SLOTS: tuple[SlotName, ...] = ("admit", "screen", "moderate")
READ_S = 30.0
"""Time limit of reading the configuration: meanwhile nobody else can reload."""
REFUSED = (
    "the last reload was refused, and what was read before stays; a restart may fail: the log, or the answer of "
    "`POST /admin/reload`, says why"
)
LONGEST_START_S = 600.0
"""Time limit of one plug-in's `start`: meanwhile nobody else can reload."""


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """`rails`: (slot, name, version) of what runs now. `restart`: what changed elsewhere and did not count."""

    rails: tuple[tuple[str, str, str], ...]
    restart: tuple[str, ...]


class Reloader:
    """`source` reads the configuration again; None where there is none to read."""

    def __init__(
        self,
        stage_set: StageSet,
        pipeline: Pipeline,
        accounts: Accounts,
        source: Callable[[], Settings] | None = None,
    ) -> None:
        self.source = source
        self.done = 0
        """Number of successful reloads."""
        self.refused = 0
        """Number of reloads after which the old stayed."""
        self.last_refused = False
        self._read_at_s = time.time()
        """When the configuration in place was read, in Unix seconds."""
        self._accounts = accounts
        self._stage_set = stage_set
        self._pipeline = pipeline
        self._turn = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    def stats(self) -> dict[str, float]:
        """Return counts for metrics, and `last_success_seconds`: when the configuration in place was read."""
        return {
            "done_total": self.done,
            "refused_total": self.refused,
            "behind": self.last_refused,
            "last_success_seconds": self._read_at_s,
        }

    def troubles(self) -> Sequence[Trouble]:
        """Return the refusal of the last reload: a restart, which reads the same files, would fail."""
        return (Trouble(REFUSED),) if self.last_refused else ()

    async def reload(self) -> ReloadReport:
        """Read the configuration again. Raises `ConfigurationError`, `PluginError`, or what a rail's `start` raises;
        nothing has changed then."""
        began_s = time.time()
        try:
            report = await self._reload()
        except Exception:
            self.refused, self.last_refused = self.refused + 1, True
            raise
        self.last_refused, self._read_at_s = False, began_s
        return report

    async def _reload(self) -> ReloadReport:
        if self.source is None:
            raise ConfigurationError("this gateway was started without a configuration that could be read again")
        async with self._turn:
            wanted = await _read(self.source)
            settings = exchanged(self._stage_set.settings, wanted)
            self._accounts.check_keys(settings.keys)
            modules = _forget_plugins()
            try:
                built = self._stage_set.build(settings, SLOTS)
                stages = self._stage_set.stages_with(self._pipeline.stages, built, settings)
                bind_guards(built["moderate"], stages.generate[1])
                check_probes(built["moderate"], stages.generate[1])
                await _start(built)
            except BaseException:
                sys.modules.update(modules)
                raise
            health = self._pipeline.stages.rail_health
            self._pipeline.stages = stages
            if settings.keys != self._stage_set.settings.keys:
                self._accounts.exchange_keys(settings.keys)
            old = self._stage_set.exchange(built, settings)
            self.done += 1
        self._close_later(health, old)
        found = tuple((slot, name, version_of(stage)) for slot in SLOTS[1:] for name, stage in built[slot])
        log.info("reloaded; rails: %s", ", ".join(f"{slot} {name}" for slot, name, _ in found) or "none")
        return ReloadReport(found, _needs_restart(settings, wanted))

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close_later(self, health: RailHealth, old: Built) -> None:
        task = asyncio.create_task(_close(health, old))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _read(source: Callable[[], Settings]) -> Settings:
    """Return what `source` reads. A file system that hangs holds up no request, and no stop: the thread is left behind.
    Raises what it raises, and `ConfigurationError` after `READ_S`."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Settings] = loop.create_future()

    def give(put: Callable[[Any], None], value: Any) -> None:
        if not found.done():
            put(value)

    def read() -> None:
        put: Callable[[Any], None] = found.set_result
        value: Any = None
        try:
            value = source()
        except BaseException as error:
            put, value = found.set_exception, error
        with contextlib.suppress(RuntimeError):  # the gateway has ended meanwhile
            loop.call_soon_threadsafe(give, put, value)

    threading.Thread(target=read, name="configuration", daemon=True).start()
    try:
        async with asyncio.timeout(READ_S):
            return await found
    except TimeoutError as error:
        raise ConfigurationError(
            f"the configuration could not be read within {READ_S:g} s; see the disk that its files are on"
        ) from error


def exchanged(now: Settings, wanted: Settings) -> Settings:
    """Take from `wanted` what a reload can exchange, and all else from `now`."""
    pipeline = dataclasses.replace(now.pipeline, **{slot: getattr(wanted.pipeline, slot) for slot in SLOTS})
    stages = {**now.stages, **{slot: wanted.stages.get(slot, {}) for slot in SLOTS}}
    policies, file = wanted.policies, wanted.policy_file
    return dataclasses.replace(
        now, pipeline=pipeline, stages=stages, policies=policies, policy_file=file, keys=wanted.keys
    )


def _needs_restart(settings: Settings, wanted: Settings) -> tuple[str, ...]:
    plain = [field.name for field in fields(Settings) if field.name not in ("pipeline", "stages")]
    changed = [f"[{name}]" for name in plain if getattr(settings, name) != getattr(wanted, name)]
    changed += ["[pipeline]"] if settings.pipeline != wanted.pipeline else []
    slots = sorted({*settings.stages, *wanted.stages})
    changed += [f"[stages.{s}]" for s in slots if settings.stages.get(s, {}) != wanted.stages.get(s, {})]
    return tuple(changed)


def _forget_plugins() -> dict[str, ModuleType]:
    """Remove the modules of installed plug-ins from the import system, and return them."""
    importlib.invalidate_caches()
    tops = {entry.module.split(".")[0] for entry in entry_points(group=GROUP)}
    found = {name: module for name, module in sys.modules.items() if name.split(".")[0] in tops}
    for name in found:
        del sys.modules[name]
    return found


async def _start(built: Built) -> None:
    started: Built = {}
    try:
        for slot, stages in built.items():
            for name, stage in stages:
                if isinstance(stage, Lifecycle):
                    await answered(stage, stage.start, "start()", limit_s=LONGEST_START_S)
                    started.setdefault(slot, []).append((name, stage))
    except BaseException:
        await _close(RailHealth(), started)
        raise


async def _close(health: RailHealth, built: Built) -> None:
    """Close stages once the last request that began on them has ended."""
    await health.idle()
    for slot, stages in built.items():
        for name, stage in stages:
            if isinstance(stage, Lifecycle):
                try:
                    await answered(stage, stage.close, "close()")
                except Exception:
                    log.exception("stage %s of slot %s did not close", name, slot)
