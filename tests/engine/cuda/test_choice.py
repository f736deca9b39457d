"""Which attention is taken, and what is said about it: only what was called and computed the right thing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import Scoring, StepLayout, TokenSpan
from sluicegate.engine.cuda import choice as choice_module
from sluicegate.engine.cuda.choice import choose_attention, trial
from sluicegate.engine.memory.kv import KVPool, LayerShape, attend
from sluicegate.plugins import ConfigurationError

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine.cuda.layout import TritonLayout
from sluicegate.engine.cuda.varlen import VarlenLayout, refuse_pool

CPU = torch.device("cpu")
HAS_GPU = torch.cuda.is_available()


def a_pool(
    dtype: torch.dtype = torch.float32, layers: Sequence[LayerShape] = (LayerShape(2, 16, 16, 4),), **more: Any
) -> KVPool:
    return KVPool(layers, 8, 16, dtype, torch.device("cuda") if HAS_GPU else CPU, **more)


@pytest.mark.skipif(HAS_GPU, reason="a GPU is asked first")
def test_a_cpu_has_the_reference_unless_the_kernels_are_asked_for() -> None:
    assert choose_attention(a_pool()).layout is StepLayout
    assert choose_attention(a_pool(), "reference").layout is StepLayout
    asked = choose_attention(a_pool(), "triton")
    assert (asked.name, asked.layout) == ("triton", TritonLayout)


@pytest.mark.skipif(HAS_GPU, reason="varlen_attn may work there")
def test_what_was_taken_and_why_no_more_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """In half precision `varlen_attn` is really called, and refuses tensors of a CPU."""
    caplog.set_level(logging.INFO)
    choose_attention(a_pool(torch.bfloat16), "triton")
    (line,) = [record.getMessage() for record in caplog.records if "attention on" in record.getMessage()]
    assert line.startswith("attention on cpu: triton (no varlen_attn: a trial failed with ")


def test_attention_that_computes_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(TritonLayout):
        def attend(self, layer: int, query: Tensor, *rest: Any, **named: Any) -> Tensor:
            return super().attend(layer, query * 1.2, *rest, **named)

    class Broken(TritonLayout):
        def attend(self, *_: Any, **__: Any) -> Tensor:
            raise RuntimeError("no kernel image is available\nfor this device")

    assert trial(a_pool(), TritonLayout) == ""
    assert trial(a_pool(), Wrong).startswith("a trial computed something else (relative difference 0.")
    assert trial(a_pool(), Broken) == "a trial failed with RuntimeError: no kernel image is available"
    monkeypatch.setattr("sluicegate.engine.cuda.layout.TritonLayout", Broken)
    with pytest.raises(ConfigurationError, match=r"attention is .triton., but a trial failed.*set it to 'auto'"):
        choose_attention(a_pool(), "triton")


def test_without_triton_blocks_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_module, "find_spec", lambda name: None)
    assert choice_module._refusal_of_triton(a_pool()) == "triton is not installed: pip install 'sluicegate[cuda]'"


def test_each_kind_of_layer_is_tried() -> None:
    """Windows, and keys wider than values."""
    layers = [LayerShape(2, 16, 16, 4), LayerShape(2, 16, 16, 4, 9), LayerShape(1, 24, 16, 3)]
    assert trial(a_pool(layers=layers), TritonLayout) == ""


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (a_pool(), "it reads keys in half precision, not torch.float32"),
        (a_pool(torch.bfloat16, kv="int8"), "it reads keys in half precision, not int8"),
        (a_pool(torch.bfloat16, [LayerShape(1, 24, 16, 3)]), "keys and values differ in width"),
        (a_pool(torch.float16), ""),
    ],
)
def test_what_varlen_does_not_know_is_known_before_it_is_called(pool: KVPool, said: str) -> None:
    assert refuse_pool(pool) == said


def by_its_documentation(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor | None, max_q: int, max_k: int, *,
    scale: float | None = None, window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
    seqused_k: Tensor, block_table: Tensor, num_splits: int | None = None,
) -> Tensor:  # fmt: skip
    """Do what torch's documentation says of `varlen_attn` with block tables: query [T, H, D], pages [n, page, H_kv,
    D]."""
    assert (cu_seq_k, window_size[1], num_splits) == (None, 0, 1)
    assert enable_gqa == (query.shape[1] != key.shape[2])
    assert {cu_seq_q.dtype, seqused_k.dtype, block_table.dtype} == {torch.int32}
    parts = []
    for row, length in enumerate(seqused_k.tolist()):
        first, last = cu_seq_q[row : row + 2].tolist()
        assert last - first <= max_q
        assert length <= max_k
        keys, values = (pages[block_table[row].long()].flatten(0, 1)[:length] for pages in (key, value))
        at = torch.arange(length - (last - first), length)
        distance = at[:, None] - torch.arange(length)
        hidden = (distance < 0) | ((distance > window_size[0]) if window_size[0] >= 0 else False)
        bias = torch.zeros(distance.shape).masked_fill(hidden, float("-inf"))[None, None].to(query.dtype)
        asked, keys, values = (tensor.transpose(0, 1)[None] for tensor in (query[first:last], keys, values))
        parts.append(attend(asked, keys, values, bias, scale, None)[0].transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.skipif(HAS_GPU, reason="there the function itself is called by the trial")
@pytest.mark.parametrize("window", [None, 7])
def test_chunks_go_to_varlen_with_what_it_wants(window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own kernel keeps single tokens, and whatever has capped scores."""
    calls = 0

    def counted(*given: Any, **named: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return by_its_documentation(*given, **named)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", counted)
    layer = LayerShape(2, 16, 16, 4, window)
    assert trial(a_pool(torch.float16, [layer]), VarlenLayout) == ""
    assert calls == 1
    pool = a_pool(torch.float16, [layer])
    query, key = torch.randn(1, 4, 12, 16).half(), torch.randn(1, 2, 12, 16).half()
    layout = VarlenLayout(pool, [TokenSpan(0, 12, np.array([0]))], torch.arange(12))
    layout.attend(0, query, key, key, Scoring(window=window, softcap=3.0))
    assert calls == 1
