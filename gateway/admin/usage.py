"""What was used and what it cost: `/admin/usage`, as JSON or CSV."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from sluicegate.gateway.accounts.export import as_csv, rows
from sluicegate.gateway.accounts.records import day_of, known_day
from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.runtime import Runtime

Day = Annotated[str | None, Query(pattern=r"^\d{4}-\d\d-\d\d$")]


def add_usage_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/usage", tags=["admin"])
    async def usage(
        request: Request,
        since: Day = None,
        until: Day = None,
        by: str = "key_id,team,feature,model",
        format: Literal["json", "csv"] = "json",
    ) -> Any:
        """Add up usage of the days from `since` (by default the month's first) to `until`, by any of day, key_id, team,
        feature, model."""
        operator_of(runtime, request)
        names = [name for name in by.split(",") if name]
        first = known_day(since or f"{day_of(time.time())[:7]}-01")
        table = await runtime.accounts.usage(first, known_day(until or "9999-12-31"))
        found = rows(table, names, runtime.accounts.settings.currency)
        if format == "csv":
            return Response(as_csv(found, names), media_type="text/csv; charset=utf-8")
        return {"since": first, "until": until, "data": found}
