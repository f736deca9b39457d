"""Products with weights of 8 and 4 bits against those of the weights they stand for, through Triton's interpreter."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine import load_model
from sluicegate.engine.cpu import weight_bytes, weight_count
from sluicegate.engine.cuda.small_layers import CudaSmallLinear, refusal, refusal_of_capability, shrink
from sluicegate.engine.model.notes import what_is_whole
from sluicegate.engine.settings import WeightsKind
from tests.engine.conftest import MakeModel
from tests.engine.tiny_models import save_tiny

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS: list[WeightsKind] = ["int8", "fp8", "int4"]
LOSS = {"int8": 0.01, "fp8": 0.04, "int4": 0.15}
"""Of normally distributed weights, as a share of their norm: about what half a step of each kind is."""


def a_layer(kind: WeightsKind, columns: int, width: int, dtype: torch.dtype) -> tuple[nn.Linear, CudaSmallLinear]:
    torch.manual_seed(columns)
    whole = nn.Linear(width, columns, dtype=dtype, device=DEVICE).requires_grad_(False)
    return whole, CudaSmallLinear(whole.weight, whole.bias, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 33, 128), (5, 70, 384), (20, 64, 256)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_product_is_that_with_what_the_weights_stand_for(
    kind: WeightsKind, rows: int, columns: int, width: int, dtype: torch.dtype
) -> None:
    """Remainders of every tile; rows that do not lie side by side."""
    _, small = a_layer(kind, columns, width, dtype)
    x = torch.randn(rows, 2, width, dtype=dtype, device=DEVICE)[:, 0]
    expected = nn.functional.linear(x.float(), small.weight.float(), small.bias.float())
    found = small(x)
    assert (found.dtype, found.shape) == (dtype, expected.shape)
    assert (found.float() - expected).norm() / expected.norm() < 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_loses_little(kind: WeightsKind) -> None:
    whole = nn.Linear(512, 64, bias=False).requires_grad_(False)
    nn.init.normal_(whole.weight)
    small = CudaSmallLinear(whole.weight, None, kind)
    assert 0 < (small.weight - whole.weight).norm() / whole.weight.norm() < LOSS[kind]


def test_a_row_is_the_same_bits_alone_and_with_others() -> None:
    """As far as a tile holds them; larger batches take larger tiles."""
    _, small = a_layer("int8", 40, 256, torch.float16)
    x = torch.randn(16, 256, dtype=torch.float16, device=DEVICE)
    assert torch.equal(torch.cat([small(row[None]) for row in x]), small(x))


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_model_is_rounded_and_takes_less_memory(kind: WeightsKind, tiny: MakeModel) -> None:
    """Logits are those of the weights that it stands for; layers that no group divides take 8 bits."""
    model = tiny("llama")
    module = copy.deepcopy(model.module).to(DEVICE, torch.bfloat16)
    module.set_attn_implementation("eager")
    ids = torch.tensor([[1, 2, 3, 4, 5]], device=DEVICE)
    whole, numbers, size = copy.deepcopy(module), weight_count(module), weight_bytes(module)
    embedding = module.get_input_embeddings().weight.nbytes
    shrink(module, kind)
    layers = [part for part in module.modules() if isinstance(part, CudaSmallLinear)]
    assert len(layers) == 7 * module.config.num_hidden_layers + 1
    assert all(layer.group == 0 for layer in layers), "widths of 48 and 64 have no groups of 128"
    assert weight_bytes(module) - embedding < 0.62 * (size - embedding)
    assert weight_count(module) >= numbers
    for name, part in module.named_modules():
        if isinstance(part, CudaSmallLinear):
            whole.get_submodule(name).weight = nn.Parameter(part.weight, requires_grad=False)
    expected, found = (one(ids).logits.float() for one in (whole, module))
    assert (found - expected).norm() / expected.norm() < 0.1  # the weights they stand for are rounded to bfloat16 here


def test_experts_that_are_not_rounded_are_said(tmp_path: Path) -> None:
    model = load_model(save_tiny(tmp_path, "mixtral"), name="m")
    module = model.module.to(DEVICE, torch.bfloat16)
    shrink(module, "int8")
    [note] = what_is_whole(module, "int8", "m")
    assert re.search(r"left \d\d % of the weights in full precision, in \d matrices such as .*experts", note)


def test_groups_of_four_bits_take_half_a_byte() -> None:
    _, small = a_layer("int4", 64, 512, torch.bfloat16)
    assert small.data.nbytes == 64 * 512 // 2
    assert small.scales.shape == (64, 4)


def test_what_a_device_cannot_is_refused_with_the_reason() -> None:
    assert refusal("int8", torch.device("cpu"), torch.bfloat16) == "weights = 'int8' needs a CUDA device"
    assert "not torch.float32" in refusal("int8", torch.device("cuda"), torch.float32)
    assert refusal_of_capability("fp8", (8, 0)).startswith(
        "fp8 needs a device of compute capability 8.9, this one has 8.0"
    )
    assert refusal_of_capability("fp8", (9, 0)) == refusal_of_capability("int4", (7, 5)) == ""
