"""Weights in half precision on a CPU: kept as a checkpoint has them, computed as if they had been widened, to the last
bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.cpu import FAMILIES, CpuSmallLinear, keep_halves
from sluicegate.engine.cpu.kernels.block_rows import read_half_row
from sluicegate.engine.cpu.kernels.products_by_form import ALONE, PRODUCTS
from sluicegate.engine.cpu.packing import unpack
from sluicegate.engine.cpu.small_layers import SmallEmbedding, SmallExperts
from sluicegate.engine.cpu.wanted_logits import WantedLogits
from sluicegate.engine.model.dense import DenseDecoder
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.gguf_files import write_gguf
from tests.engine.lora import TARGETS, write_adapter
from tests.engine.test_gguf import needs_gguf
from tests.engine.test_gguf_blocks import WIDE
from tests.engine.test_wanted_logits import ROWS, UNTOUCHED, Pass, masks_of
from tests.engine.tiny_models import save_tiny

KINDS = [torch.bfloat16, torch.float16]


def in_halves(folder: Path, kind: torch.dtype = torch.bfloat16) -> Path:
    """Save the checkpoint in `folder` in half precision; return it."""
    file = folder / "model.safetensors"
    save_file({name: one.to(kind) for name, one in load_file(file).items()}, file, {"format": "pt"})
    return folder


def scores(model: Any, chunk: int = 16, forward: Any = "auto") -> torch.Tensor:
    runner = ModelRunner(model, 16, 4, RunnerOptions(forward=forward))
    assert runner.is_compiled == (forward == "auto")
    return runner.score(np.array(prompts([40])[0]), chunk=chunk)


def all_products(form: int, x: torch.Tensor, weight: torch.Tensor, first: int, count: int) -> list[torch.Tensor]:
    """Compute some columns: stored, added to what is there, and of one row by the product for few columns."""
    made = []
    for onto in (0, 1):
        out = torch.full((len(x), count), 7.0)
        read, k = (x.data_ptr(), 4 * x.shape[1], 0, 0, len(x), weight.data_ptr(), 0), x.shape[1]
        PRODUCTS[form](*read, k, first, count, out.data_ptr(), 4 * count, onto)
        made.append(out)
    if len(x) == 1:
        out = torch.full((1, count), 7.0)
        ALONE[form](*read, k, first, count, out.data_ptr(), 4 * count, 0)
        made.append(out)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [16, 48, 1024 + 512 + 16])
def test_a_product_with_halves_is_that_of_the_widened_weight_to_the_last_bit(kind: torch.dtype, k: int) -> None:
    """Every remainder of rows and columns, from any column on; weights of all sizes, subnormal ones and zeros among
    them."""
    torch.manual_seed(k)
    weight = (torch.randn(61, k) * 10.0 ** torch.randint(-8, 4, (61, k))).to(kind)
    weight[3] = 0
    packed, wide = keep_halves(weight), weight.float()
    for rows in (1, 2, 3, 5, 8, 13):
        x = torch.randn(rows, k)
        for first, count in ((0, 61), (5, 1), (37, 24)):
            found = all_products(packed.form, x, packed.data, first, count)
            assert all(map(torch.equal, found, all_products(0, x, wide, first, count)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_a_table_in_halves_is_widened_to_the_last_bit(kind: torch.dtype) -> None:
    packed = keep_halves(torch.randn(9, 48).to(kind))
    ids, found = torch.tensor([[3, 8, 3]]), np.empty(48, np.float32)
    assert torch.equal(SmallEmbedding(packed)(ids), packed.data.float()[ids])
    for row in (0, 8):
        read_half_row(packed.form, packed.data.data_ptr(), row, 48, np.float32(1), found.ctypes.data)
        assert np.array_equal(found, unpack(packed)[row].numpy())


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_a_checkpoint_in_halves_is_computed_to_the_last_bit_as_if_it_was_widened(family: str, tmp_path: Path) -> None:
    """By whatever code it is loaded, in chunks of any length; it is the same version of the model."""
    folder = in_halves(save_tiny(tmp_path, family))
    kinds = []
    for _ in range(2):
        model, wide = load_model(folder), load_model(folder, dtype="float32")
        kinds.append(type(model.module).__name__)
        expected = scores(wide)
        assert torch.equal(scores(model), expected)
        assert torch.equal(scores(model, chunk=1), expected)
        assert torch.allclose(scores(model, forward="transformers"), expected, atol=1e-3)
        assert (model.version, model.parameter_count) == (wide.version, wide.parameter_count)
        assert model.weight_bytes < 0.52 * wide.weight_bytes
    assert kinds[0] in FAMILIES
    assert (kinds[1] == DenseDecoder.__name__) == (family != "mistral")  # of windows ours is no code


@pytest.mark.parametrize("stored", [1, 2])
def test_a_tied_table_in_halves_is_kept_once(stored: int, tmp_path: Path) -> None:
    """Also where a checkpoint holds it under both of its names, as Qwen3's small ones do."""
    folder = in_halves(save_tiny(tmp_path, tie_word_embeddings=True))
    tensors = load_file(folder / "model.safetensors")
    if stored == 2:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    model = load_model(folder)
    assert model.module.get_input_embeddings().packed is model.module.get_output_embeddings().packed


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss", "llama4", "mixtral", "qwen3_moe", "qwen3_next"])
def test_other_families_and_experts_keep_halves_and_answer_as_widened(family: str, tmp_path: Path) -> None:
    """Experts that lie as [k, n] in a checkpoint, too; of one that the model's own code multiplies, nothing."""
    folder = in_halves(save_tiny(tmp_path, family))
    model, wide = load_model(folder), load_model(folder, dtype="float32")
    expected = scores(wide, forward="transformers")
    assert torch.allclose(scores(model, forward="transformers"), expected, atol=1e-3)
    assert torch.allclose(scores(model, chunk=7, forward="transformers"), expected, atol=1e-3)
    assert (model.version, model.parameter_count) == (wide.version, wide.parameter_count)
    parts = list(model.module.modules())
    assert any(isinstance(part, CpuSmallLinear) for part in parts)
    keeps = [part for part in parts if isinstance(part, SmallExperts)]
    assert bool(keeps) == (family in ("gpt_oss", "mixtral", "qwen3_moe", "qwen3_next"))
    if keeps:
        assert model.weight_bytes < 0.75 * wide.weight_bytes


@pytest.mark.parametrize(("how", "within"), [({}, 1e-3), ({"weights": "int8"}, 0.5)])
def test_a_model_whose_norms_have_no_weights_is_served_with_all_others_packed(
    how: Any, within: float, tmp_path: Path
) -> None:
    folder = in_halves(save_tiny(tmp_path, "olmo", tie_word_embeddings=True))
    model, wide = load_model(folder, **how), load_model(folder, dtype="float32")
    assert (model.dtype, model.parameter_count) == (wide.dtype, wide.parameter_count)
    assert not any(parameter.numel() for parameter in model.module.parameters())
    assert (scores(model, forward="transformers") - scores(wide, forward="transformers")).abs().mean() < within


def test_halves_are_widened_where_no_product_reads_them(tmp_path: Path) -> None:
    """Widths that do not fill a register; a merged adapter, whose sums do not fit their half."""
    narrow = load_model(in_halves(save_tiny(tmp_path / "narrow", "llama", intermediate_size=72)))
    kept = {name for name, part in narrow.module.named_modules() if isinstance(part, CpuSmallLinear)}
    assert "model.layers.0.mlp.up_proj" in kept
    assert "model.layers.0.mlp.down_proj" not in kept
    folder = in_halves(save_tiny(tmp_path))
    merged = load_model(folder, adapter=str(write_adapter(tmp_path / "adapter", folder, TARGETS["llama"])))
    assert not any(isinstance(part, CpuSmallLinear) for part in merged.module.modules())


def test_a_half_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"layers\.1\.mlp\.up_proj\.weight' holds numbers that are NaN"):
        load_model(in_halves(folder))


async def test_a_checkpoint_in_halves_is_served_alone_and_mixed(tmp_path: Path) -> None:
    folder = in_halves(save_tiny(tmp_path))
    found = []
    for threads, dtype in ((1, None), (2, None), (1, "float32")):
        model = load_model(folder, name="m", dtype=dtype)
        jobs = [a_job(model, prompt, max_tokens=8, ignore_eos=True) for prompt in prompts([3, 25, 40])]
        async with serving(model, max_batch_tokens=13, threads=threads) as engine:
            found.append([(await run(engine, job))[0].tokens for job in jobs])
            found.append([result.tokens for result in await run(engine, *jobs)])
    assert all(answers == found[0] for answers in found)


def test_logits_that_masks_allow_keep_their_bits_where_the_vocabulary_is_in_halves(tmp_path: Path) -> None:
    compute = Pass(load_model(in_halves(save_tiny(tmp_path))))
    allowed = [[3, 15, 16, 17, 100, 265], [31, 32, 47, 48], [264]]
    told = WantedLogits(ROWS)
    told.mark_refused(masks_of(compute.vocab, allowed), [0, 5, 12])
    whole, few = compute(), compute(told)
    for row, tokens in zip((0, 5, 12), allowed, strict=True):
        assert torch.equal(whole[row, tokens], few[row, tokens])
        assert (few[row] == UNTOUCHED).sum() > 200


@needs_gguf
@pytest.mark.parametrize("kind", ["BF16", "F16"])
def test_matrices_of_a_gguf_file_in_halves_stay_so(kind: str, tmp_path: Path) -> None:
    """Those of queries and keys lie in another order in the file."""
    folder = save_tiny(tmp_path, **WIDE)
    half = {"BF16": torch.bfloat16, "F16": torch.float16}[kind]

    def halved(matrix: np.ndarray) -> np.ndarray:
        made = torch.from_numpy(matrix).to(half).view(torch.int16).numpy()
        return made.view(np.float16) if kind == "F16" else made.view(np.uint8)

    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "m.gguf", blocks=halved, kind=kind)
    model, wide = load_model(file), load_model(file, gguf="full")
    assert torch.equal(scores(model), scores(wide))
    assert model.weight_bytes < 0.52 * wide.weight_bytes
    assert model.notes == (f"matrices keep the numbers of its GGUF file: 16 in {kind}",)
