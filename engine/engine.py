"""The generator that the pipeline sees: jobs in on the event loop, pieces back, and models that come and go.

The steps are computed by one engine thread (`engine.worker`); nothing here ever waits for a step.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.admission import load_of, max_length, refuse_hopeless
from engine.best_of import BestOf, widen
from engine.construction import load, make_core
from engine.core import EngineCore, Submission
from engine.delivery import LiveGeneration
from engine.embedding import EmbeddingTask, Texts, read_texts
from engine.fleet import Fleet
from engine.model import LoadedModel
from engine.params import check_choices, draw_rule
from engine.progress import LoadProgress, OnProgress
from engine.report import gauges, totals
from engine.settings import EngineSettings, ModelSettings
from engine.worker import Worker
from plugins import Embeddings, GenerationFailed, Job, Load, Overloaded, ServedModel

_LOG = logging.getLogger(__name__)


class Engine:
    """A `Generator` with a `Lifecycle`, a `ModelHost` and a `TextEmbedder`. Models are those given, or loaded by
    `start` as the settings say."""

    def __init__(self, settings: EngineSettings, models: Sequence[LoadedModel] = ()) -> None:
        settings.check()
        self._settings = settings
        self._worker = Worker(settings)
        self._fleet = Fleet()
        self._leaving: list[EngineCore] = []
        """Cores without a name whose last requests still run."""
        self._dropped: dict[str, float] = {}
        """Totals of cores that are gone."""
        self._loading = asyncio.Lock()
        self._restarts = 0
        self._watching: asyncio.Task[None] | None = None
        for model in models:
            self._take_in(self._core(model))

    # --- the contract, on the event loop -----------------------------------------------------------------------

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """By name and by alias."""
        return self._fleet.models

    async def start(self) -> None:
        """Load the models of the settings, unless models were given, and start the engine thread."""
        if not self._fleet.cores:
            for wanted in self._settings.models:
                await self.add_model(wanted)
        self._worker.start()
        if self._settings.watchdog_s is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self._settings.watchdog_s))

    async def close(self) -> None:
        """Refuse new jobs, let running ones finish for `drain_s`, cancel the rest, stop the thread."""
        if self._watching is not None:
            self._watching.cancel()
        await self._worker.close()

    async def generate(self, job: Job) -> LiveGeneration | BestOf:
        """Queue `job`. Raises `NotFound`, `ContextLengthExceeded`, `RequestError` or `Overloaded`."""
        if job.sampling.best_of is None or job.sampling.use_beam_search:
            return self._queue(job)
        check_choices(job)
        return BestOf(self._queue(widen(job)), job)

    def _queue(self, job: Job) -> LiveGeneration:
        core, worker = self._fleet.find(job.model), self._worker
        rule = draw_rule(
            job.sampling,
            default_temperature=core.model.default_temperature,
            vocab_size=core.model.vocab_size,
            spell=lambda text: core.model.tokenizer.encode(text, add_special_tokens=False),
        )
        longest = max_length(job, core)
        self._refuse_overload(core, self._waiting())
        refuse_hopeless(job, core, self.load(job.model))
        generation = LiveGeneration(job, lambda g: worker.post(lambda: core.cancel(g)))
        seed = secrets.randbits(64) if job.sampling.seed is None else job.sampling.seed
        deadline = None if job.deadline_s is None else time.monotonic() + job.deadline_s
        worker.submit(core, Submission(generation, rule, seed, longest, deadline))
        return generation

    async def embed(self, texts: Texts, *, model: str | None = None) -> Embeddings:
        """Unit vectors of texts or token ids, computed between the steps of generations; `model` None = the first.
        Raises `NotFound`, `RequestError`, `ContextLengthExceeded` or `Overloaded`."""
        core = self._named_or_first(model)
        rows = read_texts(core.model, texts)
        self._refuse_overload(core, self._worker.task_count)
        task = EmbeddingTask(core.model, rows, self._settings.max_batch_tokens)
        self._worker.add_task(task)
        return await task.future

    def load(self, model: str | None = None) -> Load:
        """How busy a model is, and how long a request that comes now would wait for its first step. Cheap."""
        return load_of(self._named_or_first(model), self._worker.arriving)

    def stats(self) -> Mapping[str, float]:
        """Gauges, and totals since the start (names ending in `_total`); times are in seconds."""
        cores = [*self._fleet.cores, *self._leaving]
        return gauges(cores, self._worker.arriving, self._restarts) | totals(cores, self._dropped)

    # --- models come and go ------------------------------------------------------------------------------------

    async def add_model(
        self,
        settings: ModelSettings | Mapping[str, Any] | str,
        *,
        replace: bool = False,
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> ServedModel:
        """Load a model beside what runs, then serve it under its name and aliases. With `replace` a model of that
        name makes way: its running requests finish on it for `drain_s`, new ones find the new model; until then both
        are in memory. `on_progress` is called on the event loop. Raises `ConfigurationError`, `ModelLoadError`, or
        `RequestError` where the name is taken; then nothing has changed."""
        wanted = ModelSettings.of(settings)
        async with self._loading:
            self._fleet.refuse_taken(wanted.served_name, wanted.aliases, replace=replace)
            model = await asyncio.to_thread(self._load, wanted, _on_this_loop(on_progress))
            core = await asyncio.to_thread(self._core, model)
        before = self._take_in(core, wanted.aliases)
        if before is not None:
            await self._let_go(before, self._settings.drain_s)
        return model

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        """Stop serving a model: new requests get `NotFound`, running ones finish for `drain_s` (default: as at a
        shutdown) and are then cancelled. Its memory is free when this returns."""
        await self._let_go(self._fleet.take_out(name), self._settings.drain_s if drain_s is None else drain_s)

    def _take_in(self, core: EngineCore, aliases: Sequence[str] = ()) -> EngineCore | None:
        self._worker.adopt(core)
        return self._fleet.put(core, aliases)

    async def _let_go(self, core: EngineCore, drain_s: float) -> None:
        self._leaving.append(core)
        await self._worker.dismiss(core, drain_s)
        self._leaving.remove(core)
        self._dropped = totals([core], self._dropped)

    def _load(self, wanted: ModelSettings, on_progress: OnProgress | None) -> LoadedModel:
        return load(wanted, on_progress, weights=self._settings.weights)

    def _core(self, model: LoadedModel) -> EngineCore:
        return make_core(model, self._settings, self._worker.outbox)

    # --- the watchdog ------------------------------------------------------------------------------------------

    async def _watch(self, limit_s: float) -> None:
        """Replace an engine thread that is stuck in one turn for longer than `limit_s`, or has died."""
        while True:
            await asyncio.sleep(min(1.0, limit_s / 4))
            if not self._worker.is_closing and (stuck_s := self._worker.stuck_s()) > limit_s:
                self._replace_worker(stuck_s)

    def _replace_worker(self, stuck_s: float) -> None:
        """Requests of the old thread fail; the models stay in memory, with new KV pools: of the old ones nobody knows
        what the old thread may still write there."""
        old, self._worker = self._worker, Worker(self._settings)
        _LOG.critical("the engine thread stood still for %.1f s and is replaced; it is at\n%s", stuck_s, old.where())
        message = f"the engine made no progress for {stuck_s:.1f} s and was restarted; send the request again"
        old.abandon(GenerationFailed(message))
        self._restarts += 1
        self._dropped = totals(self._fleet.cores, self._dropped)
        self._fleet.renew(lambda core: self._core(core.model))
        for core in self._fleet.cores:
            self._worker.adopt(core)
        self._worker.start()

    # --- checks before the queue -------------------------------------------------------------------------------

    def _waiting(self) -> int:
        queued = sum(core.scheduler.waiting_count for core in self._fleet.cores)
        return queued + self._worker.arriving

    def _named_or_first(self, model: str | None) -> EngineCore:
        return self._fleet.find(model or next(iter(self._fleet.models), ""))

    def _refuse_overload(self, core: EngineCore, waiting: int) -> None:
        if self._worker.is_closing:
            raise Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0)
        if waiting >= self._settings.max_waiting:
            wait_s = load_of(core, self._worker.arriving).wait_s
            raise Overloaded(
                f"{waiting} requests are waiting for the engine, as many as it queues; try again in {wait_s:.1f} s",
                retry_after_s=max(wait_s, 0.1),
            )


def _on_this_loop(on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None:
        return None
    loop = asyncio.get_running_loop()
    return lambda progress: _tell(loop, on_progress, progress)


def _tell(loop: asyncio.AbstractEventLoop, on_progress: OnProgress, progress: LoadProgress) -> None:
    loop.call_soon_threadsafe(on_progress, progress)
