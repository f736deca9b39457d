"""Texts as vectors: the mean of the last hidden states, whatever else the engine does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from sluicegate.plugins import ContextLengthExceeded, NotFound, Overloaded, RequestError, TextEmbedder
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, prompts, run, serving

Folder = Callable[..., Path]


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt2", "gpt_oss", "deepseek_v3"])
async def test_vectors_are_the_mean_hidden_states_of_transformers(
    family: str, tiny: MakeModel, tiny_folder: Folder
) -> None:
    """Short and long texts at once, in slices of 16 tokens, across sliding windows; at unit length."""
    rows = prompts([3, 40, 1, 16, 7])
    async with serving(tiny(family), max_batch_tokens=16) as engine:
        assert isinstance(engine, TextEmbedder)
        found = await engine.embed(rows)
    reference = AutoModel.from_pretrained(tiny_folder(family), attn_implementation="eager").eval()
    with torch.inference_mode():
        means = torch.stack([reference(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows])
    expected = torch.nn.functional.normalize(means, dim=-1).numpy()
    assert found.vectors.dtype == np.float32
    assert found.tokens == (3, 40, 1, 16, 7)
    np.testing.assert_allclose(found.vectors, expected, atol=2e-5)


async def test_generations_go_on_while_texts_are_embedded(tiny: MakeModel) -> None:
    model = tiny("llama")
    job = a_job(model, "the cat", max_tokens=100, ignore_eos=True)
    async with serving(model, max_batch_tokens=16) as engine:
        alone = (await run(engine, job))[0].tokens
        talking = asyncio.create_task(collect(await engine.generate(job)))
        vectors = await asyncio.gather(*[engine.embed(["the cat sat", "on the mat"]) for _ in range(5)])
        assert (await talking).tokens == alone
    assert all((found.vectors == vectors[0].vectors).all() for found in vectors)


async def test_texts_are_read_with_the_tokenizers_own_special_tokens(tiny: MakeModel) -> None:
    model = tiny("llama")
    async with serving(model) as engine:
        by_text = await engine.embed(["the cat"], model="llama")
        by_ids = await engine.embed([model.tokenizer.encode("the cat")])
        assert (by_text.vectors == by_ids.vectors).all()


async def test_what_cannot_be_embedded_is_refused(tiny: MakeModel) -> None:
    async with serving(tiny("llama")) as engine:
        with pytest.raises(RequestError, match="no texts"):
            await engine.embed([])
        with pytest.raises(RequestError, match="text 1 has no tokens"):
            await engine.embed(["x", ""])
        with pytest.raises(RequestError, match="between 0 and 265"):
            await engine.embed([[266]])
        with pytest.raises(ContextLengthExceeded, match=r"513 tokens.*reads 512"):
            await engine.embed([[1] * 513])
        with pytest.raises(NotFound):
            await engine.embed(["x"], model="other")
    with pytest.raises(Overloaded, match="shutting down"):
        await engine.embed(["x"])


async def test_texts_still_waiting_at_the_end_are_told_so(tiny: MakeModel) -> None:
    async with serving(tiny("llama"), drain_s=0.0) as engine:
        waiting = asyncio.create_task(engine.embed([[1] * 500] * 200))
        await asyncio.sleep(0.01)
    with pytest.raises(Overloaded, match="shutting down"):
        await waiting
