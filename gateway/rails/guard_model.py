"""A served model as a guard: what judges of answers ask, run by this gateway's own engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from sluicegate.plugins import Caller, ConfigurationError, Generator, Job, OutputRail, Prompt, Sampling
from sluicegate.safety import CascadeJudge, GuardAnswerJudge, GuardOutput, JudgeRail

_numbers = itertools.count(1)


class EngineGuard:
    """One served model. Blocks of the prefix cache are scoped to the tenant whose answer is judged."""

    def __init__(self, generator: Generator, model: str) -> None:
        self._generator = generator
        self._model = model

    @property
    def tokenizer(self) -> Any:
        return self._generator.models[self._model].tokenizer

    async def answer(self, token_ids: tuple[int, ...], max_tokens: int, top: int | None, caller: Caller) -> GuardOutput:
        """Raises what the generator raises; leaves nothing running behind."""
        sampling = Sampling(max_tokens=max_tokens, temperature=0.0, logprobs=top)
        job = Job(f"guard-{next(_numbers)}", self._model, Prompt("", token_ids), sampling, tenant=caller.tenant)
        generation = await self._generator.generate(job)
        try:
            await generation.begin()
            texts: list[str] = []
            first: tuple[tuple[int, float], ...] = ()
            async for piece in generation:
                texts.append(piece.text)
                if not first and piece.logprobs:
                    first = tuple((token_id, logprob) for token_id, _, _, logprob in piece.logprobs[0].top)
            usage = generation.usage
            return GuardOutput("".join(texts), first, usage.prompt_tokens, usage.cached_tokens)
        finally:
            generation.cancel()


def bind_guards(rails: Iterable[tuple[str, OutputRail]], generator: Generator) -> None:
    """Give judges that ask a served model the generator. Raises `ConfigurationError` for one that is not served."""
    for name, rail in rails:
        judge = rail.judge if isinstance(rail, JudgeRail) else None
        judge = judge.second if isinstance(judge, CascadeJudge) else judge
        if not isinstance(judge, GuardAnswerJudge):
            continue
        served = generator.models.get(judge.model)
        if served is None or served.remote:
            known = ", ".join(name for name, model in generator.models.items() if not model.remote) or "none"
            raise ConfigurationError(
                f"moderate.{name}: model = {judge.model!r} is not served by this gateway's engine; served: {known}. "
                "Add it to [stages.generate.engine] models, or judge with guard-service"
            )
        judge.bind(EngineGuard(generator, judge.model))
