"""`POST /admin/reload`: as SIGHUP, at all gateways of a deployment, and says what came of it here."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.reload import ReloadReport
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import AuditUnavailable, ConfigurationError, PluginError, RequestError


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
        rails = [{"slot": slot, "name": name, "version": version} for slot, name, version in done.rails]
        return {"reloaded": True, "rails": rails, "restart_needed_for": list(done.restart)}
