"""Slot `recall`: what an answer depends on, and a kept answer played back through the same rails as a fresh one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from cache import Question, Recall, TieredCache, question_of
from plugins import Answer, Caller, Piece, Request, ServedModel, Usage

log = logging.getLogger("sluicegate.recall")


def question_for(request: Request, caller: Caller, model: ServedModel, fingerprint: str) -> Question | None:
    """None where an answer is not to be kept: the caller said so, or asked for a fresh draw (sampling without a seed).
    `fingerprint` is that of every stage that shapes an answer."""
    if not request.cache or not _repeatable(request, model):
        return None
    return question_of(request, caller, model=model.name, model_version=model.version, rails=fingerprint)


def _repeatable(request: Request, model: ServedModel) -> bool:
    asked = request.sampling.temperature
    temperature = getattr(model, "default_temperature", 1.0) if asked is None else asked
    return temperature == 0 or request.sampling.seed is not None


async def recalled(name: str, cache: TieredCache, question: Question) -> Recall:
    """A cache that fails or answers nonsense is a miss: no request is worse off for it."""
    try:
        found = await cache.recall(question)
        if isinstance(found, Recall) and (found.found is None or _are_answers(found.found.answers)):
            return found
        log.error("cache %s answered %s; taken as a miss", name, type(found).__name__)
    except Exception:
        log.exception("cache %s failed to look up; taken as a miss", name)
    return Recall(None, None)


async def remember(
    name: str, cache: TieredCache, question: Question, answers: tuple[Answer, ...], recall: Recall, usage: Usage
) -> None:
    """The client has its answer already, so a failure is only logged."""
    try:
        await cache.remember(question, answers, recall, usage)
    except Exception:
        log.exception("cache %s failed to store; the request is unharmed", name)


def _are_answers(found: object) -> bool:
    return isinstance(found, tuple) and all(isinstance(answer, Answer) for answer in found)


class Replay:
    """A `Generation` that yields answers of the cache whole, one piece a choice, and costs no tokens."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for answer in self._answers:
            yield Piece(answer.index, answer.text, logprobs=answer.logprobs, finish_reason=answer.finish_reason)

    def cancel(self) -> None:
        """Nothing runs."""

    @property
    def usage(self) -> Usage:
        return Usage()
