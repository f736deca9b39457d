"""Running jobs through an engine, and a grammar that is only a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from sluicegate.engine import Engine, EngineSettings, LiveGeneration, LoadedModel
from sluicegate.engine.loop.core import EngineCore
from sluicegate.plugins import ClosingTokens, Job, Piece, Prompt, Sampling, TokenLogprob, TokenRejected, Usage

_ids = count()
_OF_THE_JOB = ("grammar", "probed", "tenant", "priority", "deadline_s", "version")


@dataclass
class Result:
    """All choices of one job, by index."""

    tokens: list[list[int]]
    text: list[str]
    reasons: list[str | None]
    logprobs: list[list[TokenLogprob]]
    usage: Usage
    pieces: list[Piece] = field(default_factory=list)


@asynccontextmanager
async def serving(model: LoadedModel, **settings: Any) -> AsyncIterator[Engine]:
    values = {"block_size": 4, "num_blocks": 128, "max_batch_size": 4, "max_batch_tokens": 64, "threads": 1, **settings}
    engine = Engine(EngineSettings(**values), [model])
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def core_of(engine: Engine) -> EngineCore:
    (core,) = engine._registry.cores
    return core


def a_job(model: LoadedModel, prompt: Sequence[int] | str, n: int = 1, **fields: Any) -> Job:
    """Make a job with greedy decoding and 12 tokens, unless `fields` say otherwise; those of `Sampling` go there."""
    outer = {name: fields.pop(name) for name in _OF_THE_JOB if name in fields}
    ids = model.tokenizer.encode(prompt, add_special_tokens=False) if isinstance(prompt, str) else prompt
    sampling = Sampling(**{"max_tokens": 12, "temperature": 0.0, **fields})
    return Job(f"job-{next(_ids)}", model.name, Prompt("", tuple(ids)), sampling, n=n, **outer)


async def collect(generation: LiveGeneration) -> Result:
    n = generation.job.n
    result = Result([[] for _ in range(n)], [""] * n, [None] * n, [[] for _ in range(n)], Usage())
    async for piece in generation:
        result.pieces.append(piece)
        result.tokens[piece.index] += piece.token_ids
        result.text[piece.index] += piece.text
        result.logprobs[piece.index] += piece.logprobs
        result.reasons[piece.index] = piece.finish_reason
    result.usage = generation.usage
    return result


async def run(engine: Engine, *jobs: Job) -> list[Result]:
    """Run all jobs at once."""
    return await asyncio.gather(*[collect(await engine.generate(job)) for job in jobs])


async def run_from_one_step(engine: Engine, model: LoadedModel, *jobs: Job) -> list[Result]:
    """Run all jobs from the same step on, however slow this thread is: for tests that count the steps they share.

    Another job's mask holds the engine's thread until all are handed over."""
    door = Door([{1}], model.eos_token_ids[0])
    first = asyncio.ensure_future(run(engine, a_job(model, [1, 2, 3], max_tokens=1, grammar=door)))
    assert await asyncio.to_thread(door.reached.wait, 60)
    running = [asyncio.ensure_future(collect(await engine.generate(job))) for job in jobs]
    door.opened.set()
    await first
    return await asyncio.gather(*running)


@cache
def reference_model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


def greedy_by_transformers(folder: Path, prompt: Sequence[int], max_tokens: int) -> list[int]:
    """Return what `generate` answers, without the end-of-sequence token."""
    model = reference_model(folder)
    out = model.generate(
        torch.tensor([list(prompt)]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=max_tokens,
        do_sample=False,
        pad_token_id=0,
    )[0, len(prompt) :].tolist()
    return [token for token in out if token != model.generation_config.eos_token_id]


@torch.inference_mode()
def logprobs_by_transformers(folder: Path, tokens: Sequence[int]) -> torch.Tensor:
    """Log-softmax [T, V] of one plain forward pass."""
    return torch.log_softmax(reference_model(folder)(torch.tensor([list(tokens)])).logits[0].float(), -1)


def prompts(lengths: Sequence[int], vocab: int = 250) -> list[list[int]]:
    return [[(31 * i + 13 * j * (i + 1)) % vocab for j in range(length)] for i, length in enumerate(lengths)]


class ScriptedGrammar:
    """At each position a set of allowed tokens, then the end. `forced` offers single-token sets as forced tokens."""

    def __init__(self, script: Sequence[set[int]], eos: int, *, forced: bool = False) -> None:
        self.script = [set(allowed) for allowed in script]
        self.eos = eos
        self.forced = forced

    notes = ()

    def matcher(self) -> ScriptedMatcher:
        return ScriptedMatcher(self)

    def before_mask(self) -> None:
        """Do nothing. Grammars that do something when their mask is asked for override it."""


class Door(ScriptedGrammar):
    """A grammar whose mask is not filled before the door is `opened`."""

    def __init__(self, script: Sequence[set[int]], eos: int) -> None:
        super().__init__(script, eos)
        self.reached, self.opened = threading.Event(), threading.Event()

    def before_mask(self) -> None:
        self.reached.set()
        assert self.opened.wait(60)


class ScriptedMatcher:
    worked_s = 0.0

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        return

    def shortest_completion(self) -> ClosingTokens | None:
        return None

    def __init__(self, grammar: ScriptedGrammar) -> None:
        self._of = grammar
        self.accepted: list[int] = []

    def _allowed(self) -> set[int]:
        at = len(self.accepted)
        return self._of.script[at] if at < len(self._of.script) else {self._of.eos}

    def fill_mask(self, row: np.ndarray) -> bool:  # type: ignore[type-arg]
        self._of.before_mask()
        row[:] = 0
        words = row.view(np.uint32)
        for token in self._allowed():
            words[token // 32] |= np.uint32(1 << (token % 32))
        return True

    def accept(self, token_id: int) -> None:
        if token_id not in self._allowed():
            raise TokenRejected(token_id)
        self.accepted.append(token_id)

    def rollback(self, n: int) -> None:
        del self.accepted[len(self.accepted) - n :]

    def forced_tokens(self) -> list[int]:
        if not self._of.forced:
            return []
        run: list[int] = []
        for allowed in self._of.script[len(self.accepted) :]:
            if len(allowed) != 1:
                break
            run += allowed
        return run

    @property
    def can_stop(self) -> bool:
        return len(self.accepted) >= len(self._of.script)

    @property
    def is_finished(self) -> bool:
        return len(self.accepted) >= len(self._of.script)
