"""What callers said of answers, for operators."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from sluicegate.gateway.admin.review import SCOPE as REVIEW
from sluicegate.gateway.feedback import FeedbackBook
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound

log = logging.getLogger("sluicegate.feedback")


def add_feedback_admin_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/feedback", tags=["admin"])
    async def feedback(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        reveal: bool = False,
        request_id: Annotated[str, Query(max_length=256)] = "",
    ) -> Any:
        """List feedback, newest first, of all requests or of one. Comments are content: they are shown to keys with the
        scope `review` or `admin` that ask for them with `reveal`."""
        by = name_of(operator_of(runtime, request, REVIEW))
        if reveal:
            log.info("comments were read by %s", by)
        return {"object": "list", "data": await book_of(runtime).newest(limit, reveal=reveal, request=request_id)}

    @router.delete("/admin/feedback", tags=["admin"])
    async def forget(request: Request, key: Annotated[str, Query(min_length=1, max_length=256)]) -> Any:
        """Forget all feedback that a key gave."""
        by, book = name_of(operator_of(runtime, request)), book_of(runtime)
        async with runtime.audit.change(by, "feedback.forget", key):
            return {"forgotten": await book.forget(f"key {key}")}


def book_of(runtime: Runtime) -> FeedbackBook:
    if runtime.feedback is None:
        raise NotFound("feedback is switched off here ([feedback] enabled = false)", code="feedback_off")
    return runtime.feedback
