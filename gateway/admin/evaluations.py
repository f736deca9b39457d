"""Reports of `sluicegate eval`, from the folder that `[telemetry] evaluations` names: `/admin/evaluations`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sluicegate.gateway.console.evaluations import listed, read_report
from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound


def add_evaluation_routes(router: APIRouter, runtime: Runtime) -> None:
    def folder() -> Path | None:
        named = runtime.settings.telemetry.evaluations
        return Path(named).expanduser() if named else None

    @router.get("/admin/evaluations", tags=["admin"])
    async def reports(request: Request) -> Any:
        """List reports, the newest first. A file that is no report is listed with what is wrong with it."""
        operator_of(runtime, request)
        where = folder()
        if where is None:
            return {"folder": None, "data": [], "left_out": 0}
        data, left_out = await asyncio.to_thread(listed, where)
        return {"folder": str(where), "data": data, "left_out": left_out}

    @router.get("/admin/evaluations/{name}", tags=["admin"])
    async def one(request: Request, name: str) -> Response:
        """Return a whole report, with its cases."""
        operator_of(runtime, request)
        where = folder()
        if where is None:
            raise NotFound("this gateway has no folder of reports ([telemetry] evaluations)", code="no_evaluations")
        report = await asyncio.to_thread(read_report, where, name)
        return Response(report.model_dump_json(), media_type="application/json")
