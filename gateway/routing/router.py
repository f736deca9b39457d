"""Around the router of the configuration: the public name that it chose becomes a version, or another model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from sluicegate.gateway.rails.stage_calls import StageMisbehaved, answered, expect
from sluicegate.gateway.routing.table import RouteTable, VersionDraw
from sluicegate.plugins import Caller, NotFound, RenamingRouter, Request, Router, ServedModel, offers


class Routing:
    """A `Router`."""

    def __init__(self, inner: Router, table: RouteTable) -> None:
        self._inner = inner
        self.table = table
        self._draws: dict[str, VersionDraw] = {}

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        """Choose the version that answers. The inner router sees public names too; a key's models are checked there, by
        those names."""
        known = self.table.catalogue(models)
        name = await answered(self._inner, partial(self._inner.route, request, caller, known), "route()")
        expect(name, str, "route()")
        if name not in known:
            raise StageMisbehaved(f"route() answered {name[:64]!r}, which is none of the models that it may name")
        found = self.table.draw(name, request, caller, models)
        if found.share < 1:
            self._draws[request.id] = found  # nothing runs between this line and whoever asks for it
        return found.version

    def drawn(self, request_id: str) -> VersionDraw | None:
        """Return how `route` just drew the version; None where there was no choice. May be called once."""
        return self._draws.pop(request_id, None)

    def reach(self, name: str) -> tuple[str, ...] | None:
        """Return all models that may answer a request for `name`; None where only the inner router knows."""
        if not offers(self._inner, RenamingRouter) or self._inner.decides(name):
            return None
        return self.table.reach(name)

    def instead(
        self,
        failed: Collection[str],
        asked: str,
        request: Request,
        caller: Caller,
        models: Mapping[str, ServedModel],
    ) -> str | None:
        """Return a model to ask now that those in `failed` could not answer; None where there is no other. What answers
        instead of a model is the operator's choice, but a key that is kept to some models stays with them."""
        for name in self.table.fallbacks(asked):
            if caller.models is not None and name not in caller.models:
                continue
            try:
                found = self.table.pick(name, request, caller, models)
            except NotFound:
                continue
            if found in models and found not in failed:
                return found
        return None
