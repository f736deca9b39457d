"""Score how well documents answer a question: by a cross-encoder that is served here, or at an address."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sluicegate.gateway.retrieval.address import Address
from sluicegate.plugins import Generator, TextScorer


class AddressReranker:
    """An API in the shape of Jina, Cohere and vLLM: `query` and `documents` in, `results` with `index` and
    `relevance_score` out."""

    def __init__(self, url: str, model: str, api_key: str | None) -> None:
        self._address = Address(url, api_key=api_key)
        self._model = model

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Ask the address for scores. Raises `httpx.HTTPError`, and `ValueError` for an answer that does not score each
        document once."""
        asked: dict[str, Any] = {"query": query, "documents": list(texts), "top_n": len(texts)}
        found = await self._address.ask(asked | ({"model": self._model} if self._model else {}))
        return read_scores(found, len(texts))

    async def close(self) -> None:
        await self._address.close()


class ServedReranker:
    """A cross-encoder of the gateway's own."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._generator: Generator | None = None

    def bind(self, generator: Generator) -> None:
        """Set the generator that scores."""
        self._generator = generator

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score with the generator. Raises what the generator raises, and `ValueError` as `checked_scores`."""
        if not isinstance(self._generator, TextScorer):
            raise ValueError("no generator here scores texts")
        found = await self._generator.score(query, texts, model=self.model)
        return checked_scores(found.scores, len(texts))

    async def close(self) -> None:
        """Do nothing: the model is the generator's."""


Reranker = AddressReranker | ServedReranker


def make_reranker(named: str, api_key: str | None) -> Reranker | None:
    """Make a reranker. `named`: a model that is served here, `URL` or `URL#MODEL`; empty = none."""
    if not named:
        return None
    if named.startswith(("http://", "https://")):
        url, _, model = named.partition("#")
        return AddressReranker(url, model, api_key)
    return ServedReranker(named)


def checked_scores(scores: Sequence[float], count: int) -> list[float]:
    """Return the scores of a model. Raises `ValueError` where not each of `count` texts has one, or one is no finite
    number: what overflows in a model is no order."""
    if len(scores) != count:
        raise ValueError(f"the model scored {len(scores)} of {count} texts")
    if not all(math.isfinite(score) for score in scores):
        raise ValueError("the model gave a score that is no number")
    return [float(score) for score in scores]


def read_scores(found: Any, count: int) -> list[float]:
    """Read scores. Raises `ValueError` where not each of `count` documents has one finite score."""
    rows = found.get("results") if isinstance(found, dict) else None
    scores: dict[int, float] = {}
    for row in rows if isinstance(rows, list) else ():
        said: dict[str, Any] = row if isinstance(row, dict) else {}
        at, score = said.get("index"), said.get("relevance_score")
        if type(at) is not int or not 0 <= at < count or at in scores:
            raise ValueError("the reranker names a document that was not sent, or one twice")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ValueError("the reranker answered a score that is no number")
        scores[at] = float(score)
    if len(scores) != count:
        raise ValueError(f"the reranker scored {len(scores)} of {count} documents")
    return [scores[at] for at in range(count)]
