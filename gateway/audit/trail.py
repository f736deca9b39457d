"""Write an audit log: a line before a change and one after it, on the disk before anything is changed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sluicegate.gateway.audit.chain import Anchor, anchor_of, line_of, torn
from sluicegate.gateway.audit.last_line import LastLine
from sluicegate.gateway.settings import AuditSettings
from sluicegate.gateway.settings.storage import LOG_FILE
from sluicegate.plugins import AuditUnavailable, ConfigurationError, SluicegateError, Trouble
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.contract.disk_paths import fault_of_path

log = logging.getLogger("sluicegate.audit")
LONGEST_LINE = 1 << 20
"""The facts of a longer change are cut to their names."""
MIN_SECRET_BYTES = 32
LOOK_S = 5.0
SILENT_S = 30.0
"""A disk that does not answer for this long is reported."""
REFUSED = "changes by operators are refused: correct its rights, or make room"
_SEEN = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR))
"""What `fault_of_path` sees, so that it is over once nothing is seen."""


class AuditWriter:
    """Appends to one file, beside other processes that do. Thread-safe; every call waits for the disk."""

    def __init__(self, path: Path, secret: bytes) -> None:
        self._path = path
        self._secret = secret
        self._last = Anchor()
        self._kept = LastLine(path)
        self._turn = threading.Lock()

    def write(self, entry: Mapping[str, Any]) -> Anchor:
        """Return where the chain stands then. Raises `OSError`; then the line is not there, or it is cut short and the
        next one says so."""
        with self._turn, self._kept.held(), self._locked() as descriptor:
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            here = {"at": now, "host": socket.gethostname(), "pid": os.getpid()}
            self._last, part, ended = self._end(descriptor)
            lines = b"" if ended else b"\n"
            for said in ([torn(part)] if part else []) + [_bounded(entry)]:
                line, self._last = line_of({**said, **here}, self._last, self._secret)
                lines += line
            _append(descriptor, lines)
            self._kept.note(self._last)
            return self._last

    def check(self, failure: OSError | None) -> None:
        """Look whether a line could be written; writes none. `failure`: what kept the last one from being written;
        what cannot be looked at, such as a quota, stays until a line is written. Raises `OSError`."""
        if why := fault_of_path(str(self._path), LOG_FILE):
            raise OSError(errno.EACCES, why)
        if failure is None:
            return
        disk = os.statvfs(self._path.parent)
        if failure.errno == errno.ENOSPC and disk.f_bavail * disk.f_frsize >= LONGEST_LINE:
            return
        if failure.errno not in _SEEN:
            raise failure

    @contextlib.contextmanager
    def _locked(self) -> Any:
        """Open the file and hold it; one that is moved away meanwhile (logrotate) is left for the one in its place."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_there(descriptor, self._path):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _end(self, descriptor: int) -> tuple[Anchor, bytes, bool]:
        """Return where the chain stands, what a crash left after its last line, and whether the file ends with a
        newline. A file that begins anew continues what this process, or any other, wrote last."""
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, 2 * LONGEST_LINE, max(0, size - 2 * LONGEST_LINE)) if size else b""
        lines = tail.split(b"\n")
        if ended := not lines[-1]:
            lines.pop()
        for at in range(len(lines) - 1, -1, -1):
            if (found := anchor_of(lines[at])) is not None:
                return found, b"\n".join(lines[at + 1 :]), ended
        last = max(self._last, self._kept.read(), key=lambda anchor: anchor.seq)
        return last, b"\n".join(lines), ended


class AuditTrail:
    """Used on the event loop. Without a writer nothing is written, and every change is let through. Whether the file
    could be written is looked at while nobody changes anything, too."""

    def __init__(self, writer: AuditWriter | None) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "audit")
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: OSError | None = None
        self._asked_s: float | None = None
        """When the disk was asked that has not answered yet, by the monotonic clock."""
        self.entries = self.failures = 0

    def start(self) -> None:
        if self._writer is not None:
            self._tasks = [asyncio.create_task(self._watch(self._writer))]

    async def stop_watching(self) -> None:
        await end_tasks(self._tasks)

    def troubles(self) -> Sequence[Trouble]:
        """Report a file that takes no line: every change by an operator is refused then."""
        if self._asked_s is not None and time.monotonic() - self._asked_s > SILENT_S:
            return (Trouble(f"the disk of [audit] path has not answered for {SILENT_S:g} s; {REFUSED}"),)
        if self._failure is None:
            return ()
        return (Trouble(f"[audit] path cannot be written ({_why(self._failure)}); {REFUSED}"),)

    async def _watch(self, writer: AuditWriter) -> None:
        while True:
            self._asked_s = time.monotonic()
            failure = self._failure
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, writer.check, failure)
                if self._failure is failure:  # no line has failed meanwhile
                    self._failure = None
            except OSError as error:
                self._failure = error
            self._asked_s = None
            await asyncio.sleep(LOOK_S)

    @contextlib.asynccontextmanager
    async def change(self, by: str, action: str, target: str = "", **facts: Any) -> AsyncIterator[dict[str, Any]]:
        """Write what is about to be done, let it be done, and write what came of it; what is put into the yielded
        dictionary stands in the second line. Raises `AuditUnavailable` before anything is changed where the disk takes
        no line."""
        entry = {"action": action, "by": by, "target": target, **({"facts": facts} if facts else {})}
        begun = await self._written({**entry, "state": "begun"}, must=True)
        came: dict[str, Any] = {}
        try:
            yield came
        except BaseException as error:
            code = error.code if isinstance(error, SluicegateError) else type(error).__name__
            await self._written({**entry, "state": "failed", "of": begun, "error": code})
            raise
        await self._written({**entry, "state": "done", "of": begun, **({"result": came} if came else {})})

    async def note(self, by: str, action: str, target: str = "", **facts: Any) -> None:
        """Write what has happened already: a start, a renewed certificate."""
        await self._written({"action": action, "by": by, "target": target, "facts": facts, "state": "done"})

    def stats(self) -> Mapping[str, float]:
        return {"entries_total": float(self.entries), "failures_total": float(self.failures)}

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    async def _written(self, entry: Mapping[str, Any], *, must: bool = False) -> int:
        """Return the line's number, 0 where none was written. Whoever hangs up does not keep it from being written."""
        if self._writer is None:
            return 0
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._writer.write, entry)
        try:
            anchor = await asyncio.shield(writing)
        except OSError as error:
            self.failures += 1
            self._failure = error
            log.error(
                "the audit log takes no line (%s): %s %s by %s", error, entry["state"], entry["action"], entry["by"]
            )
            if must:
                raise AuditUnavailable(
                    f"the audit log cannot be written ({_why(error)}), so that nothing is changed; mend its disk",
                    retry_after_s=5.0,
                ) from error
            return 0
        self.entries += 1
        self._failure = None
        log.info("%s %s %a by %s, line %s", entry["state"], entry["action"], entry["target"], entry["by"], anchor)
        return anchor.seq


def writer_of(settings: AuditSettings) -> AuditWriter | None:
    """Return None where no audit log is wanted. The file is made with its first line: whoever checks a configuration,
    perhaps as another user, makes none. Raises `ConfigurationError`."""
    if not settings.path:
        return None
    if why := fault_of_path(settings.path, LOG_FILE):
        raise ConfigurationError(f"[audit] path {settings.path!r} cannot be written: {why}")
    return AuditWriter(Path(settings.path), secret_of(settings))


def secret_of(settings: AuditSettings) -> bytes:
    """Return no bytes where the chain has none. Raises `ConfigurationError`."""
    if not settings.secret_file:
        return b""
    try:
        found = Path(settings.secret_file).read_bytes().strip()
    except OSError as error:
        raise ConfigurationError(
            f"[audit] secret_file {settings.secret_file!r} cannot be read: {error.strerror}"
        ) from error
    if len(found) < MIN_SECRET_BYTES:
        raise ConfigurationError(
            f"[audit] secret_file holds {len(found)} bytes, at least {MIN_SECRET_BYTES} are needed"
        )
    return found


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _bounded(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cut facts that no line has room for."""
    if len(repr(entry)) < LONGEST_LINE // 8:  # a character takes at most six bytes in JSON
        return entry
    return {name: value if name not in ("facts", "result", "target") else "too long" for name, value in entry.items()}


def _append(descriptor: int, lines: bytes) -> None:
    """Write all of it, and have the disk confirm it. Raises `OSError`."""
    while lines:
        lines = lines[os.write(descriptor, lines) :]
    os.fsync(descriptor)


def _is_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
