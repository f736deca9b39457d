"""All routes of operators in one router; each area adds its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from gateway.admin.cache import add_cache_routes
from gateway.admin.console import add_console_routes
from gateway.admin.keys import add_key_routes
from gateway.admin.models import add_model_admin_routes
from gateway.admin.reload import add_reload_routes
from gateway.admin.review import add_review_routes
from gateway.admin.usage import add_usage_routes

if TYPE_CHECKING:
    from gateway.house import House


def admin_routes(house: House) -> APIRouter:
    router = APIRouter()
    add_cache_routes(router, house)
    add_console_routes(router, house)
    add_key_routes(router, house)
    add_model_admin_routes(router, house)
    add_usage_routes(router, house)
    add_review_routes(router, house)
    add_reload_routes(router, house)
    return router
