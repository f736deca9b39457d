"""What a public name stands for now: versions with weights, what answers in its place, who gets a copy. Operators
change it while requests run, and take a change back."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sluicegate.gateway.database import Database, DatabaseUnavailable, unavailable
from sluicegate.gateway.routing.state_lock import StateLock
from sluicegate.gateway.routing.stores import (
    Edit,
    FileRouteStore,
    History,
    PostgresRouteStore,
    RouteChange,
    RouteStore,
)
from sluicegate.gateway.settings import RouteSettings, RoutingSettings
from sluicegate.plugins import (
    Caller,
    ConfigurationError,
    Conflict,
    NotFound,
    Overloaded,
    Request,
    RequestError,
    ServedModel,
    Trouble,
)
from sluicegate.plugins.frozen import frozen_when_checked

T = TypeVar("T")
KEPT = 20
"""Earlier weights that a rollback can restore."""


@dataclass(frozen=True, slots=True)
class Route:
    settings: RouteSettings
    history: History
    """The last one is in force."""

    @property
    def weights(self) -> Mapping[str, float]:
        return self.history[-1].weights


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class VersionDraw:
    """`version` of `route` was drawn with the probability `share`, whatever was asked and whoever asked."""

    route: str
    version: str
    share: float


class RouteTable:
    """Used on the event loop. What the configuration says is the beginning; what the store has is in force instead."""

    def __init__(self, settings: RoutingSettings, database: Database | None = None) -> None:
        """Read the routes. `database`: where all gateways of the deployment keep weights. Raises
        `ConfigurationError`."""
        self._beginning: dict[str, Route] = {}
        for name, one in settings.models.items():
            weights = one.weights or _beginning_of(one, name)
            _check(name, weights)
            self._beginning[name] = Route(one, (RouteChange(dict(weights), time.time(), "configuration"),))
        self._routes = dict(self._beginning)
        self._asking = asyncio.Lock()
        """Held until `_routes` has the store's answer, so that no older read or edit overwrites a newer one."""
        self._store: RouteStore
        self._database = database
        self._lock = StateLock(Path(settings.state)) if settings.state and database is None else None
        if database is not None:  # which is not open yet; `refresh` reads it
            self._store = PostgresRouteStore(database)
        else:
            self._store = FileRouteStore(Path(settings.state) if settings.state else None)
            self._put(self._store.load())

    def troubles(self) -> Sequence[Trouble]:
        """Report another gateway that writes the same file."""
        return () if self._lock is None else self._lock.troubles()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    async def refresh(self) -> None:
        """Read the changes of other gateways."""
        async with self._asking:
            self._put(await self._call(self._store.load))

    def _put(self, found: Mapping[str, History]) -> None:
        changed = {name: replace(self._begun(name), history=history) for name, history in found.items()}
        self._routes = {**self._beginning, **changed}

    def _begun(self, name: str) -> Route:
        return self._beginning.get(name) or Route(RouteSettings(), (RouteChange({name: 1.0}, time.time(), "start"),))

    @property
    def routes(self) -> Mapping[str, Route]:
        return self._routes

    def catalogue(self, models: Mapping[str, ServedModel]) -> dict[str, ServedModel]:
        """Return `models`, and the public names that stand for at least one of them."""
        found = dict(models)
        for name, route in self._routes.items():
            present = [version for version in route.weights if version in models]
            if name not in found and present:
                found[name] = models[present[0]]
        return found

    def pick(self, name: str, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        """Return the version that answers. Raises `NotFound` where none of them is served."""
        return self.draw(name, request, caller, models).version

    def draw(self, name: str, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> VersionDraw:
        """Pick a version, and return with what probability. Raises `NotFound`."""
        route = self._routes.get(name)
        if route is None:
            return VersionDraw(name, name, 1.0)
        present = {v: w for v, w in route.weights.items() if v in models and w > 0}
        if not present:
            raise NotFound(f"no version of model {name!r} is served now", param="model", code="model_not_found")
        if len(present) == 1:
            return VersionDraw(name, next(iter(present)), 1.0)
        version = chosen(present, _who(route.settings.sticky, name, request, caller))
        return VersionDraw(name, version, present[version] / sum(present.values()))

    def fallbacks(self, name: str) -> tuple[str, ...]:
        """Return the fallbacks of `name`, or of the public name that it is a version of."""
        if name in self._routes:
            return self._routes[name].settings.fallback
        return next((r.settings.fallback for r in self._routes.values() if name in r.weights), ())

    def reach(self, name: str) -> tuple[str, ...]:
        """Return all models that may answer a request for `name`: its versions, and their fallbacks."""
        if not self._routes:
            return (name,)
        versions = self._versions(name)
        instead = [found for version in versions for found in self.fallbacks(version)]
        return tuple(dict.fromkeys((*versions, *[found for other in instead for found in self._versions(other)])))

    def _versions(self, name: str) -> tuple[str, ...]:
        route = self._routes.get(name)
        return (name,) if route is None else tuple(version for version, weight in route.weights.items() if weight > 0)

    def shadow(self, name: str) -> tuple[str, float]:
        """Return (model that gets a copy, share of the requests); ("", 0) for none."""
        for public, route in self._routes.items():
            if public == name or name in route.weights:
                return route.settings.shadow, route.settings.shadow_share if route.settings.shadow else 0.0
        return "", 0.0

    async def weigh(self, name: str, weights: Mapping[str, float], models: Iterable[str], by: str) -> Route:
        """Set the weights, from the next request on. Raises `RequestError` for invalid weights or a version that is not
        served, `Overloaded` where they cannot be kept now."""
        try:
            _check(name, weights)
        except ConfigurationError as error:
            raise RequestError(error.message, param="weights") from error
        missing = sorted(v for v, w in weights.items() if w > 0 and v not in set(models))
        if missing:
            raise RequestError(f"not served here: {', '.join(missing)}; add the model first", param="weights")
        change = RouteChange(dict(weights), time.time(), by)
        return await self._edit(name, lambda history: [*history, change][-KEPT:])

    async def roll_back(self, name: str, revision: str | None = None) -> Route:
        """Put the weights before the last change in force again, whichever gateway made it. `revision`: the state to go
        back from. Raises `Conflict` where another one is in force, `NotFound`, `RequestError` where there was no
        change, `Overloaded` where that cannot be kept now."""
        if name not in self._routes:
            raise NotFound(f"there is no route {name!r}; known: {', '.join(sorted(self._routes)) or 'none'}")

        def shortened(history: History) -> History:
            if revision is not None and history[-1].revision != revision:
                raise Conflict(
                    f"route {name!r} is at revision {history[-1].revision!r}, not {revision!r}: it was changed or "
                    "rolled back meanwhile; read GET /admin/routes, and roll back from there if that is still wanted",
                    param="revision",
                )
            if len(history) < 2:
                raise RequestError(f"route {name!r} has not been changed: there is nothing to go back to")
            return history[:-1]

        return await self._edit(name, shortened)

    async def _call(self, work: Callable[[], T]) -> T:
        return await (asyncio.to_thread(work) if self._database is None else self._database.call(work))

    async def _edit(self, name: str, edit: Edit) -> Route:
        """Change the store and what is in force; both, where the caller leaves meanwhile."""
        return await asyncio.shield(asyncio.create_task(self._edited(name, edit)))

    async def _edited(self, name: str, edit: Edit) -> Route:
        begun = self._begun(name)
        try:
            async with self._asking:
                history = await self._call(lambda: self._store.edit(name, edit, begun.history))
                route = replace(begun, history=history)
                self._routes = {**self._routes, name: route}
        except DatabaseUnavailable as error:
            raise unavailable("weights") from error
        except OSError as error:
            raise _not_written(error) from error
        return route


def _not_written(error: OSError) -> Overloaded:
    """Return the error for a caller whose change the file of weights did not take."""
    found = Overloaded(
        f"the file of [routing] state cannot be written ({error.strerror or type(error).__name__}), so that nothing "
        "changed; make room on its disk or correct the rights of its folder, and try again",
        retry_after_s=2.0,
    )
    found.code = "state_unavailable"
    return found


def _beginning_of(settings: RouteSettings, name: str) -> Mapping[str, float]:
    """Return the first weights where the configuration gives none. A canary begins with weight 0."""
    if settings.rollout is None:
        return {name: 1.0}
    return {settings.rollout.baseline: 1.0, settings.rollout.canary: 0.0}


def chosen(weights: Mapping[str, float], who: str) -> str:
    """Choose one of `weights` for `who`, always the same while the weights are. Weighted rendezvous hashing: when
    weights change, only as many move as must (Schindelhauer and Schomaker, 2005)."""
    return max(weights, key=lambda version: -weights[version] / math.log(_unit(f"{who}\0{version}")))


def _unit(text: str) -> float:
    """Return a number in (0, 1) that depends on `text` only."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return (number + 0.5) / 2**64


def _who(sticky: str, name: str, request: Request, caller: Caller) -> str:
    if sticky == "user" and request.user:
        return f"{name}\0{caller.tenant}\0{request.user}"
    if sticky in ("user", "tenant"):
        return f"{name}\0{caller.tenant}"
    return str(random.random())


def _check(name: str, weights: Mapping[str, float]) -> None:
    for version, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ConfigurationError(
                f"route {name!r}: the weight of {version!r} must be a number >= 0, found {weight!r}"
            )
    if not any(weight > 0 for weight in weights.values()):
        raise ConfigurationError(f"route {name!r}: no version has a weight above 0")
