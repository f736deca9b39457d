"""Texts as vectors, by the generator of the routed model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sluicegate.gateway.prompts.lengths import SHORT, size_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.gateway.retrieval.reranker import checked_scores
from sluicegate.plugins import (
    Embeddings,
    GenerationFailed,
    ReadingModel,
    RequestError,
    Scores,
    TextEmbedder,
    TextScorer,
    Usage,
)

Texts = Sequence[str | Sequence[int]]


async def embedded(exchange: Exchange, texts: Texts) -> Embeddings:
    """Return the embeddings of `texts`. Raises `RequestError` where the generator cannot embed,
    `ContextLengthExceeded`, whatever the generator raises, and `GenerationFailed` where what it returned is not a set
    of vectors."""
    name, generator = exchange.stages.generate
    if not isinstance(generator, TextEmbedder):
        raise RequestError(f"generator {name!r} makes no embeddings", param="model", code="unsupported_model")
    with TimedStage(exchange, "generate", name) as note:
        found = await generator.embed(await _read(exchange, texts), model=exchange.served.name)
        exchange.read = Usage(prompt_tokens=sum(found.tokens))
        if fault := _fault(found, len(texts)):
            raise GenerationFailed(f"generator {name!r} made {fault}; nothing is answered")
        note.outcome = f"{len(found.tokens)} embeddings"
    return found


def _fault(found: Embeddings, count: int) -> str:
    """Return what is wrong with vectors of `count` texts, "" if nothing is."""
    vectors = np.asarray(found.vectors)
    if vectors.ndim != 2 or len(vectors) != count:
        return f"vectors of shape {list(vectors.shape)} for {count} texts"
    return "" if np.isfinite(vectors).all() else "vectors with numbers that are not finite"


async def scored(exchange: Exchange, query: str, texts: Sequence[str]) -> Scores:
    """Return how well each text answers `query`. Raises `RequestError` where the generator scores nothing, and what it
    raises; `GenerationFailed` for scores that are none."""
    name, generator = exchange.stages.generate
    if not isinstance(generator, TextScorer) or not isinstance(exchange.served, ReadingModel):
        raise RequestError(
            f"model {exchange.served.name!r} scores nothing; name a cross-encoder",
            param="model",
            code="unsupported_model",
        )
    with TimedStage(exchange, "generate", name) as note:
        found = await generator.score(query, texts, model=exchange.served.name)
        exchange.read = Usage(prompt_tokens=sum(found.tokens))
        try:
            checked_scores(found.scores, len(texts))
        except ValueError as error:
            raise GenerationFailed(f"{error}; nothing is ranked by it") from error
        note.outcome = f"{len(found.scores)} scores"
    return found


async def _read(exchange: Exchange, texts: Texts) -> Sequence[str | Sequence[int]]:
    """Return large texts for a model of ours as token ids, and all others as they are. The ids are made in a thread,
    and no more of them than can be read."""
    model, stages, size = exchange.served, exchange.stages, size_of(exchange.request)
    if model.remote or size <= SHORT or isinstance(model, ReadingModel):  # which tokenises as its folder says
        return texts
    most = model.context_length

    def tokenized() -> list[list[int]]:
        return [
            stages.lengths.token_ids(text, model, special=True, most=most, param="input")
            if isinstance(text, str)
            else list(text)
            for text in texts
        ]

    return await stages.workers.run(exchange.caller.tenant, size, tokenized)
