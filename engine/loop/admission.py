"""Refuse jobs before they are queued: those that can never run, and those that would wait too long."""

from __future__ import annotations

import time

from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.sampling.params import check_choices
from sluicegate.plugins import ContextLengthExceeded, Job, Load, Overloaded, RequestError


def max_length(job: Job, core: EngineCore) -> int:
    """Return the most tokens the sequence may have, prompt included. Raises `RequestError` for token ids outside the
    vocabulary or beam search on a model with recurrent layers, `ContextLengthExceeded` where the prompt leaves no room
    for a token."""
    pool = core.scheduler.pool
    room = min(core.model.context_length, pool.num_blocks * pool.block_size)
    length = len(job.prompt.token_ids)
    _check_shape(job, core.model.vocab_size)
    if job.sampling.use_beam_search and core.model.states:
        raise RequestError(
            f"model {core.model.name!r} has recurrent layers, whose states are not copied for each beam; leave out "
            "use_beam_search, or ask for n answers",
            param="use_beam_search",
        )
    if length >= room:
        raise ContextLengthExceeded(
            f"the prompt has {length} tokens; model {core.model.name!r} holds {room} of prompt and answer together: "
            "shorten the prompt"
        )
    return min(room, length + (job.sampling.max_tokens or room))


def _check_shape(job: Job, vocab_size: int) -> None:
    ids = job.prompt.token_ids
    if not ids:
        raise RequestError("the prompt has no tokens; send at least one", param="prompt")
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise RequestError(f"the prompt's token ids must lie between 0 and {vocab_size - 1}", param="prompt")
    check_choices(job)


def load_of(core: EngineCore, arriving: int) -> Load:
    """Report how busy a core is, and how long an interactive request would wait; batch requests are not counted against
    it. `arriving`: jobs that no scheduler has seen yet. Reads counters of the engine thread without a lock."""
    scheduler = core.scheduler
    running, waiting = list(scheduler.running), scheduler.waiting_count + arriving
    free = scheduler.pool.free_count
    staying = [sequence for sequence in running if sequence.priority <= 0]
    room = min(scheduler.max_batch_size, free + len(running) - len(staying))
    places = max(0, room - len(staying))  # what stays may need a block each
    before = waiting - scheduler.waiting_behind
    busy = len(staying) + min(places, before)
    now = time.monotonic()
    ages = [now - (sequence.started_s or now) for sequence in staying]
    oldest_s, age_s = max(ages, default=0.0), sum(ages) / max(1, len(ages))
    wait_s = core.requests.wait_estimate.wait_s(before + 1 - places, busy, oldest_s, age_s)
    return Load(len(running), waiting, free, scheduler.pool.num_blocks, wait_s)


def refuse_too_late(job: Job, version: str, load: Load) -> None:
    """Raise `Overloaded` for a job that would still wait at its deadline, or was prepared for another model version
    than `version`."""
    if job.version is not None and job.version != version:
        raise Overloaded(
            f"model {job.model!r} was replaced while the request was prepared; send it again", retry_after_s=0.1
        )
    if job.deadline_s is not None and load.wait_s > job.deadline_s:
        raise Overloaded(
            f"a place is expected in {load.wait_s:.1f} s, the request gives it {job.deadline_s:g} s; "
            "send it later, or allow more time",
            retry_after_s=load.wait_s - job.deadline_s,
        )
