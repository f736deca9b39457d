"""Runs that several gateways count together in PostgreSQL: the answers of `run_script`, by the clock of the database,
in one transaction a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.database_leases import THREADS
from sluicegate.gateway.accounts.limits.presence import PATIENCE_S
from sluicegate.gateway.accounts.limits.run_store import (
    IDLE_S,
    MOST_RUNS,
    Outcome,
    RunBounds,
    RunSettlement,
    RunShare,
    RunStanding,
    answering,
)
from sluicegate.gateway.database import Connection, Database
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls

T = TypeVar("T")


class DatabaseRuns:
    """A `RunStore`."""

    def __init__(self, database: Database, health: Health) -> None:
        self._database = database
        self._health = health
        self._threads = ThreadCalls(THREADS, "runs")

    async def take(self, share: RunShare, bounds: RunBounds) -> RunStanding:
        return await self._call(lambda: self._take(share, bounds))

    async def settle(self, settlement: RunSettlement) -> None:
        await self._call(lambda: self._settle(settlement))

    async def close(self) -> None:
        self._threads.close()

    async def _call(self, work: Callable[[], T]) -> T:
        with answering(self._health):
            return await self._threads.run_within(PATIENCE_S, work)

    # --- on a thread ---

    def _take(self, share: RunShare, bounds: RunBounds) -> RunStanding:
        with self._database.transaction() as db:
            now = _locked(db, share.owner)
            found = db.execute(
                "select calls, tokens, nanos, began_ms from sluicegate.runs where owner = %s and run = %s",
                (share.owner, share.run),
            ).fetchone()
            calls, tokens, nanos, began = map(int, found or (0, 0, 0, now))
            outcome = _ticket(db, share) or _refusal(
                db, share, bounds, found is None, (calls, tokens, nanos, now - began)
            )
            if outcome is None:
                _count(db, share, now)
            return RunStanding(outcome or "taken", calls, tokens, nanos, now - began)

    def _settle(self, settlement: RunSettlement) -> None:
        share = settlement.share
        with self._database.transaction() as db:
            now = _locked(db, share.owner)
            where, who = "owner = %s and run = %s and ticket = %s", (share.owner, share.run, share.ticket)
            held = db.execute(
                f"delete from sluicegate.run_shares where {where} returning tokens, nanos, gone", who
            ).fetchone()
            if held is not None and not held[2]:
                db.execute(
                    "update sluicegate.runs set tokens = tokens + %s, nanos = nanos + %s, calls = calls - %s "
                    "where owner = %s and run = %s",
                    (
                        settlement.tokens - int(held[0]),
                        settlement.nanos - int(held[1]),
                        int(settlement.dropped),
                        share.owner,
                        share.run,
                    ),
                )
            if settlement.lost:
                _put_share(db, share, now, gone=True)


def _locked(db: Connection, owner: str) -> int:
    """Lock the runs of `owner`, delete those unused for long, and return the time in ms."""
    db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 3))", (owner,))
    [(ms,)] = db.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchall()
    now = int(ms)
    for table in ("runs", "run_shares"):
        db.execute(f"delete from sluicegate.{table} where owner = %s and at_ms < %s", (owner, now - int(IDLE_S * 1000)))
    return now


def _ticket(db: Connection, share: RunShare) -> Outcome | None:
    """Return the state of a share whose ticket is known."""
    found = db.execute(
        "select gone from sluicegate.run_shares where owner = %s and run = %s and ticket = %s",
        (share.owner, share.run, share.ticket),
    ).fetchone()
    return None if found is None else "late" if found[0] else "taken"


def _refusal(
    db: Connection, share: RunShare, bounds: RunBounds, new: bool, used: tuple[int, int, int, int]
) -> Outcome | None:
    if new:
        [(count,)] = db.execute("select count(*) from sluicegate.runs where owner = %s", (share.owner,)).fetchall()
        if int(count) >= MOST_RUNS:
            return "runs"
    calls, tokens, nanos, ms = used
    after: list[tuple[Outcome, int, int]] = [
        ("time", ms, bounds.ms),
        ("calls", calls + 1, bounds.calls),
        ("tokens", tokens + share.tokens, bounds.tokens),
        ("nanos", nanos + share.nanos, bounds.nanos),
    ]
    return next((what for what, amount, limit in after if 0 <= limit < amount), None)


def _count(db: Connection, share: RunShare, now: int) -> None:
    db.execute(
        "insert into sluicegate.runs (owner, run, began_ms, at_ms, calls, tokens, nanos) "
        "values (%s, %s, %s, %s, 1, %s, %s) on conflict (owner, run) do update set at_ms = excluded.at_ms, "
        "calls = runs.calls + 1, tokens = runs.tokens + excluded.tokens, nanos = runs.nanos + excluded.nanos",
        (share.owner, share.run, now, now, share.tokens, share.nanos),
    )
    _put_share(db, share, now, gone=False)


def _put_share(db: Connection, share: RunShare, now: int, *, gone: bool) -> None:
    db.execute(
        "insert into sluicegate.run_shares (owner, run, ticket, at_ms, tokens, nanos, gone) "
        "values (%s, %s, %s, %s, %s, %s, %s)",
        (share.owner, share.run, share.ticket, now, share.tokens, share.nanos, gone),
    )
