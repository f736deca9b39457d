"""Reserve, settle and record what keys and teams use; the door to keys, limits and usage."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sluicegate.gateway.accounts.bounds import MAX_NANOS, bounded, name_of, plausible
from sluicegate.gateway.accounts.charging import charged, tokens_a_minute
from sluicegate.gateway.accounts.construction import has_store, journal_of, leases_of, shared_runs_of, store_of
from sluicegate.gateway.accounts.directory import Directory
from sluicegate.gateway.accounts.features import Features
from sluicegate.gateway.accounts.health import RETRY_S, Health, fault_of_store
from sluicegate.gateway.accounts.journal.flusher import Flusher
from sluicegate.gateway.accounts.keyring import Keyring, check_names
from sluicegate.gateway.accounts.limits.estimates import CandidateModels, ReachOf, need_of
from sluicegate.gateway.accounts.limits.leases import BEAT_S, SharedMeter, covered
from sluicegate.gateway.accounts.limits.meter import MeterReservation, UsageEstimate
from sluicegate.gateway.accounts.limits.prices import Prices
from sluicegate.gateway.accounts.limits.run_store import RunShare
from sluicegate.gateway.accounts.limits.runs import MARK, Runs, RunUse, limits_runs
from sluicegate.gateway.accounts.limits.totals import Totals
from sluicegate.gateway.accounts.meters import AnyMeter, Meters
from sluicegate.gateway.accounts.records import (
    KeyRecord,
    UsageKey,
    UsageSum,
    UsageTable,
    add_usage,
    day_of,
    from_settings,
)
from sluicegate.gateway.accounts.stores.base import ChangeKey, Spent, creation
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import AccountSettings, KeySettings, Limits
from sluicegate.plugins import (
    BooksUnavailable,
    Caller,
    NotFound,
    Outcome,
    Request,
    RequestError,
    SluicegateError,
    Usage,
)
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.frozen import frozen_when_checked

log = logging.getLogger("sluicegate.accounts")
T = TypeVar("T")


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Reservation:
    """What a running request has reserved of its limits."""

    key: UsageKey
    need: UsageEstimate
    taken: tuple[MeterReservation, ...]
    runs: tuple[RunUse, ...] = ()
    shares: tuple[RunShare, ...] = ()
    """The shares of the same runs, as counted by all gateways together."""


class Accounts:
    """Keys, limits and usage of one gateway. Used on the event loop; calls the store on a thread, never while a request
    waits."""

    def __init__(
        self, settings: AccountSettings, keys: Iterable[KeySettings] = (), database: Database | None = None
    ) -> None:
        """Build the accounts without opening anything: `start` does that. `database` is where all gateways of the
        deployment keep keys, usage and budgets. Raises `ConfigurationError`."""
        self.settings = settings
        self.prices = Prices(settings.prices)
        self.keyring = Keyring([from_settings(key) for key in keys], required=has_store(settings, database))
        for name in settings.teams:
            check_names(f"team {name[:80]!r}", id=name)
        self.health = Health()
        self.store = store_of(settings, database)
        self.shared = leases_of(settings, database, self.health)
        self.journal = journal_of(settings, self.health)
        self.since_start: UsageTable = {}
        """What this process has settled, for metrics."""
        self.saved: dict[str, tuple[int, int]] = {}
        """Tokens and cost in billionths that cached answers saved this process, by model."""
        self.refusals: dict[str, int] = {}
        self.reach_of: ReachOf = lambda model: CandidateModels(None)
        """Returns the models that may answer a request; set by the component that knows the models."""
        self._features = Features()
        self._totals = Totals()
        self._held: dict[str, Reservation] = {}
        self._runs = Runs()
        self._shared_runs = shared_runs_of(settings, database, self.health)
        self._thread = ThreadPoolExecutor(1, "accounts")
        self._reader = ThreadPoolExecutor(1, "accounts-keys")
        self._flusher = Flusher(self.store, self.journal, self.health, self.on_thread)
        self._directory = Directory(
            self.store, self.keyring, settings.teams, self.health, settings.keep_keys_s, self._on_reader
        )
        self.meters = Meters(self._directory, self._totals, self.shared)
        self._tasks: list[asyncio.Task[None]] = []

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, take back what a killed gateway left, read keys. Raises `ConfigurationError`."""
        await self.on_thread(self.store.open)
        if self.journal is not None:
            self.journal.take()
            applied = await self.on_thread(self.store.applied, self.journal.identity)
            self._flusher.recovered(*self.journal.recover(applied))
        with contextlib.suppress(Exception):  # what the store does not take now waits; `health` has it
            await self._flusher.flush()
        if self.shared is not None:
            await self.shared.renew_presence()
        await self._restore()
        await self.refresh()
        self._tasks = [asyncio.create_task(self._keep(every_s, work)) for every_s, work in self._rounds()]

    async def close(self) -> None:
        """Flush, give back leases and close everything; a failure of one part does not keep others open."""
        await end_tasks(self._tasks)
        works = [self.flush, self._share] if self._tasks else []
        self._tasks = []
        works += [shared.close for shared in (self._shared_runs, self.shared) if shared is not None]
        for work in works:
            try:
                await work()
            except Exception as error:
                log.error("the books: %s while they were closed (%s)", work.__name__, fault_of_store(error))
        if self.journal is not None:
            self.journal.close()
        await self.on_thread(self.store.close)
        for thread in (self._thread, self._reader):
            thread.shutdown(wait=False)

    def _rounds(self) -> list[tuple[float, Callable[[], Awaitable[object]]]]:
        """Return the periodic work as (interval in seconds, call). Each has a task of its own, so that none waits for
        another."""
        every_s = self.settings.flush_s
        rounds: list[tuple[float, Callable[[], Awaitable[object]]]] = [(every_s, self.flush), (every_s, self.refresh)]
        if self.shared is not None:
            rounds += [(every_s, self._share), (min(every_s, BEAT_S), self._beat)]
        return rounds

    async def _keep(self, every_s: float, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await work()
            except Exception:  # `health` says it once, and shows it
                log.debug("the books: a round failed", exc_info=True)

    async def _restore(self) -> None:
        """Restore this month's spending: what the store holds and what still waits to be written there."""
        now_s = time.time()
        self._totals.restore(await self.on_thread(self.store.spent, day_of(now_s)), now_s)
        for table in self._flusher.waiting:
            for key, usage in table.items():
                if key.day[:7] == day_of(now_s)[:7]:
                    self._totals.add(key, usage.cost_nanos, now_s)

    async def on_thread(self, call: Callable[..., T], *arguments: object) -> T:
        """Call the store beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    async def _on_reader(self, call: Callable[..., T], *arguments: object) -> T:
        """Call the store beside the event loop, and beside what writes to it."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, call, *arguments)

    # --- a request's way ----------------------------------------------------------------------------------------

    async def admit(self, request: Request, caller: Caller) -> None:
        """Call `reserve`, after leases cover the request where limits are shared. Raises `Overloaded` where the shared
        limits do not answer, `BooksUnavailable` where usage could not be written, and what `reserve` raises."""
        if request.n:  # who has to write nothing down may come while the disk is full: to make room, for one
            self.health.check()
        self._directory.check(caller)
        meters = [meter for meter in self.meters.of(caller) if isinstance(meter, SharedMeter)]
        if meters:
            await covered(meters, self._need(request, meters))
        shares = await self._shares(request, meters)
        try:
            self.reserve(request, caller, shares)
        except BaseException:
            if self._shared_runs is not None:
                self._shared_runs.drop(shares)
            raise

    async def _shares(self, request: Request, meters: Sequence[SharedMeter]) -> tuple[RunShare, ...]:
        """Reserve the request in its agent run across all gateways, after this gateway's own limits admit it."""
        if self._shared_runs is None or not request.n or not any(limits_runs(meter.limits) for meter in meters):
            return ()
        need = self._need(request, meters)
        try:
            self._check(meters, need, time.time())
            return await self._shared_runs.take(meters, MARK.get(), need)
        except RequestError as error:
            self._count_refusal(error)
            raise

    def reserve(self, request: Request, caller: Caller, shares: tuple[RunShare, ...] = ()) -> None:
        """Count the request against every limit of its key and team at the most it may use; `settle` corrects that. A
        request with `n` 0 generates nothing and needs no `settle`. `shares`: what it has of shared runs.
        Raises `RateLimited`, `RequestError` where it can never fit, or `BooksUnavailable`; then nothing was counted."""
        meters = self.meters.of(caller)
        now_s = time.time()
        need = self._need(request, meters)
        try:
            self._check(meters, need, now_s)
        except RequestError as error:
            self._count_refusal(error)
            raise
        if not request.n:
            for meter in meters:
                meter.settle(meter.take(need, now_s), 0, 0, now_s)
            return
        model = name_of(request.model)
        key = UsageKey(day_of(now_s), caller.key_id or "", caller.team or "", self._features.of(request), model)
        if self.journal is not None:
            self.journal.reserved(request.id, key, UsageSum(requests=1, interrupted=1, cost_nanos=need.nanos))
        runs = [self._runs.take(meter.name, meter.limits, MARK.get(), need) for meter in meters]
        taken = tuple([meter.take(need, now_s) for meter in meters])
        self._held[request.id] = Reservation(key, need, taken, tuple([use for use in runs if use is not None]), shares)

    def _check(self, meters: Sequence[AnyMeter], need: UsageEstimate, now_s: float) -> None:
        for meter in meters:
            meter.check(need, now_s)
            self._runs.check(meter.name, meter.limits, MARK.get(), need)

    def _count_refusal(self, error: RequestError) -> None:
        self.refusals[error.code] = self.refusals.get(error.code, 0) + 1

    def _need(self, request: Request, meters: Sequence[AnyMeter]) -> UsageEstimate:
        budgeted = self.journal is not None or any(
            limit is not None
            for m in meters
            for limit in (m.limits.budget_day, m.limits.budget_month, m.limits.run_cost)
        )
        need = need_of(request, self.prices, self.reach_of, budgeted=budgeted)
        return need if need.nanos <= MAX_NANOS else UsageEstimate(need.tokens, MAX_NANOS)

    def feature_of(self, request: Request) -> str:
        return self._features.of(request)

    def cost_nanos(self, model: str, used: Usage) -> int:
        """Return what tokens cost, in billionths of the currency. An implausible usage that a model reports is bounded
        first."""
        return min(MAX_NANOS, self.prices.cost_nanos(model, used if plausible(used) else bounded(used)))

    def settle(self, outcome: Outcome) -> None:
        """Replace the reservation by what the request used. One that `reserve` refused counts as an error only."""
        now_s = time.time()
        held = self._held.pop(outcome.request.id, None)
        if held is None and outcome.caller.key_id is None and self.keyring.required:
            return  # nobody that is known here
        refused = held is None and outcome.error is not None
        counted, cost, cut = charged(outcome, self.prices, held.need if held is not None else None)
        if cut:
            self.health.counts["figures_bounded"] += 1
        used = tokens_a_minute(outcome, counted)
        for taken in held.taken if held is not None else ():
            taken.meter.settle(taken, used, cost, now_s)
        if held is not None:
            for use in held.runs:
                use.settle(held.need, used, cost)
            if held.shares and self._shared_runs is not None:
                self._shared_runs.settle(held.shares, used, cost)
        usage = UsageSum(
            requests=0 if refused else 1,
            errors=1 if outcome.error is not None else 0,
            cached=1 if outcome.cached else 0,
            prompt_tokens=counted.prompt_tokens,
            cached_tokens=counted.cached_tokens,
            completion_tokens=counted.completion_tokens,
            cost_nanos=cost,
        )
        self._count(outcome, held, usage, now_s)
        self._count_saved(outcome)

    def _count_saved(self, outcome: Outcome) -> None:
        kept = outcome.saved if plausible(outcome.saved) else bounded(outcome.saved)
        saved = kept.prompt_tokens + kept.completion_tokens
        if saved:
            tokens, nanos = self.saved.get(outcome.model, (0, 0))
            self.saved[outcome.model] = tokens + saved, nanos + self.prices.cost_nanos(outcome.model, kept)

    def _count(self, outcome: Outcome, held: Reservation | None, usage: UsageSum, now_s: float) -> None:
        caller = outcome.caller
        feature = held.key.feature if held is not None else ""
        key = UsageKey(day_of(now_s), caller.key_id or "", caller.team or "", feature, outcome.model)
        self._flusher.add(key, usage)
        add_usage(self.since_start, UsageKey("", *key[1:]), usage)
        self._totals.add(key, usage.cost_nanos, now_s)
        if self.journal is not None and usage.requests:
            self.journal.settled(outcome.request.id, key, usage)

    # --- keys and limits ----------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read keys and teams again if they have changed."""
        changed = await self._directory.refresh()
        try:
            await self.meters.count_spent(self._spent, changed=changed)
        except Exception as error:
            log.warning("the books: what was spent before a budget was set is not counted yet (%s)", error)
        if changed:
            self.meters.renew()

    async def _spent(self) -> Spent:
        await self.flush()
        return await self.on_thread(self.store.spent, day_of(time.time()))

    async def add_key(self, record: KeyRecord) -> None:
        """Write a new key to the store and apply it at once. Raises `RequestError` where there is one of that id."""
        await self._edit_key(record.id, creation(record))

    async def change_key(self, key_id: str, change: Callable[[KeyRecord], KeyRecord]) -> KeyRecord:
        """Change a key as the store has it now, which another gateway may have changed since it was read here; apply
        the change at once, and return the new record. One that the store lost is changed as it was last known. Raises
        `NotFound`, `RequestError` for a key of the configuration, and what `change` raises."""
        known = self.key(key_id)
        if known.source == "configuration":
            raise RequestError(f"key {key_id!r} stands in the configuration; change it there", code="fixed_key")
        return await self._edit_key(
            key_id, lambda found: change(known if found is None else self._directory.still_revoked(found))
        )

    async def _edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        async with self._store_errors("the key was changed or not, nobody knows: read it, and change it again"):
            record = await self.on_thread(self.store.edit_key, key_id, change)
            await self.refresh()
        return record

    async def change_team(self, name: str, limits: Limits) -> None:
        if name in self.settings.teams:
            raise RequestError(f"team {name!r} stands in the configuration; change it there", code="fixed_team")
        async with self._store_errors("the team was changed or not, nobody knows: read it, and change it again"):
            await self.on_thread(self.store.put_team, name, limits)
            await self.refresh()

    def check_keys(self, keys: Iterable[KeySettings]) -> None:
        """Check the keys of a new configuration without using them. Raises what `exchange_keys` raises."""
        self.keyring.check_fixed([from_settings(key) for key in keys])

    def exchange_keys(self, keys: Iterable[KeySettings]) -> None:
        """Replace the keys of the configuration. Raises `ConfigurationError`; nothing has changed then."""
        self.keyring.exchange_fixed([from_settings(key) for key in keys])
        self.meters.renew()

    def key(self, key_id: str) -> KeyRecord:
        """Return the key with this id. Raises `NotFound`."""
        record = self.keyring.records.get(key_id)
        if record is None:
            raise NotFound(f"there is no key {key_id!r}", param="id", code="key_not_found")
        return record

    @property
    def teams(self) -> dict[str, Limits]:
        return dict(self._directory.teams)

    async def usage(self, since: str, until: str) -> UsageTable:
        """Return sums of the days [since, until], including what is not in the store yet."""
        async with self._store_errors("usage cannot be read now; ask again"):
            await self.flush()
            return await self.on_thread(self.store.usage, since, until)

    @contextlib.asynccontextmanager
    async def _store_errors(self, advice: str) -> AsyncIterator[None]:
        """Turn what a store raises into `BooksUnavailable`; errors of our own pass unchanged."""
        try:
            yield
        except SluicegateError:
            raise
        except Exception as error:
            log.error("the books: %s: %s", type(error).__name__, error)
            raise BooksUnavailable(f"the store does not answer; {advice}", retry_after_s=RETRY_S) from error

    # --- rounds ---------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Move what was counted into the store; what cannot be moved stays in the journal and is tried again."""
        await self._flusher.flush()

    async def _beat(self) -> None:
        """Renew this gateway's presence. A store that lost everything learns at once what this gateway holds, and not
        only when it asks again: others would be granted that meanwhile."""
        if self.shared is not None and await self.shared.renew_presence():
            await self._give_back(report=True)

    async def _give_back(self, *, report: bool = False) -> None:
        for meter in self.meters.shared:
            await meter.give_back(time.time(), report=report)

    async def _share(self) -> None:
        """Return unused leases to the store, and report the usage of shared runs."""
        await self._give_back()
        if self._shared_runs is not None:
            await self._shared_runs.flush()
