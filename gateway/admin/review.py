"""Reviews, for those who decide them: keys with the scope `review`, or `admin`.

Listings say what is held and why, and how long it is; the text itself only where it is asked for, which is logged.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.review import ReviewItem, ReviewQueue, Unreadable
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Caller, NotFound

log = logging.getLogger("sluicegate.review")
SCOPE = "review"
Verb = Literal["approve", "deny", "expire"]
OUTCOMES: dict[Verb, Literal["approved", "denied", "expired"]] = {
    "approve": "approved",
    "deny": "denied",
    "expire": "expired",
}


class ReviewVerdict(StrictBody):
    note: Annotated[str, Field(max_length=4096)] = ""


def add_review_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/review", tags=["admin"])
    async def listing(
        request: Request,
        status: Literal["pending", "approved", "denied", "expired", "all"] = "pending",
        reveal: bool = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Any:
        """List what is held, oldest first."""
        by, queue = operator_of(runtime, request, SCOPE), queue_of(runtime)
        found = await queue.items(None if status == "all" else status, limit)
        data = [shown(item, body, reveal=reveal, by=by) for item, body in found]
        return {"object": "list", "data": data, "counts": dict(await queue.counts())}

    @router.get("/admin/review/{id}", tags=["admin"])
    async def one(request: Request, id: str, reveal: bool = False) -> Any:
        """Return one held item; its text with `reveal`, which is audited."""
        by = operator_of(runtime, request, SCOPE)
        return shown(*await queue_of(runtime).get(id), reveal=reveal, by=by)

    @router.post("/admin/review/{id}/{verb}", tags=["admin"])
    async def decide(request: Request, id: str, verb: Verb, verdict: ReviewVerdict = ReviewVerdict()) -> Any:
        """Decide about a held item. The first decision stands."""
        by, queue = operator_of(runtime, request, SCOPE), queue_of(runtime)
        async with runtime.audit.change(name_of(by), f"review.{verb}", id):
            item = await queue.decide(id, OUTCOMES[verb], by.key_id or "operator", verdict.note)
        return shown(item, (await queue.get(id))[1], reveal=False, by=by)


def queue_of(runtime: Runtime) -> ReviewQueue:
    if runtime.reviews is None:
        raise NotFound("reviews are switched off here ([review] enabled = false)", code="reviews_off")
    return runtime.reviews


def shown(item: ReviewItem, body: Any, *, reveal: bool, by: Caller) -> dict[str, Any]:
    if isinstance(body, Unreadable):
        return {**asdict(item), "object": "review", "unreadable": body.reason}
    texts = _texts(item, body)
    found = {**asdict(item), "object": "review", "characters": sum(map(len, texts))}
    if reveal:
        log.info("review %s was read by %s", item.id, by.key_id or "operator")
        found["texts"] = texts
        found["released"] = body.get("released", [])
    return found


def _texts(item: ReviewItem, body: Any) -> list[str]:
    """Return what a person has to look at: the request's messages, or the whole answers."""
    if item.kind == "request":
        return [f"{message['role']}: {message['content']}" for message in body["request"]["messages"]]
    return [_message_text(choice["message"]) for choice in body["result"]["choices"]]


def _message_text(message: Any) -> str:
    calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in message.get("tool_calls") or ()]
    return "\n".join([message.get("reasoning_content") or "", message.get("content") or "", *calls]).strip()
