"""What documents make together where they stand below each other in a prompt.

Every document was screened by itself. Which ones meet is known once they are chosen and ordered for a model: then rails
that look for phrases and patterns read the borders. A document that was retrieved is dropped, where the operator drops
what rails refuse; else the request is refused.

Not covered: judges, which would read ends of texts out of their context; rails of others; what is cut within a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sluicegate.gateway.prompts.documents import named
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.plugins import ContentBlocked, Request
from sluicegate.safety import reads_borders

TOGETHER = "the documents and the question hold something together that is not allowed here"
Piece = tuple[int | None, str]


class Across(NamedTuple):
    """`documents`: the numbers of those that make it, in the order in which they stand."""

    rail: str
    reason: str
    documents: tuple[int, ...]


def found_across(exchange: Exchange, pieces: Sequence[Piece]) -> Across | None:
    """Return the first thing that an enforcing rail finds across `pieces`."""
    if len(pieces) < 2:
        return None
    texts = [_without_source(exchange, piece) for piece in pieces]
    for name, rail in exchange.stages.screen:
        if not reads_borders(rail) or exchange.safety.policy.rail_policy("screen", name).mode != "enforce":
            continue
        with TimedStage(exchange, "screen", name) as note:
            note.detail["target"] = "borders of documents"
            found = rail.spanning(texts)
            if found is not None:
                note.outcome = "block"
                first, last, reason = found
                numbers = (number for number, _ in pieces[first : last + 1])
                return Across(name, reason, tuple(number for number in numbers if number is not None))
    return None


def _without_source(exchange: Exchange, piece: Piece) -> str:
    """Return a piece without the line that names a document's source: what stands above and below it is read on."""
    number, text = piece
    request = exchange.unarranged
    if number is None or request is None or request.parts is None:
        return text
    message = request.messages[len(request.messages) - 1 - len(request.parts.documents) + number]
    return text.removeprefix(f"[{named(message.name)}]\n") if message.name else text


def with_documents_apart(exchange: Exchange) -> Request:
    """Return the request as output rails read it: its documents are messages of their own, as input rails saw them.
    Within the last message they would be the user's words."""
    arranged, before = exchange.request, exchange.unarranged
    if before is None or before.parts is None or not before.parts.documents:
        return arranged
    *above, last = before.messages
    last = replace(last, content=exchange.stages.prompts.without_place(before, last.content))
    return replace(arranged, messages=(*above, last), parts=before.parts)


def without_one(exchange: Exchange, request: Request, across: Across) -> Request:
    """Return the unarranged request without one retrieved document of those that make it. Raises `ContentBlocked` where
    none of them was retrieved, or the operator wants the request refused."""
    found, parts = exchange.retrieved, request.parts
    retrieved = len(found.documents) if found is not None else 0
    assert parts is not None
    own = len(parts.documents) - retrieved
    fresh = [number for number in across.documents if number >= own]
    if found is None or not fresh or exchange.stages.retrieval.on_blocked == "refuse":
        raise ContentBlocked(across.rail, across.reason, TOGETHER)
    number = max(fresh)  # the worst of them: they are kept best first
    at = len(request.messages) - 1 - len(parts.documents) + number
    left = found.documents[number - own]
    said = {"retriever": left.retriever, "rail": across.rail, "reason": "refused together with what stands beside it"}
    dropped = (*found.dropped, {"source": left.source, **said} if left.source else said)
    kept = (*found.documents[: number - own], *found.documents[number - own + 1 :])
    exchange.retrieved = replace(found, documents=kept, dropped=dropped)
    documents = (*parts.documents[:number], *parts.documents[number + 1 :])
    *messages, last = (*request.messages[:at], *request.messages[at + 1 :])
    if not documents:
        last = replace(last, content=exchange.stages.prompts.without_place(request, last.content))
    return replace(request, messages=(*messages, last), parts=replace(parts, documents=documents))
