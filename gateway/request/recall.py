"""Slots `recall` and `remember`: what an answer depends on, looking it up in the caches, and keeping it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from sluicegate.cache import CacheHit, CacheQuestion, Recall, SharedResult, TieredCache, question_of
from sluicegate.gateway.answer.validation import WHOLE, Validator
from sluicegate.gateway.rails.states import any_enforced
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.plugins import Answer, Caller, Request, Reuse, ServedModel, Usage

log = logging.getLogger("sluicegate.recall")
USUAL = Reuse()
DIGESTED = 64 * 1024
"""Bytes that can be hashed to a cache key within one or two milliseconds."""


async def recall(exchange: Exchange, validator: Validator) -> None:
    """Ask each cache; after a miss of all take a seat among identical requests."""
    attempt = exchange.attempt
    size, tenant = exchange.request.nbytes, exchange.caller.tenant
    question = await exchange.stages.workers.run(tenant, size, _question, exchange, inline_bytes=DIGESTED)
    if question is None:
        return
    for name, cache in exchange.stages.recall:
        with TimedStage(exchange, "recall", name) as note:
            said = await _recalled(name, cache, question)
            attempt.recalls.append((name, cache, said))
            if said.found is not None and validator.all_valid(exchange.request, said.found.answers):
                attempt.hit, attempt.cached = said.found, said.found.answers
                note.detail |= _hit_detail(said.found)
            note.outcome = "miss" if attempt.hit is None else f"{attempt.hit.kind} hit"
        if attempt.hit is not None:
            return
    await _join_flight(exchange, question, validator)


async def remember(exchange: Exchange) -> None:
    """Keep whole answers, and hand them to the identical requests that wait for them."""
    attempt = exchange.attempt
    if attempt.question is None or attempt.cached is not None:
        return
    answers = tuple(exchange.answers)
    whole = bool(answers) and all(a.finish_reason in WHOLE and a.refusal is None for a in answers)
    if attempt.seat is not None:
        attempt.seat.land(SharedResult(answers, exchange.usage)) if whole else attempt.seat.release()
    for name, cache, said in attempt.recalls if whole else ():
        await _keep(name, cache, attempt.question, answers, said, exchange.usage)


def _question(exchange: Exchange) -> CacheQuestion | None:
    """Return the question for the caches, and note it in the exchange. Return None where no cache is asked."""
    caches = [cache for _, cache in exchange.stages.recall]
    question = None
    if caches and any_enforced(exchange.safety.state_rails, exchange.safety.policy):
        caches = []  # a cached answer has no states to judge
    if caches:
        fingerprint = exchange.stages.fingerprint + exchange.safety.policy.fingerprint
        documents = _documents(exchange)
        question = question_for(
            exchange.request, exchange.caller, exchange.served, fingerprint, caches, documents=documents
        )
    if exchange.request.reuse != USUAL:
        ignored = _ignored_wishes(exchange.request, question, caches)
        exchange.ignored = tuple(dict.fromkeys((*exchange.ignored, *ignored)))
    exchange.attempt.question = question
    return question


def _documents(exchange: Exchange) -> list[str]:
    """Return the contents of the documents that `arrange` put into the last message, its choice and order included."""
    request = exchange.unarranged
    if request is None or request.parts is None or not request.parts.documents:
        return []
    first = len(request.messages) - 1 - len(request.parts.documents)
    return [message.content for message in request.messages[first:-1]]


async def _join_flight(exchange: Exchange, question: CacheQuestion, validator: Validator) -> None:
    """Join the identical requests that run at the same time. One of them generates; the others wait for its answer
    here."""
    attempt = exchange.attempt
    name, cache = exchange.stages.recall[0]
    with TimedStage(exchange, "recall", f"{name} flight") as note:
        attempt.seat = await cache.flights.join(question.key)
        made = attempt.seat.answers
        if made is not None and validator.all_valid(exchange.request, made.answers):
            attempt.cached = made.answers
        note.outcome = attempt.seat.role if attempt.cached is None else "shared"


def question_for(
    request: Request,
    caller: Caller,
    model: ServedModel,
    fingerprint: str,
    caches: Iterable[TieredCache] = (),
    *,
    documents: Sequence[str] = (),
) -> CacheQuestion | None:
    """Return None where the answer is not to be kept: the caller said so, or asked for a fresh draw (sampling without a
    seed). `fingerprint` is that of every stage that shapes an answer; `documents` are read beside the question, and
    must be equal for an answer by meaning too. Only greedy requests get answers by meaning: a draw belongs to its own
    prompt."""
    greedy = _temperature(request, model) == 0
    if not request.cache or not (greedy or request.sampling.seed is not None):
        return None
    wanted = request.reuse.semantic
    if wanted is None:
        wanted = any(cache.is_semantic_for(model.name) for cache in caches)
    return question_of(
        request,
        caller,
        model=model.name,
        model_version=model.version,
        template_version=request.parts.version if request.parts is not None else "",
        rails=fingerprint,
        scope={"documents": list(documents)} if documents else None,
        tags=request.reuse.tags,
        semantic=wanted and greedy,
        threshold=request.reuse.threshold,
    )


def _ignored_wishes(request: Request, question: CacheQuestion | None, caches: Iterable[TieredCache]) -> list[str]:
    """Return the paths of wishes about kept answers that no cache here can follow, or that do not matter since this
    answer is not kept. They are reported and not refused: a fresh answer is a right one."""
    asked = request.reuse
    by_meaning = question is not None and question.text is not None and any(cache.is_semantic for cache in caches)
    ignored = {
        "semantic": bool(asked.semantic) and not by_meaning,
        "threshold": asked.threshold is not None and not by_meaning,
        "tags": bool(asked.tags) and question is None,
    }
    return [f"sluicegate.cache.{name}" for name, is_ignored in ignored.items() if is_ignored]


def _temperature(request: Request, model: ServedModel) -> float:
    asked = request.sampling.temperature
    return model.default_temperature if asked is None else asked


def _hit_detail(found: CacheHit) -> dict[str, Any]:
    """Return what the trace of the request says about a hit."""
    saved = found.usage.prompt_tokens + found.usage.completion_tokens
    return {"kind": found.kind, "score": found.score, "age_s": round(found.age_s, 3), "saved_tokens": saved}


async def _recalled(name: str, cache: TieredCache, question: CacheQuestion) -> Recall:
    """Look the question up in one cache. A cache that fails or answers nonsense is a miss: no request is worse off for
    it."""
    try:
        found = await cache.recall(question)
        if isinstance(found, Recall) and (found.found is None or _are_answers(found.found.answers)):
            return found
        log.error("cache %s answered %s; taken as a miss", name, type(found).__name__)
    except Exception:
        log.exception("cache %s failed to look up; taken as a miss", name)
    return Recall(None, None)


async def _keep(
    name: str, cache: TieredCache, question: CacheQuestion, answers: tuple[Answer, ...], recall: Recall, usage: Usage
) -> None:
    """Store the answers in one cache. The client has its answer already, so a failure is only logged."""
    try:
        await cache.remember(question, answers, recall, usage)
    except Exception:
        log.exception("cache %s failed to store; the request is unharmed", name)


def _are_answers(found: object) -> bool:
    return isinstance(found, tuple) and all(isinstance(answer, Answer) for answer in found)
