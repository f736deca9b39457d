"""Layers with multi-head latent attention: what the pool keeps of a token is one latent and the shared part of its key.

That answers are those of `generate` is in `test_greedy_equals_transformers`, random traffic in `test_traffic`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine import EngineSettings, ModelSettings, load_model
from sluicegate.engine.attention import latent
from sluicegate.engine.attention.latent import LatentHeads, alike
from sluicegate.engine.attention.paged import Scoring, StepLayout, TokenSpan
from sluicegate.engine.construction import load, make_core
from sluicegate.engine.cpu import CpuSmallLinear
from sluicegate.engine.memory.kv import KVPool, LayerShape, attend
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.engine.settings import KVKind
from sluicegate.plugins import ConfigurationError, ModelLoadError
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, logprobs_by_transformers, prompts, run, serving
from tests.engine.lora import write_adapter
from tests.engine.tiny_models import LATENT, save_tiny

BLOCK, HEADS, OWN, SHARED, WIDE, VALUE = 4, 3, 5, 4, 12, 7
CPU = torch.device("cpu")
Folder = Callable[..., Path]


# --- attention over latents -----------------------------------------------------------------------------------------


def _step(
    stretches: list[tuple[int, int]], kv: KVKind, scoring: Scoring, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend in a step of these stretches: what the layout gives, and what keys and values of all heads give, made of
    what the pool holds."""
    assert scoring.latent is not None
    random = torch.Generator().manual_seed(seed)
    shape = LayerShape(1, SHARED, WIDE, HEADS, scoring.window, is_latent=True)
    pool = KVPool([shape], 64, BLOCK, torch.float32, CPU, kv=kv)
    free, asked, slots, histories = torch.randperm(64, generator=random).numpy(), [], [], []
    for start, count in sorted(stretches, key=lambda one: one[1]):
        table, free = np.split(free, [-(-(start + count) // BLOCK)])
        positions = np.arange(start + count)
        where = torch.from_numpy(table[positions // BLOCK] * BLOCK + positions % BLOCK)
        kept = (torch.randn(1, 1, start + count, width, generator=random) for width in (SHARED, WIDE))
        histories.append((where, *kept))
        asked.append(TokenSpan(start, count, table))
        slots.append(where[start:])
        pool.write(0, where[:start], *(one[:, :, :start] for one in histories[-1][1:]))
    new = [torch.cat([one[at][:, :, -s.count :] for one, s in zip(histories, asked, strict=True)], 2) for at in (1, 2)]
    query = torch.randn(1, HEADS, new[0].shape[2], OWN + SHARED, generator=random)
    found = StepLayout(pool, asked, torch.cat(slots)).attend(0, query, new[0], new[1], scoring)
    expected, token = [], 0
    for (where, _, _), stretch in zip(histories, asked, strict=True):
        table = (torch.from_numpy(stretch.table))[None]
        keys, values = scoring.latent.expand(*pool.gather(0, table))
        keys, values = keys[:, :, : len(where)], values[:, :, : len(where)]
        hidden = scoring.reach.hides(torch.arange(stretch.start, stretch.end), torch.arange(len(where)))
        bias = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))[None, None]
        here = query[:, :, token : (token := token + stretch.count)]
        out = attend(here, keys, values, bias, scoring.scaling, scoring.softcap, scoring.sinks)
        expected.append(out[0].transpose(0, 1))
    return found, torch.cat(expected)


def _heads(seed: int) -> LatentHeads:
    weight = torch.randn(HEADS, OWN + VALUE, WIDE, generator=torch.Generator().manual_seed(seed))
    return LatentHeads(weight, OWN)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=4),
    st.sampled_from([None, 1, 3, 7]),
    st.sampled_from([None, 2.0]),
    st.booleans(),
    st.sampled_from(["full", "full", "int8", "fp8"]),
    st.sampled_from([1 << 24, 1]),
    st.integers(0, 99),
)
def test_attention_is_that_of_all_heads(
    stretches: list[tuple[int, int]],
    window: int | None,
    cap: float | None,
    has_sinks: bool,
    kv: KVKind,
    room: int,
    seed: int,
) -> None:
    """Any mixture of single tokens and chunks, windows, soft caps, sinks and kinds of memory; all at once, or one
    head, token and sequence at a time."""
    sinks = torch.randn(HEADS, generator=torch.Generator().manual_seed(seed)) if has_sinks else None
    scoring = Scoring(0.3, window, cap, sinks, None, _heads(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latent, "ROOM", room)
        found, expected = _step(stretches, kv, scoring, seed)
    assert torch.allclose(found, expected, atol=1e-5)


def test_both_ways_of_a_chunk_are_used_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short chunk far into a prompt reads latents, a long one makes heads; either way gives the other's numbers."""
    heads = _heads(0)._replace(weight=torch.randn(HEADS, OWN + VALUE, WIDE))
    assert not heads.expands(2, 40, SHARED)
    assert heads.expands(200, 240, SHARED)
    scoring = Scoring(0.3, latent=heads)
    for stretch in ((38, 2), (40, 200)):
        as_chosen, expected = _step([stretch], "full", scoring, 1)
        chosen = heads.expands(stretch[1], sum(stretch), SHARED)
        with monkeypatch.context() as patch:
            patch.setattr(LatentHeads, "expands", lambda *_, otherwise=not chosen: otherwise)
            otherwise, _ = _step([stretch], "full", scoring, 1)
        assert torch.allclose(as_chosen, otherwise, atol=1e-5)
        assert torch.allclose(as_chosen, expected, atol=1e-5)


def test_sequences_of_about_one_length_are_padded_together() -> None:
    """No group is more than doubled by padding, none of several has more than was allowed, nobody is left out."""
    lengths = [1, 900, 3, 4, 800, 2, 1, 450, 460, 5]
    groups = alike(lengths, 2000)
    assert sorted(at for group in groups for at in group) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[at] for at in group)
        assert all(longest < 2 * lengths[at] for at in group)
        assert len(group) == 1 or longest * len(group) <= 2000
    assert len(groups) < len(lengths)


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_a_token_of_deepseek_v3_takes_a_seventieth_of_what_its_heads_would() -> None:
    """61 layers in bfloat16: 128 heads with keys of 192 and values of 128, or a latent of 512 and 64 shared numbers."""
    whole = LayerShape(128, 192, 128, 128).bytes_per_token(torch.bfloat16)
    kept = LayerShape(1, 64, 512, 128, is_latent=True).bytes_per_token(torch.bfloat16)
    assert (61 * whole, 61 * kept) == (4_997_120, 70_272)


@pytest.mark.parametrize("family", LATENT)
def test_the_pool_keeps_latents_only(family: str, tiny: MakeModel) -> None:
    """Three layers of a latent of 20 and a shared part of 8, in float32."""
    model = tiny(family)
    assert model.kv_bytes_per_token == 3 * (20 + 8) * 4
    core = make_core(model, EngineSettings(block_size=4, num_blocks=8, threads=1), Outbox())
    assert core._runner.pool.block_bytes == 4 * model.kv_bytes_per_token
    core.close()


def test_an_operator_is_told(tiny_folder: Folder) -> None:
    latent, plain = (load(ModelSettings(str(tiny_folder(one)))).notes for one in ("deepseek_v3", "llama"))
    said = "keeps 84 numbers of each token, compressed, in place of 360 of its heads' keys and values"
    assert set(latent) - set(plain) == {said}


@pytest.mark.parametrize("kv", ["int8", "fp8"])
async def test_latents_are_kept_in_eight_bits_too(kv: KVKind, tiny: MakeModel, tiny_folder: Folder) -> None:
    """With a scale for the latent and one for the shared part; a seeded answer does not depend on how its prompt was
    cut, and logprobs are near those of the model."""
    model, prompt = tiny("deepseek_v3"), prompts([23])[0]
    found = []
    for settings_ in ({}, {"max_batch_tokens": 7}):
        async with serving(model, kv=kv, **settings_) as engine:
            found += await run(engine, a_job(model, prompt, temperature=1.0, seed=5, logprobs=1, ignore_eos=True))
    assert found[0].tokens == found[1].tokens
    expected = logprobs_by_transformers(tiny_folder("deepseek_v3"), prompt + found[0].tokens[0])[len(prompt) - 1 :]
    far = [abs(one.logprob - float(expected[at, one.token_id])) for at, one in enumerate(found[0].logprobs[0])]
    assert 1e-5 < sum(far) / len(far) < (0.1 if kv == "int8" else 0.4)


async def test_latents_that_were_evicted_come_back(tiny: MakeModel) -> None:
    """Blocks go to memory beside the pool and are read again: the same answer, from fewer new tokens."""
    model = tiny("deepseek_v3")
    job, others = a_job(model, prompts([40])[0]), [a_job(model, one) for one in prompts([1, 41, 43])[1:]]
    async with serving(model, num_blocks=16, max_batch_size=1, offload_bytes=1 << 20) as engine:
        first = (await run(engine, job))[0].tokens
        await run(engine, *others)
        assert (await run(engine, job))[0].tokens == first
        assert engine.stats()["kv_blocks_restored_total"] > 0


# --- weights and adapters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["int8", "int4"])
async def test_what_makes_the_heads_stays_whole_where_weights_are_rounded(weights: Any, tmp_path: Path) -> None:
    """Its parts are read in every step; a note says that it is whole. Prompts in chunks have the logprobs of whole
    ones."""
    model = load_model(save_tiny(tmp_path, "deepseek_v3", hidden_size=64), name="m", weights=weights)
    attention = model.module.model.layers[0].self_attn
    assert isinstance(attention.o_proj, CpuSmallLinear)
    assert isinstance(attention.kv_b_proj.weight, torch.nn.Parameter)
    assert "kv_b_proj" in model.notes[0]
    found = []
    for budget in (64, 9):
        async with serving(model, max_batch_tokens=budget) as engine:
            found += await run(engine, a_job(model, prompts([21])[0], logprobs=1, max_tokens=1, ignore_eos=True))
    first, second = (one.logprobs[0][0] for one in found)
    assert first.token_id == second.token_id
    assert first.logprob == pytest.approx(second.logprob, abs=0.1)


def test_a_checkpoint_in_half_precision_keeps_the_rest_so(tmp_path: Path) -> None:
    """What makes the heads is widened: it is computed with as it is."""
    folder = save_tiny(tmp_path, "deepseek_v3", hidden_size=64)
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)
    attention = load_model(folder).module.model.layers[0].self_attn
    assert isinstance(attention.o_proj, CpuSmallLinear)
    assert attention.kv_b_proj.weight.dtype == torch.float32


async def test_a_model_in_half_precision_is_near_the_one_in_float32(tmp_path: Path) -> None:
    """The same chunks and single tokens in bfloat16, as on devices."""
    folder, found = save_tiny(tmp_path, "deepseek_v3", initializer_range=0.1), []
    for dtype in ("float32", "bfloat16"):
        model = load_model(folder, name="m", dtype=dtype)
        async with serving(model, max_batch_tokens=13) as engine:
            job = a_job(model, prompts([40])[0], max_tokens=4, temperature=1.0, seed=1, logprobs=1, ignore_eos=True)
            found.append((await run(engine, job))[0])
    whole, half = ([entry.logprob for entry in one.logprobs[0]] for one in found)
    assert found[0].tokens == found[1].tokens
    assert half == pytest.approx(whole, abs=0.1)
    assert half != whole


def test_an_adapter_on_what_makes_the_heads_is_merged_or_refused(tmp_path: Path, tiny_folder: Folder) -> None:
    """Beside others it would have to change what others' latents are read with."""
    folder = tiny_folder("deepseek_v3")
    adapter = write_adapter(tmp_path / "a", folder, ("model.layers.1.self_attn.kv_b_proj",))
    with pytest.raises(ModelLoadError, match="Merge it into a model of its own"):
        load_lora(load_model(folder), str(adapter), "a")
    merged, plain = (load_model(folder, adapter=one) for one in (str(adapter), None))
    weights = [one.module.model.layers[1].self_attn.kv_b_proj.weight for one in (merged, plain)]
    assert not torch.equal(*weights)


def test_triton_is_refused_by_name(tiny: MakeModel) -> None:
    with pytest.raises(ConfigurationError, match="sections or latents"):
        make_core(tiny("deepseek_v3"), EngineSettings(num_blocks=8, attention="triton"), Outbox())
