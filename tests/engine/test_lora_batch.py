"""Adapters chosen by each request: one batch, one base model, and each answer as if its adapter were alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings, load_model
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.plugins import ConfigurationError, Job, ModelLoadError, NotFound, RequestError
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, collect, prompts, reference_model, run, serving
from tests.engine.lora import TARGETS, greedy, linear_layers, with_products, write_adapter
from tests.engine.tiny_models import save_tiny

Folder = Callable[..., Path]
LENGTHS = (1, 5, 17, 40, 16, 33)
TOKENS = 14
COMPILED = ("llama", "qwen2", "qwen3", "mistral", "gemma3")
OTHERS = ("gemma2", "gpt2", "mixtral", "bloom", "phi")


def job_for(model: LoadedModel, name: str, prompt: Any, **fields: Any) -> Job:
    return replace(a_job(model, prompt, max_tokens=TOKENS, ignore_eos=True, **fields), model=name)


@asynccontextmanager
async def with_adapters(model: LoadedModel, adapters: dict[str, Path], **settings: Any) -> AsyncIterator[Engine]:
    async with serving(model, **settings) as engine:
        for name, path in adapters.items():
            await engine.add_model({"path": str(path), "base": model.name, "name": name})
        yield engine


def two_adapters(base: Path, to: Path, targets: tuple[str, ...]) -> dict[str, Path]:
    """Write two adapters: one for many layers, of rank 4 (scale 2), and one for a single layer, of rank 16 (scale
    0.5)."""
    return {
        "wide": write_adapter(to / "wide", base, targets, seed=1, size=0.2),
        "narrow": write_adapter(to / "narrow", base, targets[1:2], rank=16, seed=2, size=0.5),
    }


@pytest.mark.parametrize("family", [*COMPILED, *OTHERS])
async def test_a_batch_of_base_and_adapters_answers_as_each_alone_in_transformers(
    family: str, tiny: MakeModel, tiny_folder: Folder, tmp_path: Path
) -> None:
    """Mixed in every step, prompts in chunks, blocks so scarce that sequences are preempted, prefixes reused, and the
    same prompts for all three, whose keys and values must not meet."""
    model, base = tiny(family), tiny_folder(family)
    targets = TARGETS["gpt2"] if family == "gpt2" else linear_layers(base)
    adapters = two_adapters(base, tmp_path, tuple(name for name in targets if name in model.rowwise))
    alone = {
        family: reference_model(base),
        "wide": with_products(base, adapters["wide"], 2.0),
        "narrow": with_products(base, adapters["narrow"], 0.5),
    }
    asked = [(name, prompt) for prompt in prompts(LENGTHS) for name in alone]
    expected = [greedy(alone[name], prompt, TOKENS) for name, prompt in asked]
    jobs = [job_for(model, name, prompt) for name, prompt in asked]
    for settings in (
        {"max_batch_size": 12, "max_batch_tokens": 512},
        {"max_batch_size": 12, "max_batch_tokens": 13},
        {"max_batch_size": 6, "num_blocks": 16},
    ):
        async with with_adapters(model, adapters, **settings) as engine:
            for _ in range(2):
                assert [result.tokens[0] for result in await run(engine, *jobs)] == expected
            stats = engine.stats()
        assert (stats["kv_cache_usage_ratio"], stats["adapters_loaded"]) == (0, 2)
        assert stats["prefix_cache_hit_tokens_total"] > 0 or stats["preemptions_total"] > 0


@pytest.mark.parametrize("weights", ["full", "int8", "int4"])
@pytest.mark.parametrize("threads", [1, 3])
async def test_the_compiled_pass_computes_adapters_as_the_models_own_code_does(
    weights: Any, threads: int, tmp_path: Path
) -> None:
    """Logprobs within 1e-4 (rounded weights: of the same rounded numbers), and the same bits alone and in a batch."""
    folder = save_tiny(tmp_path, "qwen3", initializer_range=0.1)
    model = load_model(folder, name="base", weights=weights)
    adapters = two_adapters(folder, tmp_path, linear_layers(folder))
    assert ModelRunner(model, 8, 4).is_compiled
    jobs = [job_for(model, name, prompt, logprobs=0) for prompt in prompts(LENGTHS) for name in ("base", *adapters)]
    async with with_adapters(model, adapters, max_batch_size=18, max_batch_tokens=200, threads=threads) as engine:
        single = [(await run(engine, job))[0].logprobs for job in jobs]
        compiled = [result.logprobs for result in await run(engine, *jobs)]
    async with with_adapters(model, adapters, forward="transformers", max_batch_size=18) as engine:
        plain = [result.logprobs for result in await run(engine, *jobs)]
    assert compiled == single
    distances = [
        abs(one.logprob - other.logprob)
        for left, right in zip(compiled, plain, strict=True)
        for one, other in zip(left[0], right[0], strict=True)
        if one.token_id == other.token_id
    ]
    assert len(distances) > 200
    assert float(np.quantile(distances, 0.9)) < (1e-4 if weights == "full" else 0.05)


async def test_an_adapter_may_change_the_embedding_and_the_vocabulary(tmp_path: Path) -> None:
    """The compiled pass has no place for them: steps with such an adapter run through the model's own code."""
    folder = save_tiny(tmp_path, "llama", tie_word_embeddings=False)
    model = load_model(folder, name="base")
    targets = linear_layers(folder, head=True)
    assert {"lm_head", "model.embed_tokens"} <= set(targets)
    adapters = {"all": write_adapter(tmp_path / "all", folder, targets, size=0.1)}
    jobs = [job_for(model, name, prompt) for prompt in prompts(LENGTHS) for name in ("base", "all")]
    models = {"base": reference_model(folder), "all": with_products(folder, adapters["all"], 2.0)}
    async with with_adapters(model, adapters, max_batch_size=12, max_batch_tokens=40) as engine:
        found = [result.tokens[0] for result in await run(engine, *jobs)]
    assert found == [greedy(models[job.model], list(job.prompt.token_ids), TOKENS) for job in jobs]


async def test_guesses_beams_and_choices_keep_to_the_adapter(
    tiny: MakeModel, tiny_folder: Folder, tmp_path: Path
) -> None:
    """As the merged model answers, for what is drawn, searched and guessed; heads and lookup guess beside it."""
    base = tiny_folder("llama")
    adapters = two_adapters(base, tmp_path, linear_layers(base))
    merged = load_model(base, name="llama", adapter=str(adapters["wide"]))
    asked: list[dict[str, Any]] = [
        {"temperature": 0.9, "seed": 3, "n": 3},
        {"use_beam_search": True, "best_of": 4, "n": 2},
        {"temperature": 0.0, "logprobs": 2},
    ]
    prompt = [1, 2, 3, 4] * 6
    async with serving(merged, max_batch_size=8) as engine:
        expected = await run(engine, *(job_for(merged, "llama", prompt, **fields) for fields in asked))
    async with with_adapters(tiny("llama"), adapters, max_batch_size=8) as engine:
        jobs = [job_for(tiny("llama"), name, prompt, **fields) for fields in asked for name in ("llama", "wide")]
        found = (await run(engine, *jobs))[1::2]
    assert [result.tokens for result in found] == [result.tokens for result in expected]


async def test_adapters_never_share_blocks(tiny: MakeModel, tiny_folder: Folder, tmp_path: Path) -> None:
    adapters = two_adapters(tiny_folder("llama"), tmp_path, TARGETS["llama"])
    async with with_adapters(tiny("llama"), adapters) as engine:
        found = {}
        for name in ("llama", "wide", "narrow", "wide"):
            (result,) = await run(engine, job_for(tiny("llama"), name, prompts([33])[0]))
            found.setdefault(name, []).append(result.usage.cached_tokens)
    assert found == {"llama": [0], "wide": [0, 32], "narrow": [0]}


async def test_embeddings_are_those_of_the_adapter(tiny: MakeModel, tiny_folder: Folder, tmp_path: Path) -> None:
    base = tiny_folder("llama")
    adapters = two_adapters(base, tmp_path, linear_layers(base))
    merged = load_model(base, name="merged", adapter=str(adapters["wide"]))
    async with serving(merged) as engine:
        expected = (await engine.embed(["the cat", "a"])).vectors
    async with with_adapters(tiny("llama"), adapters) as engine:
        found = (await engine.embed(["the cat", "a"], model="wide")).vectors
        other = (await engine.embed(["the cat", "a"], model="llama")).vectors
    assert np.allclose(found, expected, atol=1e-5)
    assert not np.allclose(other, expected, atol=1e-2)


# --- coming and going --------------------------------------------------------------------------------------------


async def test_adapters_come_and_go_while_requests_run(tiny: MakeModel, tiny_folder: Folder, tmp_path: Path) -> None:
    """Named by itself and as `base:name`; what runs with it may finish, new requests do not find it."""
    adapters = two_adapters(tiny_folder("llama"), tmp_path, TARGETS["llama"])
    model = tiny("llama")
    long = job_for(model, "x", "the cat")
    long = replace(long, sampling=replace(long.sampling, max_tokens=150))
    async with serving(model) as engine:
        added = await engine.add_model({"path": str(adapters["wide"]), "base": "llama", "name": "x", "version": "v7"})
        assert set(engine.models) == {"llama", "x", "llama:x"}
        assert engine.models["llama:x"] is added
        assert added.version.startswith(f"v7+{model.version}-")
        unnamed = await engine.add_model({"path": str(adapters["narrow"]), "base": "llama"})
        assert unnamed.name == "llama:narrow"
        whole = (await run(engine, long))[0].tokens
        begun = await engine.generate(long)
        await engine.remove_model("x")
        assert (await collect(begun)).tokens == whole
        with pytest.raises(NotFound, match="llama, llama:narrow"):
            await engine.generate(long)
        with pytest.raises(NotFound):
            await engine.generate(replace(long, model="llama:x"))
        again = await engine.add_model({"path": str(adapters["wide"]), "base": "llama", "name": "x"})
        begun = await engine.generate(replace(long, version=again.version))
        await engine.remove_model("x", drain_s=0.0)
        assert (await collect(begun)).reasons == ["cancelled"]
        await engine.remove_model("llama")
        assert dict(engine.models) == {}


async def test_a_replaced_base_keeps_its_adapters(tiny: MakeModel, tiny_folder: Folder, tmp_path: Path) -> None:
    """They are read anew for the new weights; where one does not fit them, nothing changes."""
    adapters = two_adapters(tiny_folder("llama"), tmp_path, linear_layers(tiny_folder("llama")))
    job = job_for(tiny("llama"), "wide", "the cat")
    async with with_adapters(tiny("llama"), adapters) as engine:
        before, version = (await run(engine, job))[0].tokens, engine.models["wide"].version
        with pytest.raises(ModelLoadError, match="for another model"):
            await engine.add_model({"path": str(tiny_folder("gpt2")), "name": "llama"}, replace=True)
        assert (await run(engine, job))[0].tokens == before
        new = tiny_folder("llama", 1)
        await engine.add_model({"path": str(new), "name": "llama"}, replace=True)
        expected = greedy(with_products(new, adapters["wide"], 2.0), list(job.prompt.token_ids), TOKENS)
        assert (await run(engine, job))[0].tokens == [expected]
        assert engine.models["wide"].version != version
        other = write_adapter(tmp_path / "other", new, TARGETS["llama"], seed=9)
        with pytest.raises(RequestError, match="loaded already"):
            await engine.add_model({"path": str(other), "base": "llama", "name": "wide"})
        await engine.add_model({"path": str(other), "base": "llama", "name": "wide"}, replace=True)
        expected = greedy(with_products(new, other, 2.0), list(job.prompt.token_ids), TOKENS)
        assert (await run(engine, job))[0].tokens == [expected]


async def test_what_cannot_stand_beside_a_model_is_refused(
    tiny: MakeModel, tiny_folder: Folder, tmp_path: Path
) -> None:
    big = write_adapter(tmp_path / "big", tiny_folder("llama"), TARGETS["llama"], rank=300)
    strange = write_adapter(tmp_path / "strange", tiny_folder("gpt2"), TARGETS["gpt2"])
    async with serving(tiny("llama")) as engine:
        with pytest.raises(ModelLoadError, match="rank 300; beside a model up to 256"):
            await engine.add_model({"path": str(big), "base": "llama"})
        with pytest.raises(ModelLoadError, match="for another model"):
            await engine.add_model({"path": str(strange), "base": "llama"})
        with pytest.raises(NotFound, match="no model 'lama'"):
            await engine.add_model({"path": str(big), "base": "lama"})
        with pytest.raises(RequestError, match="leads to model 'llama'"):
            await engine.add_model({"path": str(big), "base": "llama", "name": "llama"})
        assert set(engine.models) == {"llama"}
    assert "model.embed_tokens" in tiny("llama").rowwise


def test_settings_of_an_adapter_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'a:x' has a base, so dtype means nothing"):
        ModelSettings.of({"path": "x", "base": "a", "dtype": "bfloat16"})
    with pytest.raises(ConfigurationError, match=r"'y' is to stand beside 'a', which is not among the models \(b\)"):
        EngineSettings.of({"models": {"b": "p", "y": {"path": "x", "base": "a"}}})


async def test_adapters_of_the_settings_are_loaded_after_their_base(tiny_folder: Folder, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", tiny_folder("llama"), TARGETS["llama"])
    models = {"sql": {"path": str(adapter), "base": "small"}, "small": str(tiny_folder("llama"))}
    engine = Engine(EngineSettings.of({"models": models, "num_blocks": 32, "block_size": 4}))
    await engine.start()
    try:
        assert set(engine.models) == {"small", "sql", "small:sql"}
        together = await asyncio.gather(*(engine.generate(a_job(m, "the")) for m in engine.models.values()))  # type: ignore[arg-type]
        assert all([(await collect(one)).reasons[0] is not None for one in together])  # type: ignore[arg-type]
    finally:
        await engine.close()
