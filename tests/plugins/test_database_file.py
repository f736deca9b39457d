"""A file of SQLite that is replaced while it is open: the new one is used, and no journal of the old one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sluicegate.plugins.disk.database_file import DatabaseFile


def connected(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("pragma journal_mode = wal; create table if not exists words (word text);")
    return db


def holding(path: Path, *words: str) -> Path:
    """Make a database that holds `words`."""
    db = connected(path)
    db.executemany("insert into words values (?)", [(word,) for word in words])
    db.close()
    return path


def words_of(db: sqlite3.Connection) -> list[str]:
    return [word for (word,) in db.execute("select word from words order by word")]


@pytest.fixture
def file(tmp_path: Path) -> DatabaseFile:
    """Return a file with pages that only its journal has."""
    path = holding(tmp_path / "a.db", *(f"old {number}" for number in range(300)))
    made = DatabaseFile(path, lambda: connected(path))
    made.connection().executemany("insert into words values (?)", [(f"new {number}",) for number in range(300)])
    assert (tmp_path / "a.db-wal").stat().st_size > 4096
    return made


def test_a_file_that_is_moved_to_its_place_is_used_from_the_next_call_on(tmp_path: Path, file: DatabaseFile) -> None:
    holding(tmp_path / "copy.db", "mine").replace(tmp_path / "a.db")
    assert file.was_replaced()
    db = file.connection()
    assert words_of(db) == ["mine"]
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert not file.was_replaced()
    assert (tmp_path / "a.db-wal.replaced").stat().st_size > 4096
    file.close()


def test_a_file_put_in_place_of_an_open_one_is_whole_after_a_restart(tmp_path: Path, file: DatabaseFile) -> None:
    """SQLite wrote the pages of the first one's journal into it, which was no database any more."""
    holding(tmp_path / "copy.db", "mine").replace(tmp_path / "a.db")
    file.close()
    db = connected(tmp_path / "a.db")
    assert words_of(db) == ["mine"]
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    db.close()


def test_the_journal_of_the_new_file_is_left_where_it_is(tmp_path: Path, file: DatabaseFile) -> None:
    holding(tmp_path / "copy.db")
    other = connected(tmp_path / "copy.db")
    other.execute("insert into words values ('only in the journal')")
    for end in ("-wal", "-shm", ""):
        (tmp_path / f"copy.db{end}").replace(tmp_path / f"a.db{end}")
    assert words_of(file.connection()) == ["only in the journal"]
    assert not list(tmp_path.glob("*.replaced"))
    file.close()
    other.close()


def test_where_no_file_is_the_open_one_stays_in_use(tmp_path: Path, file: DatabaseFile) -> None:
    """As while a folder is not mounted: a new file would be hidden below it later."""
    (tmp_path / "a.db").rename(tmp_path / "away.db")
    assert len(words_of(file.connection())) == 600
    assert not (tmp_path / "a.db").exists()
    (tmp_path / "away.db").rename(tmp_path / "a.db")
    assert len(words_of(file.connection())) == 600
    file.close()
    assert not (tmp_path / "a.db-wal").exists()


def test_nothing_is_opened_beside_a_journal_that_cannot_be_set_aside(
    tmp_path: Path, file: DatabaseFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(tmp_path / "copy.db", "mine").replace(tmp_path / "a.db")
    (tmp_path / "a.db-wal.replaced").mkdir()
    with pytest.raises(OSError, match="directory"):
        file.connection()
    with pytest.raises(OSError, match="directory"):
        file.connection()
    (tmp_path / "a.db-wal.replaced").rmdir()
    assert words_of(file.connection()) == ["mine"]
    file.close()
