"""Hold a request or an answer for review; where no review is possible it is refused."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

import orjson

from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.rails.moderation import PENDING, REFUSAL
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.review import ReviewItem, ReviewQueue
from sluicegate.gateway.review.items import Kind, request_to_json
from sluicegate.plugins import Answer, Caller, Overloaded, PendingReview, Request

log = logging.getLogger("sluicegate.review")
Asked = Sequence[tuple[str, str]]
"""(rail, reason) of every place that a person should look at."""


class Holding:
    """`reviews` None: no review is possible. `render` makes the body of a finished answer, as a caller gets it."""

    def __init__(self, reviews: ReviewQueue | None = None, render: Callable[[Exchange], bytes] | None = None) -> None:
        self._reviews = reviews
        self._render = render

    def remember(self, request: Request, caller: Caller, rail: str) -> None:
        """Keep the text of a refused request for a while, so that its sender can report a false positive."""
        if self._reviews is not None:
            self._reviews.remember(request, caller.tenant, rail)

    async def hold_request(
        self, exchange: Exchange, request: Request, asked: Asked, param: str
    ) -> PendingReview | None:
        """Hold the request for review and return the error to raise, about the field `param`; None where no review is
        possible. `request` is the original, before rails changed it."""
        if self._reviews is None:
            return None
        rails, reason = [name for name, _ in asked], "; ".join(reason for _, reason in asked)
        body = {"request": request_to_json(request), "rails": rails, "route": exchange.entry.route}
        item = await _hold(self._reviews, exchange, "request", rails[0], reason, body)
        return None if item is None else PendingReview(item.id, item.rail, url_of(item), param=param)

    async def hand_over(self, exchange: Exchange, validator: Validator) -> None:
        """Hold the answers that wait for review; where no review is possible they are refused."""
        moderation = exchange.moderation
        if moderation is None or not moderation.held:
            return
        whole = moderation.withheld()
        if validator.all_valid(exchange.request, whole):
            exchange.review = await self._hold_answer(exchange, whole, moderation.asked)
        if exchange.review is None:
            exchange.answers = [
                dataclasses.replace(a, refusal=REFUSAL) if a.refusal == PENDING else a for a in exchange.answers
            ]

    async def _hold_answer(
        self, exchange: Exchange, answers: Sequence[Answer], asked: Asked
    ) -> Mapping[str, str] | None:
        """Hold the answer for review and return where the caller fetches it once approved; None where no review is
        possible. `answers` are whole."""
        if self._reviews is None or self._render is None:
            return None
        whole = dataclasses.replace(exchange, answers=list(answers))
        body = {
            "request": request_to_json(exchange.request),
            "rails": list(dict.fromkeys(name for name, _ in asked)),
            "released": [answer.text for answer in exchange.answers],
            "result": orjson.loads(self._render(whole)),
        }
        reason = "; ".join(dict.fromkeys(reason for _, reason in asked))
        item = await _hold(self._reviews, exchange, "answer", asked[0][0], reason, body)
        return None if item is None else {"id": item.id, "url": url_of(item), "status": item.status}


async def _hold(
    reviews: ReviewQueue, exchange: Exchange, kind: Kind, rail: str, reason: str, body: object
) -> ReviewItem | None:
    try:
        return await reviews.hold(exchange.caller, exchange.request, kind, rail, reason, body)
    except Overloaded as error:  # the queue has said why
        log.error("the %s of %s could not be held, it is refused: %s", kind, exchange.request.id, error.message)
        return None
    except Exception:
        log.exception("the %s of %s could not be held for review; it is refused", kind, exchange.request.id)
        return None


def url_of(item: ReviewItem) -> str:
    return f"/v1/reviews/{item.id}"
