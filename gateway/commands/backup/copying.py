"""Back up and restore all that a configuration keeps: the database, or the SQLite files of one machine; weights; files.

Not in a backup: what Redis holds, caches, journals (usage of the last `flush_s`), recorded requests, which must be gone
once they are deleted, and the configuration itself.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from sluicegate.gateway.accounts.journal.folder import folder_of, without_gateway
from sluicegate.gateway.batches.folder import FolderLock
from sluicegate.gateway.batches.stores.postgres import NAME as FOLDER_NAME
from sluicegate.gateway.batches.stores.sqlite import NAME as BATCHES
from sluicegate.gateway.commands.backup.archive import BackupReader, BackupWriter, parts_of
from sluicegate.gateway.commands.backup.tables import load_tables, save_tables
from sluicegate.gateway.database import Database, fault_of
from sluicegate.gateway.review.queue import path_of as reviews_path
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError

FILES = "files"
LOCAL = "local"


def back_up(settings: Settings, environ: Mapping[str, str], folder: Path) -> dict[str, object]:
    """Write a backup into a new folder, beside running gateways; return what its manifest says. Each database is copied
    as of one moment, the files of batches after it: none that it names is missed, but for those removed meanwhile.
    Raises `ConfigurationError`, also where there is nothing to copy."""
    local = {} if settings.database.url else _present(_local(settings, environ))
    if not (settings.database.url or local or settings.batches.path):
        raise ConfigurationError("nothing that this configuration names is there to be backed up; see --config")
    writer = BackupWriter(folder)
    facts: dict[str, object] = {"at_s": int(time.time())}
    if settings.database.url:
        database = Database(settings.database)
        database.open()
        try:
            facts["database"] = save_tables(database, writer)
        finally:
            database.close()
    else:
        for name, path in local.items():
            writer.add(f"{LOCAL}/{name}", _sqlite(path) if path.suffix != ".json" else _bytes(path))
    facts["files_missed"] = _save_files(settings, writer)
    writer.finish(facts)
    return facts


def restore(settings: Settings, environ: Mapping[str, str], folder: Path, *, replace: bool) -> dict[str, int]:
    """Put a backup where the configuration keeps things; return how many rows or files of each. Nothing is changed
    before all of the backup was checked. Raises `ConfigurationError`."""
    reader = BackupReader(folder)
    if settings.database.url and "database" not in reader.facts:
        raise ConfigurationError("the backup is one of SQLite files, and [database] url is set; restore it without")
    if "database" in reader.facts and not settings.database.url:
        raise ConfigurationError("the backup is one of a database, and [database] url is not set")
    counts: dict[str, int] = {}
    lock = FolderLock(Path(settings.batches.path)) if settings.batches.path and not settings.database.url else None
    if lock is not None:
        Path(settings.batches.path).mkdir(parents=True, exist_ok=True, mode=0o700)
        if not lock.take():
            raise ConfigurationError(f"{lock.holder()} runs on {settings.batches.path!r}; stop it first")
    try:
        if not settings.database.url:
            with without_gateway(folder_of(settings.accounts)):
                counts |= _load_local(settings, environ, reader, replace=replace)
        counts[FILES] = _load_files(settings, reader)
        if settings.database.url:
            counts |= _load_database(settings, reader, replace=replace)
    finally:
        if lock is not None:
            lock.give_back()
    return counts


def _load_database(settings: Settings, reader: BackupReader, *, replace: bool) -> dict[str, int]:
    database = Database(settings.database)
    database.open(migrating=False)  # what a newer release left is removed, whatever it is
    try:
        return load_tables(database, reader, replace=replace)
    finally:
        database.close()


def _local(settings: Settings, environ: Mapping[str, str]) -> dict[str, Path]:
    """Return what this machine alone keeps, by its name in a backup."""
    found: dict[str, Path | None] = {
        "accounts.sqlite": Path(settings.accounts.path) if settings.accounts.path else None,
        "reviews.sqlite": reviews_path(settings.review, environ) if settings.review.enabled else None,
        "routes.json": Path(settings.routing.state) if settings.routing.state else None,
        "rollouts.sqlite": Path(f"{settings.routing.state}.rollouts") if settings.routing.state else None,
        "feedback.sqlite": Path(settings.feedback.path) if settings.feedback.path else None,
        "batches.sqlite": Path(settings.batches.path) / BATCHES if settings.batches.path else None,
    }
    return {name: path for name, path in found.items() if path is not None}


def _present(places: Mapping[str, Path]) -> dict[str, Path]:
    return {name: path for name, path in places.items() if path.exists()}


def _load_local(
    settings: Settings, environ: Mapping[str, str], reader: BackupReader, *, replace: bool
) -> dict[str, int]:
    places = _local(settings, environ)
    if unknown := sorted(set(reader.under(LOCAL)) - set(places)):
        raise ConfigurationError(f"the backup has {', '.join(unknown)}, which this configuration keeps nowhere")
    if not replace and (there := [str(places[name]) for name in reader.under(LOCAL) if places[name].exists()]):
        raise ConfigurationError(f"{', '.join(there)} is there already; --replace puts the backup in its place")
    _put({places[name]: reader.parts(f"{LOCAL}/{name}") for name in reader.under(LOCAL)})
    return dict.fromkeys(reader.under(LOCAL), 1)


def _save_files(settings: Settings, writer: BackupWriter) -> int:
    """Return how many files vanished while they were copied."""
    if not settings.batches.path:
        return 0
    root, missed = Path(settings.batches.path), 0
    marks = [root / FOLDER_NAME] if (root / FOLDER_NAME).exists() else []
    for path in [*marks, *sorted((root / FILES).glob("*"))]:
        try:
            with path.open("rb") as opened:
                writer.add(f"{FILES}/{path.relative_to(root).as_posix()}", parts_of(opened))
        except FileNotFoundError:
            missed += 1
    return missed


def _load_files(settings: Settings, reader: BackupReader) -> int:
    names = reader.under(FILES)
    if names and not settings.batches.path:
        raise ConfigurationError("the backup has files of batches; set [batches] path, where they are to lie")
    _put({Path(settings.batches.path) / name: reader.parts(f"{FILES}/{name}") for name in names})
    return len(names)


def _put(found: Mapping[Path, Iterator[bytes]]) -> None:
    """Write all of them beside where they belong before the first takes its place: a disk without room for all leaves
    what was there as it was. Raises `ConfigurationError`."""
    beside = {path: path.with_name(f"{path.name}.restored") for path in found}
    try:
        for path, parts in found.items():
            _write(beside[path], parts)
        for path, written in beside.items():
            for end in ("-wal", "-shm"):  # of the database that was there
                path.with_name(path.name + end).unlink(missing_ok=True)
            os.replace(written, path)
    except OSError as error:
        for written in beside.values():
            with contextlib.suppress(OSError):
                written.unlink(missing_ok=True)
        raise ConfigurationError(f"{error.filename or path} cannot be restored: {error.strerror}") from error


def _write(path: Path, parts: Iterator[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        for part in parts:
            opened.write(part)
        opened.flush()
        os.fsync(opened.fileno())


def _bytes(path: Path) -> Iterator[bytes]:
    with path.open("rb") as opened:
        yield from parts_of(opened)


def _sqlite(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a database as of one moment, while others write to it. Damage is refused here rather than
    found on the day that the backup is needed."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source, closing(sqlite3.connect("")) as copy:
            source.backup(copy)
            [(found,)] = copy.execute("pragma quick_check(1)").fetchall()
            if found != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
            yield copy.serialize()
    except sqlite3.Error as error:
        raise ConfigurationError(f"nothing is backed up: {fault_of(path, error)}") from error
