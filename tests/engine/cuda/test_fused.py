"""Kernels between a layer's products against torch and the code of `transformers`, and the pass made of them against
the model's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine import load_model
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.cuda.fused_launches import gated, normalised, placed
from sluicegate.engine.cuda.fused_pass import can_join, join
from sluicegate.engine.cuda.small_layers import CudaSmallLinear
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.engine.model.loading import load_lora
from sluicegate.engine.settings import KVKind, WeightsKind
from tests.engine.conftest import MakeModel
from tests.engine.lora import TARGETS, write_adapter

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
BLOCK = 4


def close(found: Tensor, expected: Tensor) -> bool:
    """Return whether the tensors are one rounding apart, where a sum was made in another order. Triton's interpreter
    cuts bfloat16 off where devices round it, which several times over is more."""
    limits = {torch.float32: (1e-5, 2e-6), torch.float16: (1e-3, 2**-9), torch.bfloat16: (0.05, 2**-5)}
    least, share = limits[expected.dtype]
    return torch.allclose(found, expected, atol=least, rtol=share)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 48), (2, 257), (5, 1000)])
@torch.inference_mode()
def test_sums_and_their_norms_are_those_of_transformers(
    rows: int, width: int, dtype: torch.dtype, device: torch.device
) -> None:
    torch.manual_seed(width)
    norm = LlamaRMSNorm(width, eps=1e-5).to(device, dtype)
    norm.weight.data = torch.randn(width, device=device).to(dtype)
    x, added = (torch.randn(rows, width, device=device).to(dtype) for _ in range(2))
    alone = normalised(x.clone(), None, norm.weight, 1e-5)
    assert close(alone, norm(x))
    whole = x.clone()
    found = normalised(whole, added, norm.weight, 1e-5)
    assert close(whole, x + added)
    assert dtype == torch.bfloat16 or torch.equal(whole, x + added)
    assert close(found, norm(x + added))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 100), (2, 1025)])
@torch.inference_mode()
def test_the_gate_is_that_of_transformers(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
    """Also where the exponential overflows."""
    torch.manual_seed(width)
    both = (8 * torch.randn(rows, 2 * width, device=device)).to(dtype)
    both[0, 0] = -120
    expected = nn.functional.silu(both[:, :width]) * both[:, width:]
    assert close(gated(both), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kv", ["full", "int8", "fp8"])
@pytest.mark.parametrize(
    ("dim", "heads", "kv_heads", "normed"), [(16, 4, 2, True), (10, 3, 1, False), (80, 2, 2, True)]
)
@torch.inference_mode()
def test_heads_are_turned_and_kept_as_transformers_and_the_pool_do(
    dim: int, heads: int, kv_heads: int, normed: bool, kv: KVKind, dtype: torch.dtype, device: torch.device
) -> None:
    """A slot below 0 keeps nothing."""
    torch.manual_seed(dim)
    tokens, shape = 5, LayerShape(kv_heads, dim, dim, heads)
    qkv = torch.randn(tokens, (heads + 2 * kv_heads) * dim, device=device).to(dtype)
    angles = torch.randn(tokens, dim // 2, device=device).repeat(1, 2)
    turns = angles.cos().to(dtype), angles.sin().to(dtype)
    norms = [LlamaRMSNorm(dim, eps=1e-6).to(device, dtype) for _ in range(2)]
    for norm in norms:
        norm.weight.data = torch.randn(dim, device=device).to(dtype)
    by_head = qkv.view(1, tokens, -1, dim)
    query, key, value = torch.split(by_head, [heads, kv_heads, kv_heads], 2)  # type: ignore[no-untyped-call]
    if normed:
        query, key = norms[0](query), norms[1](key)
    query, key = apply_rotary_pos_emb(query.transpose(1, 2), key.transpose(1, 2), *(turn[None] for turn in turns))
    found, expected = (KVPool([shape], 3, BLOCK, dtype, device, kv=kv) for _ in range(2))
    slots = torch.tensor([9, -1, 0, 3, 7], device=device)
    kept = slots >= 0
    expected.write(0, slots[kept], key[:, :, kept], value.transpose(1, 2)[:, :, kept])
    weights = (norms[0].weight, norms[1].weight) if normed else None
    turned = placed(found, 0, slots, qkv.clone(), turns, weights, 1e-6)
    assert close(turned, query)
    for mine, theirs in ((found.keys, expected.keys), (found.values, expected.values)):
        if kv == "full":
            assert close(mine[0], theirs[0])
    if kv != "full":
        every = torch.arange(3, device=device)[None]
        for read, written in zip(found.gather(0, every), expected.gather(0, every), strict=True):
            error = (read.float() - written.float()).norm() / written.float().norm()
            assert error < (0.02 if kv == "int8" else 0.03)
        nowhere = torch.ones(3 * BLOCK, dtype=torch.bool, device=device)
        nowhere[slots[kept]] = False
        assert not found.keys[0].flatten(0, 1)[nowhere].any()
        assert not found.key_scales[0].flatten(0, 1)[nowhere].any()


@pytest.mark.parametrize("weights", ["full", "int8", "int4"])
@torch.inference_mode()
def test_joined_layers_compute_what_each_does_and_share_their_memory(
    weights: WeightsKind, device: torch.device
) -> None:
    torch.manual_seed(0)
    layers: list[Any] = [nn.Linear(128, width, device=device).requires_grad_(False) for width in (24, 8, 8)]
    if weights != "full":
        layers = [CudaSmallLinear(layer.weight, layer.bias, weights) for layer in layers]
    x = torch.randn(3, 128, device=device)
    expected = torch.cat([layer(x) for layer in layers], -1)
    assert can_join(layers)
    product = join(layers)
    assert torch.allclose(product(x), expected, atol=1e-5)
    assert torch.allclose(torch.cat([layer(x) for layer in layers], -1), expected, atol=1e-5)
    kept = [layer.weight if weights == "full" else layer.data for layer in layers]
    join(layers)
    assert len({part.untyped_storage().data_ptr() for part in kept}) == 1
    assert all(
        a.data_ptr() == (b.weight if weights == "full" else b.data).data_ptr()
        for a, b in zip(kept, layers, strict=True)
    )


def test_layers_of_several_kinds_are_not_joined() -> None:
    plain, biased = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
    assert not can_join([plain, biased])
    assert not can_join([plain, nn.Linear(16, 8, bias=False)])


def prompt(ids: np.ndarray, start: int, end: int) -> StepInputs:
    positions = np.arange(start, end)
    return StepInputs(
        ids[start:end],
        positions,
        positions,
        np.arange(end - start),
        [TokenSpan(start, end - start, np.arange(-(-end // BLOCK)))],
    )


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
@torch.inference_mode()
def test_the_fused_pass_gives_the_logits_of_the_models_own_code(family: str, tiny: MakeModel) -> None:
    """A prompt in two chunks and a token alone, past Mistral's window of 9; the pools are the same then."""
    fused, own = (
        ModelRunner(tiny(family), 16, BLOCK, RunnerOptions(attention="triton", forward=kind))
        for kind in ("auto", "transformers")
    )
    assert fused.is_fused
    assert not own.is_fused
    ids = np.random.default_rng(1).integers(0, 250, 30)
    for start, end in ((0, 3), (3, 25), (25, 26)):
        found, expected = (runner.follow(prompt(ids, start, end)).clone() for runner in (fused, own))
        assert torch.allclose(found, expected, atol=2e-4), (start, end)
    for mine, theirs in zip(fused.pool.keys, own.pool.keys, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)


@torch.inference_mode()
def test_modules_built_otherwise_are_left_to_their_own_code(tiny: MakeModel) -> None:
    assert not ModelRunner(tiny("gemma2"), 8, BLOCK, RunnerOptions(attention="triton")).is_fused


@torch.inference_mode()
def test_a_pass_that_differs_is_refused(
    tiny_folder: Callable[..., Path], device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    """A hook changes what a layer gives, of which the fused pass does not know."""
    model = load_model(tiny_folder("llama", 5), name="changed", device=str(device))
    model.module.model.layers[0].register_forward_hook(lambda _module, _given, out: 3 * out)
    runner = ModelRunner(model, 8, BLOCK, RunnerOptions(attention="triton"))
    assert not runner.is_fused
    assert "the fused forward pass differs" in caplog.text


@torch.inference_mode()
def test_adapters_add_their_products_within_the_fused_pass(
    tiny: MakeModel, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """To their own tokens only."""
    model = tiny("llama")
    path = write_adapter(tmp_path / "adapter", tiny_folder("llama"), TARGETS["llama"])
    adapter = load_lora(model, str(path), "adapter", None)
    fused, own = (
        ModelRunner(model, 16, BLOCK, RunnerOptions(attention="triton", forward=kind))
        for kind in ("auto", "transformers")
    )
    inputs = prompt(np.random.default_rng(2).integers(0, 250, 12), 0, 12)
    adapted = replace(inputs, spans=[(5, 7, adapter)])
    plain = fused.follow(inputs).clone()
    found, expected = (runner.follow(adapted).clone() for runner in (fused, own))
    assert torch.allclose(found, expected, atol=2e-4)
    assert torch.allclose(found[:5], plain[:5], atol=2e-4)
    assert not torch.allclose(found[5:], plain[5:], atol=0.1)
