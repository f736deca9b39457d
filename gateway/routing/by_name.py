"""Slot `route`, stage `by-name`: the model the caller named."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.plugins import Caller, NotFound, Request, ServedModel


class ByName:
    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        return self.check(request.model, caller, models)

    def decides(self, name: str) -> bool:
        """Return whether `name` may come to stand for another model here: never."""
        return False

    def check(self, name: str, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        """Return `name` if it is served to this caller. Raises `NotFound`."""
        if name in models and (caller.models is None or name in caller.models):
            return name
        allowed = [found for found in sorted(models) if caller.models is None or found in caller.models]
        raise NotFound(
            f"there is no model {name!r} for this key; served to it: {', '.join(allowed) or 'none'}",
            param="model",
            code="model_not_found",
        )
