"""A backup brings back what was there, of the database or of one machine's files; a broken one changes nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluicegate.gateway.commands.backup import copying
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.database import Database
from sluicegate.gateway.database.migrations import STEPS, migrate
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.adversary.test_batches import batch_of, ended, written
from tests.altered import altered
from tests.gateway.routing.test_routing import weighted
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.gateway.stores.test_shared_batches import custom_ids, start
from tests.waiting import until

OPERATOR = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]


def gateway(tables: dict[str, Any], **more: Any) -> TestApp:
    settings = {name: dict(table) for name, table in tables.items() if name != "accounts"}
    settings["routing"] = {**weighted(100, 0), **tables.get("routing", {})}
    names = ("m@1", "m@2", "scripted")
    return TestApp(names=names, settings=settings, accounts=tables.get("accounts"), keys=OPERATOR, **more)


def of_files(folder: Path) -> dict[str, Any]:
    return {
        "accounts": {"path": str(folder / "accounts.db")},
        "review": {"path": str(folder / "reviews.sqlite3")},
        "routing": {"state": str(folder / "routes.json")},
        "batches": {"path": str(folder / "batches")},
    }


def of_database(url: str, folder: Path) -> dict[str, Any]:
    return {"database": {"url": url}, "batches": {"path": str(folder / "batches")}}


def configured(tables: dict[str, Any], path: Path) -> str:
    lines = [f"[{name}]\n" + "\n".join(f'{k} = "{v}"' for k, v in table.items()) for name, table in tables.items()]
    path.write_text("\n".join(lines))
    return str(path)


def use(app: TestApp) -> dict[str, Any]:
    """Leave something of every kind."""
    app.client.headers["authorization"] = "Bearer operator"
    key = app.client.post("/admin/keys", json={"id": "billing", "limits": {"budget_month": 5}}).json()
    app.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}})
    batch = ended(app, start(app, 5))
    text = {"text": "harmless", "rail": "pii"}
    assert app.client.post("/v1/safety/false_positives", json=text).status_code == 200
    return {"batch": batch, "rows": written(app, batch), "key": key}


def check(app: TestApp, left: dict[str, Any]) -> None:
    app.client.headers["authorization"] = "Bearer operator"
    assert batch_of(app, left["batch"]["id"]) == left["batch"]
    assert written(app, left["batch"]) == left["rows"] == custom_ids(5)
    assert "billing" in {key["id"] for key in app.client.get("/admin/keys").json()["data"]}
    assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {"m@2": 1}
    assert len(app.client.get("/v1/safety/false_positives").text.splitlines()) == 1


def test_the_files_of_one_machine_come_back_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    before = configured(of_files(there), tmp_path / "before.toml")
    after = configured(of_files(here), tmp_path / "after.toml")
    with gateway(of_files(there)) as app:
        left = use(app)
        assert main(["backup", "--config", before, str(tmp_path / "copy")]) == 0  # beside it
        assert main(["restore", "--replace", "--config", before, str(tmp_path / "copy")]) == 2
        assert "stop it first" in capsys.readouterr().err
    shutil.rmtree(there)
    assert main(["restore", "--config", after, str(tmp_path / "copy")]) == 0
    with gateway(of_files(here)) as app:
        check(app, left)
    assert main(["restore", "--config", after, str(tmp_path / "copy")]) == 2
    assert "--replace" in capsys.readouterr().err
    assert main(["restore", "--replace", "--config", after, str(tmp_path / "copy")]) == 0


@needs_postgres
def test_a_database_and_its_folder_come_back_elsewhere(
    server: PostgresServer, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an open batch, which goes on where it was."""
    there = of_database(url, tmp_path / "there")
    here = of_database(server.new(), tmp_path / "here")
    before, after = configured(there, tmp_path / "before.toml"), configured(here, tmp_path / "after.toml")
    with gateway(there, delay_s=0.02) as app:
        left = use(app)
        open_id = start(app, 100)
        until(lambda: batch_of(app, open_id)["request_counts"]["completed"] >= 3)
        assert main(["backup", "--config", before, str(tmp_path / "copy")]) == 0
        assert main(["restore", "--replace", "--config", before, str(tmp_path / "copy")]) == 2
        assert "stop them first" in capsys.readouterr().err
    assert main(["restore", "--config", after, str(tmp_path / "copy")]) == 0
    with gateway(here) as app:
        check(app, left)
        assert len(set(written(app, ended(app, open_id)))) == 100
        assert len(app.model.jobs) <= 97
    assert main(["restore", "--config", after, str(tmp_path / "copy")]) == 2
    assert "not empty" in capsys.readouterr().err


@needs_postgres
def test_a_backup_comes_back_over_what_a_newer_release_left(url: str, tmp_path: Path) -> None:
    """That is the way back from a release that changed tables: an older one does not start on them."""
    there = of_database(url, tmp_path / "there")
    config = configured(there, tmp_path / "gateway.toml")
    with gateway(there) as app:
        left = use(app)
    assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 0
    with psycopg.connect(url) as db:
        assert migrate(db.execute, (*STEPS, "alter table sluicegate.teams rename column limits to bounds")) == 1
    with pytest.raises(ConfigurationError, match="newer release"):
        Database(DatabaseSettings(url=url)).open()
    assert main(["restore", "--replace", "--config", config, str(tmp_path / "copy")]) == 0
    with gateway(there) as app:
        check(app, left)


@needs_postgres
@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "unfinished", "outside", "newer", "other kind"])
def test_a_broken_backup_is_refused_and_changes_nothing(
    harm: str, server: PostgresServer, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = of_database(url, tmp_path / "data")
    config, copy = configured(tables, tmp_path / "c.toml"), tmp_path / "copy"
    with gateway(tables) as app:
        left = use(app)
    assert main(["backup", "--config", config, str(copy)]) == 0
    keys, manifest = copy / "database" / "keys.copy", copy / "manifest.json"
    found = json.loads(manifest.read_text())
    if harm == "cut":
        keys.write_bytes(keys.read_bytes()[:-1])
    elif harm == "changed":
        keys.write_bytes(keys.read_bytes().replace(b"billing", b"killing"))
    elif harm == "missing":
        keys.unlink()
    elif harm == "unfinished":
        manifest.unlink()
    elif harm == "outside":
        manifest.write_text(json.dumps({**found, "files": {**found["files"], "../c.toml": {"bytes": 1, "sha256": ""}}}))
    elif harm == "newer":
        manifest.write_text(json.dumps({**found, "database": {**found["database"], "steps": 99}}))
    else:
        del found["database"]
        manifest.write_text(json.dumps(found))
    capsys.readouterr()
    assert main(["restore", "--replace", "--config", config, str(copy)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with gateway(tables) as app:
        check(app, left)


@needs_postgres
def test_a_running_writer_does_not_tear_a_backup(url: str, tmp_path: Path) -> None:
    """Usage, keys and batches of one moment: each batch that ended has all of its lines, in a file that is there."""
    tables = of_database(url, tmp_path / "data")
    config = configured(tables, tmp_path / "c.toml")
    with gateway(tables) as app:
        app.client.headers["authorization"] = "Bearer operator"
        started = [start(app, 20) for _ in range(6)]
        assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 0
        for batch_id in started:
            ended(app, batch_id)
    assert main(["restore", "--replace", "--config", config, str(tmp_path / "copy")]) == 0
    with gateway(tables) as app:
        app.client.headers["authorization"] = "Bearer operator"
        for batch_id in started:
            assert written(app, ended(app, batch_id)) == custom_ids(20)


def test_a_backup_goes_into_no_folder_that_holds_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_text("precious")
    config = configured(of_files(tmp_path), tmp_path / "c.toml")
    assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 2
    assert "new or empty" in capsys.readouterr().err
    assert (tmp_path / "copy" / "mine").read_text() == "precious"


def test_a_damaged_file_is_not_backed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first page is whole, so that it can be opened and copied."""
    config, path = configured(of_files(tmp_path), tmp_path / "c.toml"), tmp_path / "accounts.db"
    with gateway(of_files(tmp_path)) as app:
        use(app)
    kept = path.read_bytes()
    path.write_bytes(kept[:4096] + b"\xff" * (len(kept) - 4096))
    assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"nothing is backed up: {path} is damaged" in said
    assert main(["restore", "--config", config, str(tmp_path / "copy")]) == 2
    assert "was never finished" in capsys.readouterr().err


def test_a_restore_that_the_disk_has_no_room_for_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the part of a database that a killed gateway left beside it."""
    config = configured(of_files(tmp_path), tmp_path / "c.toml")
    with gateway(of_files(tmp_path)) as app:
        use(app)
    assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 0
    (tmp_path / "accounts.db-wal").write_bytes(b"what was written last")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "batches.lock"}
    written: list[int] = []

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copying, "os", altered(os, fsync=full))
    capsys.readouterr()
    assert main(["restore", "--replace", "--config", config, str(tmp_path / "copy")]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "No space left" in said, "Error" in said) == (1, True, False)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "batches.lock"}
    assert after == before


def test_a_restore_waits_for_the_gateway_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it keeps no batches."""
    tables = {name: table for name, table in of_files(tmp_path).items() if name != "batches"}
    config, path = configured(tables, tmp_path / "c.toml"), tmp_path / "accounts.db"
    with gateway(tables):
        assert main(["backup", "--config", config, str(tmp_path / "copy")]) == 0
        there = path.stat().st_ino
        assert main(["restore", "--replace", "--config", config, str(tmp_path / "copy")]) == 2
        assert "stop it first" in capsys.readouterr().err
        assert path.stat().st_ino == there
    assert main(["restore", "--replace", "--config", config, str(tmp_path / "copy")]) == 0


@pytest.mark.parametrize("manifest", ["", "null", "[]", "[" * 100_000, '{"files": null}', '{"files": {"a": 5}}', "{}"])
def test_a_manifest_that_is_none_is_refused_in_one_sentence(
    manifest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(of_files(tmp_path / "data"), tmp_path / "c.toml")
    (tmp_path / "manifest.json").write_text(manifest)
    assert main(["restore", "--config", config, str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--debug" not in said


def test_a_backup_to_where_no_folder_can_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    config = configured(of_files(tmp_path), tmp_path / "c.toml")
    assert main(["backup", "--config", config, str(tmp_path / "file" / "copy")]) == 2
    assert "cannot be made" in capsys.readouterr().err
