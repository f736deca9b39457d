"""From settings to models in memory, and from a model to the core that runs it."""

from __future__ import annotations

import logging

import torch

from engine.blocks import BlockPool
from engine.core import EngineCore, Speculation
from engine.delivery import Outbox
from engine.model import LoadedModel, describe, load_model
from engine.progress import LoadProgress, OnProgress
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.settings import EngineSettings, ModelSettings, WeightsKind, thread_count

_LOG = logging.getLogger(__name__)


def load(wanted: ModelSettings, on_progress: OnProgress | None = None, *, weights: WeightsKind = "full") -> LoadedModel:
    """Load one model, with a line in the log for each quarter of it. Raises `ModelLoadError`."""
    model = load_model(
        wanted.path,
        name=wanted.served_name,
        version=wanted.version,
        dtype=wanted.dtype,
        device=wanted.device,
        weights=weights,
        on_progress=_logged(on_progress),
    )
    _LOG.info("loaded %s", describe(model))
    return model


def make_core(model: LoadedModel, settings: EngineSettings, outbox: Outbox) -> EngineCore:
    num_blocks = settings.num_blocks or _blocks_within(settings, model)
    pool = BlockPool(num_blocks, settings.block_size, reuse=settings.prefix_caching)
    return EngineCore(
        model,
        Runner(
            model,
            num_blocks,
            settings.block_size,
            attention=settings.attention,
            forward=settings.forward,
            kv=settings.kv,
            max_tokens=settings.max_batch_tokens,
            threads=settings.threads or thread_count(model.parameter_count),
        ),
        Scheduler(pool, max_batch_size=settings.max_batch_size, max_batch_tokens=settings.max_batch_tokens),
        outbox,
        jump_forward=settings.jump_forward,
        speculation=Speculation(settings.draft_tokens, settings.drafts_per_step),
    )


def _blocks_within(settings: EngineSettings, model: LoadedModel) -> int:
    """As many blocks as the bytes hold, but no more than a full batch of the longest sequences can use."""
    kept = torch.int8 if settings.kv == "int8" else model.dtype
    affordable = settings.kv_cache_bytes // (model.kv_bytes_in(kept) * settings.block_size)
    useful = settings.max_batch_size * -(-model.context_length // settings.block_size)
    return max(1, min(affordable, useful))


def _logged(on_progress: OnProgress | None) -> OnProgress:
    def report(progress: LoadProgress) -> None:
        if 4 * progress.done // progress.total > 4 * (progress.done - 1) // progress.total:
            _LOG.info("loading %s: %d of %d tensors", progress.model, progress.done, progress.total)
        if on_progress is not None:
            on_progress(progress)

    return report
