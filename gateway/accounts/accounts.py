"""Who may use how much, who has used what, and what it cost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gateway.accounts.estimates import CHARS_PER_TOKEN, ContextLength, need_of
from gateway.accounts.features import Features
from gateway.accounts.journal import Journal
from gateway.accounts.keyring import Keyring
from gateway.accounts.leases import Shared, SharedMeter, covered
from gateway.accounts.meter import Meter, Need, Taken
from gateway.accounts.prices import Prices
from gateway.accounts.records import (
    KeyRecord,
    Usage,
    UsageKey,
    UsageTable,
    add_usage,
    day_of,
    from_settings,
)
from gateway.accounts.redis_store import RedisStore
from gateway.accounts.sqlite_store import SqliteStore
from gateway.accounts.store import MemoryStore, Store
from gateway.accounts.totals import Totals
from gateway.settings import AccountSettings, KeySettings, Limits
from plugins import Caller, NotFound, Outcome, RateLimited, Request, RequestError

log = logging.getLogger("sluicegate.accounts")
T = TypeVar("T")
AnyMeter = Meter | SharedMeter


@dataclass(frozen=True, slots=True)
class Held:
    """What a running request has reserved."""

    key: UsageKey
    need: Need
    taken: tuple[Taken, ...]


class Accounts:
    """All of it for one gateway. Used on the event loop; the store is called on a thread of its own, never while a
    request waits."""

    def __init__(self, settings: AccountSettings, keys: Iterable[KeySettings] = ()) -> None:
        """Nothing is opened before `start`. Raises `ConfigurationError`."""
        self.settings = settings
        self.prices = Prices(settings.prices)
        self.keyring = Keyring([from_settings(key) for key in keys], required=bool(settings.path or settings.url))
        self.store = _store(settings)
        self.shared = Shared(settings.url) if settings.url else None
        self.journal = Journal(Path(_journal_path(settings)), sync=settings.sync) if _journal_path(settings) else None
        self.since_start: UsageTable = {}
        """What was settled by this process, for metrics."""
        self.saved: dict[str, tuple[int, int]] = {}
        """Tokens and billionths that kept answers saved this process, by model."""
        self.refusals: dict[str, int] = {}
        self.context_of: ContextLength = lambda model: None
        """Context length of a served model; whoever knows the models sets it."""
        self._features = Features()
        self._totals = Totals()
        self._meters: dict[tuple[str, str], AnyMeter | None] = {}
        self._teams: dict[str, Limits] = dict(settings.teams)
        self._held: dict[str, Held] = {}
        self._pending: UsageTable = {}
        self._unsaved: list[tuple[int, UsageTable]] = []
        self._version = ""
        self._thread = ThreadPoolExecutor(1, "accounts")
        self._flusher: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, take back what a killed gateway left, read keys. Raises `ConfigurationError`."""
        await self.on_thread(self.store.open)
        if self.journal is not None:
            self.journal.take()
            applied = await self.on_thread(self.store.applied, self.journal.identity)
            self._unsaved.append(self.journal.recover(applied))
        await self._save()
        if self.shared is not None:
            await self.shared.beat()
        self._totals.restore(await self.on_thread(self.store.spent, day_of(time.time())), time.time())
        await self.refresh()
        self._flusher = asyncio.create_task(self._keep_flushing())

    async def close(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._flusher
            self._flusher = None
            await self.flush()
            await self._share()
        if self.shared is not None:
            await self.shared.close()
        if self.journal is not None:
            self.journal.close()
        await self.on_thread(self.store.close)
        self._thread.shutdown(wait=False)

    async def on_thread(self, call: Callable[..., T], *arguments: object) -> T:
        """Call the store beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    # --- a request's way ----------------------------------------------------------------------------------------

    async def admit(self, request: Request, caller: Caller) -> None:
        """`reserve`, once leases cover it where limits are shared. Raises `Overloaded` where that cannot be told."""
        meters = [meter for meter in self.meters_of(caller) if isinstance(meter, SharedMeter)]
        if meters:
            await covered(meters, self._need(request, meters))
        self.reserve(request, caller)

    def reserve(self, request: Request, caller: Caller) -> None:
        """Count the request against every limit of its key and team, at what it may use; `settle` puts it right.
        Raises `RateLimited`, or `RequestError` where it can never fit; then nothing was counted."""
        meters = self.meters_of(caller)
        now_s = time.time()
        need = self._need(request, meters)
        try:
            for meter in meters:
                meter.check(need, now_s)
        except (RateLimited, RequestError) as error:
            self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
            raise
        key = UsageKey(day_of(now_s), caller.key_id or "", caller.team or "", self._features.of(request), request.model)
        self._held[request.id] = Held(key, need, tuple(meter.take(need, now_s) for meter in meters))
        if self.journal is not None:
            self.journal.reserved(request.id, key, Usage(requests=1, interrupted=1, cost_nanos=need.nanos))

    def _need(self, request: Request, meters: Sequence[AnyMeter]) -> Need:
        budgeted = any(m.limits.budget_day is not None or m.limits.budget_month is not None for m in meters)
        return need_of(request, self.prices, self.context_of, budgeted=budgeted or self.journal is not None)

    def settle(self, outcome: Outcome) -> None:
        """What the request really used. One that `reserve` refused is only counted as an error."""
        now_s = time.time()
        held = self._held.pop(outcome.request.id, None)
        if held is None and outcome.caller.key_id is None and self.keyring.required:
            return  # nobody that is known here
        refused = held is None and outcome.error is not None
        cost = self.prices.cost_nanos(outcome.model, outcome.usage)
        used = _tokens(outcome)
        for taken in held.taken if held is not None else ():
            taken.meter.settle(taken, used, cost, now_s)
        usage = Usage(
            requests=0 if refused else 1,
            errors=1 if outcome.error is not None else 0,
            cached=1 if outcome.cached else 0,
            prompt_tokens=outcome.usage.prompt_tokens,
            cached_tokens=outcome.usage.cached_tokens,
            completion_tokens=outcome.usage.completion_tokens,
            cost_nanos=cost,
        )
        self._count(outcome, held, usage, now_s)
        self._count_saved(outcome)

    def _count_saved(self, outcome: Outcome) -> None:
        saved = outcome.saved.prompt_tokens + outcome.saved.completion_tokens
        if saved:
            tokens, nanos = self.saved.get(outcome.model, (0, 0))
            self.saved[outcome.model] = tokens + saved, nanos + self.prices.cost_nanos(outcome.model, outcome.saved)

    def _count(self, outcome: Outcome, held: Held | None, usage: Usage, now_s: float) -> None:
        caller = outcome.caller
        feature = held.key.feature if held is not None else ""
        key = UsageKey(day_of(now_s), caller.key_id or "", caller.team or "", feature, outcome.model)
        add_usage(self._pending, key, usage)
        add_usage(self.since_start, UsageKey("", *_rest(key)), usage)
        self._totals.add(key, usage.cost_nanos, now_s)
        if self.journal is not None and usage.requests:
            self.journal.settled(outcome.request.id, key, usage)

    # --- keys and limits ----------------------------------------------------------------------------------------

    def meters_of(self, caller: Caller) -> list[AnyMeter]:
        """Of the key and of its team, where they have limits."""
        return [meter for meter in self._meters_of(caller) if meter is not None]

    async def refresh(self) -> None:
        """Read keys and teams again if somebody changed them."""
        version = await self.on_thread(self.store.version)
        if version == self._version:
            return
        kept, teams = await self.on_thread(lambda: (self.store.keys(), self.store.teams()))
        self.keyring.replace(kept)
        self._teams = {**teams, **self.settings.teams}
        self._version = version
        now_s = time.time()
        for (kind, name), meter in list(self._meters.items()):
            limits = self._limits_of(kind, name)
            if meter is None or limits == Limits():
                del self._meters[kind, name]
            else:
                meter.change(limits, *self._totals.of(kind, name, now_s))

    async def change_key(self, record: KeyRecord) -> None:
        """Keep `record` in the store and heed it at once. Raises `RequestError` for a key of the configuration."""
        found = self.keyring.records.get(record.id)
        if found is not None and found.source == "configuration":
            raise RequestError(f"key {record.id!r} stands in the configuration; change it there", code="fixed_key")
        await self.on_thread(self.store.put_key, record)
        await self.refresh()

    async def change_team(self, name: str, limits: Limits) -> None:
        if name in self.settings.teams:
            raise RequestError(f"team {name!r} stands in the configuration; change it there", code="fixed_team")
        await self.on_thread(self.store.put_team, name, limits)
        await self.refresh()

    def key(self, key_id: str) -> KeyRecord:
        """Raises `NotFound`."""
        record = self.keyring.records.get(key_id)
        if record is None:
            raise NotFound(f"there is no key {key_id!r}", param="id", code="key_not_found")
        return record

    @property
    def teams(self) -> dict[str, Limits]:
        return dict(self._teams)

    async def usage(self, since: str, until: str) -> UsageTable:
        """Sums of the days [since, until], with what is not in the store yet."""
        await self.flush()
        return await self.on_thread(self.store.usage, since, until)

    def _meters_of(self, caller: Caller) -> tuple[AnyMeter | None, AnyMeter | None]:
        return self._meter("key", caller.key_id), self._meter("team", caller.team)

    def _meter(self, kind: str, name: str | None) -> AnyMeter | None:
        if not name:
            return None
        try:
            return self._meters[kind, name]
        except KeyError:
            limits = self._limits_of(kind, name)
            made = None if limits == Limits() else self._new_meter(kind, name, limits)
            self._meters[kind, name] = made
            return made

    def _new_meter(self, kind: str, name: str, limits: Limits) -> AnyMeter:
        if self.shared is not None:
            return SharedMeter(kind, name, limits, self.shared)
        return Meter(f"{kind} {name!r}", limits, *self._totals.of(kind, name, time.time()))

    def _limits_of(self, kind: str, name: str) -> Limits:
        if kind == "team":
            return self._teams.get(name, Limits())
        record = self.keyring.records.get(name)
        return record.limits if record is not None else Limits()

    # --- from the journal into the store ------------------------------------------------------------------------

    async def flush(self) -> None:
        """Move what was counted into the store; what cannot be moved stays in the journal and is tried again."""
        async with self._flushing:
            if self._pending or (self.journal is not None and self.journal.dirty):
                segment = self.journal.finish() if self.journal is not None else 0
                self._unsaved.append((segment, self._pending))
                self._pending = {}
            await self._save()

    async def _save(self) -> None:
        while self._unsaved:
            segment, table = self._unsaved[0]
            identity = self.journal.identity if self.journal is not None else ""
            await self.on_thread(self.store.add, identity, segment, table)
            self._unsaved.pop(0)
            if self.journal is not None:
                self.journal.delete(segment)

    async def _share(self) -> None:
        """Say that this gateway lives, and give back what it leased and does not use."""
        if self.shared is None:
            return
        await self.shared.beat()
        for meter in list(self._meters.values()):
            if isinstance(meter, SharedMeter):
                await meter.give_back(time.time())

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(self.settings.flush_s)
            try:
                await self.flush()
                await self.refresh()
                await self._share()
            except Exception:
                log.exception("usage stays in the journal for now; the store did not take it")


def _store(settings: AccountSettings) -> Store:
    if settings.url:
        return RedisStore(settings.url)
    return SqliteStore(Path(settings.path)) if settings.path else MemoryStore()


def _journal_path(settings: AccountSettings) -> str:
    return settings.journal or (f"{settings.path}.journal" if settings.path else "")


def _tokens(outcome: Outcome) -> int:
    """Against tokens a minute an answer of the cache counts as what it would have been."""
    if not outcome.cached:
        return outcome.usage.prompt_tokens + outcome.usage.completion_tokens
    chars = sum(len(m.content) for m in outcome.request.messages) + sum(len(a.text) for a in outcome.answers)
    return chars // CHARS_PER_TOKEN


def _rest(key: UsageKey) -> tuple[str, str, str, str]:
    return key.key_id, key.team, key.feature, key.model
