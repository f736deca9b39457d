"""What is refused before a job reaches the queue: it could never run, or there is no place for it."""

from __future__ import annotations

from engine.core import EngineCore
from plugins import ContextLengthExceeded, Job, RequestError

MAX_CHOICES = 128


def max_length(job: Job, core: EngineCore) -> int:
    """Tokens the sequence may grow to. Raises when the prompt leaves no room for one more, now or ever."""
    pool = core.scheduler.pool
    room = min(core.model.context_length, pool.num_blocks * pool.block_size)
    length = len(job.prompt.token_ids)
    _check_shape(job, core.model.vocab_size)
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
    if not 1 <= job.n <= MAX_CHOICES:
        raise RequestError(f"n is {job.n}; expected an integer between 1 and {MAX_CHOICES}", param="n")
