"""Offer the generator that the pipeline sees: jobs in on the event loop, pieces back, and models that come and go.

The steps are computed by one engine thread (`engine.loop.worker`); nothing here ever waits for a step.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any

from sluicegate.engine.checkpoints.progress import LoadProgress, OnProgress
from sluicegate.engine.construction import load_adapter, load_for, make_core
from sluicegate.engine.kernel_list import kernels_of
from sluicegate.engine.loop.admission import load_of, max_length, refuse_too_late
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.guard_text import GuardText, refuse_closing, refuse_guard
from sluicegate.engine.loop.metrics import gauges, totals
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.loop.worker import Worker
from sluicegate.engine.model.embedding import EmbeddingTask, Texts, read_texts
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import GuardModel, LoadedModel
from sluicegate.engine.parallel.team import SharingTeam
from sluicegate.engine.registry import ModelRegistry
from sluicegate.engine.sampling.params import check_choices, draw_rule
from sluicegate.engine.search.best_of import BestOf, widen
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.plugins import (
    Capacity,
    Embeddings,
    GenerationFailed,
    Job,
    Load,
    Overloaded,
    RequestError,
    ServedModel,
    Trouble,
)
from sluicegate.plugins.compiled.beside import BESIDE

_LOG = logging.getLogger(__name__)
LONGEST_PAUSE_S = 60.0
"""Between two attempts to start the processes of a shared model."""
UNWATCHED_S = 120.0
"""Half of this is too long for one step where no watchdog says what is."""


class Engine:
    """A `Generator` with a `Lifecycle`, a `ModelHost` and a `TextEmbedder`. Models are those given, or loaded by
    `start` as the settings say."""

    def __init__(self, settings: EngineSettings, models: Sequence[LoadedModel] = ()) -> None:
        self._settings = settings
        self._worker = Worker(settings)
        self._registry = ModelRegistry()
        self._leaving: list[EngineCore] = []
        """Cores without a name whose last requests still run."""
        self._dropped: dict[str, float] = {}
        """Totals of cores that are gone."""
        self._loading = asyncio.Lock()
        self._progress: LoadProgress | None = None
        self._restarts = 0
        self._switches = 0
        """How often a model went over from its own code to compiled loops."""
        self._regroupings = 0
        """How often the processes of a shared model were started again."""
        self._switching: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        for model in models:
            self._take_in(self._core(model))

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
        for core in self._registry.cores:
            self._await_compiled(core)
            self._await_loss(core)
        if self._settings.watchdog_s is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self._settings.watchdog_s))

    def starting(self) -> str:
        """Return which model `start` loads, and how much of it is in memory."""
        at = self._progress
        return "" if at is None else f"loading {at.model}: {at.done} of {at.total} tensors"

    def _note(self, progress: LoadProgress) -> None:
        self._progress = progress

    async def close(self) -> None:
        """Refuse new jobs, let running ones finish for `drain_s`, cancel the rest, stop the thread."""
        for task in (self._watching, *self._switching):
            if task is not None:
                task.cancel()
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
        self._refuse_overload(core, self._waiting())
        refuse_too_late(job, (adapter or core.model).version, self.load(job.model))
        generation = LiveGeneration(job, lambda g: worker.post(lambda: core.requests.cancel(g)))
        seed = secrets.randbits(64) if job.sampling.seed is None else job.sampling.seed
        deadline = None if job.deadline_s is None else time.monotonic() + job.deadline_s
        if adapter is not None:
            adapter.users.add(generation)
        worker.submit(core, Submission(generation, rule, seed, longest, deadline, adapter))
        return generation

    def open_reading(self, model: str, tenant: str) -> GuardText:
        """Begin a text for a guard to judge token by token. Raises `NotFound`, or `RequestError` for a model that
        judges none."""
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
        """Report how busy a model is, and how long a request that comes now would wait for its first step. Cheap."""
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
        cores = [*self._registry.cores, *self._leaving]
        counts = gauges(cores, self._worker.arriving, self._restarts) | totals(cores, self._dropped)
        computed = [core.is_compiled for core in self._registry.cores]
        return counts | {
            "adapters_loaded": float(self._registry.adapter_count),
            "models_uncompiled": float(len(computed) - sum(computed)),
            "compiled_switches_total": float(self._switches),
            "shared_model_restarts_total": float(self._regroupings),
        }

    def troubles(self) -> Sequence[Trouble]:
        """Report an engine thread that has died, or that computes one step for longer than half of what the watchdog
        lets pass."""
        if self._worker.is_closing or not self._worker.is_started:
            return ()
        stuck_s, limit_s = self._worker.stuck_s(), (self._settings.watchdog_s or UNWATCHED_S) / 2
        if stuck_s == inf:
            return (Trouble("the engine thread has died; it is replaced, or start the gateway again", refuses=True),)
        if stuck_s > limit_s:
            return (Trouble(f"the engine computes one step for {stuck_s:.0f} s; the watchdog ends it", refuses=True),)
        lost = [core.model for core in self._registry.cores if core.model.team is not None and core.model.team.fate]
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
        async with self._loading:
            names = wanted.served_name, wanted.other_names
            self._registry.refuse_taken(*names, replace=replace, adapter=wanted.base is not None)
            if wanted.base is not None:
                return await self._add_adapter(wanted, wanted.base)
            model = await asyncio.to_thread(self._load, wanted, _on_this_loop(on_progress))
            core = await asyncio.to_thread(self._core, model)
            moved = await asyncio.to_thread(_reload_adapters, self._registry.adapters_of(model.name), model)
            before = self._take_in(core, wanted.aliases)
            self._registry.renew_adapters(moved)
            if self._worker.is_serving:
                self._await_compiled(core)
                self._await_loss(core)
        if before is not None:
            await self._let_go(before, self._settings.drain_s)
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
            await self._let_go(gone, drain_s)

    def _take_in(self, core: EngineCore, aliases: Sequence[str] = ()) -> EngineCore | None:
        self._worker.adopt(core)
        return self._registry.put(core, aliases)

    async def _let_go(self, core: EngineCore, drain_s: float) -> None:
        self._leaving.append(core)
        await self._worker.dismiss(core, drain_s)
        self._leaving.remove(core)
        self._dropped = totals([core], self._dropped)

    async def _finish(self, adapter: Adapter, drain_s: float) -> None:
        """Wait for the requests that run with an adapter, for so long; then cancel them."""
        deadline = time.monotonic() + drain_s
        while self._worker.is_serving and (running := [one for one in adapter.users if not one.is_over]):
            if time.monotonic() >= deadline:
                for generation in running:
                    generation.cancel()
            await asyncio.sleep(0.01)

    def _load(self, wanted: ModelSettings, on_progress: OnProgress | None) -> LoadedModel:
        return load_for(self._settings, wanted, on_progress)

    def _core(self, model: LoadedModel) -> EngineCore:
        compiled = BESIDE.builder is None or all(one.load() for one in kernels_of(model, self._settings))
        return make_core(model, self._settings, self._worker.outbox, compiled=compiled)

    # --- from the model's own code to the compiled ---------------------------------------------------------------

    def _await_compiled(self, core: EngineCore) -> None:
        """Have the loops of a core that does without compiled beside it; new requests go to another core then."""
        builder = BESIDE.builder
        if core.is_compiled or builder is None:
            return
        loop = asyncio.get_running_loop()

        def then(failed: Mapping[str, str]) -> None:
            if not failed and not loop.is_closed():
                loop.call_soon_threadsafe(lambda: self._begin(self._switch(core)))

        builder.want_all(kernels_of(core.model, self._settings), then)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        if self._worker.is_closing:
            work.close()
            return
        self._switching.add(task := asyncio.create_task(work))
        task.add_done_callback(self._switching.discard)

    async def _switch(self, core: EngineCore) -> None:
        """Send new requests of a model to a core that computes by compiled loops. Requests that `core` has finish
        there: no answer is computed by both, and no block of KV is shared. Where that core cannot be made all stays."""
        async with self._loading:
            if core not in self._registry.cores:
                return
            try:
                made = await asyncio.to_thread(self._compiled_core, core)
            except Exception:
                _LOG.exception("model %s goes on by its own code: the compiled core could not be made", core.model.name)
                return
            self._worker.adopt(made)
            self._registry.exchange(core, made)
            self._switches += 1
        _LOG.info("model %s: new requests are computed by the compiled loops from now on", core.model.name)
        await self._let_go(core, inf)

    def _compiled_core(self, core: EngineCore) -> EngineCore:
        return make_core(core.model, self._settings, self._worker.outbox, expected=core.expected)

    # --- models of several processes ---------------------------------------------------------------------------

    def _await_loss(self, core: EngineCore) -> None:
        """Start the processes of a shared model again when one of them ends."""
        if (team := core.model.team) is None:
            return
        loop, model = asyncio.get_running_loop(), core.model

        def lost() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: self._begin(self._regroup(model)))

        team.watch(lost)

    async def _regroup(self, model: LoadedModel) -> None:
        """Start the processes of `model` again, as often as it takes, with KV pools of their own: requests that ran
        have failed with the old ones."""
        pause_s = 1.0
        while True:
            async with self._loading:
                core = next((one for one in self._registry.cores if one.model is model), None)
                if core is None or model.team is None or model.team.fate is None:
                    return
                _LOG.error("model %s: %s; its processes are started again", model.name, model.team.fate)
                try:
                    made = await asyncio.to_thread(self._renewed, model, model.team)
                    break
                except Exception:
                    _LOG.exception("model %s: its processes could not be started", model.name)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._worker.adopt(made)
        self._registry.exchange(core, made)
        self._regroupings += 1
        await self._let_go(core, inf)

    def _renewed(self, model: LoadedModel, team: SharingTeam) -> EngineCore:
        team.restart(model.version.rpartition("+")[2])
        return self._core(model)

    # --- the watchdog ------------------------------------------------------------------------------------------

    async def _watch(self, limit_s: float) -> None:
        """Replace an engine thread that is stuck in one turn for longer than `limit_s`, or has died."""
        while True:
            await asyncio.sleep(min(1.0, limit_s / 4))
            if not self._worker.is_closing and (stuck_s := self._worker.stuck_s()) > limit_s:
                self._replace_worker(stuck_s)

    def _replace_worker(self, stuck_s: float) -> None:
        """Fail the requests of the old thread and start a new one. The models stay in memory, with new KV pools: the
        old thread may still write to the old ones."""
        old, self._worker = self._worker, Worker(self._settings)
        _LOG.critical("the engine thread stood still for %.1f s and is replaced; it is at\n%s", stuck_s, old.where())
        message = f"the engine made no progress for {stuck_s:.1f} s and was restarted; send the request again"
        old.abandon(GenerationFailed(message))
        self._restarts += 1
        self._dropped = totals(self._registry.cores, self._dropped)
        for core in self._registry.cores:
            core.give_up_device()
            if core.model.team is not None:
                core.model.team.lose(f"a step took longer than {self._settings.watchdog_s} s")
        self._registry.renew(lambda core: self._core(core.model))
        for core in self._registry.cores:
            self._worker.adopt(core)
        self._worker.start()

    # --- checks before the queue -------------------------------------------------------------------------------

    def _waiting(self) -> int:
        queued = sum(core.scheduler.waiting_count for core in self._registry.cores)
        return queued + self._worker.arriving

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
    """Read adapters again, for a model that takes the place of theirs. Raises `ModelLoadError`."""
    return [load_lora(model, adapter.path, adapter.name, adapter.label) for adapter in adapters]


def _refuse_lost(core: EngineCore) -> None:
    if core.model.team is not None and core.model.team.fate is not None:
        raise Overloaded(
            f"the processes of model {core.model.name!r} have ended and are started again; send the request again",
            retry_after_s=5.0,
        )


def _on_this_loop(on_progress: OnProgress | None) -> OnProgress | None:
    if on_progress is None:
        return None
    loop = asyncio.get_running_loop()
    return lambda progress: _tell(loop, on_progress, progress)


def _tell(loop: asyncio.AbstractEventLoop, on_progress: OnProgress, progress: LoadProgress) -> None:
    loop.call_soon_threadsafe(on_progress, progress)
