"""Weights in 8 and 4 bits, a KV cache in 8: what the numbers stand for, and that a model still says what it said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate.engine import EngineSettings, load_model
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.checkpoints.stand_ins import ExpertsTensor
from sluicegate.engine.checkpoints.stored_tensors import FileTensor
from sluicegate.engine.cpu.kernels.rows import FP8, shrink, shrink_to_e4m3, widen
from sluicegate.engine.cpu.kernels.small_products import Q4_0, Q6_K, padded, scale_bytes, shrink_groups
from sluicegate.engine.cpu.packing import EIGHT, Packed, pack, pack_runs, unpack
from sluicegate.engine.cpu.small_layers import CpuSmallLinear, SmallEmbedding, SmallExperts
from sluicegate.engine.memory.kv import E4M3, KVPool, LayerShape
from sluicegate.engine.model import checks
from sluicegate.engine.settings import KVKind
from sluicegate.plugins import ConfigurationError, ModelLoadError
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.tiny_models import save_tiny

Folder = Callable[..., Path]
LEFT = {"int8": 2e-3, "fp8": 1e-4}
"""What ties of the rounding move logprobs by; keys read unrounded move them by .006 to .18 in the same models."""


def error_of(weight: torch.Tensor, form: int) -> float:
    return float((unpack(pack(weight, form)) - weight).norm() / weight.norm())


@pytest.mark.parametrize("k", [16, 48, 128, 130, 1600])
def test_packing_keeps_every_weight_within_half_a_step(k: int) -> None:
    torch.manual_seed(k)
    weight = torch.randn(7, k)
    packed = pack(weight, EIGHT)
    assert ((unpack(packed) - weight).abs() <= packed.scales[:, None] * 0.501).all()
    assert error_of(weight, EIGHT) < 0.01
    assert error_of(weight, Q4_0) < 0.09


def test_four_bits_lose_less_than_with_one_step_for_each_group() -> None:
    """Of the largest weight by -8, as ggml takes it: .084 of normally distributed weights."""
    torch.manual_seed(0)
    assert error_of(torch.randn(48, 1024) * 0.02, Q4_0) < 0.0825


def test_six_bits_lose_less_than_ggml_does_in_as_many() -> None:
    """ggml's own rounding to Q6_K leaves .0177 of normally distributed weights, one step without a search .0188; rows
    and columns of other sizes lose no more."""
    torch.manual_seed(0)
    weight = torch.randn(48, 1024) * 0.02
    assert error_of(weight, Q6_K) < 0.0172
    assert error_of(weight * torch.rand(48, 1).square(), Q6_K) < 0.0175
    assert pack(weight, Q6_K).nbytes * 8 == 6.5625 * weight.numel()


def test_six_bits_keep_numbers_of_very_different_sizes_within_a_step() -> None:
    """Within the group's step, which is at least the run's unit, and that is one of float16's."""
    torch.manual_seed(0)
    weight = torch.randn(20, 512) * torch.exp(3 * torch.randn(20, 512)) * torch.logspace(-6, 3, 20)[:, None]
    weight[3, 16:32], weight[4] = 0, 0
    found = unpack(pack(weight, Q6_K))
    largest = weight.unflatten(1, (-1, 16)).abs().amax(2, keepdim=True)
    unit = weight.unflatten(1, (-1, 256)).abs().amax(2) / (32 * 128)
    step = largest / 30 + unit.repeat_interleave(16, 1)[..., None] * 32 + 32 * 6e-8
    assert ((found - weight).unflatten(1, (-1, 16)).abs() <= step).all()
    assert (found[3, 16:32] == 0).all()
    assert (found[4] == 0).all()


@pytest.mark.parametrize("form", [EIGHT, Q4_0, Q6_K])
def test_weights_that_are_all_zero_stay_zero(form: int) -> None:
    assert (unpack(pack(torch.zeros(3, 256), form)) == 0).all()


def rounded(x: torch.Tensor, group: int) -> torch.Tensor:
    """Activations as the kernels round them: int8 with a scale for each group."""
    k = x.shape[1]
    groups = torch.nn.functional.pad(x, (0, -k % 128)).unflatten(1, (-1, group))
    units = groups.abs().amax(2, keepdim=True) / 127
    return ((groups / units.clamp_min(1e-30)).round() * units).flatten(1)[:, :k]


@pytest.mark.parametrize("form", [EIGHT, Q4_0])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 13])
@pytest.mark.parametrize(("k", "columns"), [(16, 1), (48, 7), (1552, 61)])
def test_a_product_is_that_of_what_the_rounded_numbers_stand_for(form: int, rows: int, k: int, columns: int) -> None:
    torch.manual_seed(rows)
    x, bias = torch.randn(rows, k), torch.randn(columns)
    packed = pack(torch.randn(columns, k), form)
    expected = rounded(x, 128 if form == EIGHT else 32) @ unpack(packed).T + bias
    assert torch.allclose(CpuSmallLinear(packed, bias)(x), expected, atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 13])
@pytest.mark.parametrize(("k", "columns"), [(256, 1), (768, 61)])
def test_a_product_with_6_bits_is_that_of_what_they_stand_for(rows: int, k: int, columns: int) -> None:
    torch.manual_seed(rows)
    x, packed = torch.randn(rows, k), pack(torch.randn(columns, k), Q6_K)
    assert torch.allclose(CpuSmallLinear(packed, None)(x), rounded(x, 16) @ unpack(packed).T, atol=2e-3, rtol=1e-4)


def test_a_row_does_not_depend_on_the_others_to_the_last_bit() -> None:
    for form in (EIGHT, Q4_0):
        layer, x = CpuSmallLinear(pack(torch.randn(50, 300), form), None), torch.randn(11, 300)
        assert torch.equal(torch.cat([layer(x[:1]), layer(x[1:4]), layer(x[4:])]), layer(x))


@pytest.mark.parametrize(("form", "k"), [(EIGHT, 200), (Q4_0, 200), (Q6_K, 256)])
@pytest.mark.parametrize("heights", [[37], [1] * 37, [3, 16, 8, 10], [8, 29], [36, 1]])
def test_a_weight_that_comes_in_runs_is_packed_as_a_whole_one(form: int, k: int, heights: list[int]) -> None:
    weight, first, runs = torch.randn(37, k), 0, []
    for height in heights:
        runs.append((first, weight[first : first + height]))
        first += height
    whole, packed = pack(weight, form), pack_runs(runs, 37, k, form)
    assert torch.equal(packed.data, whole.data)
    assert torch.equal(packed.scales, whole.scales)
    assert torch.equal(unpack(packed, slice(3, 12)), unpack(whole)[3:12])


def test_a_nan_is_not_rounded_away() -> None:
    x = torch.ones(1, 64)
    x[0, 3] = float("nan")
    assert CpuSmallLinear(pack(torch.randn(5, 64), EIGHT), None)(x).isnan().all()


@pytest.mark.parametrize("group", [128, 64, 32, 16])
@pytest.mark.parametrize("k", [7, 128, 250, 4 * 128])
def test_activations_are_rounded_to_the_bit_in_whole_groups_and_in_what_is_left(group: int, k: int) -> None:
    """Numbers half way between two go to the even one; zeros stay zeros; a group with a NaN has no scale."""
    x = np.random.default_rng(k).standard_normal(k).astype(np.float32)
    x[:3] = (127, 0.5, 1.5)
    x[2 * group : 3 * group] = 0
    x[3 * group : 3 * group + 1] = np.nan
    padded_k = padded(k)
    found, scales = np.full(padded_k, 99, np.int8), np.zeros(scale_bytes(k, group), np.int8)
    shrink_groups(x.ctypes.data, k, group, found.ctypes.data, scales.ctypes.data)
    groups = np.pad(x, (0, padded_k - k)).reshape(-1, group)
    units = np.abs(groups).max(1) / np.float32(127)
    told, sums = scales[: 4 * len(units)].view(np.float32), scales[4 * len(units) : 8 * len(units)].view(np.int32)
    assert np.allclose(told, units, rtol=1e-6, equal_nan=True)
    inverse = np.divide(np.float32(1), told, out=np.zeros_like(told), where=told > 0)
    whole = ~np.isnan(units)
    expected = np.rint(groups * inverse[:, None])[whole]
    assert np.array_equal(found.reshape(-1, group)[whole], expected)
    assert np.array_equal(sums[whole], -8 * expected.sum(1))


def test_an_embedding_is_read_from_its_packed_weight() -> None:
    weight = torch.randn(20, 48)
    found = SmallEmbedding(pack(weight, EIGHT))(torch.tensor([[3, 19, 3]]))
    assert torch.allclose(found, weight[[3, 19, 3]], atol=0.02)


@pytest.mark.parametrize(("kv", "share"), [("int8", 1 / 200), ("fp8", 1 / 28)])
def test_a_kv_cache_in_8_bits_reads_back_what_was_written(kv: KVKind, share: float) -> None:
    """To a step of the largest number of a head: half of 1 in 127, half of 32 in 448."""
    pool = KVPool([LayerShape(2, 32, 16, 4)], 4, 4, torch.float32, torch.device("cpu"), kv=kv)
    k, v = torch.randn(1, 2, 5, 32), torch.randn(1, 2, 5, 16)
    pool.write(0, torch.tensor([0, 1, 2, 3, 8]), k, v)
    keys, values = pool.gather(0, torch.tensor([[0, 2]]))
    assert torch.allclose(keys[0, :, :5], k[0], atol=float(k.abs().max()) * share)
    assert torch.allclose(values[0, :, :5], v[0], atol=float(v.abs().max()) * share)


def test_floats_of_8_bits_are_those_of_torch() -> None:
    """Every code is read as torch reads it, and every number becomes the code that torch chooses; a tie
    may be decided by the last bit of the scale."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.int8)
    finite = codes.view(E4M3).float().isfinite()
    one, found = torch.ones(1), torch.empty(256)
    widen(codes.data_ptr(), one.data_ptr(), 256, FP8, found.numpy())
    assert torch.equal(found[finite], codes.view(E4M3).float()[finite])
    grid = codes.view(E4M3).float()[finite].sort().values
    middles = (grid[1:] + grid[:-1]) / 2
    sides = torch.cat([middles * (1 + 1e-6), middles * (1 - 1e-6)])
    near = torch.tensor(448.0).nextafter(torch.tensor(0.0))
    numbers = torch.cat([grid, sides, torch.linspace(-448, 448, 4001), torch.randn(4000) / 64, near[None]])
    made = torch.empty(len(numbers), dtype=torch.int8)
    unit = shrink_to_e4m3(numbers.numpy(), made.numpy())  # the largest is 448, so that a unit is worth 1
    assert unit == 1
    assert torch.equal(made, numbers.to(E4M3).view(torch.int8))


@pytest.mark.parametrize("shrunk", [shrink, shrink_to_e4m3])
def test_a_nan_in_a_key_is_kept(shrunk: Any) -> None:
    row, made = np.array([1, np.nan, 2], np.float32), np.empty(3, np.int8)
    assert np.isnan(shrunk(row, made))


@pytest.mark.parametrize("kv", ["int8", "fp8"])
def test_the_compiled_pass_keeps_what_the_pool_keeps(kv: Any, tmp_path: Path) -> None:
    """The same bytes and scales from the compiled pass and from the pool's own writing, but for ties broken by a last
    bit; and the same logprobs from reading them."""
    model, text = load_model(save_tiny(tmp_path, initializer_range=0.1)), np.array(prompts([40])[0])
    compiled, plain = (
        ModelRunner(model, 16, 4, RunnerOptions(kv=kv)),
        ModelRunner(model, 16, 4, RunnerOptions(kv=kv, forward="transformers")),
    )
    assert compiled.is_compiled
    assert torch.allclose(compiled.score(text, chunk=1), plain.score(text, chunk=1), atol=0.02)
    for name in ("keys", "values"):
        mine, theirs = (getattr(runner.pool, name)[0][:10] for runner in (compiled, plain))
        assert (mine == theirs).float().mean() > 0.99
    assert torch.allclose(compiled.pool.key_scales[0], plain.pool.key_scales[0], rtol=1e-4)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral", "gemma2", "mixtral"])
@pytest.mark.parametrize(
    ("weights", "kv", "limit"),
    [("int8", "full", 0.1), ("full", "int8", 0.1), ("full", "fp8", 0.3), ("int8", "fp8", 0.3), ("int4", "int8", 1)],
)
def test_logprobs_stay_near_those_in_full(family: str, weights: Any, kv: Any, limit: float, tmp_path: Path) -> None:
    """Mean distance over the tokens of a text, for weights about as small as real ones."""
    folder = save_tiny(tmp_path, family, initializer_range=0.1)
    text = np.array(prompts([40])[0])
    full, rounded = (
        ModelRunner(load_model(folder, weights=kind), 16, 4, RunnerOptions(kv=cache)).score(text, chunk=16)
        for kind, cache in (("full", "full"), (weights, kv))
    )
    distance = (full - rounded).abs().mean()
    assert 0 < distance < limit


@pytest.mark.parametrize("kv", ["int8", "fp8"])
@pytest.mark.parametrize("family", ["gemma2", "gemma3", "mixtral", "gpt_oss"])
def test_a_rounded_cache_does_not_show_how_a_prompt_was_cut(family: str, kv: Any, tmp_path: Path) -> None:
    """Outside the compiled pass: a chunk at the beginning reads its own keys as rounded as later ones do. What is left
    are ties of the rounding, which the last bit of torch's products decides."""
    model, text = load_model(save_tiny(tmp_path, family, initializer_range=0.1)), np.array(prompts([40])[0])
    options = RunnerOptions(kv=kv, forward="transformers")
    scores = [ModelRunner(model, 16, 4, options).score(text, chunk=chunk) for chunk in (40, 17, 6, 1)]
    for cut in scores[1:]:
        assert torch.allclose(cut, scores[0], atol=LEFT[kv]), (cut - scores[0]).abs().max()


@pytest.mark.parametrize("kv", ["int8", "fp8"])
async def test_a_model_in_8_bits_with_a_cache_in_8_bits_is_served(kv: str, tmp_path: Path) -> None:
    model = load_model(save_tiny(tmp_path), weights="int8")
    jobs = [a_job(model, prompt, max_tokens=8, ignore_eos=True) for prompt in prompts([3, 25, 40])]
    async with serving(model, kv=kv, max_batch_tokens=13) as engine:
        alone = [(await run(engine, job))[0].tokens for job in jobs]
        mixed = [result.tokens for result in await run(engine, *jobs)]
    assert alone == mixed


def test_memory_is_what_was_asked_for(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "llama", hidden_size=256, intermediate_size=512, vocab_size=266)
    full, eight, four = (load_model(folder, weights=kind) for kind in ("full", "int8", "int4"))  # type: ignore[arg-type]
    assert eight.weight_bytes < 0.32 * full.weight_bytes
    assert four.weight_bytes < 0.25 * full.weight_bytes
    assert full.parameter_count == eight.parameter_count == four.parameter_count
    assert len({full.version, eight.version, four.version}) == 3
    assert full.kv_bytes_in(torch.int8) < 0.4 * full.kv_bytes_per_token
    assert ModelRunner(eight, 8, 4, RunnerOptions(kv="int8")).is_compiled


@pytest.mark.parametrize(("width", "head"), [(256, Q6_K), (64, EIGHT)])
def test_a_head_of_a_model_in_4_bits_keeps_6_where_its_inputs_come_in_256(
    width: int, head: int, tmp_path: Path
) -> None:
    """The table of embeddings is the head's; the pass is compiled, and logprobs stay as near as with a head of 8."""
    folder = save_tiny(tmp_path, "llama", hidden_size=width, tie_word_embeddings=True, initializer_range=0.1)
    full, four = load_model(folder), load_model(folder, weights="int4")
    module: Any = four.module
    assert module.lm_head.packed.form == head
    assert module.model.embed_tokens.packed is module.lm_head.packed
    runner, text = ModelRunner(four, 16, 4), np.array(prompts([40])[0])
    assert runner.is_compiled
    plain = ModelRunner(four, 16, 4, RunnerOptions(forward="transformers"))
    assert torch.allclose(runner.score(text, chunk=7), plain.score(text, chunk=7), atol=0.1)
    assert 0 < (ModelRunner(full, 16, 4).score(text, chunk=7) - runner.score(text, chunk=7)).abs().mean() < 1


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "phimoe", "gpt_oss"])
def test_experts_are_rounded_like_other_layers(family: str, weights: Any, tmp_path: Path) -> None:
    """All of them, to the same size; and an expert's row does not depend on the rows beside it."""
    wide = {"hidden_size": 256, "intermediate_size": 256, "initializer_range": 0.05}
    more = {"moe_intermediate_size": 256} if family == "qwen3_moe" else {}
    folder = save_tiny(tmp_path, family, **wide, **more)
    full, small = load_model(folder), load_model(folder, weights=weights)
    assert small.parameter_count == full.parameter_count
    embedding = 266 * 256 * 4
    assert small.weight_bytes - embedding < (0.3 if weights == "int8" else 0.2) * (full.weight_bytes - embedding)
    text = np.array(prompts([30])[0])
    scores = [ModelRunner(model, 16, 4).score(text, chunk=16) for model in (full, small)]
    assert 0 < (scores[0] - scores[1]).abs().mean() < (0.1 if weights == "int8" else 1)
    experts = next(part for part in small.module.modules() if isinstance(part, SmallExperts))
    states, chosen = torch.randn(9, 256), torch.randint(0, 4, (9, 2))
    shares, alone = torch.rand(9, 2), range(9)
    together = experts(states, chosen, shares)
    apart = torch.cat([experts(states[i : i + 1], chosen[i : i + 1], shares[i : i + 1]) for i in alone])
    assert torch.equal(together, apart)


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "phimoe", "gpt_oss"])
def test_experts_are_rounded_one_by_one_as_they_are_read(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what a layer's stacked experts are rounded to; and these are never whole in memory."""
    folder = save_tiny(tmp_path, family)
    whole = dict(load_model(folder).module.named_modules())
    largest, count = [0], FileTensor._copied

    def noted(self: FileTensor, first: int, size: int) -> torch.Tensor:
        largest[0] = max(largest[0], size if len(self.shape) == 3 else 0)
        return count(self, first, size)

    def refused(self: Any) -> torch.Tensor:
        raise AssertionError("experts were read at once")

    monkeypatch.setattr(FileTensor, "_copied", noted)
    monkeypatch.setattr(ExpertsTensor, "read", refused)
    rounded = load_model(folder, weights="int8").module
    found = 0
    for name, part in rounded.named_modules():
        if isinstance(part, SmallExperts):
            own = whole[name]
            for packed, weight in ((part.up, own.gate_up_proj), (part.down, own.down_proj)):
                for one, numbers in zip(packed, weight, strict=True):
                    expected = pack((numbers.T if own.is_transposed else numbers).contiguous(), EIGHT)
                    assert torch.equal(one.data, expected.data)
                    assert torch.equal(one.scales, expected.scales)
                    found += 1
                assert largest[0] <= own.gate_up_proj[0].numel()
    assert found == 24


def test_what_is_not_rounded_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """GPT-2 keeps its layers in a form of its own."""
    model = load_model(save_tiny(tmp_path, "gpt2"), name="m", weights="int8")
    assert model.notes[0] in caplog.text
    assert "in full precision, in 12 matrices such as transformer.h.0.mlp.c_fc.weight" in caplog.text
    caplog.clear()
    assert load_model(save_tiny(tmp_path, "llama"), weights="int8").notes == ()
    assert "in full precision" not in caplog.text


def test_what_cannot_be_rounded_is_refused_with_the_reason(tiny_folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="weights = 'int8' is for float32 on a CPU"):
        load_model(tiny_folder("llama"), dtype="bfloat16", weights="int8")
    with pytest.raises(ModelLoadError, match=r"weights = 'fp8' is for CUDA devices: take 'int8'"):
        load_model(tiny_folder("llama"), weights="fp8")
    with pytest.raises(ConfigurationError, match=r"kv must be one of full, int8, fp8, found 'int4'"):
        EngineSettings.of({"kv": "int4"})


def test_a_packed_weight_says_its_size() -> None:
    packed = pack(torch.randn(10, 256), Q4_0)
    assert isinstance(packed, Packed)
    assert packed.nbytes == 16 * 128 + 16 * 8 * 2  # one panel of 16 outputs


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_deep_model_whose_rounding_grows_is_served_rounded(family: str, tmp_path: Path) -> None:
    """Its two ways to attend differ in last bits, which 32 layers of rounded activations make 0.06 to 0.08 of the
    largest logit; a bit of the embeddings does as much."""
    shape: dict[str, Any] = {"hidden_size": 128, "head_dim": 32, "intermediate_size": 128, "num_hidden_layers": 32}
    folder = save_tiny(tmp_path, family, initializer_range=0.2, **shape)
    assert load_model(folder, weights="int8").notes == ()


def test_a_rounded_model_is_refused_where_more_than_rounding_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the tokens of later chunks are read at positions behind their own."""
    shape: dict[str, Any] = {"hidden_size": 128, "head_dim": 32, "intermediate_size": 128, "num_hidden_layers": 32}
    folder = save_tiny(tmp_path, "llama", initializer_range=0.2, **shape)
    forward = checks._forward

    def shifted(module: Any, ids: Any, start: int, paged: Any) -> Any:
        return forward(module, ids, 2 * start, paged)

    monkeypatch.setattr(checks, "_forward", shifted)
    with pytest.raises(ModelLoadError, match="computes other logits through the paged KV cache"):
        load_model(folder, weights="int8")
