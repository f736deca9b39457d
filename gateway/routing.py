"""Slot `route`, stage `by-name`: the model the caller named."""

from __future__ import annotations

from collections.abc import Mapping

from plugins import Caller, NotFound, Request, ServedModel


class ByName:
    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        if request.model in models:
            return request.model
        known = ", ".join(sorted(models))
        raise NotFound(
            f"there is no model {request.model!r} here; served: {known}", param="model", code="model_not_found"
        )
