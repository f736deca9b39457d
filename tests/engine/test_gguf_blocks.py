"""Weights of GGUF files in their blocks: what products with them are, and that nothing of a model is widened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from sluicegate.engine import EngineSettings, load_model
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.checkpoints.gguf.equal_blocks import EQUAL_FORMS, as_equal, equal_form
from sluicegate.engine.checkpoints.gguf.tensors import GgufExperts, GgufTensor
from sluicegate.engine.cpu import BLOCK_NAMES, EIGHT, CpuSmallLinear
from sluicegate.engine.cpu.kernels.block_rows import read_block_row
from sluicegate.engine.cpu.kernels.machine import call_product
from sluicegate.engine.cpu.kernels.products_by_form import PRODUCTS, activation_group
from sluicegate.engine.cpu.kernels.small_products import padded, scale_bytes, shrink_groups
from sluicegate.engine.cpu.packing import Packed, keep_blocks, pack, unpack
from sluicegate.engine.cpu.small_layers import SmallEmbedding, SmallExperts
from sluicegate.engine.cpu.wanted_logits import WantedLogits
from sluicegate.plugins import ConfigurationError, ModelLoadError
from sluicegate.plugins.compiled.kernels import address_of, kernel
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.gguf_files import random_blocks, widened_slowly, write_gguf
from tests.engine.test_gguf import needs_gguf
from tests.engine.test_wanted_logits import ROWS, UNTOUCHED, Pass, masks_of
from tests.engine.tiny_models import save_tiny

KINDS = sorted(BLOCK_NAMES)
MIXED = {"attn_v": "Q6_K", "ffn_down": "Q6_K", "token_embd": "Q6_K", "|output": "Q8_0", "blk": "Q4_K"}
"""As the usual files of 4 bits: two kinds of blocks in one layer."""
WIDE: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "head_dim": 64}


def some_weight(kind: str, n: int = 61, seed: int = 0) -> tuple[Packed, torch.Tensor]:
    """Make a weight in blocks, and the numbers that its bytes stand for."""
    k = 512 if kind.endswith("K") else 480
    rows = random_blocks(kind, n, k, np.random.default_rng(seed))
    packed = keep_blocks([(0, torch.from_numpy(rows))], n, k, BLOCK_NAMES[kind])
    return packed, torch.from_numpy(widened_slowly(kind, rows))


def rounded(x: torch.Tensor, group: int) -> torch.Tensor:
    """Activations as the kernels round them: int8 with a scale for each group."""
    groups = x.unflatten(1, (-1, group))
    units = groups.abs().amax(2, keepdim=True) / 127
    return ((groups / units.clamp_min(1e-30)).round() * units).flatten(1)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_widened_to_what_the_file_says_to_the_last_bit(kind: str) -> None:
    """Whole, some rows, and one row by compiled code, as a table of embeddings is read."""
    packed, expected = some_weight(kind)
    assert torch.allclose(unpack(packed), expected, rtol=1e-6, atol=1e-9)
    ids = torch.tensor([[3, 60, 3], [17, 16, 15]])
    assert torch.equal(SmallEmbedding(packed)(ids), unpack(packed)[ids])
    found = np.empty(packed.k, np.float32)
    for row in (0, 15, 16, 60):
        where = packed.data.data_ptr(), packed.scales.data_ptr()
        read_block_row(packed.form, *where, padded(packed.k), row, packed.k, np.float32(1), found.ctypes.data)
        assert np.array_equal(found, unpack(packed)[row].numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_in_blocks_takes_little_more_than_its_file(kind: str) -> None:
    rows = random_blocks(kind, 64, 2048, np.random.default_rng(0))
    packed = keep_blocks([(0, torch.from_numpy(rows))], 64, 2048, BLOCK_NAMES[kind])
    assert packed.nbytes <= 1.03 * rows.nbytes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 13])
def test_a_product_with_blocks_is_that_of_what_they_stand_for(kind: str, rows: int) -> None:
    packed, expected = some_weight(kind)
    torch.manual_seed(rows)  # numbers half way between two are rounded to either: one draw in 150 holds one
    x, bias = torch.randn(rows, packed.k), torch.randn(61)
    found = CpuSmallLinear(packed, bias)(x)
    assert torch.allclose(found, rounded(x, activation_group(packed.form)) @ expected.T + bias, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_beside_others_is_computed_to_the_last_bit_as_alone(kind: str) -> None:
    layer = CpuSmallLinear(some_weight(kind)[0], None)
    x = torch.randn(11, layer.in_features)
    assert torch.equal(torch.cat([layer(x[:1]), layer(x[1:4]), layer(x[4:])]), layer(x))


@kernel()
def some_columns(x, k, group, stride, rounded, scales, data, units, first, count, out, onto, product):  # type: ignore[no-untyped-def]
    shrink_groups(x, k, group, rounded, scales)
    call_product(product, (rounded, k, scales, stride, 1, data, units, k, first, count, out, 0, onto))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_begin_and_end_anywhere_in_a_panel(kind: str) -> None:
    """And others are neither written nor added to."""
    packed, _ = some_weight(kind)
    k, group = padded(packed.k), activation_group(packed.form)
    x = torch.randn(1, packed.k)
    whole = CpuSmallLinear(packed, None)(x)[0]
    row, small = torch.nn.functional.pad(x, (0, k - packed.k)), np.empty(k, np.int8)
    scales = np.empty(scale_bytes(k, group), np.int8)
    places = small.ctypes.data, scales.ctypes.data, packed.data.data_ptr(), packed.scales.data_ptr()
    for first, count in ((0, 61), (5, 1), (15, 2), (31, 30), (48, 13), (3, 40)):
        for onto in (0, 1):
            out = torch.full((61,), 7.0)
            where = out.data_ptr() + 4 * first
            code = address_of(PRODUCTS[packed.form])
            some_columns(row.data_ptr(), k, group, len(scales), *places, first, count, where, onto, code)
            expected = torch.full((61,), 7.0)
            expected[first : first + count] = whole[first : first + count] + 7 * onto
            assert torch.equal(out, expected), (first, count, onto)


def a_file(tmp_path: Path, family: str = "llama", tied: bool = False, kinds: Any = None, **shape: Any) -> Path:
    folder = save_tiny(tmp_path / family, family, tie_word_embeddings=tied, **WIDE, **shape)
    (tmp_path / "gguf").mkdir(exist_ok=True)
    return write_gguf(folder, tmp_path / "gguf" / f"{family}.gguf", kinds=kinds or MIXED)


def widened(file: Path) -> Any:
    """Load the same model with the same rounding of activations, its weights in float32: what blocks have to
    compute."""
    model = load_model(file, gguf="full")
    blocks = load_model(file)
    for name, part in blocks.module.named_modules():
        if isinstance(part, CpuSmallLinear):
            group = activation_group(part.packed.form)
            model.module.get_submodule(name).register_forward_pre_hook(
                lambda _, given, group=group: rounded(given[0].flatten(0, -2), group).view(given[0].shape)
            )
    return model


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_model_in_blocks_computes_what_its_dequantised_weights_do(family: str, tmp_path: Path) -> None:
    """By the compiled pass and by the model's own code, over chunks of any length; of the llama family rows of queries
    and keys lie in another order in the file."""
    file = a_file(tmp_path, family)
    model, text = load_model(file, name="m"), np.array(prompts([40])[0])
    compiled, own = ModelRunner(model, 16, 4), ModelRunner(model, 16, 4, RunnerOptions(forward="transformers"))
    assert compiled.is_compiled
    expected = ModelRunner(widened(file), 16, 4, RunnerOptions(forward="transformers")).score(text, chunk=16)
    for runner, chunk in ((compiled, 16), (compiled, 1), (own, 16)):
        found = runner.score(text, chunk=chunk)
        assert (found - expected).abs().mean() < 0.03
    exact = ModelRunner(load_model(file, gguf="full"), 16, 4).score(text, chunk=16)
    assert 0 < (compiled.score(text, chunk=16) - exact).abs().mean() < 0.1


@needs_gguf
def test_no_matrix_of_a_file_in_blocks_is_widened_at_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are; and the served model's memory is that of the file's tensors."""
    widths = []
    dequantised = GgufTensor._dequantised

    def noted(self: GgufTensor, low: int, high: int) -> torch.Tensor:
        widths.append(len(self.shape))
        return dequantised(self, low, high)

    monkeypatch.setattr(GgufTensor, "_dequantised", noted)
    file = a_file(tmp_path)
    model = load_model(file)
    assert widths
    assert set(widths) == {1}
    assert model.weight_bytes < 1.05 * file.stat().st_size
    assert model.parameter_count == load_model(file, gguf="full").parameter_count
    assert isinstance(model.module.get_input_embeddings(), SmallEmbedding)


EXPERTS = {"_exps": "Q4_K", "attn": "Q8_0", "_shexp.": "Q8_0", "token_embd": "Q8_0", "|output": "Q8_0"}


@needs_gguf
@pytest.mark.parametrize("family", ["qwen2_moe", "qwen3_moe"])
def test_experts_stay_in_their_blocks_and_compute_what_these_stand_for(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gate and up projections lie apart in a file, and are one matrix of each expert in a model. The widened weights
    are those that `transformers` reads, which takes the widths of experts from its defaults."""
    file = a_file(tmp_path, family, kinds=EXPERTS, moe_intermediate_size=256, shared_expert_intermediate_size=256)
    wide = load_model(file, gguf="full")
    config = {"moe_intermediate_size": 256, "shared_expert_intermediate_size": 256}
    known = {name: value for name, value in config.items() if hasattr(wide.module.config, name)}
    by_transformers = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, config=AutoConfig.from_pretrained(file.parent, gguf_file=file.name, **known)
    )
    assert all(map(torch.equal, wide.module.parameters(), by_transformers.parameters()))
    widened_parts: list[int] = []
    monkeypatch.setattr(GgufExperts, "part", lambda _, index: widened_parts.append(index))
    model, text = load_model(file), np.array(prompts([40])[0])
    assert not widened_parts
    assert model.weight_bytes < 1.1 * file.stat().st_size
    assert model.parameter_count == wide.parameter_count
    assert " in Q4_K" in model.notes[0]
    for mine, theirs in zip(model.module.model.layers, wide.module.model.layers, strict=True):
        assert isinstance(mine.mlp.experts, SmallExperts)
        for packed, weight in zip(mine.mlp.experts.up, theirs.mlp.experts.gate_up_proj, strict=True):
            assert torch.equal(unpack(packed), weight)
        for packed, weight in zip(mine.mlp.experts.down, theirs.mlp.experts.down_proj, strict=True):
            assert torch.equal(unpack(packed), weight)
    found, expected = (ModelRunner(one, 16, 4).score(text, chunk=16) for one in (model, wide))
    assert 0 < (found - expected).abs().mean() < 0.1


@needs_gguf
def test_experts_of_two_kinds_in_one_matrix_are_widened(tmp_path: Path) -> None:
    kinds = {"ffn_up_exps": "Q6_K", **EXPERTS}
    file = a_file(tmp_path, "qwen3_moe", kinds=kinds, moe_intermediate_size=256)
    model, wide = load_model(file), load_model(file, gguf="full")
    mine, theirs = (one.module.model.layers[0].mlp.experts for one in (model, wide))
    assert torch.equal(mine.gate_up_proj, theirs.gate_up_proj)
    rounded_anew = load_model(file, weights="int8").module.model.layers[0].mlp.experts
    assert torch.equal(rounded_anew.down[1].data, pack(theirs.down_proj[1], EIGHT).data)


@needs_gguf
def test_a_tied_table_in_blocks_is_kept_once(tmp_path: Path) -> None:
    model = load_model(a_file(tmp_path, "qwen2", tied=True))
    assert model.module.get_input_embeddings().packed is model.module.get_output_embeddings().packed


@needs_gguf
def test_matrices_of_other_kinds_stay_whole_beside_blocks(tmp_path: Path) -> None:
    """The compiled pass computes such a model too, and a note says what is whole."""
    file = a_file(tmp_path, kinds={"attn_q": "Q4_0", "ffn_down": "Q8_0", "token_embd": "Q4_0"}, initializer_range=0.1)
    model, text = load_model(file, name="m"), np.array(prompts([40])[0])
    compiled, own = ModelRunner(model, 16, 4), ModelRunner(model, 16, 4, RunnerOptions(forward="transformers"))
    assert compiled.is_compiled
    assert (compiled.score(text, chunk=16) - own.score(text, chunk=16)).abs().mean() < 0.05
    [note] = model.notes
    assert note.startswith("matrices keep the numbers of its GGUF file: 3 in Q4_0 and 2 in Q8_0; ")
    assert "% of the weights are in full precision" in note


@pytest.mark.parametrize("kind", EQUAL_FORMS)
def test_blocks_of_another_form_are_rewritten_with_the_same_numbers(kind: str) -> None:
    """To the last bit, as the package `gguf` widens them and as ggml's own loops do."""
    from gguf import GGMLQuantizationType, dequantize

    k = 512 if kind.endswith("K") else 480
    rows, form = random_blocks(kind, 37, k, np.random.default_rng(1)), equal_form(kind)
    packed = keep_blocks([(0, as_equal(kind, torch.from_numpy(rows)))], 37, k, BLOCK_NAMES[form])
    assert np.array_equal(unpack(packed).numpy(), dequantize(rows, GGMLQuantizationType[kind]))
    assert np.allclose(unpack(packed).numpy(), widened_slowly(kind, rows), rtol=1e-6, atol=1e-9)


@needs_gguf
@pytest.mark.parametrize("kind", EQUAL_FORMS)
def test_a_file_whose_blocks_have_no_kernels_is_not_widened(kind: str, tmp_path: Path) -> None:
    """As llama.cpp writes files of 4 bits for matrices whose width is no multiple of 256: nothing is left in full
    precision, and logits are those of the widened weights within the rounding of activations."""
    file = a_file(tmp_path, kinds={"ffn": kind, "blk": "Q8_0", "token_embd": "Q8_0", "|output": "Q8_0"})
    model, text = load_model(file, name="m"), np.array(prompts([40])[0])
    [note] = model.notes
    assert "in full precision" not in note
    runners = [ModelRunner(one, 16, 4, RunnerOptions(forward="transformers")) for one in (model, widened(file))]
    found, expected = (runner.score(text, chunk=16) for runner in runners)
    assert (found - expected).abs().mean() < 0.03


@needs_gguf
def test_experts_whose_blocks_have_no_kernels_are_not_widened(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "moe", "qwen3_moe", tie_word_embeddings=False, moe_intermediate_size=256, **WIDE)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "m.gguf", kinds={"exps": "Q5_0", "blk": "Q8_0", "t": "Q8_0"})
    model, text = load_model(file, name="m"), np.array(prompts([40])[0])
    experts = [part for part in model.module.modules() if isinstance(part, SmallExperts)]
    assert len(experts) == 2
    wide = load_model(file, gguf="full")
    scores = [ModelRunner(one, 16, 4).score(text, chunk=16) for one in (model, wide)]
    assert (scores[0] - scores[1]).abs().mean() < 0.05


@needs_gguf
def test_the_setting_and_the_notes_say_how_a_file_is_kept(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    blocks, full = load_model(file), load_model(file, gguf="full")
    assert blocks.notes == ("matrices keep the numbers of its GGUF file: 1 in Q8_0 and 10 in Q4_K and 5 in Q6_K",)
    assert full.notes == ("its GGUF file was widened: all weights are in full precision",)
    assert len({blocks.version, full.version, load_model(file, weights="int8").version}) == 3
    with pytest.raises(ConfigurationError, match=r"gguf must be one of blocks, full, found 'rows'"):
        EngineSettings.of({"gguf": "rows"})


@needs_gguf
async def test_a_file_in_blocks_is_served_alone_and_mixed(tmp_path: Path) -> None:
    model = load_model(a_file(tmp_path), name="m")
    jobs = [a_job(model, prompt, max_tokens=8, ignore_eos=True) for prompt in prompts([3, 25, 40])]
    async with serving(model, max_batch_tokens=13) as engine:
        alone = [(await run(engine, job))[0].tokens for job in jobs]
        mixed = [result.tokens for result in await run(engine, *jobs)]
    async with serving(model, max_batch_tokens=13, threads=2) as engine:
        assert alone == mixed == [result.tokens for result in await run(engine, *jobs)]


@needs_gguf
@pytest.mark.parametrize("kind", KINDS)
def test_logits_that_masks_allow_keep_their_bits_where_the_vocabulary_is_in_blocks(kind: str, tmp_path: Path) -> None:
    """A mask's tokens lie anywhere in its panels."""
    model = load_model(a_file(tmp_path, kinds={"|output": kind, "blk": "Q4_K", "token_embd": "Q6_K"}))
    compute = Pass(model)
    allowed = [[3, 15, 16, 17, 100, 265], [31, 32, 47, 48], [264]]
    told = WantedLogits(ROWS)
    told.mark_refused(masks_of(model.vocab_size, allowed), [0, 5, 12])
    whole, few = compute(), compute(told)
    for row, tokens in zip((0, 5, 12), allowed, strict=True):
        assert torch.equal(whole[row, tokens], few[row, tokens])
        assert (few[row] == UNTOUCHED).sum() > 200


@needs_gguf
def test_a_scale_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    data = bytearray(file.read_bytes())
    from gguf import GGUFReader

    tensor = next(one for one in GGUFReader(file).tensors if one.name == "blk.1.ffn_up.weight")
    data[int(tensor.data_offset) : int(tensor.data_offset) + 2] = np.float16("inf").tobytes()
    file.write_bytes(bytes(data))
    with pytest.raises(ModelLoadError, match=r"layers\.1\.mlp\.up_proj\.weight' holds numbers that are infinite"):
        load_model(file)
