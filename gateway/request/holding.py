"""Putting a request or an answer aside for a person; what cannot be put aside is refused."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

import orjson

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.review.items import Item, request_to_json
from sluicegate.gateway.review.queue import ReviewQueue
from sluicegate.plugins import Answer, PendingReview, Request

log = logging.getLogger("sluicegate.review")
Asked = Sequence[tuple[str, str]]


async def hold_request(
    reviews: ReviewQueue | None, exchange: Exchange, request: Request, asked: Asked
) -> PendingReview | None:
    """What to raise; None where nobody can be asked. `request` is as it came, before rails changed it."""
    if reviews is None:
        return None
    body = {"request": request_to_json(request), "rails": [name for name, _ in asked], "route": exchange.route}
    try:
        item = await reviews.hold(exchange, "request", asked[0][0], "; ".join(reason for _, reason in asked), body)
    except Exception:
        log.exception("request %s could not be held for review; it is refused", request.id)
        return None
    return PendingReview(item.id, item.rail, url_of(item))


async def hold_answer(
    reviews: ReviewQueue | None, exchange: Exchange, answers: Sequence[Answer], asked: Asked
) -> Mapping[str, str] | None:
    """Where the caller fetches the answer once a person agreed; None where nobody can be asked. `answers` are whole."""
    if reviews is None:
        return None
    whole = dataclasses.replace(exchange, answers=list(answers))
    body = {
        "request": request_to_json(exchange.request),
        "rails": list(dict.fromkeys(name for name, _ in asked)),
        "released": [answer.text for answer in exchange.answers],
        "result": orjson.loads(reviews.render(whole)),
    }
    reason = "; ".join(dict.fromkeys(reason for _, reason in asked))
    try:
        item = await reviews.hold(exchange, "answer", asked[0][0], reason, body)
    except Exception:
        log.exception("the answer to request %s could not be held for review; it is refused", exchange.request.id)
        return None
    return {"id": item.id, "url": url_of(item), "status": item.status}


def url_of(item: Item) -> str:
    return f"/v1/reviews/{item.id}"
