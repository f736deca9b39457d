"""Judges in shadow mode that still read when their answer has left: the record waits for them, and no caller does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.guarding.selection import settle_output_rails

MOST = 256
"""Requests whose judges are waited for beside the callers. With more, a caller waits for the judges of its own."""
LAST_S = 5.0
"""Seconds that these judges are given when the gateway stops."""

Record = Callable[[Exchange], Awaitable[None]]


class Watching:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends = False

    @property
    def has_room(self) -> bool:
        return len(self._tasks) < MOST and not self._ends

    def record_later(self, exchange: Exchange, record: Record) -> None:
        """Call `record` once the judges in shadow mode have read the answers of `exchange`."""
        task = asyncio.create_task(record_when_judged(exchange, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for all judges; those that take longer than `LAST_S` are cancelled. All requests are then recorded."""
        self._ends = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def record_when_judged(exchange: Exchange, record: Record) -> None:
    """Call `record` once the judges in shadow mode have read the answers of `exchange`; at once where this is
    cancelled, because the gateway stops or the caller who waits has gone."""
    try:
        await _wait_for_judges(exchange)
    finally:
        cancel_judges(exchange)
        await record(exchange)


async def _wait_for_judges(exchange: Exchange) -> None:
    """Wait for the judges in shadow mode, and note what they would have done."""
    while exchange.watched:
        moderation, judging, started = exchange.watched[0]
        for verdict in await judging.finish():
            moderation.apply_verdict(verdict)
        del exchange.watched[0]
        settle_moderation(exchange, moderation, judging, started)


def cancel_judges(exchange: Exchange) -> None:
    """Have the judges in shadow mode read no further, and note what they have cost."""
    while exchange.watched:
        settle_moderation(exchange, *exchange.watched.pop(0))


def settle_moderation(exchange: Exchange, moderation: Moderation, judging: Judging | None, started_s: float) -> None:
    """Add the decisions of the output rails, which began together, once all their work has ended."""
    if judging is not None:
        judging.cancel()
        moderation.judged(judging.seconds(), judging.scores())
    settle_output_rails(exchange, moderation, in_shadow=True)
    exchange.decisions += moderation.decisions(started_s - exchange.entry.started_at)
