"""Reload the configuration: `POST /admin/reload`, at all gateways of a deployment, and SIGHUP, at this one."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.reload import ReloadReport
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import AuditUnavailable, ConfigurationError, PluginError, RequestError

log = logging.getLogger("sluicegate")
LOOK_S = 0.1


async def reload_audited(runtime: Runtime, by: str) -> ReloadReport:
    """Reload the configuration and record that in the audit log. Raises what `Reloader.reload` raises, and
    `AuditUnavailable`."""
    before = runtime.stage_set.settings
    async with runtime.audit.change(by, "gateway.reload") as came:
        done = await runtime.reloader.reload()
        after = runtime.stage_set.settings
        came["rails"] = [f"{slot} {name} {version}".strip() for slot, name, version in done.rails]
        came["changed"] = [f.name for f in fields(Settings) if getattr(before, f.name) != getattr(after, f.name)]
        came["keys"] = [key.id for key in after.keys]
    return done


def add_reload_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/admin/reload", tags=["admin"])
    async def reload(request: Request) -> Any:
        """Reload rails and policies. Answers 400 where the new configuration does not hold; the old one then stays."""
        by = operator_of(runtime, request)
        runtime.check_ready()  # what it would exchange is being started
        try:
            done = await reload_audited(runtime, name_of(by))
        except (ConfigurationError, PluginError) as error:
            raise RequestError(f"not reloaded, the old stays: {error.message}", code=error.code) from error
        except AuditUnavailable:
            raise
        except Exception as error:
            message = f"not reloaded, the old stays: a rail did not start ({type(error).__name__})"
            raise RequestError(message, code="stage_failed") from error
        await runtime.tell_others("reload", {})
        if runtime.progress.reload_workers is not None and runtime.deployment is None:
            runtime.progress.reload_workers()
        rails = [{"slot": slot, "name": name, "version": version} for slot, name, version in done.rails]
        return {"reloaded": True, "rails": rails, "restart_needed_for": list(done.restart)}


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
        await self._started()
        while self._asked:
            self._asked = False
            await _reload(self._runtime)

    async def _started(self) -> None:
        """Wait until what a reload would exchange has been started."""
        while True:
            if self._runtime.ready or self._runtime.progress.failure is not None:
                return
            await asyncio.sleep(LOOK_S)


async def _reload(runtime: Runtime) -> None:
    try:
        await runtime.renewal.look()
        done = await reload_audited(runtime, "SIGHUP")
    except Exception as error:
        log.error("SIGHUP: not reloaded, the old stays: %s", error)
        return
    for place in done.restart:
        log.warning("SIGHUP: %s changed, which needs a restart to count", place)
