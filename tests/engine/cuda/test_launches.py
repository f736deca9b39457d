"""Kernels that a decode step launches are counted, so that they do not grow unseen."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from benchmarks.launches import count_step, counting, table
from sluicegate.engine.settings import WeightsKind


@pytest.mark.parametrize(
    ("family", "weights", "layer", "outside"),
    [("tiny", "full", 10, 14), ("tiny", "int8", 10, 14), ("tiny-qwen3", "full", 10, 14)],
)
def test_a_step_launches_no_more_than_this(
    family: str, weights: WeightsKind, layer: int, outside: int, device: torch.device
) -> None:
    """The bounds are today's numbers: whoever needs fewer lowers them."""
    found = count_step(family, device, torch.bfloat16, weights=weights)
    assert found.layer.total() <= layer, table(found)
    assert found.outside.total() <= outside, table(found)
    assert found.layer["triton::attend_tiles"] == 1, "what was counted is the path of CUDA devices"
    assert found.of(32) == 32 * found.layer.total() + found.outside.total()


def test_operations_count_once_and_views_not_at_all() -> None:
    """An operation made of others is not counted beside them."""
    x = torch.ones(4, 4)
    with torch.inference_mode(), counting() as found:
        x.view(2, 8).transpose(0, 1)[1:].unsqueeze(0)
        torch.empty(3)
        torch.nn.functional.linear(x[None], x)
        x.T.contiguous()
        x.contiguous()
        x.to(torch.float32)
        x.to(torch.bfloat16)
        x += 1
        x.chunk(2)
    assert found == {"aten::mm": 1, "aten::clone": 1, "aten::_to_copy": 1, "aten::add_": 1}
