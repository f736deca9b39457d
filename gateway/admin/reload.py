"""`POST /admin/reload`: as SIGHUP, at all gateways of a deployment, and says what came of it here."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import ConfigurationError, PluginError, RequestError


def add_reload_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/admin/reload", tags=["admin"])
    async def reload(request: Request) -> Any:
        """Rails and policies anew; 400 where the new configuration does not hold, and the old one stays."""
        operator_of(runtime, request)
        try:
            done = await runtime.reloader.reload()
        except (ConfigurationError, PluginError) as error:
            raise RequestError(f"not reloaded, the old stays: {error.message}", code=error.code) from error
        except Exception as error:
            message = f"not reloaded, the old stays: a rail did not start ({type(error).__name__})"
            raise RequestError(message, code="stage_failed") from error
        await runtime.tell_others("reload", {})
        rails = [{"slot": slot, "name": name, "version": version} for slot, name, version in done.rails]
        return {"reloaded": True, "rails": rails, "restart_needed_for": list(done.restart)}
