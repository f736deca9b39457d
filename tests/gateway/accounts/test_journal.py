"""The journal when its disk fails: no line goes astray, and no descriptor is used that is not its own."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.journal.journal import Journal
from sluicegate.gateway.accounts.journal.segment import JournalSegment
from sluicegate.gateway.accounts.records import UsageKey, UsageSum
from sluicegate.plugins import BooksUnavailable, ConfigurationError
from tests.altered import altered

KEY = UsageKey("2026-11-21", "a", "blue", "search", "m")
ONE = UsageSum(requests=1, prompt_tokens=5, completion_tokens=7, cost_nanos=19)
ERRORS = [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EFBIG]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = opened(tmp_path)
    yield made
    made.close()


def opened(folder: Path, applied: int = 0) -> Journal:
    made = Journal(folder, health=Health())
    made.take()
    made.recover(applied)
    return made


def found(folder: Path, applied: int = 0) -> tuple[int, int]:
    """Return (requests, of these interrupted) that a later gateway recovers."""
    again = Journal(folder, health=Health())
    again.take()
    _, table = again.recover(applied)
    again.close()
    usage = table.get(KEY, UsageSum())
    return usage.requests, usage.interrupted


def failing(number: int) -> Callable[..., Any]:
    def fail(*arguments: object, **more: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", ERRORS)
def test_a_segment_that_cannot_be_opened_leaves_the_last_in_use(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    journal.settled("before", KEY, ONE)
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment.os", altered(os, open=failing(number)))
        for _ in range(3):
            with pytest.raises(BooksUnavailable):
                journal.finish()
        journal.settled("while", KEY, ONE)  # still written, to the segment that is open
    assert journal.finish() == 1
    journal.settled("after", KEY, ONE)
    journal.close()
    assert found(tmp_path) == (3, 0)


def test_a_descriptor_is_never_written_to_once_it_is_somebody_elses(journal: Journal, tmp_path: Path) -> None:
    """The number of a closed segment goes to a pipe at once; nothing ever comes out of it."""
    for attempt in range(3):
        journal.settled(f"r{attempt}", KEY, ONE)
        journal.finish()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        journal.settled("next", KEY, ONE)
        journal.reserved(f"open{attempt}", KEY, ONE)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        assert os.fstat(writer)  # and it is still open
        os.close(reader)
        os.close(writer)


def test_what_comes_after_the_end_is_an_error_and_no_write(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.close()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    for call in (journal.reserved, journal.settled):
        with pytest.raises(BooksUnavailable, match="closed"):
            call("late", KEY, ONE)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    journal.close()  # twice is harmless


@pytest.mark.parametrize("number", ERRORS)
def test_a_reservation_that_cannot_be_written_is_refused_and_leaves_nothing(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    health = journal._health
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment._write", failing(number))
        with pytest.raises(BooksUnavailable) as refused:
            journal.reserved("lost", KEY, ONE)
        assert refused.value.status == 503
        assert refused.value.retry_after_s > 0
        assert not health.is_well
        journal.heal()
        assert not health.is_well
    journal.heal()
    assert health.is_well
    journal.reserved("kept", KEY, ONE)
    journal.close()
    assert found(tmp_path) == (1, 0)


@pytest.mark.parametrize("taken", [0, 1, 20, 70])
def test_a_line_that_fits_only_in_part_is_taken_back(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    def partial(file: io.FileIO, data: bytes) -> None:
        os.write(file.fileno(), data[:taken])
        raise OSError(errno.ENOSPC, "full")

    journal.reserved("first", KEY, ONE)
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment._write", partial)
        with pytest.raises(BooksUnavailable):
            journal.reserved("torn", KEY, ONE)
        patched.setattr("sluicegate.gateway.accounts.journal.segment.os", altered(os, ftruncate=failing(errno.EIO)))
        with pytest.raises(BooksUnavailable):
            journal.reserved("torn for good", KEY, ONE)
    journal.settled("first", KEY, ONE)
    journal.close()
    assert found(tmp_path) == (1, 0)


def test_a_settlement_that_cannot_be_written_is_written_with_the_next(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = UsageSum(requests=1, interrupted=1)
    journal.reserved("r", KEY, interrupted)
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment._write", failing(errno.ENOSPC))
        journal.settled("r", KEY, ONE)
    journal.settled("s", KEY, ONE)
    journal.close()
    assert found(tmp_path) == (2, 0)


def test_open_reservations_are_carried_whole_or_the_segment_is_not_begun(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.reserved("running", KEY, UsageSum(requests=1, interrupted=1))
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment._write", failing(errno.ENOSPC))
        with pytest.raises(BooksUnavailable):
            journal.finish()
    assert [path.name for path in tmp_path.glob("*.log")] == ["000000000001.log"]
    assert journal.finish() == 1
    journal.delete(1)
    journal.close()
    assert found(tmp_path, applied=1) == (1, 1)


@pytest.mark.parametrize("sync_error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_does_not_confirm_refuses_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_error: int
) -> None:
    journal = Journal(tmp_path, sync=True, health=Health())
    journal.take()
    journal.recover(0)
    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.gateway.accounts.journal.segment.os", altered(os, fdatasync=failing(sync_error)))
        with pytest.raises(BooksUnavailable):
            journal.reserved("unsure", KEY, ONE)
    journal.close()
    assert found(tmp_path) == (0, 0)


@pytest.mark.parametrize("call", ["unlink", "close"])
def test_what_cannot_be_deleted_or_closed_counts_once_all_the_same(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    journal.settled("r", KEY, ONE)
    with monkeypatch.context() as patched:
        if call == "unlink":
            patched.setattr(Path, "unlink", failing(errno.EROFS))
        else:
            patched.setattr(JournalSegment, "close", failing(errno.EIO))
        number = journal.finish()
        journal.delete(number)
    journal.settled("s", KEY, ONE)
    journal.close()
    assert found(tmp_path, applied=number) == (1, 0)


FULL = """
import errno, resource, sys
from pathlib import Path
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.journal.journal import Journal
from sluicegate.gateway.accounts.records import UsageKey, UsageSum
from sluicegate.plugins import BooksUnavailable
key, one = UsageKey("2026-11-21", "a", "blue", "search", "m"), UsageSum(requests=1, cost_nanos=19)
journal = Journal(Path(sys.argv[1]), health=Health())
journal.take()
journal.recover(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
written = 0
try:
    while written < 1000:
        journal.settled(f"r{written}", key, one) if written < 10 else journal.reserved(f"r{written}", key, one)
        written += 1
except BooksUnavailable as error:
    refused = error.status
journal.heal()
full = journal._health.is_well
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.heal()
print(written, refused, full, journal._health.is_well)
journal.reserved("again", key, one)
"""


def test_a_file_system_that_takes_no_more_refuses_and_heals(tmp_path: Path) -> None:
    """The kernel itself says no, at a limit of this process' files."""
    run = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    written, refused, full, healed = run.stdout.split()
    assert (refused, full, healed) == ("503", "False", "True")
    assert 10 < int(written) < 1000
    assert found(tmp_path) == (int(written) + 1, 0)


GARBAGE = [
    b"",
    b"\n\n\n",
    b"\0" * 500,
    b"not json\n",
    b"[]\n",
    b'["r"]\n',
    b'{"r": 1}\n',
    b'["x","id",["2026-11-21","","","",""],[1,0,0,0,0,0,0,0]]\n',
    b'["s",7,["2026-11-21","","","",""],[1,0,0,0,0,0,0,0]]\n',
    b'["s","id",["2026-11-21","","",""],[1,0,0,0,0,0,0,0]]\n',
    b'["s","id",["today","","","",""],[1,0,0,0,0,0,0,0]]\n',
    b'["s","id",["2026-11-21","","","",null],[1,0,0,0,0,0,0,0]]\n',
    b'["s","id",["2026-11-21","","","",""],[1,0,0]]\n',
    b'["s","id",["2026-11-21","","","",""],[1,0,0,0,0,0,0,-5]]\n',
    b'["s","id",["2026-11-21","","","",""],[1,0,0,0,0,0,0,1.5]]\n',
    b'["s","id",["2026-11-21","","","",""],[1,0,0,0,0,0,0,"9"]]\n',
    b'["s","id",["2026-11-21","","","",""],[1,0,0,0,0,0,0,99999999999999999999]]\n',
    b'["s","id",["2026-11-21","","","",""],[true,0,0,0,0,0,0,0]]\n',
    b'["s",' * 5000 + b"\n",
    b"\xff\xfe\xfd\n",
    b"x" * 200_000 + b"\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_a_line_that_is_none_is_set_aside_and_others_count(tmp_path: Path, garbage: bytes) -> None:
    journal = opened(tmp_path)
    journal.settled("r", KEY, ONE)
    journal.close()
    [path] = tmp_path.glob("*.log")
    good = path.read_bytes()
    path.write_bytes(good + garbage + (b"" if garbage.endswith(b"\n") or not garbage else b"\n") + good)
    again = Journal(tmp_path, health=Health())
    again.take()
    _, table = again.recover(0)
    assert table[KEY].requests == 2
    assert len(table) == 1
    strange = bool(garbage.strip(b"\n\0"))
    assert (again._health.counts["lines_set_aside"] > 0) == strange
    assert (tmp_path / "set-aside.lines").exists() == strange
    again.close()


def test_strangers_in_the_folder_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.log").write_text("hello")
    (tmp_path / "7.log").write_text("hello")
    (tmp_path / "99999999999999999999.log").write_text("hello")
    (tmp_path / "000000000005.log").mkdir()
    (tmp_path / "000000000006.log").symlink_to("/etc/passwd")
    journal = opened(tmp_path)
    for _ in range(8):  # past the numbers that are taken
        journal.settled("r", KEY, ONE)
        journal.finish()
    journal.close()
    assert "x.log is no segment" in caplog.text
    assert found(tmp_path) == (8, 0)
    assert (tmp_path / "x.log").read_text() == "hello"
    assert (tmp_path / "000000000005.log").is_dir()


@pytest.mark.parametrize("name", ["", "garbage", "ÿ" * 100, "0123456789abcdeg"])
def test_a_journal_without_its_name_gets_another(tmp_path: Path, name: str) -> None:
    (tmp_path / "name").write_text(name)
    journal = opened(tmp_path)
    assert len(bytes.fromhex(journal.identity)) == 8
    assert (tmp_path / "name").read_text() == journal.identity
    journal.close()


def test_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        Journal(tmp_path / "file").take()
    journal = Journal(tmp_path / "folder")
    journal.take()
    monkeypatch.setattr("sluicegate.gateway.accounts.journal.segment.os", altered(os, open=failing(errno.ENOSPC)))
    with pytest.raises(ConfigurationError, match="cannot be written"):
        journal.recover(0)
    journal.close()


def test_every_line_that_was_written_reads_back(journal: Journal, tmp_path: Path) -> None:
    journal.settled("r", KEY, UsageSum(*(2**62 - 1,) * 8))
    [path] = tmp_path.glob("*.log")
    assert json.loads(path.read_bytes())[3] == [2**62 - 1] * 8
    journal.close()
    assert found(tmp_path)[0] == 2**62 - 1
