"""`/v1/reviews/{id}`: the outcome of a request or an answer that waited for a person, for the tenant who asked.

An approved request is answered when its outcome is first fetched: under the caller's own key and limits, through all
rails, but those that wanted a person do not wait again. So nothing is lost between the decision and the answer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from sluicegate.gateway.admin.review import queue_of
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialects.chat_answer import completion
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.review import UNREADABLE, ReviewItem, ReviewQueue, Unreadable
from sluicegate.gateway.review.items import request_from_json
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Caller, Overloaded, exact_json


def add_review_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/v1/reviews/{id}", tags=["reviews"])
    async def review(request: Request, id: str) -> Any:
        """Return a review: 202 while nobody has decided, `result` once it was approved."""
        caller = await admitted(runtime, request)
        queue = queue_of(runtime)
        item, body = await _readable(queue, id, caller)
        if item.status == "approved" and "result" not in body:
            try:
                body = await unless_disconnected(
                    request.scope, request.receive, _answered(runtime, queue, item, request, caller)
                )
            except ClientDisconnected:
                return NoResponse()
        return Response(exact_json.write(_shown(item, body)), 202 if item.status == "pending" else 200, media_type=JSON)


async def _readable(queue: ReviewQueue, id: str, caller: Caller) -> tuple[ReviewItem, Any]:
    """Return a review and its body. Raises `Overloaded` for one that was approved and cannot be read here: another
    gateway may have the right secret."""
    item, body = await queue.get(id, caller.tenant)
    if item.status == "approved" and isinstance(body, Unreadable):
        error = Overloaded(f"review {id!r} is kept, and cannot be read here: it is {body.reason}", retry_after_s=10.0)
        error.code = UNREADABLE
        raise error
    return item, body


def _shown(item: ReviewItem, body: Any) -> dict[str, Any]:
    found = {
        "id": item.id,
        "object": "review",
        "status": item.status,
        "kind": item.kind,
        "created": int(item.created_s),
        "expires_at": int(item.expires_s),
    }
    if item.note:
        found["note"] = item.note
    if item.status == "approved":
        found["result"] = body["result"]
    return found


async def _answered(runtime: Runtime, queue: ReviewQueue, item: ReviewItem, request: Request, caller: Caller) -> Any:
    """Return the item's body with the answer to its request; two who fetch at once get one answer."""
    async with queue.answering(item.id):
        item, body = await _readable(queue, item.id, caller)
        if "result" in body:
            return body
        asked = request_from_json(body["request"])
        asked = dataclasses.replace(asked, api_key=api_key_of(request), stream=False)
        runtime.check_ready()
        context, approved = parent_context(request.headers), frozenset(body["rails"])
        exchange = await runtime.pipeline.open(asked, context, route=body["route"], approved=approved)
        await runtime.pipeline.collect(exchange)
        body["result"] = orjson.loads(completion(exchange, explain=False))
        await queue.finish(item, body)
        return body
