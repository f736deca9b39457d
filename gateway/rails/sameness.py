"""A served model as the judge of whether two questions mean the same, for the semantic cache."""

from __future__ import annotations

from functools import partial

from sluicegate.cache.semantic.judged.sameness import ServedSameness
from sluicegate.engine import render_chat
from sluicegate.gateway.rails.guard_model import EngineGuard
from sluicegate.plugins import Caller, ConfigurationError, Generator

MOST_TOKENS = 4
"""Most tokens of a verdict: one word, and room for a mark before it."""


def bind_sameness(where: str, judge: ServedSameness, generator: Generator) -> None:
    """Bind the judge to its model. Raises `ConfigurationError` for a model that this gateway's engine does not
    serve."""
    local = [name for name, model in generator.models.items() if not model.remote]
    model = judge.model or next(iter(local), "")
    if model not in local:
        raise ConfigurationError(
            f"{where}: judge names the model {model!r}, which this gateway's engine does not serve; served: "
            f'{", ".join(local) or "none"}. For a model elsewhere write judge = "https://host/v1#MODEL"'
        )
    judge.bind(partial(_answered, EngineGuard(generator, model)))


async def _answered(guard: EngineGuard, prompt: str, tenant: str) -> str:
    """Return the guard's answer to `prompt`. Raises what the generator raises."""
    tokenizer = guard.tokenizer
    text = render_chat(tokenizer, [{"role": "user", "content": prompt}], add_generation_prompt=True)
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    return (await guard.answer(ids, MOST_TOKENS, None, Caller(tenant))).text
