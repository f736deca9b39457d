"""Canaries that take over, or go, by themselves: what requests say is gathered, one gateway decides, weights follow.

A decision is kept before it is put into force, and is put into force again after a crash. Each stands in the audit log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sluicegate.gateway.audit import AuditTrail
from sluicegate.gateway.database import DatabaseUnavailable, Tables, unavailable
from sluicegate.gateway.database.leadership import Leadership
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.rollout.judging import RolloutJudge
from sluicegate.gateway.rollout.observation import AnswerChecks, Observation, observed
from sluicegate.gateway.rollout.progress import OPEN, Action, Rollout, RolloutDecision
from sluicegate.gateway.rollout.store import Edit, RolloutStore
from sluicegate.gateway.routing import RouteTable
from sluicegate.gateway.settings import RolloutSettings
from sluicegate.plugins import NotFound, RequestError, SluicegateError, Trouble
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate.rollout")
T = TypeVar("T")
TICK_S = 0.5
LEASE_S = 10.0
MAX_WAITING = 20_000
"""Most observations that wait for an unreachable database; further ones are dropped and counted."""
BY = "rollout"


class Rollouts:
    """Used on the event loop."""

    def __init__(
        self,
        tables: Tables,
        routes: RouteTable,
        audit: AuditTrail,
        judge: RolloutJudge,
        served: Callable[[], Collection[str]],
        *,
        shared: bool = False,
    ) -> None:
        """Prepare to run rollouts. `shared`: other gateways may begin rollouts in the same tables."""
        self._shared = shared
        self._tables = tables
        self._store = RolloutStore(tables, Leadership(tables, BY, LEASE_S))
        self._routes = routes
        self._audit = audit
        self._judge = judge
        self._served = served
        self._found: dict[str, Rollout] = {}
        self._checks: dict[str, AnswerChecks] = {}
        self._waiting: list[Observation] = []
        self._left_out = 0
        self._leads = False
        self._claim: asyncio.Future[Any] | None = None
        """The newest call that may claim the lead; one that is left goes on."""
        self._trouble: dict[str, str] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._number = 0
        self._sent = 0
        """How many of `_waiting` were sent under the current number without an answer: the same ones are sent again."""

    @property
    def found(self) -> Mapping[str, Rollout]:
        """Return the rollouts by route, as last read."""
        return self._found

    @property
    def leads(self) -> bool:
        return self._leads

    # --- starting and stopping ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin what the configuration names and was not begun before; go on with the rest. Raises
        `ConfigurationError`, `DatabaseUnavailable`."""
        for name, route in self._routes.routes.items():
            if (settings := route.settings.rollout) is not None:
                AnswerChecks(settings.checks, name)
                await self._tables.call(lambda name=name, given=settings: self._configured(name, given))  # type: ignore[misc]
        await self._read()
        if self._routes.routes or self._shared:
            self._tick_from_now_on()

    def _configured(self, route: str, settings: RolloutSettings) -> None:
        def change(old: Rollout | None, now: float) -> tuple[Rollout, None]:
            if old is not None and _same_pair(old.settings, settings):
                old.settings, old.step = settings, min(old.step, len(settings.steps) - 1)
                return old, None
            return _begun(route, settings, "configuration", now), None

        self._store.edit(route, change)

    async def close(self) -> None:
        """Keep what was seen, and let another gateway lead."""
        await end_tasks((self._ticking,))
        await self._judge.close()
        try:
            while self._waiting:
                await self._flush()
            if self._claim is not None:  # written after the lead was given up, it would keep all others from leading
                await asyncio.wait((self._claim,))
                await self._tables.call(self._store.give_up)
        except DatabaseUnavailable as error:
            log.error("%d observations of rollouts are lost: %s", len(self._waiting), error)
        await asyncio.to_thread(self._tables.close)

    # --- requests ----------------------------------------------------------------------------------------------

    def observe(self, exchange: Exchange) -> None:
        """Observe a request. Called once for each request that has ended."""
        if exchange.draw is None or (found := self._found.get(exchange.draw.route)) is None or found.state not in OPEN:
            return
        seen = observed(exchange, self._checks_of(found))
        if seen is not None:
            self.add(seen)
            self._judge.consider(exchange, seen, found.settings, self.add)

    def add(self, seen: Observation) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._left_out += 1
        else:
            self._waiting.append(seen)

    def _checks_of(self, found: Rollout) -> AnswerChecks:
        if found.route not in self._checks:
            self._checks[found.route] = AnswerChecks(found.settings.checks, found.route)
        return self._checks[found.route]

    def stats(self) -> Mapping[str, float]:
        open_now = sum(found.state in OPEN for found in self._found.values())
        waiting = float(len(self._waiting))
        return {
            "open": float(open_now),
            "leads": float(self._leads),
            "observations_waiting": waiting,
            "observations_left_out_total": float(self._left_out),
        }

    def troubles(self) -> list[Trouble]:
        return [Trouble(f"rollout of {route}: {reason}") for route, reason in self._trouble.items()]

    # --- operators ---------------------------------------------------------------------------------------------

    async def begin(self, route: str, settings: RolloutSettings, by: str) -> Rollout:
        """Begin a rollout. Raises `RequestError` where another one runs, a version is not served, or requests stick to
        versions."""
        self._check(route, settings)
        AnswerChecks(settings.checks, route)

        def change(old: Rollout | None, now: float) -> tuple[Rollout, Rollout]:
            if old is not None and (old.state in OPEN or old.pending is not None):
                raise RequestError(f"route {route!r} has a rollout that is {old.state}; stop it first", param="route")
            made = _begun(route, settings, by, now)
            return made, made

        made = await self._edited(route, change)
        self._tick_from_now_on()
        return made

    def _tick_from_now_on(self) -> None:
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick_on())

    def _check(self, route: str, settings: RolloutSettings) -> None:
        known = self._routes.routes.get(route)
        if known is None:
            raise NotFound(f"there is no route {route!r}; known: {', '.join(sorted(self._routes.routes)) or 'none'}")
        if known.settings.sticky != "none":
            raise RequestError(
                f"requests to {route!r} stick to versions, so that they are not drawn one by one; set "
                f'[routing.models.{route}] sticky = "none"',
                param="route",
            )
        if missing := sorted({settings.canary, settings.baseline} - set(self._served())):
            raise RequestError(f"not served here: {', '.join(missing)}; add the model first", param="canary")

    async def command(self, route: str, action: Action, by: str, reason: str) -> Rollout:
        """Carry out an operator's command. Raises `NotFound`, and `RequestError` where the rollout's state does not
        allow it."""

        def change(old: Rollout | None, now: float) -> tuple[Rollout, Rollout]:
            if old is None:
                raise NotFound(f"route {route!r} has no rollout", code="rollout_not_found")
            try:
                old.command(action, by, now, reason)
            except ValueError as error:
                raise RequestError(str(error), code="rollout_state") from error
            return old, old

        return await self._edited(route, change)

    async def _edited(self, route: str, change: Edit[Rollout]) -> Rollout:
        try:
            made = await self._tables.call(lambda: self._store.edit(route, change))
        except DatabaseUnavailable as error:
            raise unavailable("rollouts") from error
        self._found[route] = made
        self._checks.pop(route, None)
        return made

    # --- the leader --------------------------------------------------------------------------------------------

    async def _tick_on(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick()
                self._trouble.pop("all", None)
            except DatabaseUnavailable as error:
                if "all" not in self._trouble:
                    log.error("rollouts stand still: %s", error)
                self._trouble["all"] = str(error)
                self._leads = False
            except Exception:
                log.exception("rollouts could not be looked at; they are again in %g s", TICK_S)

    async def _tick(self) -> None:
        await self._flush()
        await self._read()
        led, self._leads = self._leads, bool(self._found) and await self._claiming(self._store.lead)
        if not self._leads:
            return
        if not led:
            await self._routes.refresh()  # the one who led before may have changed weights a moment ago
            await self._tables.call(lambda: self._store.drop_strays(list(self._found)))
        for route, found in list(self._found.items()):
            if found.state in OPEN or found.pending is not None:
                await self._follow(route)

    async def _claiming(self, work: Callable[[], T]) -> T:
        """Return what `work` gives, which may claim the lead."""
        self._claim = claim = asyncio.ensure_future(self._tables.call(work))
        claim.add_done_callback(_note_as_seen)
        return await asyncio.shield(claim)

    async def _follow(self, route: str) -> None:
        found = await self._claiming(lambda: self._store.fold(route))
        if found is None:
            return
        self._found[route] = found
        if found.pending is not None:
            await self._apply(found, found.pending)
        elif found.state in OPEN and (by := self._changed_by(found)):
            async with self._audit.change(by, "rollout.supersede", route, canary=found.settings.canary):
                await self._change(route, lambda old, now: old.supersede(by, now))

    def _changed_by(self, found: Rollout) -> str:
        """Return who changed the weights away from the rollout's; empty where nobody did."""
        last = self._routes.routes[found.route].history[-1] if found.route in self._routes.routes else None
        if last is None:
            return "the configuration"
        return "" if dict(last.weights) == _weights(found.settings, found.share) else last.by

    async def _apply(self, found: Rollout, made: RolloutDecision) -> None:
        """Put a decision into force; a failure is tried again from the beginning at the next tick."""
        route, weights = found.route, _weights(found.settings, made.share)
        facts = {
            "canary": found.settings.canary,
            "baseline": found.settings.baseline,
            "weights": weights,
            "reason": made.reason,
            "requests": made.requests,
        }
        if made.metric:
            facts |= {"metric": made.metric, "evidence": made.evidence, "needed": made.needed}
        try:
            async with self._audit.change(made.by, f"rollout.{made.action}", route, **facts):
                known = self._routes.routes.get(route)
                if known is None or dict(known.weights) != weights:
                    await self._routes.weigh(route, weights, self._served(), BY)
                await self._change(route, lambda old, now: old.applied(now) if old.pending == made else None)
        except SluicegateError as error:
            if self._trouble.get(route) != error.message:
                log.error("rollout of %s: the decision to %s waits: %s", route, made.action, error.message)
            self._trouble[route] = error.message
            return
        self._trouble.pop(route, None)
        log.warning("rollout of %s: %s, %s", route, made.action, made.reason)

    async def _change(self, route: str, change: Callable[[Rollout, float], None]) -> None:
        def edit(old: Rollout | None, now: float) -> tuple[Rollout, Rollout]:
            assert old is not None
            change(old, now)
            return old, old

        self._found[route] = await self._tables.call(lambda: self._store.edit(route, edit))

    async def _flush(self) -> None:
        """Write what waits, one caller after another, to its end even where the caller is cancelled: what is in the
        tables and still waits would be written, and counted, twice."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._write())
        await asyncio.shield(self._flushing)

    async def _write(self) -> None:
        if not self._waiting:
            return
        if not self._sent:
            self._number, self._sent = self._number + 1, len(self._waiting)
        number, batch = self._number, self._waiting[: self._sent]
        await self._tables.call(lambda: self._store.add(number, batch))
        del self._waiting[: self._sent]
        self._sent = 0

    async def _read(self) -> None:
        found = await self._tables.call(self._store.load)
        for route, progress in found.items():
            if (old := self._found.get(route)) is None or old.settings != progress.settings:
                self._checks.pop(route, None)
        self._found = found


def _note_as_seen(call: asyncio.Future[Any]) -> None:
    if not call.cancelled():
        call.exception()


def _begun(route: str, settings: RolloutSettings, by: str, now_s: float) -> Rollout:
    made = Rollout(route, settings, now_s, since_s=now_s)
    made.begin(by, now_s)
    return made


def _same_pair(one: RolloutSettings, other: RolloutSettings) -> bool:
    return replace(other, canary=one.canary, baseline=one.baseline) == other


def _weights(settings: RolloutSettings, share: float) -> dict[str, float]:
    return {settings.baseline: 1 - share, settings.canary: share}
