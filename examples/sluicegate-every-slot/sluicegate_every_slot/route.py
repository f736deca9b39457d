"""Slot `route`: the model `auto` is a small one for short requests and a large one for long ones."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.plugins import Caller, NotFound, Request, ServedModel

AUTO = "auto"


class ByLength:
    """A model that is called by its name is taken as it is. `short` and `long` "" = the first that is served."""

    def __init__(self, short: str, long: str, from_characters: int) -> None:
        self._short = short
        self._long = long
        self._from_characters = from_characters

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        asked = self._chosen(request, models) if request.model == AUTO else request.model
        if asked in models:
            return asked
        known = ", ".join([AUTO, *sorted(models)])
        raise NotFound(f"there is no model {asked!r} here; served: {known}", param="model", code="model_not_found")

    def _chosen(self, request: Request, models: Mapping[str, ServedModel]) -> str:
        characters = sum(len(message.content) for message in request.messages)
        return (self._long if characters >= self._from_characters else self._short) or next(iter(models))
