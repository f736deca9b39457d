"""Served models as guards: judges of answers run by this gateway's own engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from sluicegate.plugins import (
    Caller,
    ConfigurationError,
    Conflict,
    Generator,
    Job,
    OutputRail,
    Prompt,
    ReadingModel,
    Sampling,
    ServedModel,
    TokenGuardHost,
    TokenReading,
    offers,
    shows,
)
from sluicegate.safety import CascadeJudge, GuardAnswerJudge, GuardOutput, JudgeRail, TokenGuardJudge

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
        """Generate the guard's answer to a prompt. Raises what the generator raises; leaves nothing running behind."""
        sampling = Sampling(max_tokens=max_tokens, temperature=0.0, logprobs=top)
        job = Job(f"guard-{next(_numbers)}", self._model, Prompt("", token_ids), sampling, tenant=caller.tenant)
        generation = await self._generator.generate(job)
        try:
            await generation.begin()
            texts: list[str] = []
            is_cut = False
            first: tuple[tuple[int, float], ...] = ()
            async for piece in generation:
                texts.append(piece.text)
                is_cut = is_cut or piece.finish_reason not in (None, "stop")
                if not first and piece.logprobs:
                    first = tuple((token_id, logprob) for token_id, _, _, logprob in piece.logprobs[0].top)
            usage = generation.usage
            return GuardOutput("".join(texts), first, usage.prompt_tokens, usage.cached_tokens, is_cut)
        finally:
            generation.cancel()


class EngineTokenGuard:
    """One served guard with heads on tokens. What it has read is scoped to the tenant whose answer is judged."""

    def __init__(self, host: TokenGuardHost, model: str, tokenizer: Any) -> None:
        self._host = host
        self._model = model
        self.tokenizer = tokenizer

    def open(self, caller: Caller) -> TokenReading:
        return self._host.open_reading(self._model, caller.tenant)


def check_unused(name: str, rails: Iterable[tuple[str, OutputRail]]) -> None:
    """Check that no rail judges with the model `name`. Raises `Conflict`: without it, requests under an acting rail
    would all be refused."""
    using = sorted(rail for rail, output in rails if (judge := _guard_of(output)) is not None and judge.model == name)
    if using:
        raise Conflict(
            f"model {name!r} is what {', '.join(using)} of slot moderate judges with; take that out of [pipeline] and "
            "reload, or load another model in its place with `replace`",
            code="model_in_use",
        )


def _guard_of(rail: OutputRail) -> GuardAnswerJudge | TokenGuardJudge | None:
    """Return the judge of a rail that asks a served model, None for another rail."""
    judge = rail.judge if isinstance(rail, JudgeRail) else None
    judge = judge.second if isinstance(judge, CascadeJudge) else judge
    return judge if isinstance(judge, GuardAnswerJudge | TokenGuardJudge) else None


def bind_guards(rails: Iterable[tuple[str, OutputRail]], generator: Generator) -> None:
    """Give judges that ask a served model the generator. Raises `ConfigurationError` for one that is not served."""
    for name, rail in rails:
        if (judge := _guard_of(rail)) is None:
            continue
        served = generator.models.get(judge.model)
        if served is None or served.remote:
            known = ", ".join(name for name, model in generator.models.items() if not model.remote) or "none"
            raise ConfigurationError(
                f"moderate.{name}: model = {judge.model!r} is not served by this gateway's engine; served: {known}. "
                "Add it to [stages.generate.engine] models, which a start reads; while this gateway runs, load it with "
                "POST /admin/models before the reload. Or judge with guard-service"
            )
        judges_tokens = shows(served, ReadingModel) and served.reads_for == "judge"
        if isinstance(judge, TokenGuardJudge):
            _bind_token_guard(name, judge, generator, served if judges_tokens else None)
        elif judges_tokens:
            raise ConfigurationError(
                f"moderate.{name}: {judge.model!r} judges tokens and writes no verdicts; judge with token-guard"
            )
        else:
            judge.bind(EngineGuard(generator, judge.model))


def _bind_token_guard(name: str, judge: TokenGuardJudge, generator: Generator, served: ServedModel | None) -> None:
    if served is None or not offers(generator, TokenGuardHost):
        raise ConfigurationError(
            f"moderate.{name}: {judge.model!r} has no heads that judge tokens; name a guard that has "
            "(Qwen3Guard-Stream), or judge with guard, which asks one that writes its verdict"
        )
    if not served.tokenizer.chat_template:
        raise ConfigurationError(
            f"moderate.{name}: {judge.model!r} brings no chat template, so that it is not known how it was shown "
            "conversations; fetch tokenizer_config.json or chat_template.jinja of the checkpoint"
        )
    judge.bind(EngineTokenGuard(generator, judge.model, served.tokenizer))
