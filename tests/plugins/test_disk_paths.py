"""Settings that name files and folders are looked at on the disk before anything is served."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluicegate.gateway.commands.config import mistakes
from sluicegate.plugins import ConfigurationError, read_settings
from sluicegate.plugins.contract.disk_paths import (
    MaybeFolder,
    PlacedFile,
    ReadFile,
    ReadFolder,
    WrittenDatabase,
    WrittenFolder,
    paths_checked,
)
from sluicegate.plugins.settings import collecting

NOBODY = 65_534


@dataclass(frozen=True, slots=True)
class Paths:
    read_file: ReadFile | None = None
    read_folder: ReadFolder = ""
    written: WrittenDatabase = ""
    placed: PlacedFile = ""
    folder: WrittenFolder = ""
    maybe: MaybeFolder = ""


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a folder that other users can enter, with files, folders, a pipe, a link to nothing, and what cannot be
    written."""
    found = Path(tempfile.mkdtemp())
    found.chmod(0o755)
    for name in ("folder", "closed"):
        (found / name).mkdir()
    for name in ("file", "closed_file", "secret"):
        (found / name).write_text("x", "utf-8")
    (found / "file").write_bytes(b"SQLite format 3\0")
    (found / "damaged").write_bytes(bytes(range(256)))
    (found / "notes.txt").write_text("[server]\nport = 8000\n", "utf-8")
    (found / "secret").chmod(0)
    (found / "closed_file").chmod(0o444)
    (found / "closed").chmod(0o555)
    os.mkfifo(found / "pipe")
    (found / "dangling").symlink_to(found / "nothing" / "there")
    try:
        yield found
    finally:
        (found / "closed").chmod(0o755)
        shutil.rmtree(found)


@contextmanager
def as_usual_user() -> Iterator[None]:
    """Drop the rights of root: it may write anywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def found(place: Path, setting: str, path: str) -> str:
    """Return what is said of a setting; empty where nothing is wrong."""
    try:
        with paths_checked():
            read_settings(Paths, {setting: path if path.startswith("\0") else str(place / path)}, "stages.x.y")
    except ConfigurationError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("read_file", "file"),
        ("read_folder", "folder"),
        ("written", "file"),
        ("written", "new"),
        ("written", "damaged"),
        ("written", "new/below/it"),
        ("placed", "folder/new"),
        ("folder", "folder"),
        ("folder", "new/below"),
        ("maybe", "folder"),
        ("maybe", "new"),
    ],
)
def test_what_can_be_used_is_accepted_and_nothing_is_made(place: Path, setting: str, path: str) -> None:
    before = sorted(place.rglob("*"))
    assert found(place, setting, path) == ""
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("setting", "path", "why"),
    [
        ("read_file", "folder", "a file that exists and can be read, found '{}/folder': it is a folder"),
        ("read_file", "nothing", "there is none"),
        ("read_file", "file/below", "not a directory"),
        ("read_file", "pipe", "it is a pipe or a socket"),
        ("read_file", "a" * 300, "file name too long"),
        ("read_file", "\0", "it holds a zero byte"),
        ("read_folder", "file", "a folder that exists and can be read, found '{}/file': it is no folder"),
        ("written", "folder", "a file that can be written, found '{}/folder': it is a folder"),
        ("written", "pipe", "it is no regular file"),
        ("written", "dangling", "it is a link that leads nowhere"),
        ("written", "file/below", "not a directory"),
        ("written", "notes.txt", "it is a text, no database of SQLite"),
        ("placed", "new/below", "there is no folder '{}/new'"),
        ("folder", "file", "a folder that can be written, found '{}/file': it is no folder"),
        ("maybe", "file", "a folder, or none yet, found '{}/file': it is no folder"),
    ],
)
def test_what_is_of_another_kind_or_not_there_is_named(place: Path, setting: str, path: str, why: str) -> None:
    said = found(place, setting, path)
    assert said.startswith(f"[stages.x.y] {setting} must be a ")
    assert why.format(place) in said
    assert said.endswith("correct the path, or what lies there")


@pytest.mark.parametrize(
    ("setting", "path", "why"),
    [
        ("read_file", "secret", "permission denied"),
        ("written", "closed_file", "permission denied"),
        ("written", "file", "in '{}' nothing can be made: permission denied"),
        ("written", "closed/new", "in '{}/closed' nothing can be made: permission denied"),
        ("written", "closed/new/below", "in '{}/closed' nothing can be made: permission denied"),
        ("placed", "closed/new", "in '{}/closed' nothing can be made: permission denied"),
        ("folder", "closed", "permission denied"),
    ],
)
def test_what_this_user_may_not_use_is_named(place: Path, setting: str, path: str, why: str) -> None:
    if not os.geteuid():
        (place / "file").chmod(0o666)
    else:
        place.chmod(0o555)
    try:
        with as_usual_user():
            assert why.format(place) in found(place, setting, path)
    finally:
        place.chmod(0o755)


def test_paths_are_left_alone_where_nobody_serves(place: Path) -> None:
    """As by `sluicegate keys`, which another user may run."""
    assert read_settings(Paths, {"written": str(place / "folder")}, "x").written


def test_every_wrong_path_of_a_table_is_named(place: Path) -> None:
    with paths_checked(), collecting() as said, pytest.raises(ConfigurationError):
        read_settings(Paths, {"written": str(place / "folder"), "read_folder": str(place / "file")}, "x")
    assert len(said) == 2


def test_config_check_names_paths_of_all_tables_and_makes_none(place: Path) -> None:
    folder, file, log = (str(place / name) for name in ("folder", "file", "audit.jsonl"))
    tree = {
        "accounts": {"path": folder, "journal": file},
        "review": {"path": folder},
        "batches": {"path": file},
        "feedback": {"path": folder},
        "recording": {"enabled": True, "secret": "ab" * 32, "path": folder},
        "routing": {"state": str(place / "pipe")},  # to open it would wait for ever
        "audit": {"path": log, "secret_file": folder},
        "mcp": {"path": folder, "servers": {"a": {"command": ["x"], "cwd": file}}},
        "telemetry": {"history": file, "evaluations": file},
        "prompts": {"folder": file},
        "server": {"tls_cert": folder, "tls_key": folder, "tls_client_ca": folder},
        "pipeline": {"recall": ["sqlite", "redis"], "moderate": ["blocklist", "harm"], "screen": ["injection"]},
        "stages": {
            "recall": {"sqlite": {"path": folder}, "redis": {"url": "rediss://h", "tls": {"ca_file": folder}}},
            "moderate": {"blocklist": {"phrases": ["a"], "path": folder}, "harm": {"weights": folder}},
            "screen": {"injection": {"weights": folder}},
            "constrain": {"grammar": {"cache_dir": file}},
            "generate": {"engine": {"offload_path": file}},
        },
        "policy_file": folder,
    }
    with paths_checked():
        refused, _ = mistakes(tree)
    named = [text for text in refused if "correct the path, or what lies there" in text]
    assert len(named) == 24
    assert not [text for text in refused if text.startswith("[stages.recall.sqlite]") and text not in named]
    with paths_checked():
        assert mistakes({"audit": {"path": log}}) == ([], [])
    assert not Path(log).exists()
