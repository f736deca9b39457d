"""Follow the changes of the other gateways of the deployment, and announce this one's: weights, models, reloads,
purges."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from sluicegate.cache import TieredCache
from sluicegate.gateway.database import Announcements, Changes, Database, DatabaseUnavailable, unavailable
from sluicegate.gateway.database.announcements import KIND as ANNOUNCEMENTS
from sluicegate.gateway.mcp.pins import KIND as PINS
from sluicegate.gateway.reload import Reloader
from sluicegate.gateway.routing import RouteTable
from sluicegate.gateway.routing.stores import KIND as ROUTES
from sluicegate.gateway.shared_models import KIND as MODELS
from sluicegate.gateway.shared_models import SharedModels
from sluicegate.plugins import CacheKey, Caller, NotFound, SluicegateError

log = logging.getLogger("sluicegate")
OPERATOR = Caller(tenant="deployment", scopes=frozenset({"admin"}))
Caches = Callable[[], Sequence[tuple[str, TieredCache]]]


class Deployment:
    """Used on the event loop."""

    def __init__(
        self,
        database: Database,
        look_s: float,
        *,
        routes: RouteTable,
        models: SharedModels | None,
        reloader: Reloader,
        caches: Caches,
        pins: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Follow what the other gateways of a deployment change. `models` None: the generator keeps those that it
        started with. `pins` reads those of MCP tools again."""
        self._models = models
        self._reloader = reloader
        self._behind: tuple[int, str] | None = None
        """Why another gateway's last reload failed here, and how many reloads had succeeded before."""
        self._caches = caches
        self._announcements = Announcements(database)
        self._announcements.on("reload", self._reload)
        self._announcements.on("purge", self._purge)
        self._announcements.on("false_hit", self._forget)
        self._changes = Changes(database, look_s)
        self._changes.on(ROUTES, routes.refresh)
        if models is not None:
            self._changes.on(MODELS, models.refresh)
        if pins is not None:
            self._changes.on(PINS, pins)
        self._changes.on(ANNOUNCEMENTS, self._announcements.read)

    async def start(self) -> None:
        """Return once this gateway has all changes of the others. Raises what the database raises."""
        await self._changes.start()

    async def close(self) -> None:
        await self._changes.close()

    @property
    def troubles(self) -> Mapping[str, str]:
        """Report changes of the other gateways that this one could not apply."""
        failed = self._models.failed if self._models is not None else {}
        return {f"model {name}": reason for name, reason in failed.items()}

    @property
    def behind(self) -> str:
        """Return why this gateway's rails and policies differ from those that another one reloaded last; empty where
        they do not."""
        if self._behind is None or self._behind[0] != self._reloader.done:
            return ""
        return (
            f"another gateway read its configuration again, this one could not and goes on as before: {self._behind[1]}"
        )

    async def announce(self, what: str, content: Mapping[str, object]) -> None:
        """Announce a change to the other gateways. Raises `Overloaded` where that is impossible."""
        try:
            await self._announcements.announce(what, content)
        except DatabaseUnavailable as error:
            log.error("done here alone, the other gateways were not told: %s %s: %s", what, content, error)
            raise unavailable("changes for the other gateways (done here)") from error

    async def _reload(self, content: Mapping[str, object]) -> None:
        before = self._reloader.done
        try:
            await self._reloader.reload()
        except Exception as error:
            self._behind = (before, error.message if isinstance(error, SluicegateError) else type(error).__name__)
            raise

    async def _purge(self, content: Mapping[str, object]) -> None:
        tenant, label = (None if content[name] is None else str(content[name]) for name in ("tenant", "label"))
        for _, cache in self._caches():
            await cache.purge(OPERATOR, tenant=tenant, label=label)

    async def _forget(self, content: Mapping[str, object]) -> None:
        key = CacheKey(str(content["tenant"]), str(content["model"]), str(content["entry"]))
        for _, cache in self._caches():
            try:
                await cache.withdraw(key)
            except NotFound:
                log.debug("a cache cannot withdraw single entries")
