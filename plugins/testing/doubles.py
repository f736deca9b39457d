"""Test doubles around a stage: a request, a byte-level model that answers by script, a recorder that keeps outcomes.

Not covered: sampling, logits, time. A scripted model ignores its grammar, so whether the script obeys it is the test's
affair.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate.plugins.contract.answers import Answer, Outcome, Piece, Usage
from sluicegate.plugins.contract.models import CompiledGrammar, Job, ServedModel
from sluicegate.plugins.contract.names import FinishReason, Mask
from sluicegate.plugins.contract.requests import Caller, Constraint, Message, Prompt, Request
from sluicegate.plugins.errors import ContextLengthExceeded, NotFound
from sluicegate.plugins.timeline import Timeline

MODEL = "scripted"
EOS = 256
_numbers = itertools.count(1)

Script = Sequence[str] | Callable[[Job], Sequence[str]]
"""The pieces of the answer, or a function that makes them from the job."""


def make_request(text: str = "Hello", *, role: Any = "user", **fields: Any) -> Request:
    """Make a request with one message; `fields` are those of `Request`."""
    given = {"id": f"test-{next(_numbers)}", "model": MODEL, "messages": (Message(role, text),), **fields}
    return Request(**given)


def make_outcome(text: str = "Hello back", *, request: Request | None = None, **fields: Any) -> Outcome:
    """Make the outcome of a successful request, as recorders get it; `fields` are those of `Outcome`."""
    given: dict[str, Any] = {
        "request": request or make_request(),
        "caller": Caller(),
        "model": MODEL,
        "answers": (Answer(0, text, "stop"),),
        "usage": Usage(prompt_tokens=5, completion_tokens=3),
        "decisions": (),
        "duration_s": 0.25,
    }
    return Outcome(**{**given, **fields})


class FakeTokenizer:
    """One token per byte of UTF-8, and 256 for the end. Implements the part of a `transformers` tokenizer that stages
    use."""

    chat_template = None
    all_special_tokens: tuple[str, ...] = ()
    eos_token_id = EOS

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def encode(self, text: str, **options: Any) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        return bytes(t for t in token_ids if t < EOS).decode("utf-8", errors="replace")

    def __len__(self) -> int:
        return EOS + 1


@dataclass(slots=True)
class FakeModel:
    """A `ServedModel` without weights."""

    name: str = MODEL
    version: str = "1"
    context_length: int = 4096
    vocab_size: int = EOS + 1
    eos_token_ids: tuple[int, ...] = (EOS,)
    tokenizer: Any = field(default_factory=FakeTokenizer)
    default_temperature: float = 1.0
    defaults: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remote: bool = False
    base: str | None = None


class ScriptedGeneration:
    """Yields the script piece by piece for every choice; after `cancel` nothing more."""

    def __init__(self, job: Job, pieces: Sequence[str], finish_reason: FinishReason, delay_s: float) -> None:
        self._job = job
        self._pieces = pieces
        self._finish_reason = finish_reason
        self._delay_s = delay_s
        self._sent = 0
        self.timeline: Timeline | None = None
        self.cancelled = False

    async def begin(self) -> None:
        return

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for text in self._pieces:
            for index in range(self._job.n):
                await asyncio.sleep(self._delay_s)
                if self.cancelled:
                    return
                self._sent += 1
                yield Piece(index, text, token_ids=tuple(text.encode()))
        for index in range(self._job.n):
            yield Piece(index, finish_reason=self._finish_reason)

    def cancel(self) -> None:
        self.cancelled = True

    @property
    def usage(self) -> Usage:
        return Usage(len(self._job.prompt.token_ids), self._sent)


class ScriptedModel:
    """Slot `generate`: answers with `script`, in just these pieces. `jobs` are the jobs it was given."""

    def __init__(
        self,
        script: Script = ("Hello", " back"),
        *,
        finish_reason: FinishReason = "stop",
        delay_s: float = 0.0,
        names: Sequence[str] = (MODEL,),
    ) -> None:
        self.jobs: list[Job] = []
        self.generations: list[ScriptedGeneration] = []
        self._script = script
        self._finish_reason: FinishReason = finish_reason
        self._delay_s = delay_s
        self._models: dict[str, ServedModel] = {name: FakeModel(name) for name in names}

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return self._models

    async def generate(self, job: Job) -> ScriptedGeneration:
        if job.model not in self._models:
            raise NotFound(f"there is no model {job.model!r} here; served: {', '.join(self._models)}")
        self.jobs.append(job)
        pieces = self._script(job) if callable(self._script) else self._script
        self.generations.append(ScriptedGeneration(job, pieces, self._finish_reason, self._delay_s))
        return self.generations[-1]

    def stats(self) -> Mapping[str, float]:
        return {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_usage_ratio": 0.0}


class PlainAssembler:
    """Slot `assemble`: one line a message, `role: text`."""

    async def assemble(self, request: Request, model: ServedModel) -> Prompt:
        text = "\n".join(f"{message.role}: {message.content}" for message in request.messages)
        token_ids = tuple(model.tokenizer(text)["input_ids"])
        if len(token_ids) >= model.context_length:
            raise ContextLengthExceeded(f"{len(token_ids)} tokens, {model.name} reads {model.context_length}")
        return Prompt(text, token_ids)


class _FreeMatcher:
    """Allows every token; remembers only how many there were."""

    can_stop = True
    is_finished = False
    worked_s = 0.0

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        return

    def shortest_completion(self) -> None:
        return None

    def fill_mask(self, row: Mask) -> bool:
        row[:] = -1
        return False

    def accept(self, token_id: int) -> None:
        return

    def rollback(self, n: int) -> None:
        return

    def forced_tokens(self) -> list[int]:
        return []


class _FreeGrammar:
    notes = ()

    def matcher(self) -> _FreeMatcher:
        return _FreeMatcher()


class Unconstrained:
    """Slot `constrain`: allows everything, because a script cannot be steered. `compiled` lists the constraints it was
    given."""

    unconstrained = None

    def __init__(self) -> None:
        self.compiled: list[Constraint] = []

    async def compile(self, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        self.compiled.append(constraint)
        return _FreeGrammar()


class KeepingRecorder:
    """Slot `record`: keeps every outcome, in order."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    async def record(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
