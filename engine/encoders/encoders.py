"""Serve embedding and scoring models as a generator that refuses to generate.

They have a thread of their own and not the engine's: an encoder reads a whole batch at once and keeps no state between
steps, so it could only stand between two decode steps of everybody else, for as long as its batch takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from sluicegate.engine.encoders.batches import EncoderThread
from sluicegate.engine.encoders.model import EncoderModel, load_encoder
from sluicegate.engine.encoders.settings import EncoderSettings
from sluicegate.engine.encoders.tokens import TokenRow
from sluicegate.plugins import Embeddings, Generation, Job, NotFound, Overloaded, RequestError, Scores, ServedModel

_LOG = logging.getLogger(__name__)
_Read = Callable[[], list[TokenRow]]
DOING = {"embed": "/v1/embeddings", "score": "/v1/rerank and /v1/score"}


class Encoders:
    """A `Generator` with a `Lifecycle`, a `TextEmbedder` and a `TextScorer`."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._models: dict[str, EncoderModel] = {}
        self._thread = EncoderThread(settings.max_batch_tokens, settings.threads)
        self._loading = ""

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """Return the models by name and by alias."""
        served: Mapping[str, ServedModel] = self._models
        return served

    async def start(self) -> None:
        """Load the models and start their thread. Raises `ModelLoadError`."""
        for wanted in self._settings.models if not self._models else ():
            self._loading = f"loading {wanted.served_name}"
            model = await asyncio.to_thread(load_encoder, wanted)
            self._models |= dict.fromkeys((wanted.served_name, *wanted.aliases), model)
            _LOG.info("model %s %ss: reads %d tokens at once", model.name, model.reads_for, model.context_length)
        self._loading = ""
        self._thread.start()

    def starting(self) -> str:
        return self._loading

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.close)

    async def generate(self, job: Job) -> Generation:
        """Raise `RequestError`: these models generate nothing."""
        model = self._find(job.model)
        raise RequestError(
            f"model {job.model!r} writes nothing; it answers {DOING[model.reads_for]}",
            param="model",
            code="unsupported_model",
        )

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        """Return vectors as the model's own modules make them. Raises `NotFound`, `RequestError`,
        `ContextLengthExceeded` or `Overloaded`."""
        found = self._for("embed", model)
        if not texts:
            raise RequestError("there are no texts to embed; send at least one", param="input")
        read = found.reader
        rows = await self._rows(
            lambda: [read.text(t, at) if isinstance(t, str) else read.ids(t, at) for at, t in enumerate(texts)]
        )
        vectors = await self._thread.read(found, rows)
        return Embeddings(vectors, tuple(len(row.ids) for row in rows), _cut(rows))

    async def score(self, query: str, texts: Sequence[str], *, model: str | None = None) -> Scores:
        """Return a relevance score of each text for `query`. Raises as `embed` does."""
        found = self._for("score", model)
        if not texts:
            raise RequestError("there are no documents to score; send at least one", param="documents")
        rows = await self._rows(lambda: [found.reader.pair(query, text, at) for at, text in enumerate(texts)])
        numbers = await self._thread.read(found, rows)
        return Scores(tuple(map(float, numbers[:, 0])), tuple(len(row.ids) for row in rows), _cut(rows))

    def stats(self) -> Mapping[str, float]:
        return {
            "requests_running": 0.0,
            "requests_waiting": float(self._thread.waiting),
            "kv_cache_usage_ratio": 0.0,
            "encoder_passes_total": float(self._thread.passes),
            "encoder_tokens_total": float(self._thread.tokens),
        }

    async def _rows(self, read: _Read) -> list[TokenRow]:
        if self._thread.waiting >= self._settings.max_waiting:
            raise Overloaded(f"{self._thread.waiting} requests wait for the encoders; try again", retry_after_s=1.0)
        return await asyncio.to_thread(read)

    def _for(self, task: str, name: str | None) -> EncoderModel:
        """Return the model named `name`, or the first that supports `task`. Raises `NotFound`, or `RequestError` if it
        does not support the task."""
        if name is None:
            model = next((model for model in self._models.values() if model.reads_for == task), None)
            if model is None:
                raise NotFound(f"no model here is there to {task} texts", param="model", code="model_not_found")
            return model
        model = self._find(name)
        if model.reads_for != task:
            raise RequestError(
                f"model {name!r} is not there to {task} texts; it answers {DOING[model.reads_for]}",
                param="model",
                code="unsupported_model",
            )
        return model

    def _find(self, name: str) -> EncoderModel:
        if name not in self._models:
            known = ", ".join(sorted(self._models)) or "none"
            raise NotFound(f"there is no model {name!r} here; loaded: {known}", param="model", code="model_not_found")
        return self._models[name]


def _cut(rows: Sequence[TokenRow]) -> tuple[int, ...]:
    return tuple(at for at, row in enumerate(rows) if row.cut)
