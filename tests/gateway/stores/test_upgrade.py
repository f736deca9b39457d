"""What a gateway of release 0.2.0 left behind when it was killed in the middle of a batch is taken over whole.

`release_0_2_0` is what that release wrote: its databases as SQL, its journal, the file of its batch."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path

import psycopg
import pytest

from sluicegate.gateway.database import Database
from sluicegate.gateway.database.migrations import ADDED_ONLY, STEPS, migrate
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.gateway.stores.postgres_server import needs_postgres
from tests.waiting import until

LEFT = Path(__file__).parent / "release_0_2_0"
FILE, BATCH = "file-5f5ab9e102be4ae8980e70098067015f", "batch-86ee880d0a7f481baffa23525891b605"
SAVED = (8, 222, 160, 910_000)
"""Requests, prompt and completion tokens and billionths that were in its books."""
UNDER_WAY = (3, 923_000 + 2_123_000 + 923_000)
"""Requests whose end it did not live to see, which are charged what they had reserved."""


def folder_of_0_2_0(folder: Path) -> Path:
    """Return `folder` as that release left it; the batch was begun an hour ago."""
    began_s = int(time.time()) - 3600
    (folder / "batches" / "files").mkdir(parents=True)
    (folder / "accounts.db.journal").mkdir()
    for name, place in (("accounts.sql", folder / "accounts.db"), ("batches.sql", folder / "batches/batches.sqlite")):
        text = (LEFT / name).read_text("utf-8").replace("@CREATED@", str(began_s))
        made = sqlite3.connect(place)
        made.executescript(text.replace("@EXPIRES@", str(began_s + 86_400)))
        made.close()
    shutil.copy(LEFT / "journal.name", folder / "accounts.db.journal" / "name")
    shutil.copy(LEFT / "journal.log", folder / "accounts.db.journal" / "000000000009.log")
    shutil.copy(LEFT / "lines.jsonl", folder / "batches" / "files" / FILE)
    return folder


def test_keys_usage_and_an_open_batch_of_0_2_0_go_on(tmp_path: Path) -> None:
    """Its keys are known and the revoked one is not, its books go on with what it reserved, its batch ends with the
    answers that it had, and asks only for the rest."""
    folder = folder_of_0_2_0(tmp_path)
    app = TestApp(
        names=("bundled",),
        script=("new",),
        pipeline={"admit": ["api-keys", "limits"], "record": ["ledger"]},
        accounts={"path": str(folder / "accounts.db"), "flush_s": 0.1},
        settings={"batches": {"path": str(folder / "batches")}},
    )
    with app as gateway:
        root, caller, gone = ({"authorization": f"Bearer {key}"} for key in ("root", "caller", "gone"))
        assert gateway.client.get("/v1/models", headers=gone).status_code == 401
        keys = {key["id"]: key for key in gateway.client.get("/admin/keys", headers=root).json()["data"]}
        assert keys["caller"]["limits"]["budget_day"] == 5.0
        place = f"/v1/batches/{BATCH}"
        until(lambda: gateway.client.get(place, headers=caller).json()["status"] == "completed")
        done = gateway.client.get(place, headers=caller).json()
        assert done["request_counts"] == {"total": 10, "completed": 10, "failed": 0}
        text = gateway.client.get(f"/v1/files/{done['output_file_id']}/content", headers=caller).text
        answers = [
            json.loads(line)["response"]["body"]["choices"][0]["message"]["content"] for line in text.splitlines()
        ]
        assert sum(answer == "new" for answer in answers) == 5
        asked = {"since": "2026-11-01", "until": "2026-11-23", "by": "key_id,model"}
        until(lambda: used(gateway, asked, root)[0] >= SAVED[0] + UNDER_WAY[0])
        requests, nanos = used(gateway, asked, root)
        assert (requests, nanos) >= (SAVED[0] + UNDER_WAY[0], SAVED[3] + UNDER_WAY[1])


def used(gateway: TestApp, asked: dict[str, str], key: dict[str, str]) -> tuple[int, int]:
    rows = gateway.client.get("/admin/usage", params=asked, headers=key).json()["data"]
    [row] = [row for row in rows if row["key_id"] == "caller" and row["model"] == "bundled"]
    return row["requests"], round(row["cost"] * 1e9)


@needs_postgres
@pytest.mark.parametrize("taken", range(1, len(STEPS)))
def test_a_database_of_any_earlier_step_is_brought_up_to_date_with_what_it_holds(taken: int, url: str) -> None:
    """Also while two gateways of the new release start at once."""
    database = Database(DatabaseSettings(url=url))
    with psycopg.connect(url) as db:
        assert migrate(db.execute, STEPS[:taken]) == taken
        db.execute("insert into sluicegate.keys values ('k', '{}')")
        db.execute("insert into sluicegate.routes values ('r', '[]')")
    databases = [database, Database(DatabaseSettings(url=url))]
    for one in databases:
        one.open()
    found = databases[1].execute("select id from sluicegate.keys").fetchall()
    assert found == [("k",)]
    assert databases[1].execute("select max(number) from sluicegate.migrations").fetchall() == [(len(STEPS),)]
    for one in databases:
        one.close()


def test_steps_that_are_said_to_add_tables_do_nothing_else() -> None:
    for number in ADDED_ONLY:
        statements = [one.strip() for one in STEPS[number - 1].split(";") if one.strip()]
        assert all(one.startswith("create table sluicegate.") for one in statements)


@needs_postgres
def test_a_release_starts_on_what_a_newer_one_only_added_to(url: str) -> None:
    """So that a newer one can be taken back without a backup; not where it changed what was there."""
    added = (*STEPS, "create table sluicegate.later (id text)")
    changed = (*added, "alter table sluicegate.teams rename column limits to bounds")
    known = {*ADDED_ONLY, len(added)}
    with psycopg.connect(url) as db:
        assert migrate(db.execute, added, known) == len(added)
    database = Database(DatabaseSettings(url=url))
    database.open()
    assert database.execute("select count(*) from sluicegate.later").fetchall() == [(0,)]
    database.close()
    with psycopg.connect(url) as db:
        assert migrate(db.execute, changed, known) == 1
    with pytest.raises(ConfigurationError, match=rf"newer release \(step {len(changed)}"):
        Database(DatabaseSettings(url=url)).open()
