"""The whole engine on a real CUDA device: against `generate`, and against the same engine on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import LoadedModel, load_model
from sluicegate.engine.cuda.memory import usable_device
from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins import Job, Prompt, Sampling
from tests.engine.driving import a_job, collect, greedy_by_transformers, prompts, run, serving
from tests.engine.tiny_models import FAMILIES, OTHERS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = (1, 5, 17, 40, 16, 33)
TOKENS = 24
REQUIRED = ["name", "age", "tags", "price"]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 4},
        "price": {"type": "number"},
    },
    "required": REQUIRED,
    "additionalProperties": False,
}
Load = Callable[..., LoadedModel]


@pytest.fixture(scope="module")
def on_device(tiny_folder: Callable[..., Path]) -> Load:
    """Return `on_device(family, dtype, weights)`, a tiny model on the device."""

    @cache
    def load(family: str, dtype: str = "float32", weights: Any = "full") -> LoadedModel:
        return load_model(tiny_folder(family), name=family, device="cuda", dtype=dtype, weights=weights)

    return load


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
async def test_every_way_of_batching_gives_the_answer_of_transformers(
    family: str, on_device: Load, tiny_folder: Callable[..., Path]
) -> None:
    """Alone, mixed and again from the prefix cache, in chunks, with scarce blocks; with captured graphs and without."""
    model, asked = on_device(family), prompts(LENGTHS)
    expected = [greedy_by_transformers(tiny_folder(family), prompt, TOKENS) for prompt in asked]
    jobs = [a_job(model, prompt, max_tokens=TOKENS) for prompt in asked]
    async with serving(model, max_batch_size=8, max_batch_tokens=512) as engine:
        mixed = [result.tokens[0] for result in await run(engine, *jobs)]
        again = [result.tokens[0] for result in await run(engine, *jobs)]
    async with serving(model, max_batch_size=6, max_batch_tokens=10, graphs=False) as engine:
        chunked = [result.tokens[0] for result in await run(engine, *jobs)]
    async with serving(model, max_batch_size=6, num_blocks=16, prefix_caching=False) as engine:
        scarce = [result.tokens[0] for result in await run(engine, *jobs)]
    assert (mixed, again, chunked, scarce) == (expected,) * 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kv", ["full", "int8", "fp8"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
async def test_company_and_chunks_change_no_drawn_token(family: str, kv: str, dtype: str, on_device: Load) -> None:
    """Drawn with seeds alone and among others, by graphs of other sizes, with KV of every kind."""
    model, asked = on_device(family, dtype), prompts(LENGTHS)
    jobs = [a_job(model, prompt, max_tokens=TOKENS, temperature=0.8, top_p=0.9, seed=7) for prompt in asked]
    async with serving(model, max_batch_size=8, max_batch_tokens=512, kv=kv, draft_tokens=0) as engine:
        together = [result.tokens[0] for result in await run(engine, *jobs)]
        alone = [(await run(engine, job))[0].tokens[0] for job in jobs]
    assert together == alone


@pytest.mark.parametrize("weights", ["int8", "int4", "fp8"])
async def test_rounded_weights_answer_nearly_as_the_whole_ones(weights: str) -> None:
    """The bundled model in bfloat16: most of a greedy answer's logprobs stay where they were."""
    whole, small = (load_model("bundled", device="cuda", dtype="bfloat16", weights=kind) for kind in ("full", weights))
    prompt = "<|user|>Invoice INV-7 from Porter Ltd, total EUR 12.50.<|schema|>{invoice_number:string}<|assistant|>"
    found = []
    for model in (whole, small):
        async with serving(model, num_blocks=64, block_size=16) as engine:
            result = (await run(engine, a_job(model, prompt, logprobs=1, max_tokens=8)))[0]
        found.append([entry.logprob for entry in result.logprobs[0]])
    assert found[1][0] == pytest.approx(found[0][0], abs=1.0 if weights == "int4" else 0.3)


async def test_masked_answers_are_valid_and_those_of_the_cpu() -> None:
    """Greedy under a schema with every mask, by graphs, in float32: the same text as the CPU's own loops give."""
    texts = []
    for device in ("cpu", "cuda"):
        model = load_model("bundled", device=device, dtype="float32")
        grammar = compile_json_schema(SCHEMA, _vocabulary(model))
        asked = [
            Job(f"{device}-{n}", model.name, Prompt("", tuple(model.tokenizer.encode(_text(n)))),
                Sampling(max_tokens=80, temperature=0.0), grammar=grammar)
            for n in range(6)
        ]  # fmt: skip
        async with serving(model, num_blocks=256, block_size=16, max_batch_size=8) as engine:
            texts.append([(await collect(await engine.generate(job))).text[0] for job in asked])
    assert texts[0] == texts[1]


def _vocabulary(model: LoadedModel) -> Vocabulary:
    return Vocabulary.from_tokenizer(model.tokenizer, model.vocab_size, eos_token_ids=model.eos_token_ids)


def _text(number: int) -> str:
    return (
        f"<|user|>Ann Lee{number} is {20 + number} years old, likes red and blue and pays {number}.50 EUR."
        "<|schema|>{name:string,age:integer,tags:[red|green|blue],price:number}<|assistant|>"
    )


def test_the_device_is_named() -> None:
    assert usable_device("cuda", "a test").type == "cuda"
