"""Agent runs that several gateways count together: reserve before a request is admitted, report its usage
afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sluicegate.gateway.accounts.limits.leases import SharedMeter
from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.limits.run_store import (
    UNREACHABLE,
    RunSettlement,
    RunShare,
    RunStore,
    bounds_of,
    share_of,
)
from sluicegate.gateway.accounts.limits.runs import RunMark, check_depth, limits_runs, over
from sluicegate.plugins import Overloaded, RequestError

log = logging.getLogger("sluicegate.accounts")


class SharedRuns:
    """Used on the event loop. A request costs one question for its key and one for its team, where they limit runs. Its
    usage is reported after its answer, and repeated until the store has it."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._waiting: deque[RunSettlement] = deque()
        """Settlements not yet reported to the store, oldest first."""
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def take(self, meters: Sequence[SharedMeter], mark: RunMark, need: UsageEstimate) -> tuple[RunShare, ...]:
        """Count a request against the run of each of `meters`. Raises `RequestError` where a run is over, `RateLimited`
        where there are too many, `Overloaded` where the store does not answer; nothing stays counted then."""
        limiting = [meter for meter in meters if limits_runs(meter.limits)]
        if any(waiting.lost for waiting in self._waiting):
            await self.flush()  # else an outage would leave a ticket of every request that it turned away
        taken: list[RunShare] = []
        for meter in limiting:
            check_depth(meter.name, meter.limits, mark)
            share = share_of(meter.id, mark.run, os.urandom(8).hex(), need)
            try:
                await self._one(meter, mark, need, share)
            except BaseException as error:
                known = isinstance(error, RequestError) and not isinstance(error, Overloaded)
                self._give_back([*taken, *([] if known else [share])], lost=not known)
                raise
            taken.append(share)
        return tuple(taken)

    async def _one(self, meter: SharedMeter, mark: RunMark, need: UsageEstimate, share: RunShare) -> None:
        standing = await self._store.take(share, bounds_of(meter.limits))
        if standing.outcome == "late":
            raise Overloaded(UNREACHABLE, retry_after_s=1.0)
        if standing.outcome != "taken":
            raise over(meter.name, meter.limits, mark, need, standing.outcome, standing)

    def drop(self, shares: Iterable[RunShare]) -> None:
        """Return the shares of a request that was not admitted after all."""
        self._give_back(shares, lost=False)

    def settle(self, shares: Iterable[RunShare], tokens: int, nanos: int) -> None:
        """Settle the shares of a request that has ended."""
        self._schedule_flush(RunSettlement(share, tokens, nanos) for share in shares)

    async def flush(self) -> None:
        """Report all pending usage to the store. Raises `Overloaded`; what was not reported stays pending."""
        async with self._flushing:
            while self._waiting:
                await self._store.settle(self._waiting[0])
                self._waiting.popleft()

    async def close(self) -> None:
        """Report pending usage, as far as the store accepts it now; the rest stays counted as reserved."""
        with suppress(Overloaded):
            await self.flush()
        if self._waiting:
            log.warning("the books: %d requests stay counted in their runs as reserved", len(self._waiting))
        await self._store.close()

    def _give_back(self, shares: Iterable[RunShare], *, lost: bool) -> None:
        self._schedule_flush(RunSettlement(share, dropped=True, lost=lost) for share in shares)

    def _schedule_flush(self, settlements: Iterable[RunSettlement]) -> None:
        before = len(self._waiting)
        self._waiting.extend(settlements)
        if len(self._waiting) > before and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        with suppress(Overloaded):  # `health` has said so; the next round tries again
            await self.flush()
