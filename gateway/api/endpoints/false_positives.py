"""`/v1/safety/false_positives`: whoever was refused wrongly says so; what they report is kept for the regression set.

The text is that of a refused request still remembered, by its `request_id` (in the error's body), or given as `text`.
Reading the set needs the scope `review` or `admin`; `sluicegate redteam --regressions` does.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from sluicegate.gateway.admin.review import SCOPE, queue_of
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.review import MOST_REPORTED, FalsePositiveReport, Unreadable
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import RequestError


class FalsePositive(StrictBody):
    request_id: Annotated[str, Field(max_length=128)] = ""
    text: Annotated[str, Field(max_length=MOST_REPORTED)] = ""
    rail: Annotated[str, Field(max_length=128)] = ""
    note: Annotated[str, Field(max_length=4096)] = ""
    kind: Literal["false_positive", "miss"] = "false_positive"
    """`miss`: the `text` should have been refused."""


def add_false_positive_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/safety/false_positives", tags=["safety"])
    async def report(request: Request, given: FalsePositive) -> Any:
        """Report that a rail was wrong, by request id or by text."""
        caller, queue = await admitted(runtime, request), queue_of(runtime)
        if bool(given.request_id) == bool(given.text):
            raise RequestError("give either the `request_id` of a refused request or its `text`", param="text")
        if given.text and not given.text.strip():
            raise RequestError("`text` is blank: give the words that were refused, or let through", param="text")
        if given.kind == "miss" and not given.text:
            raise RequestError("a miss was not refused: give its `text`", param="text")
        rail, text = queue.recall(given.request_id, caller.tenant) if given.request_id else (given.rail, given.text)
        kept = FalsePositiveReport(
            id=f"fp_{uuid.uuid4().hex}",
            tenant=caller.tenant,
            key_id=caller.key_id,
            created_s=time.time(),
            rail=rail,
            request_id=given.request_id,
            note=given.note,
        )
        await queue.report(kept, text, given.kind)
        if given.kind == "false_positive":
            runtime.metrics.false_positives.labels(rail if rail in runtime.rail_names else "other").inc()
        return {"id": kept.id, "object": f"safety.{given.kind}", "rail": rail}

    @router.get("/v1/safety/false_positives", tags=["safety"])
    async def regressions(request: Request, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> Any:
        """List the newest reports with their texts, the oldest of them first: a set that must not be flagged.
        `has_more`: there are older ones."""
        operator_of(runtime, request, SCOPE)
        found = await queue_of(runtime).reports(limit + 1)
        kept, has_more = found[-limit:], len(found) > limit
        body = await asyncio.to_thread(_listing, kept, has_more=has_more)  # megabytes, which callers sent
        return Response(body, media_type="application/json")

    @router.delete("/v1/safety/false_positives/{id}", tags=["safety"])
    async def forget(request: Request, id: str) -> Any:
        """Delete a report. Only those who read the set may; its tenant may then report another."""
        by, queue = operator_of(runtime, request, SCOPE), queue_of(runtime)
        async with runtime.audit.change(name_of(by), "false_positives.remove", id):
            await queue.remove_report(id)
        return {"id": id, "object": "safety.false_positive", "deleted": True}


def _listing(found: Iterable[tuple[FalsePositiveReport, Any]], *, has_more: bool) -> bytes:
    """Return reports as a JSON list; each is encoded by itself, since an encoder lets no other thread run."""
    lines: list[bytes] = []
    left = 0
    for report, body in found:
        if isinstance(body, Unreadable):
            left += 1
            continue
        shown = {
            "id": report.id,
            "rail": report.rail,
            "note": report.note,
            "text": body["text"],
            "kind": body.get("kind", "false_positive"),
            "tenant": report.tenant,
            "request_id": report.request_id,
            "created_s": report.created_s,
        }
        lines.append(json.dumps(shown).encode())
    rest = b', "has_more": %b' % (b"true" if has_more else b"false")
    rest += b', "unreadable": %d' % left if left else b""
    return b'{"object": "list", "data": [' + b", ".join(lines) + b"]" + rest + b"}"
