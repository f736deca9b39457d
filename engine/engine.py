"""Define the engine: jobs in on the event loop, pieces out, models added and removed at run time.

The steps are computed by one engine thread (`engine.loop.worker`); nothing here waits for a step.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from sluicegate.engine.checkpoints.progress import LoadProgress, OnProgress
from sluicegate.engine.construction import load_adapter, load_for
from sluicegate.engine.cores import Cores
from sluicegate.engine.loop.admission import load_of, max_length, refuse_too_late
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.guard_text import GuardText, refuse_closing, refuse_guard
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.loop.worker import Worker
from sluicegate.engine.model.embedding import EmbeddingTask, Texts, read_texts
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import GuardModel, LoadedModel
from sluicegate.engine.replacement import CoreReplacement
from sluicegate.engine.sampling.params import check_choices, draw_rule
from sluicegate.engine.search.best_of import BestOf, widen
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.plugins import (
    Capacity,
    Embeddings,
    Job,
    Load,
    Overloaded,
    RequestError,
    ServedModel,
    Trouble,
)

UNWATCHED_S = 120.0
"""Without a watchdog, a step that takes half of this counts as too long."""


class Engine:
    """A `Generator` with a `Lifecycle`, a `ModelHost` and a `TextEmbedder`. Serves given models, or those that `start`
    loads by the settings."""

    def __init__(self, settings: EngineSettings, models: Sequence[LoadedModel] = ()) -> None:
        self._settings = settings
        self._cores = Cores(settings)
        self._registry = self._cores.registry
        self._replacement = CoreReplacement(self._cores, settings)
        self._progress: LoadProgress | None = None
        for model in models:
            self._cores.take_in(self._cores.make(model))

    @property
    def _worker(self) -> Worker:
        """Return the current engine thread, which the watchdog may replace."""
        return self._cores.worker

    # --- the contract, on the event loop -----------------------------------------------------------------------

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """Return the models by name and by alias."""
        return self._registry.models

    async def start(self) -> None:
        """Load the models of the settings, unless models were given, and start the engine thread."""
        if not self._registry.cores:
            for wanted in sorted(self._settings.models, key=lambda model: model.base is not None):
                await self.add_model(wanted, on_progress=self._note)
            self._progress = None
        self._worker.start()
        self._replacement.start()

    def starting(self) -> str:
        """Return the progress of the model that `start` is loading."""
        at = self._progress
        return "" if at is None else f"loading {at.model}: {at.done} of {at.total} tensors"

    def _note(self, progress: LoadProgress) -> None:
        self._progress = progress

    async def close(self) -> None:
        """Refuse new jobs, let running ones finish for `drain_s`, cancel the rest, stop the thread."""
        self._replacement.close()
        await self._worker.close()

    async def generate(self, job: Job) -> LiveGeneration | BestOf:
        """Queue `job`. Raises `NotFound`, `ContextLengthExceeded`, `RequestError` or `Overloaded`."""
        if job.sampling.best_of is None or job.sampling.use_beam_search:
            return self._queue(job)
        check_choices(job)
        return BestOf(self._queue(widen(job)), job)

    def _queue(self, job: Job) -> LiveGeneration:
        core, adapter, worker = self._registry.find(job.model), self._registry.adapter(job.model), self._worker
        refuse_guard(core.model)
        if job.probed and job.sampling.use_beam_search:
            raise RequestError(
                "probes judge this answer as it is written; leave out use_beam_search", param="use_beam_search"
            )
        rule = draw_rule(
            job.sampling,
            default_temperature=core.model.default_temperature,
            defaults=core.model.defaults,
            vocab_size=core.model.vocab_size,
            spell=lambda text: core.model.tokenizer.encode(text, add_special_tokens=False),
        )
        _refuse_lost(core)
        longest = max_length(job, core)
        self._refuse_overload(core, self._cores.waiting())
        refuse_too_late(job, (adapter or core.model).version, self.load(job.model))
        generation = LiveGeneration(job, lambda g: worker.post(lambda: core.requests.cancel(g)))
        seed = secrets.randbits(64) if job.sampling.seed is None else job.sampling.seed
        deadline = None if job.deadline_s is None else time.monotonic() + job.deadline_s
        if adapter is not None:
            adapter.users.add(generation)
        worker.submit(core, Submission(generation, rule, seed, longest, deadline, adapter))
        return generation

    def open_reading(self, model: str, tenant: str) -> GuardText:
        """Open a text that a guard will judge token by token. Raises `NotFound`, or `RequestError` for a model that is
        no guard."""
        found = self._registry.find(model).model
        if not isinstance(found, GuardModel):
            raise RequestError(f"model {model!r} writes texts and has no heads that judge tokens", param="model")
        return GuardText(found, tenant, lambda: self._computing(model))

    def _computing(self, model: str) -> tuple[Worker, EngineCore]:
        refuse_closing(self._worker)
        return self._worker, self._registry.find(model)

    async def embed(self, texts: Texts, *, model: str | None = None) -> Embeddings:
        """Return unit vectors of texts or token ids, computed between the steps of generations; `model` None = the
        first. Raises `NotFound`, `RequestError`, `ContextLengthExceeded` or `Overloaded`."""
        core = self._named_or_first(model)
        refuse_guard(core.model)
        rows = read_texts(core.model, texts)
        self._refuse_overload(core, self._worker.task_count)
        adapter = None if model is None else self._registry.adapter(model)
        task = EmbeddingTask(core.model, rows, self._settings.max_batch_tokens, adapter)
        self._worker.add_task(task)
        return await task.future

    def load(self, model: str | None = None) -> Load:
        """Report how busy a model is, and the estimated wait of a new request for its first step, in seconds. Cheap."""
        return load_of(self._named_or_first(model), self._worker.arriving)

    def capacity(self) -> Capacity:
        """Report blocks and adapters, for endpoint pickers. Cheap."""
        pools = [core.scheduler.pool for core in self._registry.cores]
        users = {one.name: [user for user in one.users if not user.is_over] for one in self._registry.adapters}
        running = {name for name, found in users.items() if any(user.has_begun for user in found)}
        return Capacity(
            block_size=pools[0].block_size if pools else 0,
            num_blocks=sum(pool.num_blocks for pool in pools),
            adapters=len(users),
            running=tuple(sorted(running)),
            waiting=tuple(sorted(name for name, found in users.items() if found and name not in running)),
        )

    def stats(self) -> Mapping[str, float]:
        """Return gauges, and totals since the start (names ending in `_total`); times are in seconds."""
        return {**self._cores.stats(), **self._replacement.stats()}

    def troubles(self) -> Sequence[Trouble]:
        """Report an engine thread that has died, or has been in one step for longer than half the watchdog's limit."""
        if self._worker.is_closing or not self._worker.is_started:
            return ()
        stuck_s, limit_s = self._worker.stuck_s(), (self._settings.watchdog_s or UNWATCHED_S) / 2
        if stuck_s == inf:
            return (Trouble("the engine thread has died; it is replaced, or start the gateway again", refuses=True),)
        if stuck_s > limit_s:
            return (Trouble(f"the engine computes one step for {stuck_s:.0f} s; the watchdog ends it", refuses=True),)
        lost = [
            core.model for core in self._registry.cores if core.model.group is not None and core.model.group.end_reason
        ]
        all_of_them = len(lost) == len(self._registry.cores)
        return tuple(
            Trouble(f"model {one.name}: its processes ended and are started again", refuses=all_of_them) for one in lost
        )

    # --- models come and go ------------------------------------------------------------------------------------

    async def add_model(
        self,
        settings: ModelSettings | Mapping[str, Any] | str,
        *,
        replace: bool = False,
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> ServedModel:
        """Load a model while others run, then serve it under its name and aliases. With `replace` it takes the name of
        another, whose running requests finish for `drain_s` while new ones find the new model; until then both are in
        memory. With a `base` it is an adapter on that model. `on_progress` is called on the event loop. Raises
        `ConfigurationError`, `ModelLoadError`, `NotFound` where there is no such base, or `RequestError` where the name
        is taken; then nothing has changed."""
        wanted = ModelSettings.of(settings)
        async with self._cores.changing:
            names = wanted.served_name, wanted.other_names
            self._registry.refuse_taken(*names, replace=replace, adapter=wanted.base is not None)
            if wanted.base is not None:
                return await self._add_adapter(wanted, wanted.base)
            model = await asyncio.to_thread(self._load, wanted, _on_this_loop(on_progress))
            core = await asyncio.to_thread(self._cores.make, model)
            moved = await asyncio.to_thread(_reload_adapters, self._registry.adapters_of(model.name), model)
            before = self._cores.take_in(core, wanted.aliases)
            self._registry.renew_adapters(moved)
            if self._worker.is_serving:
                self._replacement.follow(core)
        if before is not None:
            await self._cores.let_go(before, self._settings.drain_s)
        return model

    async def _add_adapter(self, wanted: ModelSettings, base: str) -> Adapter:
        core = self._registry.find(base)
        adapter = await asyncio.to_thread(load_adapter, wanted, core.model)
        self._registry.put_adapter(adapter, wanted.other_names)
        return adapter

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        """Stop serving a model and the adapters beside it, or one adapter: new requests get `NotFound`, running ones
        finish for `drain_s` (default: as at a shutdown) and are then cancelled. Memory is free when this returns."""
        drain_s = self._settings.drain_s if drain_s is None else drain_s
        gone = self._registry.take_out(name)
        if isinstance(gone, Adapter):
            await self._finish(gone, drain_s)
        else:
            await self._cores.let_go(gone, drain_s)

    async def _finish(self, adapter: Adapter, drain_s: float) -> None:
        """Wait up to `drain_s` for the requests of an adapter; then cancel them."""
        deadline = time.monotonic() + drain_s
        while self._worker.is_serving and (running := [one for one in adapter.users if not one.is_over]):
            if time.monotonic() >= deadline:
                for generation in running:
                    generation.cancel()
            await asyncio.sleep(0.01)

    def _load(self, wanted: ModelSettings, on_progress: OnProgress | None) -> LoadedModel:
        return load_for(self._settings, wanted, on_progress)

    # --- checks before the queue -------------------------------------------------------------------------------

    def _named_or_first(self, model: str | None) -> EngineCore:
        return self._registry.find(model or next(iter(self._registry.models), ""))

    def _refuse_overload(self, core: EngineCore, waiting: int) -> None:
        if self._worker.is_closing:
            raise Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0)
        if waiting >= self._settings.max_waiting:
            wait_s = load_of(core, self._worker.arriving).wait_s
            raise Overloaded(
                f"{waiting} requests are waiting for the engine, as many as it queues; try again in {wait_s:.1f} s",
                retry_after_s=max(wait_s, 0.1),
            )


def _reload_adapters(adapters: list[Adapter], model: LoadedModel) -> list[Adapter]:
    """Read adapters again for the model that replaces their base. Raises `ModelLoadError`."""
    return [load_lora(model, adapter.path, adapter.name, adapter.label) for adapter in adapters]


def _refuse_lost(core: EngineCore) -> None:
    if core.model.group is not None and core.model.group.end_reason is not None:
        raise Overloaded(
            f"the processes of model {core.model.name!r} have ended and are started again; send the request again",
            retry_after_s=5.0,
        )


def _on_this_loop(on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None:
        return None
    loop = asyncio.get_running_loop()
    return lambda progress: _report_progress(loop, on_progress, progress)


def _report_progress(loop: asyncio.AbstractEventLoop, on_progress: OnProgress, progress: LoadProgress) -> None:
    loop.call_soon_threadsafe(on_progress, progress)
