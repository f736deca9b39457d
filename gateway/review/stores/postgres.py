"""Held texts in PostgreSQL: held by one gateway, decided at a second, fetched from a third.

Texts are sealed per tenant where the operator gives a secret, the same on every gateway. Not covered: names, reasons
and times, which whoever reads the database sees.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sluicegate.gateway.database import Database
from sluicegate.gateway.review.items import FalsePositiveReport, ReviewItem, Status
from sluicegate.gateway.review.stores.base import Sealer, Sealing

_ITEM = "record, status, decided_s, body"


class PostgresReviewStore:
    """A `ReviewStore`. Facts that callers choose lie in JSON; what changes has columns of its own."""

    def __init__(self, database: Database, sealer: Sealer | None = None) -> None:
        self._database = database
        self._sealing = Sealing(sealer)

    def put(self, item: ReviewItem, body: Any) -> None:
        self._database.execute(
            "insert into sluicegate.reviews (id, created_s, expires_s, status, tenant, record, body) "
            "values (%s, %s, %s, %s, %s, %s, %s) on conflict (id) do nothing",
            (
                item.id,
                item.created_s,
                item.expires_s,
                item.status,
                item.tenant,
                json.dumps(asdict(item)),
                self._sealing.sealed(item, body),
            ),
        )

    def put_report(self, report: FalsePositiveReport, body: Any) -> None:
        record, sealed = json.dumps(asdict(report)), self._sealing.sealed(report, body)
        self._database.execute(
            "insert into sluicegate.reports (id, created_s, tenant, record, body) values (%s, %s, %s, %s, %s) "
            "on conflict (id) do nothing",
            (report.id, report.created_s, report.tenant, record, sealed),
        )

    def get(self, id: str) -> tuple[ReviewItem, Any] | None:
        rows = self._database.execute(f"select {_ITEM} from sluicegate.reviews where id = %s", (id,)).fetchall()
        return self._read(rows[0]) if rows else None

    def items(self, status: Status | None, tenant: str | None, limit: int) -> list[tuple[ReviewItem, Any]]:
        query = (
            f"select {_ITEM} from sluicegate.reviews where coalesce(status = %s, true) and coalesce(tenant = %s, true) "
            "order by created_s limit %s"
        )
        return [self._read(row) for row in self._database.execute(query, (status, tenant, limit)).fetchall()]

    def reported(self, tenant: str) -> tuple[int, int]:
        query = "select count(*), coalesce(sum(length(body)), 0) from sluicegate.reports where tenant = %s"
        [(count, size)] = self._database.execute(query, (tenant,)).fetchall()
        return int(count), int(size)

    def remove_report(self, id: str) -> bool:
        return self._database.execute("delete from sluicegate.reports where id = %s", (id,)).rowcount == 1

    def reports(self, limit: int) -> list[tuple[FalsePositiveReport, Any]]:
        query = "select record, body from sluicegate.reports order by created_s desc limit %s"
        rows = self._database.execute(query, (limit,)).fetchall()[::-1]
        found = [(FalsePositiveReport(**json.loads(record)), bytes(body)) for record, body in rows]
        return [(report, self._sealing.opened(report, body)) for report, body in found]

    def decide(self, id: str, status: Status, by: str, note: str, now_s: float) -> bool:
        """Decide an item. Its row is locked between reading and writing, so that of two who decide at once one is
        first."""
        with self._database.transaction() as db:
            query = "select record from sluicegate.reviews where id = %s and status = 'pending' for update"
            row = db.execute(query, (id,)).fetchone()
            if row is None:
                return False
            record = json.dumps({**json.loads(row[0]), "decided_by": by, "note": note})
            change = "update sluicegate.reviews set status = %s, decided_s = %s, record = %s where id = %s"
            db.execute(change, (status, now_s, record, id))
        return True

    def replace_body(self, item: ReviewItem, body: Any) -> None:
        change = "update sluicegate.reviews set body = %s where id = %s"
        self._database.execute(change, (self._sealing.sealed(item, body), item.id))

    def claim(self, id: str, who: str, for_s: float) -> bool:
        change = (
            "update sluicegate.reviews set answered_by = %s, answered_until = clock_timestamp() + %s * interval '1 s' "
            "where id = %s and (answered_by is null or answered_by = %s or answered_until < clock_timestamp())"
        )
        return self._database.execute(change, (who, for_s, id, who)).rowcount == 1

    def release(self, id: str, who: str) -> None:
        change = "update sluicegate.reviews set answered_by = null where id = %s and answered_by = %s"
        self._database.execute(change, (id, who))

    def expire(self, now_s: float, keep_s: float) -> int:
        late = "update sluicegate.reviews set status = 'expired', decided_s = expires_s where status = 'pending'"
        with self._database.transaction() as db:
            gone = "delete from sluicegate.reviews where status <> 'pending' and decided_s <= %s"
            db.execute(gone, (now_s - keep_s,))
            return db.execute(f"{late} and expires_s <= %s", (now_s,)).rowcount

    def counts(self) -> dict[str, int]:
        with self._database.transaction() as db:
            rows = db.execute("select status, count(*) from sluicegate.reviews group by status").fetchall()
            [(reports,)] = db.execute("select count(*) from sluicegate.reports").fetchall()
        return {**{str(status): int(count) for status, count in rows}, "reports": int(reports)}

    def close(self) -> None:
        """Do nothing: the database is closed by whoever opened it."""

    def _read(self, row: tuple[Any, ...]) -> tuple[ReviewItem, Any]:
        record, status, decided_s, body = row
        item = ReviewItem(**{**json.loads(record), "status": status, "decided_s": decided_s})
        return item, self._sealing.opened(item, bytes(body))
