"""Products of few rows against torch's, with and without a gate, and the pass that is made of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine.cuda import few_rows
from sluicegate.engine.cuda.fused_launches import gated
from sluicegate.engine.cuda.fused_pass import join, join_gate

HALVES = [torch.bfloat16, torch.float16]


def numbers(device: torch.device, dtype: torch.dtype, *size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).to(device, dtype)


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 64, 128), (3, 192, 256), (16, 128, 896)])
def test_a_product_is_that_of_torch(
    rows: int, columns: int, width: int, biased: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """Also of rows that do not lie side by side."""
    x, weight = numbers(device, dtype, rows, 2 * width)[:, :width], numbers(device, dtype, columns, width)
    bias = numbers(device, dtype, columns) if biased else None
    assert few_rows.takes(x, weight)
    expected = nn.functional.linear(x.float(), weight.float(), None if bias is None else bias.float())
    assert difference(few_rows.product(x, weight, bias), expected) < 5e-3


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_gated_product_is_that_of_two_and_the_gate(rows: int, dtype: torch.dtype, device: torch.device) -> None:
    x, weight = numbers(device, dtype, rows, 256), numbers(device, dtype, 2 * 64, 256)
    expected = gated(nn.functional.linear(x.float(), weight.float()).to(dtype))
    assert few_rows.takes(x, weight, gated=True)
    assert difference(few_rows.gated_product(x, weight), expected) < 2e-2


def test_a_row_is_the_same_bits_alone_and_with_others(device: torch.device) -> None:
    x, weight = numbers(device, torch.bfloat16, 16, 256), numbers(device, torch.bfloat16, 128, 256)
    alone = torch.cat([few_rows.product(row[None], weight) for row in x])
    assert torch.equal(alone, few_rows.product(x, weight))


def test_what_tiles_do_not_divide_is_left_to_torch(device: torch.device) -> None:
    x, weight = numbers(device, torch.bfloat16, 2, 128), numbers(device, torch.bfloat16, 64, 128)
    assert not few_rows.takes(numbers(device, torch.bfloat16, 17, 128), weight)
    assert not few_rows.takes(x, numbers(device, torch.bfloat16, 72, 128))
    assert not few_rows.takes(x[:, :100], weight[:, :100])
    assert not few_rows.takes(x.float(), weight.float())
    assert not few_rows.takes(x, weight, gated=True)


@torch.inference_mode()
def test_joined_layers_give_the_same_for_few_rows_and_for_many(device: torch.device) -> None:
    torch.manual_seed(0)
    layers = [
        nn.Linear(256, 64, bias=False, device=device, dtype=torch.bfloat16).requires_grad_(False) for _ in range(2)
    ]
    x = numbers(device, torch.bfloat16, 24, 256)
    for product in (join(layers), join_gate(layers)):
        assert difference(product(x[:4]), product(x)[:4]) < 1e-2
