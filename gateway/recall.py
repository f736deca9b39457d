"""Slot `recall`: what an answer depends on, and a kept answer played back through the same rails as a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cache import Question, question_of
from plugins import Answer, Caller, Piece, Request, ServedModel, Usage


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
