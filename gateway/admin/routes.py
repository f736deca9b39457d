"""All routes of operators in one router; each area adds its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from gateway.admin.cache import add_cache_routes

if TYPE_CHECKING:
    from gateway.house import House


def admin_routes(house: House) -> APIRouter:
    router = APIRouter()
    add_cache_routes(router, house)
    return router
