"""The compiled forward pass: the same numbers as torch and `transformers`, whatever else is computed with them."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise
from itertools import product as product_of
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.cpu.kernels.attention import attend_block, scratch_floats
from sluicegate.engine.cpu.kernels.blends import blend
from sluicegate.engine.cpu.kernels.products import multiply
from sluicegate.engine.cpu.kernels.transposed import multiply_turned, turn_rows
from sluicegate.engine.cpu.operations import tokens_a_task
from sluicegate.engine.memory.kv import KVPool, LayerShape, attend
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.tiny_models import save_tiny

COMPILED = ("llama", "qwen2", "qwen3", "mistral", "llama_yarn", "llama3_rope", "gemma3")
BLOCK = 4


def product(x: torch.Tensor, w: torch.Tensor, onto: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.full((len(x), len(w)), float("nan")) if onto is None else onto.clone()
    strides = 4 * x.stride(0), 4 * w.stride(0), 4 * out.stride(0)
    where = x.data_ptr(), w.data_ptr(), out.data_ptr()
    multiply(
        where[0],
        strides[0],
        len(x),
        where[1],
        strides[1],
        x.shape[1],
        len(w),
        where[2],
        strides[2],
        int(onto is not None),
    )
    return out


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 13, 23])
@pytest.mark.parametrize(("k", "columns"), [(16, 1), (48, 7), (64, 50), (1024 + 512 + 16, 61)])
def test_a_product_is_that_of_torch(rows: int, k: int, columns: int) -> None:
    """Every remainder of rows and columns; k beyond what is summed in registers; stored, and added to what is there."""
    torch.manual_seed(rows)
    x, w, before = torch.randn(rows, k), torch.randn(columns, k), torch.randn(rows, columns)
    assert torch.allclose(product(x, w), x @ w.T, atol=1e-3, rtol=1e-5)
    assert torch.allclose(product(x, w, before), before + x @ w.T, atol=1e-3, rtol=1e-5)


def test_a_row_of_a_product_does_not_depend_on_the_others_to_the_last_bit() -> None:
    x, w = torch.randn(23, 1600), torch.randn(61, 1600)
    whole = product(x, w)
    for first, last in pairwise((0, 1, 3, 7, 15, 23)):
        assert torch.equal(product(x[first:last], w), whole[first:last])


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("width", [16, 96])
def test_a_blend_is_a_product_with_the_values(rows: int, width: int) -> None:
    shares, values, out = torch.rand(rows, 20), torch.randn(20, width), torch.ones(rows, width)
    blend(shares.data_ptr(), 80, rows, values.data_ptr(), 4 * width, 20, width, out.data_ptr(), 4 * width)
    assert torch.allclose(out, 1 + shares @ values, atol=1e-5)


@pytest.mark.parametrize(("rows", "width", "keys"), [(1, 16, 3), (7, 48, 40), (64, 64, 128)])
def test_a_product_with_keys_turned_on_their_side_is_the_same_to_the_last_bit(rows: int, width: int, keys: int) -> None:
    x, w = torch.randn(rows, width), torch.randn(keys, width)
    turned, out = torch.zeros(width, keys + 40), torch.empty(rows, keys + 40)
    turn_rows(w.data_ptr(), 4 * width, keys, width, turned.data_ptr(), 4 * (keys + 40))
    where = x.data_ptr(), turned.data_ptr(), out.data_ptr()
    multiply_turned(where[0], 4 * width, rows, where[1], 4 * (keys + 40), width, keys, where[2], 4 * (keys + 40))
    assert torch.equal(turned[:, :keys], w.T)
    assert torch.equal(out[:, :keys], product(x, w))


HEADS, KV_HEADS, DIM = 4, 2, 32
GROUP = HEADS // KV_HEADS


def pool_and_table(end: int) -> tuple[KVPool, np.ndarray, torch.Tensor, torch.Tensor]:
    """Make `end` random keys and values [1, KV_HEADS, end, DIM], and the pool that holds them in blocks of any
    order."""
    pool = KVPool([LayerShape(KV_HEADS, DIM, DIM, HEADS)], 128, BLOCK, torch.float32, torch.device("cpu"))
    table = np.random.default_rng(end).permutation(128)[: -(-end // BLOCK)].astype(np.int64)
    positions = np.arange(end)
    k, v = torch.randn(1, KV_HEADS, end, DIM), torch.randn(1, KV_HEADS, end, DIM)
    pool.write(0, torch.from_numpy(table[positions // BLOCK] * BLOCK + positions % BLOCK), k, v)
    return pool, table, k, v


def attend_paged(
    pool: KVPool, table: np.ndarray, query: torch.Tensor, start: int, taken: int, window: int = 0, cap: float = 0.0
) -> torch.Tensor:
    """Compute attention of `query` [T, HEADS, DIM] from position `start`, `taken` tokens at a time."""
    out = torch.empty_like(query)
    scratch = torch.empty(scratch_floats(GROUP, BLOCK, DIM))
    for kv, first in product_of(range(KV_HEADS), range(0, len(query), taken)):
        attend_block(
            query[first:, kv * GROUP :].data_ptr(), 4 * HEADS * DIM, min(taken, len(query) - first), GROUP,
            start + first, pool.keys[0].data_ptr(), pool.values[0].data_ptr(), 0, 0, 0,
            table.ctypes.data, BLOCK, kv, KV_HEADS, DIM, DIM, window, DIM**-0.5, cap,
            out[first:, kv * GROUP :].data_ptr(), 4 * HEADS * DIM, scratch.data_ptr(),
        )  # fmt: skip
    return out


@pytest.mark.parametrize("window", [None, 1, 5, 140])
@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize(("start", "count"), [(0, 1), (0, 8), (13, 1), (11, 6), (40, 3), (100, 70), (400, 1)])
def test_attention_in_place_is_that_over_gathered_blocks(
    window: int | None, cap: float | None, start: int, count: int
) -> None:
    """One query and many, within a tile of keys and over several."""
    end, taken = start + count, tokens_a_task(HEADS, KV_HEADS)
    pool, table, k, v = pool_and_table(end)
    query = torch.randn(count, HEADS, DIM)
    out = attend_paged(pool, table, query, start, taken, window or 0, cap or 0.0)
    distance = torch.arange(start, end)[:, None] - torch.arange(end)[None]
    hidden = (distance < 0) | (distance >= (window or end + 1))
    bias = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))[None, None]
    expected = attend(query.transpose(0, 1)[None], k, v, bias, DIM**-0.5, cap)[0].transpose(0, 1)
    assert torch.allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("window", [0, 140])
def test_a_query_is_attended_to_with_the_same_bits_in_chunks_of_any_size(window: int) -> None:
    pool, table, _, _ = pool_and_table(310)
    query = torch.randn(190, HEADS, DIM)
    whole = attend_paged(pool, table, query, 120, tokens_a_task(HEADS, KV_HEADS), window)
    for taken in (1, 3, 8, 50):
        assert torch.equal(attend_paged(pool, table, query, 120, taken, window), whole)


def test_a_nan_in_a_key_or_a_value_reaches_every_query_that_sees_it() -> None:
    """A NaN in a value may also reach an earlier query of its sequence: the request fails either way."""
    for numbers in ("keys", "values"):
        pool, table, _, _ = pool_and_table(310)
        getattr(pool, numbers)[0][table[200 // BLOCK], 200 % BLOCK, :, 5] = float("nan")
        out = attend_paged(pool, table, torch.randn(190, HEADS, DIM), 120, 32)
        assert numbers == "values" or not out[:80].isnan().any()
        assert out[80:].isnan().any(-1).all()


@pytest.mark.parametrize(("family", "compiled"), [*((f, True) for f in COMPILED), ("gemma2", False), ("gpt2", False)])
def test_the_llama_family_and_gemma_3_are_compiled_and_others_are_left_to_transformers(
    family: str, compiled: bool, tiny: MakeModel
) -> None:
    assert ModelRunner(tiny(family), 32, BLOCK).is_compiled is compiled
    assert not ModelRunner(tiny(family), 32, BLOCK, RunnerOptions(forward="transformers")).is_compiled
    assert not ModelRunner(tiny(family), 32, BLOCK, RunnerOptions(attention="reference")).is_compiled


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "int4", "cache"])
def test_gemma_3_is_computed_as_by_its_own_code_in_every_form_of_weights(kind: Any, tmp_path: Path) -> None:
    """Norms that are no ones, sliding and full layers with rotary positions of their own, beyond the window. Where
    activations or keys are rounded, a last bit may decide to which side."""
    folder = save_tiny(tmp_path, "gemma3", initializer_range=0.1)
    file, noise = folder / "model.safetensors", torch.Generator().manual_seed(7)
    tensors = load_file(file)
    for name in sorted(name for name in tensors if "norm" in name):
        tensors[name] += 0.3 * torch.randn(tensors[name].shape, generator=noise)
    kept = torch.bfloat16 if kind == "bfloat16" else torch.float32
    save_file({name: one.to(kept) for name, one in tensors.items()}, file, {"format": "pt"})
    model = load_model(folder, weights=kind if kind.startswith("int") else "full")
    kv: Any = "int8" if kind == "cache" else "full"
    compiled, plain = (
        ModelRunner(model, 16, BLOCK, RunnerOptions(kv=kv, forward=forward)) for forward in ("auto", "transformers")
    )
    assert (compiled.is_compiled, plain.is_compiled) == (True, False)
    text = np.array(prompts([60])[0])
    found, expected = compiled.score(text, chunk=16), plain.score(text, chunk=16)
    assert torch.allclose(found, expected, atol=0.1 if kind in ("int8", "int4", "cache") else 1e-4)
    assert torch.equal(found, compiled.score(text, chunk=7))


@pytest.mark.parametrize(
    "changed", [{"final_logit_softcapping": 30.0}, {"attn_logit_softcapping": 50.0}, {"hidden_activation": "gelu"}]
)
def test_a_gemma_3_with_what_the_program_has_not_is_left_to_transformers(changed: Any, tmp_path: Path) -> None:
    assert not ModelRunner(load_model(save_tiny(tmp_path, "gemma3", **changed)), 16, BLOCK).is_compiled


@torch.inference_mode()
def test_more_threads_give_the_same_bits(tiny: MakeModel) -> None:
    model, ids = tiny("qwen3"), np.arange(40) * 7 % 250
    logits = []
    for threads in (1, 3):
        runner = ModelRunner(model, 32, BLOCK, RunnerOptions(threads=threads))
        stretch = TokenSpan(0, 40, np.arange(10))
        positions = np.arange(40)
        decoder = runner._decoder
        assert decoder is not None
        for _ in range(20):
            logits.append(decoder.run(ids, positions, positions, positions, [stretch]).clone())
    assert all(torch.equal(found, logits[0]) for found in logits[1:])


async def test_logprobs_are_the_same_bits_alone_and_in_a_batch_and_in_chunks(tiny: MakeModel) -> None:
    """What makes a seed give the same answer whatever else runs."""
    model = tiny("llama")
    jobs = [a_job(model, p, max_tokens=10, ignore_eos=True, logprobs=1) for p in prompts([3, 25, 40, 9])]
    async with serving(model, max_batch_tokens=200, prefix_caching=False) as engine:
        alone = [(await run(engine, job))[0].logprobs[0] for job in jobs]
        mixed = [result.logprobs[0] for result in await run(engine, *jobs)]
    async with serving(model, max_batch_tokens=13, prefix_caching=False) as engine:
        chunked = [result.logprobs[0] for result in await run(engine, *jobs)]
    assert alone == mixed == chunked


def test_helper_threads_end_with_their_runner(tiny: MakeModel) -> None:
    before = set(threading.enumerate())
    runner = ModelRunner(tiny("llama"), 32, BLOCK, RunnerOptions(threads=3))
    helpers = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("forward-")]
    assert len(helpers) == 2
    del runner
    gc.collect()
    for helper in helpers:
        helper.join(timeout=300)  # with nothing compiled on the machine, it ends once its code is
    assert not any(helper.is_alive() for helper in helpers)
