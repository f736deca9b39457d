"""Write-ahead log of usage that is not in the store yet: a line when a request is reserved, one when it is settled.

A line is written with one system call before the request goes on. What was written survives the process, however it
ends; with `sync` also the machine. Segments are numbered. One is finished, its sums go into the store together with its
number, then it is deleted: after a crash a segment is either in the store or still here, never both. The next segment
is open before the last is closed, and one that cannot be opened leaves the last in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import os
import re
from pathlib import Path

import orjson

from sluicegate.gateway.accounts.health import RETRY_S, Health, Part, cannot_be_written
from sluicegate.gateway.accounts.journal.folder import LOCK
from sluicegate.gateway.accounts.journal.recovery import recovered
from sluicegate.gateway.accounts.journal.segment import JournalSegment
from sluicegate.gateway.accounts.parsing import RESERVED, SETTLED
from sluicegate.gateway.accounts.records import UsageKey, UsageSum, UsageTable, usage_values
from sluicegate.plugins import BooksUnavailable, ConfigurationError

log = logging.getLogger("sluicegate.accounts")
MAX_NUMBER = 10**15
TRIES = 100
"""File numbers that are tried where files of others are in the way."""
_SEGMENT = re.compile(r"\d{12,15}\.log")
_NAME = re.compile(r"[0-9a-f]{16}")


class Journal:
    """Used on the event loop; `finish` and `delete` of a whole segment happen there too, its reading only at start."""

    def __init__(self, folder: Path, *, sync: bool = False, health: Health | None = None) -> None:
        self._folder = folder
        self._sync = sync
        self._health = health or Health()
        self._open: dict[str, bytes] = {}
        """Lines of reservations that are not settled; they are carried into the next segment."""
        self._late: list[bytes] = []
        """Lines of settlements of this segment that the disk has not taken yet."""
        self._number = 0
        self._segment: JournalSegment | None = None
        self._lock: io.FileIO | None = None
        self.identity = ""
        self.dirty = False

    def take(self) -> None:
        """Take the folder for this process. Raises `ConfigurationError` where another gateway has it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = io.FileIO(os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.identity = self._named()
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another gateway writes the journal {self._folder}; give each gateway its own [accounts] path, and "
                "let several share limits through [accounts] url"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"the journal {self._folder} cannot be written: {error.strerror}") from error

    def recover(self, applied: int) -> tuple[int, UsageTable]:
        """Return (last segment read, sums that a killed gateway left): settled requests as they were, others at their
        reservation. `applied`: the last segment that is in the store. Raises `ConfigurationError`."""
        left = sorted(self._segments())
        self._warn_of_strays()
        found = recovered([self._path(number) for number in left if number > applied], self._health)
        self._number = max([applied, *left])
        last = self._number
        try:
            self._segment = self._next()
        except OSError as error:
            raise ConfigurationError(f"the journal {self._folder} cannot be written: {error.strerror}") from error
        return last, found

    def reserved(self, request_id: str, key: UsageKey, usage: UsageSum) -> None:
        """Write what is charged if the request is never settled. Raises `BooksUnavailable` where the line cannot be
        written; then nothing is."""
        line = _line(RESERVED, request_id, key, usage)
        try:
            self._append(line)
        except OSError as error:
            self._failed(error)
            raise self._health.unavailable() from error
        self._open[request_id] = line

    def settled(self, request_id: str, key: UsageKey, usage: UsageSum) -> None:
        """Write what the request used. A line that the disk refuses is retried with the next one."""
        self._open.pop(request_id, None)
        line = _line(SETTLED, request_id, key, usage)
        try:
            self._append(line)
        except OSError as error:
            self._failed(error)
            self._late.append(line)
            self.dirty = True

    def finish(self) -> int:
        """Begin the next segment and return the number of the finished one. Raises `BooksUnavailable` where the next
        cannot be begun; the current one then stays in use."""
        whole = self._number
        try:
            made = self._next()
        except OSError as error:
            message = self._note("segments", "begins no new file", error)
            raise BooksUnavailable(message, retry_after_s=RETRY_S) from error
        self._health.end("segments")
        old, self._segment = self._segment, made
        self._late.clear()  # the sums that go into the store with the old segment have them
        if old is not None:
            _close(old)
        return whole

    def heal(self) -> None:
        """Probe whether the disk takes lines again, instead of waiting for a request to find out."""
        if self._segment is None or "journal" not in self._health.troubles:
            return
        try:
            self._segment.probe()
        except OSError as error:
            self._failed(error)
        else:
            self._health.end("journal")

    def delete(self, number: int) -> None:
        """Delete that segment and all before it, which are in the store. Failures are logged."""
        try:
            for found in self._segments():
                if found <= number:
                    self._path(found).unlink(missing_ok=True)
        except OSError as error:
            self._note("segments", "cannot be tidied", error)

    def close(self) -> None:
        """Close the segment and unlock the folder; later lines raise."""
        if self._segment is not None:
            _close(self._segment)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _append(self, line: bytes) -> None:
        if self._segment is None:
            raise BooksUnavailable("the journal is not open yet", retry_after_s=RETRY_S)
        if self._late:
            self._segment.append(b"".join(self._late) + line)
            self._late.clear()
        else:
            self._segment.append(line)
        self.dirty = True
        self._health.end("journal")

    def _failed(self, error: OSError) -> str:
        """Mark the journal as failing, and return the message."""
        return self._note("journal", "takes no lines", error)

    def _note(self, part: Part, what: str, error: OSError) -> str:
        self._health.counts["journal_failures"] += 1
        todo = "make room" if cannot_be_written(error) else "see to the disk and to `ulimit -n`"
        reason = f"the journal {what}: {error.strerror}; {todo}"
        self._health.begin(part, reason, error, refuses=part == "journal")
        return f"the journal {what}: {error.strerror}"

    def _named(self) -> str:
        """Read or create the journal's name, which identifies it in stores that several gateways share."""
        path = self._folder / "name"
        with contextlib.suppress(FileNotFoundError):
            found = path.read_bytes()[:64].decode("ascii", "replace").strip()
            if _NAME.fullmatch(found):
                return found
            log.error("the journal's %s holds no name; it gets another, and what is left here is counted", path)
        made, fresh = os.urandom(8).hex(), self._folder / "name.new"
        with fresh.open("w", encoding="ascii") as file:
            file.write(made)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        return made

    def _next(self) -> JournalSegment:
        """Make the next segment with the lines of open requests, completely or not at all. Raises `OSError`."""
        number = self._number + 1
        for _ in range(TRIES):
            with contextlib.suppress(FileExistsError):
                made = JournalSegment(self._path(number), sync=self._sync)
                break
            number += 1
        else:
            raise FileExistsError(17, f"{TRIES} files stand where the next segment would", str(self._path(number)))
        try:
            if self._open:
                made.append(b"".join(self._open.values()))
        except OSError:
            made.remove()
            raise
        self._number = number
        self.dirty = False
        return made

    def _segments(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.log") if _is_segment(path)]

    def _warn_of_strays(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
            if not _is_segment(path):
                log.warning("%s is no segment of the journal; it is left alone", path)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.log"


def _is_segment(path: Path) -> bool:
    """Return whether `path` is a segment: no link, no folder, and with a number that a journal can reach."""
    named = _SEGMENT.fullmatch(path.name) is not None and int(path.stem) <= MAX_NUMBER
    return named and path.name == f"{int(path.stem):012d}.log" and path.is_file() and not path.is_symlink()


def _close(segment: JournalSegment) -> None:
    try:
        segment.close()
    except OSError as error:
        log.error("the journal's %s: %s while it was closed", segment.path, error.strerror)


def _line(kind: str, request_id: str, key: UsageKey, usage: UsageSum) -> bytes:
    return orjson.dumps((kind, request_id, tuple(key), usage_values(usage))) + b"\n"
