"""Run one batch: lines side by side, each kept as soon as it is answered, so that a restart repeats only what was under
way. An answer that the disk refuses waits in memory until it does not: nothing is asked, or paid for, twice."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import orjson

from sluicegate.gateway.batches.disk_retry import DiskRetry
from sluicegate.gateway.batches.lines import BadLine, Line, check_lines, lines_of
from sluicegate.gateway.batches.records import BatchRecord, FileRecord, LineResult, Status
from sluicegate.gateway.batches.stores.base import BatchMoved, BatchStore
from sluicegate.plugins import Overloaded, RateLimited, StageFailed

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
LONGEST_WAIT_S = 30.0
AHEAD = 64
"""Lines of a file that are read at a time."""
GONE = "the input file is gone"


@dataclass(frozen=True, slots=True)
class LineAnswer:
    status: int
    body: bytes
    prompt_tokens: int = 0
    completion_tokens: int = 0


Run = Callable[[str, Mapping[str, Any], str | None], Awaitable[LineAnswer]]
"""Maps (endpoint, body, key id) to the answer. Raises only `RateLimited`, `Overloaded`, and `StageFailed`
with `retry_after_s`, after which the line is tried again later."""
OnDisk = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call on a thread."""


class BatchRunner:
    """`places`: how many lines of all batches together run at a time, and of one batch at most."""

    def __init__(
        self,
        store: BatchStore,
        run: Run,
        places: int,
        retry: DiskRetry,
        on_disk: OnDisk,
        may_ask: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run nothing yet. `may_ask` tells whether the batches are certainly still this gateway's; no line is asked
        while it returns False."""
        self._store = store
        self._run = run
        self._per_batch = places
        self._places = asyncio.Semaphore(places)
        self._retry = retry
        self._on_disk = on_disk
        self._may_ask = may_ask

    async def finish(self, record: BatchRecord) -> None:
        """Run a batch from wherever it stands to its end. A cancelled task can be resumed later. Raises what the disk
        raises while the input is read; calling again resumes."""
        if record.status == "validating":
            record = await self._validated(record)
        if record.status == "in_progress":
            record = await self._answered(record)
        if record.status in ("finalizing", "cancelling"):
            await self._written(record)

    async def _validated(self, record: BatchRecord) -> BatchRecord:
        path = self._store.content(record.input_file_id)
        try:
            total = await self._on_disk(lambda: check_lines(path, record.endpoint))
        except (BadLine, FileNotFoundError) as error:
            return await self.move(record, "failed", **_why(error))
        return await self.move(record, "in_progress", total=total)

    async def _answered(self, record: BatchRecord) -> BatchRecord:
        done = await self._on_disk(lambda: self._store.done(record.id))
        pending = _pending(self._store.content(record.input_file_id), record.endpoint, done)
        room = asyncio.Semaphore(self._per_batch)
        broke: Exception | None = None
        async with _one_owner(record), asyncio.TaskGroup() as group:  # leaving it by a cancellation ends all its tasks
            while broke is None:
                try:
                    lines = await self._on_disk(lambda: list(islice(pending, AHEAD)))
                except (BadLine, OSError) as error:  # it was whole when the batch began; what runs is not given up
                    broke, lines = error, []
                if not lines:
                    break
                for line in lines:
                    await room.acquire()
                    group.create_task(self._one(record, line)).add_done_callback(lambda _: room.release())
        if broke is not None and not isinstance(broke, BadLine | FileNotFoundError):
            raise broke
        return await self.move(record, "finalizing", **(_why(broke) if broke is not None else {}))

    async def _one(self, record: BatchRecord, line: Line) -> None:
        answer = await self._asked(record, line)
        tokens = (answer.prompt_tokens, answer.completion_tokens)
        result = LineResult(line.number, line.custom_id, answer.status, answer.body, *tokens)
        await self._kept(record, lambda: self._store.add_result(record.id, result))

    async def _asked(self, record: BatchRecord, line: Line) -> LineAnswer:
        """Send the line's request until it is answered; while it waits to retry, other lines use its place."""
        while time.time() <= record.expires_s:
            wait_s = 0.2
            try:
                async with self._places:
                    if self._may_ask():
                        return await self._run(record.endpoint, line.body, record.key_id)
            except (RateLimited, Overloaded, StageFailed) as error:
                wait_s = getattr(error, "retry_after_s", None) or 1.0
            await asyncio.sleep(min(LONGEST_WAIT_S, max(0.05, wait_s)))
        return LineAnswer(0, orjson.dumps({"code": "batch_expired", "message": "not run within its window"}))

    async def _written(self, record: BatchRecord) -> None:
        """Write what went well to the output file and the rest to the error file, in the order of the lines."""
        results = partial(self._store.results, record.id)
        good = await self._file(record, "output", lambda: (_row(r) for r in results() if r.status == 200))
        bad = await self._file(record, "error", lambda: (_row(r) for r in results() if r.status != 200))
        expired = bad is not None and await self._kept(record, lambda: any(r.status == 0 for r in results()))
        ended: Status = "completed"
        if record.error is not None:
            ended = "failed"
        elif record.status == "cancelling":
            ended = "cancelled"
        elif expired:
            ended = "expired"
        counts = await self._kept(record, lambda: self._store.counts(record.id))
        moved = _moved(record, ended, output_file_id=good, error_file_id=bad, counts=counts)
        await self._kept(record, lambda: self._store.end(record, moved))
        log.info("batch %s is %s", moved.id, ended)

    async def _file(self, record: BatchRecord, kind: str, rows: Callable[[], Iterator[bytes]]) -> str | None:
        """Write one file; its id is the same after a crash, so that there is one of each kind."""
        file_id = f"file-{hashlib.sha256(f'{record.id} {kind}'.encode()).hexdigest()[:32]}"
        name = f"{record.id}_{kind}.jsonl"
        made = FileRecord(file_id, record.tenant, name, "batch_output", 0, int(time.time()))
        return file_id if await self._kept(record, lambda: self._store.add_file(made, rows(), record)) else None

    async def move(self, record: BatchRecord, status: Status, **changed: Any) -> BatchRecord:
        moved = _moved(record, status, **changed)
        await self._kept(record, lambda: self._store.move(record, moved))
        log.info("batch %s is %s", moved.id, status)
        return moved

    async def _kept(self, record: BatchRecord, work: Callable[[], T]) -> T:
        found: T = await self._retry.until_kept(record.id, lambda: self._on_disk(work))
        return found


@asynccontextmanager
async def _one_owner(record: BatchRecord) -> AsyncIterator[None]:
    """Raise `BatchMoved` by itself where one of several tasks did."""
    try:
        yield
    except BaseExceptionGroup as group:
        if group.subgroup(BatchMoved) is not None:
            raise BatchMoved(record.id) from group
        raise


def _moved(record: BatchRecord, status: Status, **changed: Any) -> BatchRecord:
    return replace(record, status=status, times={**record.times, f"{status}_at": int(time.time())}, **changed)


def _pending(path: Path, endpoint: str, done: set[int]) -> Iterator[Line]:
    return (line for line in lines_of(path, endpoint) if line.number not in done)


def _why(error: BaseException) -> dict[str, Any]:
    """Return the fields that give the reason why a whole batch failed."""
    if isinstance(error, BadLine):
        return {"error": error.message, "error_line": error.line}
    return {"error": GONE, "error_line": None}


def _row(result: LineResult) -> bytes:
    answer, error = b"null", b"null"
    if result.status:
        answer = b'{"status_code":%d,"request_id":"%b","body":%b}' % (result.status, _id(result), result.body)
    else:
        error = result.body
    custom_id = orjson.dumps(result.custom_id)
    return b'{"id":"%b","custom_id":%b,"response":%b,"error":%b}\n' % (_id(result), custom_id, answer, error)


def _id(result: LineResult) -> bytes:
    return b"batch_req_%d" % result.line
