"""The generator that the pipeline sees: jobs in on the event loop, steps on one engine thread, pieces back.

The loop and the thread share an inbox (a deque and an event); nothing here ever waits on the event loop for a step.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import torch

from engine.blocks import BlockPool
from engine.core import EngineCore, Speculation, Submission
from engine.delivery import LiveGeneration, Outbox, as_failure
from engine.model import LoadedModel, load_model
from engine.params import draw_rule
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.settings import EngineSettings, thread_count
from plugins import ContextLengthExceeded, Job, NotFound, Overloaded, RequestError, ServedModel

MAX_CHOICES = 128

_LOG = logging.getLogger(__name__)


class Engine:
    """A `Generator` with a `Lifecycle`. Models are those given, or loaded by `start` as the settings say."""

    def __init__(self, settings: EngineSettings, models: Sequence[LoadedModel] = ()) -> None:
        settings.check()
        self._settings = settings
        self._outbox = Outbox()
        self._cores = {model.name: self._core(model) for model in models}
        self._inbox: deque[Callable[[], None]] = deque()
        self._posted = 0
        """Jobs put into the inbox; written on the event loop only."""
        self._taken = 0
        """Jobs taken out of it; written by the engine thread only."""
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the contract, on the event loop -----------------------------------------------------------------------

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return {name: core.model for name, core in self._cores.items()}

    async def start(self) -> None:
        """Load the models of the settings, unless models were given, and start the engine thread."""
        if not self._cores:
            for model in await asyncio.to_thread(self._load):
                self._cores[model.name] = self._core(model)
        self._start_thread()

    async def close(self) -> None:
        """Refuse new jobs, let running ones finish for `drain_s`, cancel the rest, stop the thread."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def generate(self, job: Job) -> LiveGeneration:
        """Queue `job`. Raises `NotFound`, `ContextLengthExceeded`, `RequestError` or `Overloaded`."""
        core = self._core_for(job)
        rule = draw_rule(
            job.sampling, default_temperature=core.model.default_temperature, vocab_size=core.model.vocab_size
        )
        max_length = _max_length(job, core)
        self._refuse_overload()
        generation = LiveGeneration(job, lambda g: self._post(lambda: core.cancel(g)))
        seed = secrets.randbits(64) if job.sampling.seed is None else job.sampling.seed
        self._posted += 1
        self._post(lambda: self._submit(core, Submission(generation, rule, seed, max_length)))
        return generation

    def stats(self) -> Mapping[str, float]:
        """Gauges, and totals since the start (names ending in `_total`); times are in seconds."""
        cores = list(self._cores.values())
        pools = [core.scheduler.pool for core in cores]
        blocks = sum(pool.num_blocks for pool in pools)
        return {
            "requests_running": float(sum(len(core.scheduler.running) for core in cores)),
            "requests_waiting": float(sum(core.scheduler.waiting_count for core in cores) + self._posted - self._taken),
            "kv_cache_usage_ratio": sum(p.num_blocks - p.free_count for p in pools) / blocks if blocks else 0.0,
            "prefix_cache_asked_tokens_total": float(sum(pool.counters.asked for pool in pools)),
            "prefix_cache_hit_tokens_total": float(sum(pool.counters.found for pool in pools)),
            "preemptions_total": float(sum(core.scheduler.counters.preemptions for core in cores)),
            "tokens_generated_total": float(sum(core.counters.tokens for core in cores)),
            "tokens_forced_total": float(sum(core.counters.forced_tokens for core in cores)),
            "tokens_drafted_total": float(sum(core.counters.drafted for core in cores)),
            "tokens_accepted_total": float(sum(core.counters.accepted for core in cores)),
            "steps_total": float(sum(core.counters.steps for core in cores)),
            "step_seconds_total": sum(core.counters.step_s for core in cores),
            "forward_seconds_total": sum(core.counters.forward_s for core in cores),
        }

    # --- checks before the queue -------------------------------------------------------------------------------

    def _core_for(self, job: Job) -> EngineCore:
        core = self._cores.get(job.model)
        if core is None:
            known = ", ".join(sorted(self._cores)) or "none"
            raise NotFound(f"there is no model {job.model!r} here; loaded: {known}", param="model")
        return core

    def _refuse_overload(self) -> None:
        if self._closing.is_set():
            raise Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0)
        queued = sum(core.scheduler.waiting_count for core in self._cores.values())
        waiting = queued + self._posted - self._taken
        if waiting >= self._settings.max_waiting:
            raise Overloaded(
                f"{waiting} requests are waiting for the engine, as many as it queues; try again", retry_after_s=1.0
            )

    # --- the engine thread -------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        torch.set_num_threads(self._threads())
        while not self._closing.is_set():
            self._turn()
        deadline = time.monotonic() + self._settings.drain_s
        while self._has_work() and time.monotonic() < deadline:
            self._turn()
        self._take_inbox()
        for core in self._cores.values():
            core.cancel_all()
        self._flush()

    def _turn(self) -> None:
        """Take what arrived, one step of every model that has work, deliver; sleep when there is nothing to do."""
        self._take_inbox()
        for core in self._cores.values():
            if core.has_work:
                self._step(core)
        self._flush()
        if not self._has_work() and not self._closing.is_set():
            self._wake.wait()

    def _step(self, core: EngineCore) -> None:
        try:
            core.step()
        except Exception as error:  # our own bug: nobody may be left waiting for a thread that died
            _LOG.exception("a step of model %s failed; its requests are ended", core.model.name)
            core.fail_all(as_failure(error, "the engine step"))

    def _take_inbox(self) -> None:
        self._wake.clear()
        while self._inbox:
            act = self._inbox.popleft()
            try:
                act()
            except Exception:  # our own bug: the thread must not die of it
                _LOG.exception("a request could not be let go")

    def _submit(self, core: EngineCore, submission: Submission) -> None:
        self._taken += 1
        try:
            core.submit(submission)
        except Exception as error:
            self._outbox.fail(submission.generation, as_failure(error, "taking the request in"))

    def _flush(self) -> None:
        for generation in self._outbox.flush():
            self._cores[generation.job.model].cancel(generation)

    def _has_work(self) -> bool:
        return bool(self._inbox) or any(core.has_work for core in self._cores.values())

    def _post(self, act: Callable[[], None]) -> None:
        """Have the engine thread do something before its next step."""
        self._inbox.append(act)
        self._wake.set()

    # --- construction ------------------------------------------------------------------------------------------

    def _load(self) -> list[LoadedModel]:
        wanted = self._settings.models
        return [load_model(m.path, name=m.name, dtype=m.dtype, device=m.device) for m in wanted]

    def _core(self, model: LoadedModel) -> EngineCore:
        settings = self._settings
        num_blocks = settings.num_blocks or _blocks_within(settings, model)
        pool = BlockPool(num_blocks, settings.block_size, reuse=settings.prefix_caching)
        scheduler = Scheduler(pool, max_batch_size=settings.max_batch_size, max_batch_tokens=settings.max_batch_tokens)
        runner = Runner(model, num_blocks, settings.block_size, attention=settings.attention)
        speculation = Speculation(settings.draft_tokens, settings.drafts_per_step)
        jump = settings.jump_forward
        return EngineCore(model, runner, scheduler, self._outbox, jump_forward=jump, speculation=speculation)

    def _threads(self) -> int:
        largest = max((core.model.parameter_count for core in self._cores.values()), default=0)
        return self._settings.threads or thread_count(largest)


def _blocks_within(settings: EngineSettings, model: LoadedModel) -> int:
    """As many blocks as the bytes hold, but no more than a full batch of the longest sequences can use."""
    affordable = settings.kv_cache_bytes // (model.kv_bytes_per_token * settings.block_size)
    useful = settings.max_batch_size * -(-model.context_length // settings.block_size)
    return max(1, min(affordable, useful))


def _max_length(job: Job, core: EngineCore) -> int:
    """Tokens the sequence may grow to. Raises when the prompt leaves no room for one more, now or ever."""
    pool = core.scheduler.pool
    room = min(core.model.context_length, pool.num_blocks * pool.block_size)
    length = len(job.prompt.token_ids)
    if length == 0:
        raise RequestError("the prompt has no tokens; send at least one", param="prompt")
    if not 0 <= min(job.prompt.token_ids) <= max(job.prompt.token_ids) < core.model.vocab_size:
        raise RequestError(f"the prompt's token ids must lie between 0 and {core.model.vocab_size - 1}", param="prompt")
    if not 1 <= job.n <= MAX_CHOICES:
        raise RequestError(f"n is {job.n}; expected an integer between 1 and {MAX_CHOICES}", param="n")
    if length >= room:
        raise ContextLengthExceeded(
            f"the prompt has {length} tokens; model {core.model.name!r} holds {room} of prompt and answer together: "
            "shorten the prompt"
        )
    return min(room, length + (job.sampling.max_tokens or room))
