"""Token for token what `transformers.generate` answers, however the work was cut into steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, greedy_by_transformers, logprobs_by_transformers, prompts, run, serving
from tests.engine.tiny_models import FAMILIES, LATENT, OTHERS

LENGTHS = (1, 5, 17, 40, 16, 33)
TOKENS = 24
Folder = Callable[..., Path]


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS, *LATENT])
async def test_every_way_of_batching_gives_the_answer_of_transformers(
    family: str, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """Alone; mixed with others; prompts in chunks of at most 10 tokens; blocks so scarce that sequences are preempted;
    and a second time, from the prefix cache; with and without drafts; with steps launched ahead."""
    model, asked = tiny(family), prompts(LENGTHS)
    expected = [greedy_by_transformers(tiny_folder(family), prompt, TOKENS) for prompt in asked]
    jobs = [a_job(model, prompt, max_tokens=TOKENS) for prompt in asked]
    async with serving(model, max_batch_tokens=512, draft_tokens=0) as engine:
        alone = [(await run(engine, job))[0].tokens[0] for job in jobs]
    async with serving(model, max_batch_size=8, max_batch_tokens=512) as engine:
        mixed = [result.tokens[0] for result in await run(engine, *jobs)]
        again = [result.tokens[0] for result in await run(engine, *jobs)]
        assert engine.stats()["prefix_cache_hit_tokens_total"] > 0
    async with serving(model, max_batch_size=6, max_batch_tokens=10) as engine:
        chunked = [result.tokens[0] for result in await run(engine, *jobs)]
    async with serving(model, max_batch_size=6, num_blocks=16, prefix_caching=False) as engine:
        scarce = [result.tokens[0] for result in await run(engine, *jobs)]
        assert engine.stats()["preemptions_total"] > 0
        assert engine.stats()["kv_cache_usage_ratio"] == 0
    async with serving(model, max_batch_size=6, max_batch_tokens=10, draft_tokens=0, steps_ahead="always") as engine:
        ahead = [result.tokens[0] for result in await run(engine, *jobs)]
        assert engine.stats()["steps_ahead_total"] > 0
    assert (alone, mixed, again, chunked, scarce, ahead) == (expected,) * 6


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS, *LATENT])
async def test_logprobs_are_those_of_the_model(family: str, tiny: MakeModel, tiny_folder: Folder) -> None:
    """Chosen and top logprobs equal the log-softmax of a plain forward pass within 1e-4, also when sampling is hot."""
    model, prompt = tiny(family), prompts([21])[0]
    async with serving(model, max_batch_tokens=8) as engine:
        result = (await run(engine, a_job(model, prompt, temperature=1.5, seed=3, logprobs=4, ignore_eos=True)))[0]
    tokens = result.tokens[0]
    expected = logprobs_by_transformers(tiny_folder(family), prompt + tokens)[len(prompt) - 1 :]
    assert len(result.logprobs[0]) == len(tokens) == 12
    for at, (token, found) in enumerate(zip(tokens, result.logprobs[0], strict=True)):
        values, ids = expected[at].topk(4)
        assert found.token_id == token
        assert found.logprob == pytest.approx(float(expected[at, token]), abs=1e-4)
        assert [entry[0] for entry in found.top] == ids.tolist()
        assert torch.allclose(torch.tensor([entry[3] for entry in found.top]), values, atol=1e-4)
