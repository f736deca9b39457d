"""Leader election: one of several gateways does a piece of work, while it renews its claim."""

from __future__ import annotations

import uuid

from sluicegate.gateway.database.postgres import Connection
from sluicegate.gateway.database.tables import Tables


class Leadership:
    """Of the work `name`. Calls block, and stand in the caller's transaction: what a leader writes in the transaction
    in which it claims is written by no other at the same time."""

    def __init__(self, tables: Tables, name: str, lease_s: float) -> None:
        self._tables = tables
        self._name = name
        self._lease_s = lease_s
        self._me = uuid.uuid4().hex

    def claim(self, db: Connection) -> bool:
        """Claim the lead for `lease_s` from now on. Return whether this gateway leads."""
        now = self._tables.now_s(db)
        db.execute(
            "insert into sluicegate.leaders values (%s, %s, %s) on conflict (name) do update set gateway = "
            "excluded.gateway, until_s = excluded.until_s where leaders.gateway = excluded.gateway "
            "or leaders.until_s < %s",
            (self._name, self._me, now + self._lease_s, now),
        )
        found = db.execute("select gateway from sluicegate.leaders where name = %s", (self._name,)).fetchone()
        return found is not None and found[0] == self._me

    def give_up(self, db: Connection) -> None:
        """Let another lead at once."""
        db.execute("delete from sluicegate.leaders where name = %s and gateway = %s", (self._name, self._me))
