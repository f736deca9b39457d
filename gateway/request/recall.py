"""Slot `recall`: what an answer depends on, and a kept answer played back through the same rails as a fresh one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.cache import Found, Question, Recall, TieredCache, question_of
from sluicegate.plugins import (
    Answer,
    Caller,
    ConfigurationError,
    Generator,
    Piece,
    Request,
    ServedModel,
    TextEmbedder,
    Usage,
)

log = logging.getLogger("sluicegate.recall")


def question_for(
    request: Request, caller: Caller, model: ServedModel, fingerprint: str, caches: Iterable[TieredCache] = ()
) -> Question | None:
    """None where an answer is not to be kept: the caller said so, or asked for a fresh draw (sampling without a seed).
    `fingerprint` is that of every stage that shapes an answer. Answers by meaning are for greedy requests only: a draw
    is of its own prompt."""
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
        tags=request.reuse.tags,
        semantic=wanted and greedy,
        threshold=request.reuse.threshold,
    )


def unheeded_wishes(request: Request, question: Question | None, caches: Iterable[TieredCache]) -> list[str]:
    """What the request says about kept answers and nobody can follow, for want of such a cache or because this answer
    is not kept at all: to be told, since a fresh answer is a right one."""
    asked = request.reuse
    by_meaning = question is not None and question.text is not None and any(cache.is_semantic for cache in caches)
    unheeded = {
        "semantic": bool(asked.semantic) and not by_meaning,
        "threshold": asked.threshold is not None and not by_meaning,
        "tags": bool(asked.tags) and question is None,
    }
    return [f"sluicegate.cache.{name}" for name, told in unheeded.items() if told]


def _temperature(request: Request, model: ServedModel) -> float:
    asked = request.sampling.temperature
    return getattr(model, "default_temperature", 1.0) if asked is None else asked


def hit_detail(found: Found) -> dict[str, Any]:
    """What the request's story tells about a hit."""
    saved = found.usage.prompt_tokens + found.usage.completion_tokens
    return {"kind": found.kind, "score": found.score, "age_s": round(found.age_s, 3), "saved_tokens": saved}


def bind_embedders(caches: Iterable[tuple[str, TieredCache]], generator: Generator) -> None:
    """A cache that compares by a served model gets vectors from the generator, as any caller of embeddings would."""
    for name, cache in caches:
        embedder = cache.served_embedder
        if embedder is None:
            continue
        if not isinstance(generator, TextEmbedder):
            raise ConfigurationError(f"recall.{name}: embedder 'served' needs a generator that embeds texts")
        model = embedder.model or next(iter(generator.models))
        if model not in generator.models:
            raise ConfigurationError(f"recall.{name}: embedder names the model {model!r}, which is not served")
        embedder.bind(partial(_vector, generator, model), partial(_identity, generator.models, model))


async def _vector(generator: TextEmbedder, model: str, text: str) -> npt.NDArray[np.float32]:
    vectors = (await generator.embed([text], model=model)).vectors  # float32 [1, d]
    return np.asarray(vectors[0], np.float32)


def _identity(models: Mapping[str, ServedModel], name: str) -> str:
    return f"{name}-{models[name].version}" if name in models else name


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


async def keep(
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
            for piece in _pieces(answer):
                yield piece

    def cancel(self) -> None:
        """Nothing runs."""

    @property
    def usage(self) -> Usage:
        return Usage()


def _pieces(answer: Answer) -> Iterator[Piece]:
    """By text, each whole, in the order in which a model writes them; the last one ends the choice."""
    parts: list[Piece] = []
    if answer.reasoning:
        parts.append(Piece(answer.index, answer.reasoning, channel="reasoning", ends=True))
    if answer.text or not answer.tool_calls:
        parts.append(Piece(answer.index, answer.text, logprobs=answer.logprobs, ends=True))
    for number, call in enumerate(answer.tool_calls):
        parts.append(
            Piece(answer.index, call.arguments, channel="tool_arguments", call=number, tool=call.name, ends=True)
        )
    yield from parts[:-1]
    yield replace(parts[-1], finish_reason=answer.finish_reason, closed=answer.closed, stopped_by=answer.stopped_by)
