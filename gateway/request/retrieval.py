"""Slot `retrieve`: documents for the question of a request, found after it was screened, and screened as a stranger's.

    ask every retriever at the same time  ->  check and bound what came  ->  rerank  ->  screen, best first  ->  insert

Whatever fails, takes too long or is no document ends the request with `RetrievalFailed`, unless the operator lets it be
answered without; the answer then says so.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sluicegate.gateway.prompts.documents import named
from sluicegate.gateway.rails.stage_calls import cause_of, within
from sluicegate.gateway.request.context import Exchange, Safety
from sluicegate.gateway.request.guarding.screening import Screening
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.gateway.retrieval.found import Retrieved, RetrievedDocument
from sluicegate.plugins import (
    ContentBlocked,
    Document,
    Message,
    Parts,
    Request,
    RequestError,
    RetrievalFailed,
    Retriever,
)

log = logging.getLogger("sluicegate.retrieval")
NOT_ALLOWED = "a document that was retrieved for it holds something that is not allowed here"


@dataclass(slots=True)
class _ScoredDocument:
    """A document on its way; `score`: the retriever's, then the reranker's."""

    text: str
    source: str
    score: float
    retriever: str
    cut: bool = False


@dataclass(slots=True)
class _Result:
    found: list[_ScoredDocument] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def wants_documents(exchange: Exchange) -> bool:
    """Return whether documents are to be found for this request. Raises `RequestError` where it asks for them and there
    is nobody to ask, or no question."""
    request, stages = exchange.request, exchange.stages
    asked = request.retrieve
    if asked is False or (asked is None and not stages.retrieval.always):
        return False
    has_question = not request.raw and bool(request.messages) and request.messages[-1].role == "user"
    if asked and not stages.retrieve:
        raise RequestError(
            "`sluicegate.retrieve`: no retriever runs here; the operator names one in [pipeline] retrieve",
            param="sluicegate.retrieve",
        )
    if asked and not has_question:
        raise RequestError(
            "`sluicegate.retrieve` needs a last message of the user, the question", param="sluicegate.retrieve"
        )
    return bool(stages.retrieve) and has_question


async def retrieve(exchange: Exchange) -> None:
    """Find, rank, screen and insert. Raises `RetrievalFailed`, and `ContentBlocked` where the operator wants a document
    that a rail refuses to end the request."""
    if exchange.question is None:
        return
    settings = exchange.stages.retrieval
    asked = _asked(exchange)
    result = _Result()
    work = [_of_one(exchange, name, stage, asked) for name, stage in exchange.stages.retrieve]
    for one in await asyncio.gather(*work, return_exceptions=True):  # none goes on behind a request that has ended
        if isinstance(one, BaseException):
            raise one
        result.found += one.found
        result.failed += one.failed
    ranked = await _ranked(exchange, _best(result.found, settings.candidates), result)
    kept, dropped = await _screened(exchange, _bounded(exchange, ranked))
    exchange.retrieved = Retrieved(tuple(kept), tuple(dropped), tuple(result.failed))
    for name in result.failed:
        exchange.safety.unenforced.append(f"retrieve {name}: failed, answered without")
    exchange.request = _inserted(exchange, kept)


def _asked(exchange: Exchange) -> Request:
    """Return the request as retrievers see it: the conversation as the rails left it, without documents, and the
    question last."""
    request, parts = exchange.request, exchange.request.parts
    documents = len(parts.documents) if parts is not None and parts.expanded else 0
    last = request.messages[-1]
    question = exchange.question or ""
    if question not in last.content:  # a rail changed it
        question = last.content.replace(exchange.stages.prompts.place(request), "")
    before = request.messages[: len(request.messages) - 1 - documents]
    return replace(request, messages=(*before, Message("user", question)), parts=None)


async def _of_one(exchange: Exchange, name: str, stage: Retriever, asked: Request) -> _Result:
    settings = exchange.stages.retrieval
    with TimedStage(exchange, "retrieve", name) as note:
        try:
            work = partial(stage.retrieve, asked, exchange.caller)
            found = _checked(await within(settings.timeout_s, work, "retrieve()"), name)
        except Exception as error:
            note.outcome = "failed"
            note.detail["reason"] = cause_of(error)
            return _failed(exchange, name, "did not find documents", error)
        note.outcome = f"{len(found)} documents"
        note.detail["documents"] = len(found)
    exchange.stages.retrieval_health.succeeded(name)
    return _Result(found)


def _failed(exchange: Exchange, name: str, what: str, error: Exception) -> _Result:
    """Go on without, where the operator says so. Raises `RetrievalFailed`."""
    exchange.stages.retrieval_health.failed(name, cause_of(error))
    log.warning("request %s: %s %s: %s: %s", exchange.request.id, name, what, type(error).__name__, error)
    if exchange.stages.retrieval.on_failure == "refuse":
        raise RetrievalFailed(
            f"{name} {what}; send the request again, or without `retrieve`", cause=cause_of(error)
        ) from error
    return _Result(failed=[name])


def _checked(found: object, name: str) -> list[_ScoredDocument]:
    """Return the documents found, without empty ones. Raises `TypeError` or `ValueError` for what is not a list of
    documents."""
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise TypeError(f"retrieve() answered {type(found).__name__}, not a sequence of Documents")
    checked = []
    for one in found:
        if not isinstance(one, Document) or not isinstance(one.text, str) or not isinstance(one.source, str):
            raise TypeError(f"retrieve() answered {type(one).__name__} among the Documents, or one without texts")
        if type(one.score) not in (int, float) or not math.isfinite(one.score):
            raise ValueError("the score of a Document must be a finite number")
        one.text.encode("utf-8"), one.source.encode("utf-8")  # half a surrogate pair breaks whoever writes it
        if one.text.strip():
            checked.append(_ScoredDocument(one.text, named(one.source), float(one.score), name))
    return checked


def _best(found: list[_ScoredDocument], most: int) -> list[_ScoredDocument]:
    """Return the best, each text once."""
    ranked = sorted(found, key=lambda one: -one.score)
    each: dict[str, _ScoredDocument] = {}
    for one in ranked:
        each.setdefault(one.text, one)
    return list(each.values())[:most]


async def _ranked(exchange: Exchange, found: list[_ScoredDocument], result: _Result) -> list[_ScoredDocument]:
    """Return `found` by the reranker's scores, without those below `min_score`."""
    settings, reranker = exchange.stages.retrieval, exchange.stages.reranker
    if reranker is not None and found:
        limit = settings.max_document_chars
        with TimedStage(exchange, "retrieve", "rerank") as note:
            question = _asked(exchange).messages[-1].content
            try:
                work = partial(reranker.scores, question, [one.text[:limit] for one in found])
                scores = await within(settings.rerank_timeout_s, work, "scores()")
            except Exception as error:
                note.outcome = "failed"
                note.detail["reason"] = type(error).__name__
                result.failed += _failed(exchange, "rerank", "did not rank documents", error).failed
                return found
            note.outcome = f"{len(found)} documents"
            note.detail["documents"] = len(found)
        exchange.stages.retrieval_health.succeeded("rerank")
        for one, score in zip(found, scores, strict=True):
            one.score = score
        found = sorted(found, key=lambda one: -one.score)
    return [one for one in found if settings.min_score is None or one.score >= settings.min_score]


def _bounded(exchange: Exchange, ranked: list[_ScoredDocument]) -> list[_ScoredDocument]:
    """Cut documents that are too long."""
    most = exchange.stages.retrieval.max_document_chars
    for one in ranked:
        if len(one.text) > most:
            one.text, one.cut = one.text[:most], True
    return ranked


async def _screened(
    exchange: Exchange, ranked: list[_ScoredDocument]
) -> tuple[list[RetrievedDocument], list[Mapping[str, Any]]]:
    """Let the input rails read each document by itself, best first, until there are enough. What they refuse is
    dropped; what they change stays as they left it."""
    settings = exchange.stages.retrieval
    kept: list[RetrievedDocument] = []
    dropped: list[Mapping[str, Any]] = []
    chars = 0
    for one in ranked:
        if len(kept) == settings.documents:
            break
        if chars + len(one.text) > settings.max_chars:
            dropped.append({"retriever": one.retriever, "reason": "no room within [retrieval] max_chars"})
            continue
        try:
            message = await _one_screened(exchange, one.text, one.source)
        except ContentBlocked as blocked:
            if settings.on_blocked == "refuse":
                raise
            dropped.append(await _refusal(exchange, one, blocked))
            continue
        chars += len(message.content)
        kept.append(RetrievedDocument(message.content, message.name or "", one.score, one.retriever, one.cut))
    return kept, dropped


async def _one_screened(exchange: Exchange, text: str, source: str) -> Message:
    """Return the document as the rails left it. Raises `ContentBlocked`, also where a person would have to look."""
    shown = Message("user", text, name=source or None)
    parts = Parts(documents=(Document(""),), expanded=True)
    request = replace(exchange.request, messages=(shown, Message("user", "")), parts=parts, tools=(), constraint=None)
    request = replace(request, chat_template_kwargs={}, nbytes=len(text))
    safety = Safety(exchange.safety.policy, unenforced=exchange.safety.unenforced)  # nothing is restored from it
    alone = replace(exchange, request=request, safety=safety)
    screening = Screening(alone)
    for name, rail in exchange.stages.screen:
        rail_policy = exchange.safety.policy.rail_policy("screen", name)
        if rail_policy.mode != "off":
            with TimedStage(alone, "screen", name) as note:
                note.detail["target"] = "document"
                try:
                    await screening.ask(name, rail, rail_policy, note)
                except ContentBlocked as blocked:
                    raise ContentBlocked(blocked.rail, blocked.reason, NOT_ALLOWED) from None
    if screening.asked:
        raise ContentBlocked(*screening.asked[0], NOT_ALLOWED)
    return alone.request.messages[0]


async def _refusal(exchange: Exchange, one: _ScoredDocument, blocked: ContentBlocked) -> Mapping[str, Any]:
    """Say which document was dropped, and why; its source only where that is harmless by itself."""
    said: dict[str, Any] = {"retriever": one.retriever, "rail": blocked.rail, "reason": "a rail refused it"}
    try:
        shown = await _one_screened(exchange, one.source, "") if one.source else None
    except ContentBlocked:
        return said
    return said if shown is None else {"source": shown.content, **said}


def _inserted(exchange: Exchange, kept: Sequence[RetrievedDocument]) -> Request:
    """Return the request with the documents where `arrange` looks for them."""
    request, prompts = exchange.request, exchange.stages.prompts
    documents = tuple(Document(one.text, one.source, one.score) for one in kept)
    parts = request.parts
    if parts is None:
        return request if not documents else prompts.expand(replace(request, parts=Parts(documents=documents)))
    *before, last = request.messages
    if not documents and not parts.documents:
        return replace(request, messages=(*before, replace(last, content=prompts.without_place(request, last.content))))
    scores = tuple(Document("", "", one.score) for one in documents)
    parts = replace(parts, documents=(*parts.documents, *scores))
    return replace(request, messages=(*before, *prompts.shown(documents), last), parts=parts)
