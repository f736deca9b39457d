"""A gateway that stops while a call to the database is under way writes nothing afterwards that it had just removed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.database_leases import DatabaseLeases
from sluicegate.gateway.batches.batches import Batches
from sluicegate.gateway.batches.records import BatchRecord, FileRecord
from sluicegate.gateway.batches.stores.postgres import PostgresBatchStore
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import BatchSettings, DatabaseSettings
from sluicegate.plugins.concurrency.ending import end_tasks
from tests.gateway.stores.postgres_server import needs_postgres
from tests.waiting import LIMIT_S, soon

pytestmark = needs_postgres


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(DatabaseSettings(url=url))
    made.open()
    yield made
    made.close()


class Gate:
    """Holds a call up on its thread, as a busy machine does, until it is opened."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.begun, self.open, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.begun.set()
        self.open.wait(LIMIT_S)
        try:
            return self._call(*arguments)
        finally:
            self.ended.set()


async def stopped(gate: Gate, close: Callable[[], Awaitable[None]]) -> None:
    """Close while the call stands at the gate, and return when both have ended."""
    closing = asyncio.ensure_future(close())
    await asyncio.wait({closing}, timeout=0.3)  # long enough to remove what is there, if it did not wait
    gate.open.set()
    await closing
    await soon(gate.ended.is_set)


async def test_a_gateway_that_stopped_is_counted_no_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was just renewing its presence: a restore would refuse the database for 15 s more."""
    leases = DatabaseLeases(database, Health())
    await leases.renew_presence()
    gate = Gate(leases._write_presence)
    monkeypatch.setattr(leases, "_write_presence", gate)
    beat = asyncio.create_task(leases.renew_presence())
    await soon(gate.begun.is_set)
    await end_tasks([beat])
    await stopped(gate, leases.close)
    assert database.execute("select gateway from sluicegate.alive").fetchall() == []


async def test_batches_that_were_being_taken_are_given_back(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway runs them at once, not when the lease of one that is gone has ended."""
    batches = Batches(BatchSettings(path=str(tmp_path)), database)
    await batches.start(_nobody)
    store = batches._opened()
    gate = Gate(store.take)
    monkeypatch.setattr(PostgresBatchStore, "take", lambda _, held: gate(held))
    store.name_file(FileRecord("file-1", "t", "in.jsonl", "batch", 1, 1))
    assert store.add_batch(BatchRecord("batch-1", "t", None, "/v1/chat/completions", "file-1", 1, 2), lambda _: None)
    await soon(gate.begun.is_set)
    await stopped(gate, batches.close)
    assert database.execute("select owner from sluicegate.batches").fetchall() == [(None,)]


async def _nobody(endpoint: str, body: object, key_id: str | None) -> Any:
    raise AssertionError("nothing is asked")
