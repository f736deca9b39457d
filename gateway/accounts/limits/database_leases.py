"""Limits that several gateways share, leased from PostgreSQL: the same questions, answers and promises as
`lease_script`, by the clock of the database, in one transaction a question.

Money is leased here wherever there is a database, so that budgets outlive a Redis; requests, tokens and seats only
where there is no Redis, which answers faster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.lease_client import UNREACHABLE
from sluicegate.gateway.accounts.limits.lease_script import ALIVE_S, SLOT_S, LeaseQuestion, LeaseReply
from sluicegate.gateway.accounts.limits.presence import PATIENCE_S, Presence
from sluicegate.gateway.database import Connection, Database
from sluicegate.plugins import Overloaded
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls

log = logging.getLogger("sluicegate.accounts")
T = TypeVar("T")
THREADS = 2
COUNTED_SLOTS = 13
"""Slots that count: each counts for another minute after it has ended."""


class LeaseStore(Protocol):
    """What `SharedMeter` leases from. Used on the event loop."""

    def next_number(self) -> int: ...

    @property
    def is_alive(self) -> bool:
        """Return whether this gateway's seats are certainly still its own."""

    async def renew_presence(self) -> bool:
        """Renew this gateway's presence, on which its seats depend. Return whether the store did not know it at all: it
        may have lost everything."""

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        """Send one question about `limit`. Raises `Overloaded` where the store does not answer: a request is refused
        where its limit cannot be checked."""

    async def count_spent(self, limit: str, label: str, nanos: int) -> None:
        """Count money that was spent in the period `label` before there was a budget. Raises what the store raises."""

    async def close(self) -> None:
        """Give up all seats."""


@dataclass(frozen=True, slots=True)
class DatabaseTime:
    """A moment by the clock of the database."""

    ms: int

    @property
    def slot(self) -> int:
        return self.ms // (SLOT_S * 1000)

    def lasts_s(self, slot: int) -> float:
        return ((slot + 2) * SLOT_S * 1000 - self.ms) / 1000


class DatabaseLeases(Presence):
    """A `LeaseStore`."""

    def __init__(self, database: Database, health: Health) -> None:
        super().__init__()
        self._database = database
        self._health = health
        self._threads = ThreadCalls(THREADS, "leases")

    async def renew_presence(self) -> bool:
        sent = time.monotonic()
        await self._call(self._write_presence)
        self.note_alive(sent)
        return False

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        sent = time.monotonic()
        try:
            reply = await self._call(lambda: self._answer(limit, question))
        except Exception as error:
            self._health.counts["lease_failures"] += 1
            reason = f"the database of shared limits does not answer ({type(error).__name__}); bring it back"
            self._health.begin("leases", reason, error)
            raise Overloaded(UNREACHABLE, retry_after_s=1.0) from error
        self.note_alive(sent)
        self._health.end("leases")
        return reply

    async def count_spent(self, limit: str, label: str, nanos: int) -> None:
        await self._call(lambda: self._count_spent(limit, label, nanos))

    async def close(self) -> None:
        """Give up all seats once no call is under way: one of a round that was cancelled would write this gateway's
        presence again."""
        try:
            await self._threads.ended(PATIENCE_S)
            await self._call(self._leave)
        finally:
            self._threads.close()

    async def _call(self, work: Callable[[], T]) -> T:
        return await self._threads.run_within(PATIENCE_S, work)

    # --- on a thread ---

    def _write_presence(self) -> None:
        with self._database.transaction() as db:
            _put_alive(db, self.name)
            db.execute("delete from sluicegate.alive where until < clock_timestamp() - interval '1 day'")

    def _leave(self) -> None:
        self._database.execute("delete from sluicegate.alive where gateway = %s", (self.name,))

    def _answer(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 2))", (limit,))
            [(ms,)] = db.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchall()
            now = DatabaseTime(int(ms))
            _put_alive(db, self.name)
            asked = (
                "select seq, granted, rest, oldest, label from sluicegate.lease_answers where lim = %s and gateway = %s"
            )
            before = db.execute(asked, (limit, self.name)).fetchone()
            if before is not None and before[0] >= question.seq:
                seq, granted, rest, oldest, label = before
                if seq > question.seq:
                    granted = rest = 0
                return _reply(question, granted, int(rest), oldest, label, now)
            self._note(db, limit, question, known=before is not None)
            return self._grant(db, limit, question, now)

    def _count_spent(self, limit: str, label: str, nanos: int) -> None:
        """Count it as the holding of a gateway `0`, so that all holdings together are never less."""
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 2))", (limit,))
            [(others,)] = db.execute(
                "select coalesce(sum(amount), 0) from sluicegate.leases "
                "where lim = %s and label = %s and gateway <> '0'",
                (limit, label),
            ).fetchall()
            if nanos > int(others):
                db.execute(
                    "insert into sluicegate.leases values (%s, %s, '0', %s) "
                    "on conflict (lim, label, gateway) do update set amount = greatest(leases.amount, excluded.amount)",
                    (limit, label, nanos - int(others)),
                )

    def _note(self, db: Connection, limit: str, question: LeaseQuestion, *, known: bool) -> None:
        """Apply what the gateway returns; for a gateway unknown here record its holdings."""
        if known:
            for label, amount in question.returns:
                db.execute(
                    "update sluicegate.leases set amount = greatest(amount - %s, 0) "
                    "where lim = %s and label = %s and gateway = %s",
                    (amount, limit, label, self.name),
                )
        else:
            for label, amount in question.totals.items():
                _add(db, limit, label, self.name, amount)

    def _grant(self, db: Connection, limit: str, question: LeaseQuestion, now: DatabaseTime) -> LeaseReply:
        label = str(now.slot) if question.mode == "rate" else question.label
        _forget(db, limit, question, self.name, now)
        # Of money only the period asked for counts; of slots and seats all that is left.
        counted = "and label = %s" if question.mode == "money" else "and %s::text is not null"
        query = f"select coalesce(sum(amount), 0), min(label) from sluicegate.leases where lim = %s {counted}"
        [(taken, oldest)] = db.execute(query, (limit, label)).fetchall()
        granted = max(0, min(question.want, question.limit - int(taken)))
        granted = granted if granted >= question.least else 0
        if granted:
            _add(db, limit, label, self.name, granted)
        rest = question.limit - int(taken) - granted
        first = int(oldest) if question.mode == "rate" and oldest is not None else now.slot
        db.execute(
            "insert into sluicegate.lease_answers values (%s, %s, %s, %s, %s, %s, %s) on conflict (lim, gateway) do "
            "update set seq = excluded.seq, granted = excluded.granted, rest = excluded.rest, "
            "oldest = excluded.oldest, label = excluded.label",
            (limit, self.name, question.seq, granted, rest, first, label),
        )
        return _reply(question, granted, rest, first, label, now)


class SplitLeases:
    """A `LeaseStore` of two: money is leased from the durable one, everything else from the fast one."""

    def __init__(self, fast: LeaseStore, lasting: LeaseStore) -> None:
        self._fast, self._lasting = fast, lasting

    def next_number(self) -> int:
        return self._fast.next_number()

    @property
    def is_alive(self) -> bool:
        return self._fast.is_alive

    async def renew_presence(self) -> bool:
        is_new = await self._fast.renew_presence()
        return await self._lasting.renew_presence() or is_new

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        return await (self._lasting if question.mode == "money" else self._fast).ask(limit, question)

    async def count_spent(self, limit: str, label: str, nanos: int) -> None:
        await self._lasting.count_spent(limit, label, nanos)

    async def close(self) -> None:
        try:
            await self._fast.close()
        finally:
            await self._lasting.close()


def _reply(question: LeaseQuestion, granted: int, rest: int, oldest: int, label: str, now: DatabaseTime) -> LeaseReply:
    lasts_s = now.lasts_s(int(label)) if question.mode == "rate" else 0.0
    return LeaseReply(int(granted), rest, int(oldest), label, lasts_s, 0)


def _put_alive(db: Connection, gateway: str) -> None:
    db.execute(
        "insert into sluicegate.alive values (%s, clock_timestamp() + %s * interval '1 s') "
        "on conflict (gateway) do update set until = excluded.until",
        (gateway, ALIVE_S),
    )


def _add(db: Connection, limit: str, label: str, gateway: str, amount: int) -> None:
    db.execute(
        "insert into sluicegate.leases values (%s, %s, %s, %s) "
        "on conflict (lim, label, gateway) do update set amount = leases.amount + excluded.amount",
        (limit, label, gateway, amount),
    )


def _forget(db: Connection, limit: str, question: LeaseQuestion, me: str, now: DatabaseTime) -> None:
    """Delete expired rows: old slots, old periods, seats of gateways that are gone."""
    if question.mode == "rate":
        gone, value = "label::bigint < %s", str(now.slot - COUNTED_SLOTS)
    elif question.mode == "money":
        gone, value = "label < %s", question.oldest_label
    else:
        gone = "gateway <> %s and gateway not in (select gateway from sluicegate.alive where until > clock_timestamp())"
        value = me
    db.execute(f"delete from sluicegate.leases where lim = %s and {gone}", (limit, value))
    db.execute(
        "delete from sluicegate.lease_answers where lim = %s and gateway <> %s and gateway not in "
        "(select gateway from sluicegate.alive where until > clock_timestamp())",
        (limit, me),
    )
