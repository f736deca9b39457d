"""`/v1/feedback`: what a caller thinks of an answer that it got, by the `id` of the answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from sluicegate.gateway.admin.feedback import book_of
from sluicegate.gateway.feedback import FeedbackEntry
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import RequestError


class Feedback(StrictBody):
    """`score` from 0, of no use, to 1."""

    request_id: Annotated[str, Field(min_length=1, max_length=128, pattern="^[!-~]+$")]
    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    label: Annotated[str, Field(max_length=64)] = ""
    comment: Annotated[str, Field(max_length=100_000)] = ""


def add_feedback_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/feedback", tags=["feedback"])
    async def give(request: Request, given: Feedback) -> Any:
        """Record feedback, once for each answer: a second time replaces the first."""
        caller, book = await admitted(runtime, request), book_of(runtime)
        if given.score is None and not given.label and not given.comment:
            raise RequestError("say something: give a `score`, a `label` or a `comment`", param="score")
        asked = await book.give(caller, FeedbackEntry(given.request_id, given.score, given.label, given.comment))
        return {"object": "feedback", "request_id": asked.request, "model": asked.model}
