"""`POST /admin/lint`: the report of `sluicegate lint` on a schema, for the console's editor."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.linting.report import lint
from sluicegate.gateway.runtime import Runtime


class LintedSchema(StrictBody):
    text: dict[str, Any] = Field(alias="schema")


def add_lint_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/admin/lint", tags=["admin"])
    async def lint_schema(request: Request, given: LintedSchema) -> Response:
        """Report whether the schema can be served, what is not enforced, and what would make a model do better with
        it."""
        by = operator_of(runtime, request)
        size = int(request.headers.get("content-length") or 1)
        report = await runtime.workers.run(by.tenant, size, _report, given.text, inline_bytes=0)
        return Response(report, media_type="application/json")


def _report(schema: dict[str, Any]) -> str:
    return json.dumps(lint(schema).as_json())
