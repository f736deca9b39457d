"""Start and stop a gateway: stages in the order of their slots, batches last; closing goes the other way."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from sluicegate import __version__
from sluicegate.cache import TieredCache
from sluicegate.cache.semantic.model_embedders import ServedEmbedder
from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.api.offline import BatchLineRunner
from sluicegate.gateway.database import DatabaseUnavailable
from sluicegate.gateway.rails.guard_model import bind_guards
from sluicegate.gateway.rails.sameness import bind_sameness
from sluicegate.gateway.rails.stage_calls import answered, contained
from sluicegate.gateway.rails.states import check_probes
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.retrieval.reranker import ServedReranker
from sluicegate.gateway.retrieval.vector_set import VectorSetRetriever
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry.collectors import StageCollector
from sluicegate.plugins import (
    ConfigurationError,
    Generator,
    Lifecycle,
    ReadingModel,
    Retriever,
    ServedModel,
    ServiceError,
    SluicegateError,
    StartReporter,
    TextEmbedder,
    WarmConstrainer,
)

log = logging.getLogger("sluicegate")


async def start(runtime: Runtime, dialects: Iterable[Dialect] = DIALECTS) -> None:
    """Start all that `runtime` holds; a failure is kept in `progress.failure`, for whoever serves to act on."""
    progress = runtime.progress
    if progress.failure is not None:  # of what serves beside HTTP
        progress.state = f"failed: {progress.failure.message}"
        return
    try:
        if runtime.database is not None:
            progress.state = "opening the database"
            await asyncio.to_thread(runtime.database.open)
        progress.state = "opening accounts"
        await runtime.accounts.start()
        await _start_stages(runtime)
        if runtime.deployment is not None:
            progress.state = "reading what other gateways changed"
            await runtime.deployment.start()
        if runtime.mcp is not None:
            progress.state = "asking MCP servers for their tools"
            await runtime.mcp.start()
        await _warm(runtime)
        progress.state = "opening rollouts"
        for trouble in runtime.routes.troubles():
            log.error("%s", trouble.reason)
        await runtime.rollouts.start()
        for part in (runtime.reviews, runtime.feedback, runtime.recorder):
            if part is not None:
                await part.start()
        progress.state = "opening batches"
        await runtime.batches.start(BatchLineRunner(runtime, dialects))  # their lines wait until all is ready
        await runtime.audit.note("this process", "gateway.start", __version__, configuration=_digest(runtime))
        progress.state = "ready"
    except Exception as error:
        log.debug("start-up failed while %s", progress.state, exc_info=True)
        reason = _reason(error)
        progress.state = f"failed while {progress.state}: {reason}"
        progress.failure = error if isinstance(error, SluicegateError) else _unexpected(error, progress.state)


def _reason(error: Exception) -> str:
    if isinstance(error, SluicegateError):
        return error.message
    return str(error) if isinstance(error, DatabaseUnavailable) else f"{type(error).__name__}: {error}"


def _unexpected(error: Exception, said: str) -> ServiceError:
    failure = ServiceError(said)
    failure.__cause__ = error
    return failure


async def close(runtime: Runtime) -> None:
    runtime.progress.state = "shutting down"
    if runtime.deployment is not None:
        await runtime.deployment.close()
    if runtime.mcp is not None:
        await runtime.mcp.close()
    await runtime.shadows.close()
    await runtime.pipeline.end()
    await runtime.rollouts.close()
    runtime.routes.close()
    for part in (runtime.feedback, runtime.recorder):
        if part is not None:
            await part.close()
    await runtime.batches.close()
    await runtime.renewal.close()
    await runtime.reloader.close()
    for slot, stages in reversed(runtime.stage_set.built.items()):
        for name, stage in stages:
            if isinstance(stage, Lifecycle):
                await _closed(slot, name, stage)
    if (reranker := runtime.pipeline.stages.reranker) is not None:
        await reranker.close()
    if runtime.reviews is not None:
        await runtime.reviews.close()
    await _closed("record", "accounts", runtime.accounts)
    if runtime.database is not None:
        await asyncio.to_thread(runtime.database.close)
    runtime.workers.close()
    runtime.lag.close()
    await runtime.disks.close()
    await runtime.server_certificates.close()
    await runtime.audit.stop_watching()
    if runtime.progress.failure is None:  # what never started, perhaps beside one that runs, does not stop
        await runtime.audit.note("this process", "gateway.stop", __version__)
    await asyncio.to_thread(runtime.audit.close)
    await asyncio.to_thread(runtime.trace_sink.close)
    await asyncio.to_thread(runtime.history.close)
    if runtime.pusher is not None:
        await asyncio.to_thread(runtime.pusher.close)


def _digest(runtime: Runtime) -> str:
    """Return a digest of the settings, without what is secret in them. Another digest means that something was changed
    in between."""
    return hashlib.sha256(repr(runtime.settings).encode("utf-8", "surrogatepass")).hexdigest()


async def _start_stages(runtime: Runtime) -> None:
    runtime.trace_sink.start()
    runtime.history.start()
    runtime.lag.start()
    runtime.disks.start()
    runtime.server_certificates.start()
    runtime.audit.start()
    runtime.renewal.start()
    if runtime.pusher is not None:
        runtime.pusher.start()
    for slot, stages in runtime.stage_set.built.items():
        for name, stage in stages:
            runtime.progress.state = f"starting {slot} {name}"
            runtime.progress.detail = stage.starting if isinstance(stage, StartReporter) else str
            if isinstance(stage, Lifecycle):
                await contained(stage.start, "start()")
    runtime.metrics.registry.register(StageCollector(lambda: runtime.stage_set.built))
    runtime.progress.detail = str
    bind_guards(runtime.stage_set.built["moderate"], runtime.pipeline.stages.generate[1])
    check_probes(runtime.stage_set.built["moderate"], runtime.pipeline.stages.generate[1])
    bind_embedders(runtime.caches, runtime.pipeline.stages.generate[1])
    bind_retrieval(runtime.stage_set.built["retrieve"], runtime.pipeline.stages)


async def _warm(runtime: Runtime) -> None:
    """Do at start-up the work of the first request: build the vocabulary's tables and load the compiled loops."""
    [(name, constrainer)] = runtime.stage_set.built["constrain"]
    if not isinstance(constrainer, WarmConstrainer):
        return
    for model in runtime.served_models.values():
        if isinstance(model, ReadingModel):
            continue
        runtime.progress.state = f"warming {name} for model {model.name}"
        started = time.perf_counter()
        await constrainer.warm(model)
        log.info("grammar is warm for model %s after %.1f s", model.name, time.perf_counter() - started)


async def _closed(slot: str, name: str, stage: Lifecycle) -> None:
    """Close one stage. A failure is logged, so that the other stages are still closed."""
    try:
        await answered(stage, stage.close, "close()")
    except Exception:
        log.exception("stage %s of slot %s did not close", name, slot)


def bind_embedders(caches: Iterable[tuple[str, TieredCache]], generator: Generator) -> None:
    """Bind caches whose embedder or judge is a served model to the generator. Raises `ConfigurationError`."""
    for name, cache in caches:
        if cache.served_embedder is not None:
            _bind(f"recall.{name}", cache.served_embedder, generator)
        if cache.served_judge is not None:
            bind_sameness(f"recall.{name}", cache.served_judge, generator)


def bind_retrieval(retrievers: Iterable[tuple[str, Retriever]], stages: Stages) -> None:
    """Bind retrievers and rerankers that use a served model to the generator. Raises `ConfigurationError`."""
    generator, reranker = stages.generate[1], stages.reranker
    for name, retriever in retrievers:
        if isinstance(retriever, VectorSetRetriever) and isinstance(retriever.embedder, ServedEmbedder):
            _bind(f"retrieve.{name}", retriever.embedder, generator)
    if isinstance(reranker, ServedReranker):
        model = generator.models.get(reranker.model)
        if not isinstance(model, ReadingModel) or model.reads_for != "score":
            raise ConfigurationError(
                f"[retrieval] rerank names {reranker.model!r}, which is no cross-encoder that is served here; see "
                "[stages.generate.encoders]"
            )
        reranker.bind(generator)


def _bind(where: str, embedder: ServedEmbedder, generator: Generator) -> None:
    if not isinstance(generator, TextEmbedder):
        raise ConfigurationError(f"{where}: embedder 'served' needs a generator that embeds texts")
    model = embedder.model or next(iter(generator.models))
    if model not in generator.models:
        raise ConfigurationError(f"{where}: embedder names the model {model!r}, which is not served")
    embedder.bind(partial(_vector, generator, model), partial(_identity, generator.models, model))


async def _vector(generator: TextEmbedder, model: str, text: str) -> npt.NDArray[np.float32]:
    vectors = (await generator.embed([text], model=model)).vectors  # float32 [1, d]
    return np.asarray(vectors[0], np.float32)


def _identity(models: Mapping[str, ServedModel], name: str) -> str:
    return f"{name}-{models[name].version}" if name in models else name
