"""All routes of operators in one router; each area adds its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from sluicegate.gateway.admin.cache import add_cache_routes
from sluicegate.gateway.admin.console import add_console_routes
from sluicegate.gateway.admin.evaluations import add_evaluation_routes
from sluicegate.gateway.admin.feedback import add_feedback_admin_routes
from sluicegate.gateway.admin.keys import add_key_routes
from sluicegate.gateway.admin.lint import add_lint_routes
from sluicegate.gateway.admin.mcp import add_mcp_admin_routes
from sluicegate.gateway.admin.models import add_model_admin_routes
from sluicegate.gateway.admin.rails import add_rail_routes
from sluicegate.gateway.admin.recordings import add_recording_routes
from sluicegate.gateway.admin.reload import add_reload_routes
from sluicegate.gateway.admin.review import SCOPE as REVIEW
from sluicegate.gateway.admin.review import add_review_routes
from sluicegate.gateway.admin.rollouts import add_rollout_routes
from sluicegate.gateway.admin.usage import add_usage_routes
from sluicegate.gateway.api.body.model_route import bounded
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.guard import operator_of
from sluicegate.gateway.runtime import Runtime


def admin_routes(runtime: Runtime) -> APIRouter:
    router = APIRouter(route_class=_guarded(runtime))
    add_cache_routes(router, runtime)
    add_console_routes(router, runtime)
    add_key_routes(router, runtime)
    add_model_admin_routes(router, runtime)
    add_rollout_routes(router, runtime)
    add_feedback_admin_routes(router, runtime)
    add_recording_routes(router, runtime)
    add_usage_routes(router, runtime)
    add_review_routes(router, runtime)
    add_rail_routes(router, runtime)
    add_lint_routes(router, runtime)
    add_evaluation_routes(router, runtime)
    add_reload_routes(router, runtime)
    add_mcp_admin_routes(router, runtime)
    return router


def _guarded(runtime: Runtime) -> type[APIRoute]:
    """Return a class of routes that check who calls before any of the body or the query is read. FastAPI reads both
    before a route's own function, and would tell a stranger what is wrong with them."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = bounded(runtime.reader, self, super().get_route_handler())
            if not self.path.startswith(("/admin/", "/v1/")):  # the console's page is anybody's
                return handle

            async def asked(request: Request) -> Response:
                _check(runtime, self.path, request)
                return await handle(request)

            return asked

    return Guarded


def _check(runtime: Runtime, path: str, request: Request) -> None:
    """Refuse a caller who may not use `path`. Raises `AuthenticationError` or `PermissionDenied`."""
    if not path.startswith("/admin/"):
        runtime.identify(api_key_of(request))
    elif path.startswith(("/admin/review", "/admin/feedback", "/admin/recordings")) or path.endswith("/withheld"):
        operator_of(runtime, request, REVIEW)
    else:
        operator_of(runtime, request)
