"""All routes of callers in one router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.api.body.model_route import reads_with
from sluicegate.gateway.api.dialect import Dialect, TextDialect
from sluicegate.gateway.api.endpoints.batches import add_batches_routes
from sluicegate.gateway.api.endpoints.false_positives import add_false_positive_routes
from sluicegate.gateway.api.endpoints.feedback import add_feedback_routes
from sluicegate.gateway.api.endpoints.files import add_files_routes
from sluicegate.gateway.api.endpoints.health import add_health_routes
from sluicegate.gateway.api.endpoints.mcp import add_mcp_routes
from sluicegate.gateway.api.endpoints.models import add_model_routes
from sluicegate.gateway.api.endpoints.rerank import add_rerank_routes
from sluicegate.gateway.api.endpoints.reviews import add_review_routes
from sluicegate.gateway.api.endpoints.tokens import add_token_routes
from sluicegate.gateway.api.socket import add_socket_route
from sluicegate.gateway.http.errors import ErrorForms
from sluicegate.gateway.runtime import Runtime


def api_routes(runtime: Runtime, dialects: Sequence[Dialect], forms: ErrorForms) -> APIRouter:
    router = APIRouter(route_class=reads_with(runtime.reader))
    for dialect in dialects:
        _add_dialect(router, runtime, dialect, forms)
    add_batches_routes(router, runtime, dialects)
    for add in (
        add_files_routes,
        add_model_routes,
        add_health_routes,
        add_token_routes,
        add_rerank_routes,
        add_review_routes,
        add_false_positive_routes,
        add_feedback_routes,
        add_mcp_routes,
    ):
        add(router, runtime)
    return router


def _add_dialect(router: APIRouter, runtime: Runtime, dialect: Dialect, forms: ErrorForms) -> None:
    async def create(request: Request) -> Any:
        return await dialect.respond(runtime, request)

    router.add_api_route(dialect.path, create, methods=["POST"], name=dialect.name)
    if dialect.add_routes is not None:
        dialect.add_routes(router, runtime)
    if isinstance(dialect, TextDialect) and dialect.over_socket:
        add_socket_route(router, runtime, dialect, forms)
