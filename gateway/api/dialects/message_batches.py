"""`/v1/messages/batches`: Anthropic's batches, kept and run as all others are, shown in Anthropic's words.

Its requests become the lines of a file, so that quotas, restarts and several gateways hold for them too; any batch of
`/v1/messages` is seen here, whoever made it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from sluicegate.gateway.api.body.parsing import Tree, read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.dialect import ignored_header
from sluicegate.gateway.batches import BatchRecord, new_id
from sluicegate.gateway.batches.batches import WINDOW_S
from sluicegate.gateway.batches.lines import MAX_ID, MAX_LINES
from sluicegate.gateway.batches.merging import Row, merged
from sluicegate.gateway.batches.records import OPEN
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.guard import check_route
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound, RequestError, exact_json

ENDPOINT = "/v1/messages"
PATH = f"{ENDPOINT}/batches"
CANCELED, EXPIRED = {"type": "canceled"}, {"type": "expired"}
JSONL = "application/x-jsonl"
PART_BYTES = 1 << 16


class BatchedMessage(Wire):
    """One request of a batch. `params` is checked when it runs, as the body of `/v1/messages`."""

    custom_id: Annotated[str, Field(min_length=1, max_length=MAX_ID)]
    params: dict[str, Any]


class NewMessageBatch(Wire):
    requests: Annotated[Listed[BatchedMessage], Field(min_length=1, max_length=MAX_LINES)]


FIELDS = BodyFields(NewMessageBatch)


def add_message_batches(router: APIRouter, runtime: Runtime) -> None:
    batches = runtime.batches

    async def ours(batch_id: str, tenant: str) -> BatchRecord:
        record = await batches.batch(batch_id, tenant)
        if record.endpoint != ENDPOINT:
            raise NotFound(
                f"batch {batch_id[:100]!r} is none of messages; see /v1/batches", param="batch_id",
                code="batch_not_found",
            )  # fmt: skip
        return record

    @router.post(PATH)
    async def create_message_batch(request: Request, response: Response) -> Any:
        caller = await admitted(runtime, request)
        check_route(ENDPOINT, caller)
        lines, ignored = await runtime.reader.read(request, _lines)
        batch_id, now_s = new_id("msgbatch"), int(time.time())
        async with batches.upload(caller.tenant) as upload:
            for line in lines:
                await upload.write(line)
            file = await batches.keep(upload, _input_name(batch_id), "batch")
        record = BatchRecord(
            id=batch_id,
            tenant=caller.tenant,
            key_id=caller.key_id,
            endpoint=ENDPOINT,
            input_file_id=file.id,
            created_s=now_s,
            expires_s=now_s + WINDOW_S,
            total=len(lines),
        )
        try:
            record = await batches.create(record)
        except BaseException:
            await batches.remove_file(file.id, caller.tenant)
            raise
        response.headers.update(ignored_header(ignored))
        return await _shown(runtime, record)

    @router.get(PATH)
    async def list_message_batches(
        request: Request, limit: int = 20, after_id: str | None = None, before_id: str | None = None
    ) -> Any:
        caller = await admitted(runtime, request)
        found = [one for one in await batches.batches(caller.tenant) if one.endpoint == ENDPOINT]
        page, more = _page(found, max(1, min(limit, 1000)), after_id, before_id)
        ends = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
        return {"data": [await _shown(runtime, record) for record in page], "has_more": more, **ends}

    @router.get(f"{PATH}/{{batch_id}}")
    async def get_message_batch(request: Request, batch_id: str) -> Any:
        return await _shown(runtime, await ours(batch_id, (await admitted(runtime, request)).tenant))

    @router.post(f"{PATH}/{{batch_id}}/cancel")
    async def cancel_message_batch(request: Request, batch_id: str) -> Any:
        caller = await admitted(runtime, request)
        await ours(batch_id, caller.tenant)
        return await _shown(runtime, await batches.cancel(batch_id, caller.tenant))

    @router.delete(f"{PATH}/{{batch_id}}")
    async def delete_message_batch(request: Request, batch_id: str) -> Any:
        caller = await admitted(runtime, request)
        record = await ours(batch_id, caller.tenant)
        files = {file.id: file.filename for file in await batches.files(caller.tenant)}
        own = files.get(record.input_file_id) == _input_name(batch_id)
        await batches.remove(batch_id, caller.tenant, record.input_file_id if own else None)
        return {"id": batch_id, "type": "message_batch_deleted"}

    @router.get(f"{PATH}/{{batch_id}}/results")
    async def message_batch_results(request: Request, batch_id: str) -> Any:
        caller = await admitted(runtime, request)
        record = await ours(batch_id, caller.tenant)
        _check_ended(record)
        written = [
            await batches.content(file_id, caller.tenant)
            for file_id in (record.output_file_id, record.error_file_id)
            if file_id is not None
        ]
        asked = await _input_of(runtime, record)
        rows = merged(written, asked, ENDPOINT)
        return StreamingResponse(_in_parts(rows), media_type=JSONL)


def _lines(tree: Tree) -> tuple[list[bytes], tuple[str, ...]]:
    """Return the requests as lines of a batch's input, and the fields without a use. Raises `RequestError`."""
    wire, ignored = read_body(tree, FIELDS)
    seen: set[str] = set()
    for at, one in enumerate(wire.requests):
        if one.custom_id in seen:
            raise RequestError(
                f"`requests[{at}].custom_id`: {one.custom_id[:100]!r} was used before; each request has its own",
                param=f"requests[{at}].custom_id",
            )
        seen.add(one.custom_id)
    return [
        exact_json.write({"custom_id": one.custom_id, "body": one.params}) + b"\n" for one in wire.requests
    ], ignored


def _input_name(batch_id: str) -> str:
    return f"{batch_id}_input.jsonl"


def _page(
    found: list[BatchRecord], limit: int, after_id: str | None, before_id: str | None
) -> tuple[list[BatchRecord], bool]:
    """Return a page of `found`, which is newest first, and whether there are more in its direction."""
    ids = [record.id for record in found]
    for name, given in (("after_id", after_id), ("before_id", before_id)):
        if given is not None and given not in ids:
            raise NotFound(f"there is no batch {given[:100]!r} here", param=name, code="batch_not_found")
    if before_id is not None:
        end = ids.index(before_id)
        return found[max(0, end - limit) : end], end > limit
    start = 0 if after_id is None else ids.index(after_id) + 1
    return found[start : start + limit], len(found) > start + limit


def _check_ended(record: BatchRecord) -> None:
    if record.status in OPEN:
        raise RequestError(f"batch {record.id!r} is {record.status}; its results can be read once it has ended")
    if record.status == "failed":
        raise RequestError(
            f"batch {record.id!r} failed as a whole: {record.error}; what was answered before is in the file "
            f"{record.output_file_id!r}",
            code="batch_failed",
        )


async def _input_of(runtime: Runtime, record: BatchRecord) -> Path | None:
    """Return the input where some of its lines were not answered. Raises `NotFound` where it is needed and gone."""
    good, bad, *_ = await runtime.batches.counts(record)
    return None if good + bad >= record.total else await runtime.batches.content(record.input_file_id, record.tenant)


def _in_parts(rows: Iterator[Row]) -> Iterator[bytes]:
    part = bytearray()
    for row in rows:
        part += _result(*row[1:])
        if len(part) >= PART_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part)


def _result(custom_id: str, row: dict[str, Any] | None) -> bytes:
    return exact_json.write({"custom_id": custom_id, "result": CANCELED if row is None else _outcome(row)}) + b"\n"


def _outcome(row: dict[str, Any]) -> dict[str, Any]:
    answer = row["response"]
    if answer is None:
        return EXPIRED
    if answer["status_code"] == 200:
        return {"type": "succeeded", "message": answer["body"]}
    return {"type": "errored", "error": answer["body"]}


async def _shown(runtime: Runtime, record: BatchRecord) -> dict[str, Any]:
    good, bad, *_ = await runtime.batches.counts(record)
    status = {"cancelling": "canceling"}.get(record.status, "in_progress") if record.status in OPEN else "ended"
    ended_at = next((at for name, at in record.times.items() if name == f"{record.status}_at"), None)
    return {
        "id": record.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": await _counts(runtime, record, good, bad),
        "created_at": _time(record.created_s),
        "expires_at": _time(record.expires_s),
        "ended_at": _time(ended_at) if status == "ended" else None,
        "cancel_initiated_at": _time(record.times.get("cancelling_at")),
        "archived_at": None,
        "results_url": f"{PATH}/{record.id}/results" if status == "ended" else None,
    }


async def _counts(runtime: Runtime, record: BatchRecord, good: int, bad: int) -> dict[str, int]:
    """Return the counts of a batch as Anthropic shows them: while it runs, every request counts as in process."""
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if record.status in OPEN:
        return {**counts, "processing": record.total}
    rest = max(0, record.total - good - bad)
    late = await runtime.batches.expired(record) if record.status in ("expired", "cancelled") else 0
    left = "errored" if record.status == "failed" else "canceled"
    counts |= {"succeeded": good, "errored": bad - late, "expired": late}
    return {**counts, left: counts[left] + rest}


def _time(at_s: int | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
