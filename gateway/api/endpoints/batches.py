"""`/v1/batches`: many requests from one file, answered behind everybody who waits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Request, Response
from pydantic import Field, create_model

from sluicegate.gateway.api.body.parsing import read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Wire
from sluicegate.gateway.api.dialect import Dialect, ignored_header
from sluicegate.gateway.batches import BatchRecord, new_id
from sluicegate.gateway.batches.batches import WINDOW_S
from sluicegate.gateway.batches.records import OPEN
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.guard import check_route
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound

TIMES = ("in_progress", "expired", "finalizing", "completed", "failed", "cancelling", "cancelled")


Name = Annotated[str, Field(max_length=64)]
Value = Annotated[str, Field(max_length=512)]


class NewBatch(Wire):
    input_file_id: Annotated[str, Field(min_length=1)]
    endpoint: str
    completion_window: Literal["24h"] = "24h"
    metadata: Annotated[dict[Name, Value], Field(max_length=16)] | None = None


@cache
def new_batch(endpoints: tuple[str, ...]) -> type[NewBatch]:
    """Return the model of a body that may name these endpoints."""
    return create_model("NewBatch", __base__=NewBatch, endpoint=(cast("Any", Literal[endpoints]), ...))


def endpoints_of(dialects: Iterable[Dialect]) -> tuple[str, ...]:
    return tuple(dialect.path for dialect in dialects if dialect.in_batches)


def add_batches_routes(router: APIRouter, runtime: Runtime, dialects: Iterable[Dialect]) -> None:
    fields = BodyFields(new_batch(endpoints_of(dialects)))

    @router.post("/v1/batches")
    async def create_batch(request: Request, response: Response) -> Any:
        caller = await admitted(runtime, request)
        wire, ignored = await runtime.reader.read(request, lambda tree: read_body(tree, fields))
        check_route(wire.endpoint, caller)
        now_s = int(time.time())
        record = BatchRecord(
            id=new_id("batch"),
            tenant=caller.tenant,
            key_id=caller.key_id,
            endpoint=wire.endpoint,
            input_file_id=wire.input_file_id,
            created_s=now_s,
            expires_s=now_s + WINDOW_S,
            metadata=wire.metadata or {},
        )
        response.headers.update(ignored_header(ignored))
        return await _shown(runtime, await runtime.batches.create(record))

    @router.get("/v1/batches")
    async def list_batches(request: Request, limit: int = 20, after: str | None = None) -> Any:
        found = await runtime.batches.batches((await admitted(runtime, request)).tenant)
        ids = [record.id for record in found]
        if after is not None and after not in ids:
            raise NotFound(f"there is no batch {after[:100]!r} here", param="after", code="batch_not_found")
        start = 0 if after is None else ids.index(after) + 1
        page = found[start : start + max(1, min(limit, 100))]
        data = [await _shown(runtime, record) for record in page]
        ends = {"first_id": ids[start] if page else None, "last_id": page[-1].id if page else None}
        return {"object": "list", "data": data, **ends, "has_more": start + len(page) < len(found)}

    @router.get("/v1/batches/{batch_id}")
    async def get_batch(request: Request, batch_id: str) -> Any:
        return await _shown(runtime, await runtime.batches.batch(batch_id, (await admitted(runtime, request)).tenant))

    @router.post("/v1/batches/{batch_id}/cancel")
    async def cancel_batch(request: Request, batch_id: str) -> Any:
        return await _shown(runtime, await runtime.batches.cancel(batch_id, (await admitted(runtime, request)).tenant))


async def _shown(runtime: Runtime, record: BatchRecord) -> dict[str, Any]:
    completed, failed, read, written = await runtime.batches.counts(record)
    error = {"code": "invalid_batch_file", "message": record.error, "line": record.error_line, "param": None}
    return {
        "id": record.id,
        "object": "batch",
        "endpoint": record.endpoint,
        "errors": {"object": "list", "data": [error]} if record.error else None,
        "input_file_id": record.input_file_id,
        "completion_window": "24h",
        "status": record.status,
        "output_file_id": record.output_file_id,
        "error_file_id": record.error_file_id,
        "created_at": record.created_s,
        "expires_at": record.expires_s,
        **{f"{name}_at": record.times.get(f"{name}_at") for name in TIMES},
        "request_counts": {"total": record.total, "completed": completed, "failed": failed},
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
        "metadata": dict(record.metadata),
        **_waiting(runtime, record),
    }


def _waiting(runtime: Runtime, record: BatchRecord) -> dict[str, Any]:
    """Return why an open batch does not go on now."""
    found = runtime.batches.waiting(record.id)
    if found is None or record.status not in OPEN:
        return {}
    shown = {"reason": found.reason, "since": found.since_s, "again_at": found.again_s}
    return {"sluicegate": {"waiting": shown}}
