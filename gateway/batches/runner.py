"""Running one batch: lines side by side, each kept as soon as it is answered, so that a restart repeats only what was
under way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from gateway.batches.lines import BadLine, Line, check_lines, lines_of
from gateway.batches.records import BatchRecord, FileRecord, LineResult, Status
from gateway.batches.store import BatchStore
from plugins import Overloaded, RateLimited

log = logging.getLogger("sluicegate.batches")
LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class LineAnswer:
    status: int
    body: bytes
    prompt_tokens: int = 0
    completion_tokens: int = 0


Run = Callable[[str, Mapping[str, Any], str | None], Awaitable[LineAnswer]]
"""(endpoint, body, key id) -> its answer. Raises `RateLimited` and `Overloaded`, which mean later, and nothing else."""


class Runner:
    """`places`: how many lines of all batches together run at a time."""

    def __init__(self, store: BatchStore, run: Run, places: asyncio.Semaphore, new_id: Callable[[str], str]) -> None:
        self._store = store
        self._run = run
        self._places = places
        self._new_id = new_id

    async def finish(self, record: BatchRecord) -> None:
        """From wherever it stands to its end. Cancelling the task leaves it to be gone on with later."""
        if record.status == "validating":
            record = await self._validated(record)
        if record.status == "in_progress":
            record = await self._answered(record)
        if record.status in ("finalizing", "cancelling"):
            await self._written(record)

    async def _validated(self, record: BatchRecord) -> BatchRecord:
        path = self._store.content(record.input_file_id)
        try:
            total = await asyncio.to_thread(check_lines, path, record.endpoint)
        except BadLine as error:
            return await self.move(record, "failed", error=error.message, error_line=error.line)
        except OSError:
            return await self.move(record, "failed", error="the input file is gone", error_line=None)
        return await self.move(record, "in_progress", total=total)

    async def _answered(self, record: BatchRecord) -> BatchRecord:
        done = await asyncio.to_thread(self._store.done, record.id)
        path = self._store.content(record.input_file_id)
        async with asyncio.TaskGroup() as group:  # leaving it early, by an error or a cancellation, ends all its tasks
            for line in await asyncio.to_thread(_pending, path, record.endpoint, done):
                await self._places.acquire()
                task = group.create_task(self._one(record, line))
                task.add_done_callback(lambda _: self._places.release())
        return await self.move(record, "finalizing")

    async def _one(self, record: BatchRecord, line: Line) -> None:
        while True:
            if time.time() > record.expires_s:
                answer = LineAnswer(0, orjson.dumps({"code": "batch_expired", "message": "not run within its window"}))
                break
            try:
                answer = await self._run(record.endpoint, line.body, record.key_id)
                break
            except (RateLimited, Overloaded) as error:
                wait_s = getattr(error, "retry_after_s", None) or 1.0
                await asyncio.sleep(min(LONGEST_WAIT_S, max(0.05, wait_s)))
        tokens = (answer.prompt_tokens, answer.completion_tokens)
        result = LineResult(line.number, line.custom_id, answer.status, answer.body, *tokens)
        await asyncio.to_thread(self._store.add_result, record.id, result)

    async def _written(self, record: BatchRecord) -> None:
        """The output file has what went well, the error file the rest, both in the order of the lines."""
        results = list(await asyncio.to_thread(self._store.results, record.id))
        good = [_row(result) for result in results if result.status == 200]
        bad = [_row(result) for result in results if result.status != 200]
        found = {
            "output_file_id": await self._file(record, "output", good),
            "error_file_id": await self._file(record, "error", bad),
        }
        ended: Status = "completed"
        if record.status == "cancelling":
            ended = "cancelled"
        elif any(result.status == 0 for result in results):
            ended = "expired"
        await self.move(record, ended, **found)

    async def _file(self, record: BatchRecord, kind: str, rows: list[bytes]) -> str | None:
        if not rows:
            return None
        size = sum(map(len, rows))
        name = f"{record.id}_{kind}.jsonl"
        made = FileRecord(self._new_id("file"), record.tenant, name, "batch_output", size, int(time.time()))
        await asyncio.to_thread(self._store.add_file, made, rows)
        return made.id

    async def move(self, record: BatchRecord, status: Status, **changed: Any) -> BatchRecord:
        times = {**record.times, f"{status}_at": int(time.time())}
        moved = replace(record, status=status, times=times, **changed)
        await asyncio.to_thread(self._store.put_batch, moved)
        log.info("batch %s is %s", moved.id, status)
        return moved


def _pending(path: Path, endpoint: str, done: set[int]) -> list[Line]:
    return [line for line in lines_of(path, endpoint) if line.number not in done]


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
