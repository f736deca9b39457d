"""What was accepted and is not in the store yet: a line when a request is reserved, a line when it is settled.

A line is written with one system call before the request goes on. What was written survives the process, however it
ends; with `sync` also the machine. Segments are numbered. One is finished, its sums go into the store together with its
number, then it is deleted: after a crash a segment is either in the store or still here, never both.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Any

import orjson

from gateway.accounts.records import Usage, UsageKey, UsageTable, add_usage
from plugins import ConfigurationError

log = logging.getLogger("sluicegate.accounts")
RESERVED, SETTLED = "r", "s"
Line = list[Any]


class Journal:
    """Used on the event loop; `finish` and `delete` of a whole segment happen there too, its reading only at start."""

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        self._folder = folder
        self._sync = sync
        self._open: dict[str, bytes] = {}
        """Lines of reservations that are not settled, to be carried into the next segment."""
        self._number = 0
        self._file = -1
        self._lock = -1
        self.identity = ""
        self.dirty = False

    def take(self) -> None:
        """Take the folder for this process. Raises `ConfigurationError` where another gateway has it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another gateway writes the journal {self._folder}; give each gateway its own [accounts] path, and "
                "let several share limits through [accounts] url"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"the journal {self._folder} cannot be written: {error.strerror}") from error
        self.identity = self._named()

    def recover(self, applied: int) -> tuple[int, UsageTable]:
        """What a killed gateway left: settled requests as they were, others at their reservation; and the number of the
        last segment that was read. `applied` is the last one that is in the store."""
        left = sorted(self._segments())
        found = recovered([self._path(number) for number in left if number > applied])
        self._number = max([applied, *left])
        self._next()
        return self._number - 1, found

    def reserved(self, request_id: str, key: UsageKey, usage: Usage) -> None:
        """`usage` is what will be charged if nothing more is ever heard of the request."""
        line = _line(RESERVED, request_id, key, usage)
        self._open[request_id] = line
        self._write(line)

    def settled(self, request_id: str, key: UsageKey, usage: Usage) -> None:
        self._open.pop(request_id, None)
        self._write(_line(SETTLED, request_id, key, usage))

    def finish(self) -> int:
        """Begin the next segment; the number of the one that is whole now."""
        whole = self._number
        os.close(self._file)
        self._next()
        return whole

    def delete(self, number: int) -> None:
        """That segment and all before it are in the store."""
        for found in self._segments():
            if found <= number:
                self._path(found).unlink(missing_ok=True)

    def close(self) -> None:
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1

    def _named(self) -> str:
        """A name for this journal in stores that several gateways share."""
        path = self._folder / "name"
        if not path.exists():
            path.write_text(os.urandom(8).hex(), "ascii")
        return path.read_text("ascii")

    def _next(self) -> None:
        self._number += 1
        self._file = os.open(self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self._open:
            os.write(self._file, b"".join(self._open.values()))
        self.dirty = False

    def _write(self, line: bytes) -> None:
        os.write(self._file, line)
        self.dirty = True
        if self._sync:
            os.fdatasync(self._file)

    def _segments(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.log")]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.log"


def recovered(segments: list[Path]) -> UsageTable:
    """Sums of segments that are not in the store, in order."""
    table: UsageTable = {}
    reservations: dict[str, Line] = {}
    for path in segments:
        for line in _lines(path):
            if line[0] == RESERVED:
                reservations[line[1]] = line
            elif line[0] == SETTLED:
                reservations.pop(line[1], None)
                add_usage(table, UsageKey(*line[2]), Usage(*line[3]))
    for line in reservations.values():
        add_usage(table, UsageKey(*line[2]), Usage(*line[3]))
    if table:
        log.warning(
            "the journal held %d requests of a gateway that was killed", sum(u.requests for u in table.values())
        )
    return table


def _lines(path: Path) -> list[Line]:
    """Whole lines; the last may be torn where the machine itself failed."""
    found = []
    for raw in path.read_bytes().split(b"\n"):
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError:
            continue
        if isinstance(line, list) and len(line) == 4:
            found.append(line)
    return found


def _line(kind: str, request_id: str, key: UsageKey, usage: Usage) -> bytes:
    counted = (
        usage.requests,
        usage.errors,
        usage.interrupted,
        usage.cached,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        usage.cost_nanos,
    )
    named = (key.day, key.key_id, key.team, key.feature, key.model)
    return orjson.dumps((kind, request_id, named, counted)) + b"\n"
