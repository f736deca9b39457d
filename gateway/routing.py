"""Slot `route`, stage `by-name`: the model the caller named."""

from __future__ import annotations

from collections.abc import Mapping

from plugins import Caller, NotFound, Request, ServedModel


class ByName:
    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        allowed = [name for name in sorted(models) if caller.models is None or name in caller.models]
        if request.model in allowed:
            return request.model
        raise NotFound(
            f"there is no model {request.model!r} for this key; served to it: {', '.join(allowed) or 'none'}",
            param="model",
            code="model_not_found",
        )
