"""Choose the attention implementation for a pool's device: the fastest whose results match gathered blocks and SDPA."""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, Scoring, StepLayout, TokenSpan
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.settings import AttentionKind
from sluicegate.plugins import ConfigurationError

_LOG = logging.getLogger(__name__)

MakeLayout = Callable[[KVPool, Seq[TokenSpan], Tensor], AttentionStep]
"""Makes the object that computes a step's attention from a pool, the step's spans (shortest first) and its slot mapping
[T]."""

_TRIAL = ((70, 1), (9, 3), (0, 21), (37, 40))
"""Spans of the trial (start, count): a single token, a draft, a prompt, and a chunk in the middle of a prompt."""


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """The chosen implementation. `name`: `reference`, `triton`, or `triton and varlen`; `reason`: why not a faster one,
    for the log."""

    name: str
    layout: MakeLayout
    reason: str = ""


def choose_attention(pool: KVPool, kind: AttentionKind = "auto") -> AttentionChoice:
    """Return the fastest working implementation: Triton's kernels, with torch's `varlen_attn` for chunks if it can read
    blocks; else gathered blocks.

    Raises `ConfigurationError` where `triton` is asked for and does not work.
    """
    gathers = any(layer.needs_reference for layer in pool.layers)
    if gathers and kind == "triton":
        raise ConfigurationError(
            "engine: attention is 'triton', but the model has attention sinks, sections or latents; set it to 'auto'"
        )
    if gathers or kind == "reference" or (kind == "auto" and pool.device.type != "cuda"):
        return AttentionChoice("reference", StepLayout)
    reason = _refusal_of_triton(pool)
    if reason and kind == "triton":
        raise ConfigurationError(f"engine: attention is 'triton', but {reason}; set it to 'auto'")
    if reason:
        found = AttentionChoice("reference", StepLayout, reason)
    else:
        found = _with_varlen(pool)
    _LOG.info("attention on %s: %s%s", pool.device, found.name, f" ({found.reason})" if found.reason else "")
    return found


def _with_varlen(pool: KVPool) -> AttentionChoice:
    from sluicegate.engine.cuda.layout import TritonLayout
    from sluicegate.engine.cuda.varlen import VarlenLayout, refuse_pool

    reason = refuse_pool(pool) or trial(pool, VarlenLayout)
    if reason:
        return AttentionChoice("triton", TritonLayout, f"no varlen_attn: {reason}")
    return AttentionChoice("triton and varlen", VarlenLayout)


def _refusal_of_triton(pool: KVPool) -> str:
    if find_spec("triton") is None:
        return "triton is not installed: pip install 'sluicegate[cuda]'"
    from sluicegate.engine.cuda.layout import TritonLayout

    return trial(pool, TritonLayout)


@torch.inference_mode()
def trial(pool: KVPool, layout: MakeLayout) -> str:
    """Return why `layout` cannot be used for pools like this one; '' if its results match gathered blocks. Runs on a
    small pool of its own, with each kind of layer once."""
    kinds = list(dict.fromkeys(layer for layer in pool.layers if not layer.is_empty))
    blocks = [-(-(start + count) // pool.block_size) for start, count in _TRIAL]
    small = KVPool(kinds, sum(blocks), pool.block_size, pool.dtype, pool.device, kv=pool.kv)
    tables = np.split(np.random.default_rng(0).permutation(sum(blocks)), np.cumsum(blocks)[:-1])
    stretches = [TokenSpan(start, count, table) for (start, count), table in zip(_TRIAL, tables, strict=True)]
    slots = torch.from_numpy(np.concatenate([_slots(s, pool.block_size) for s in stretches])).to(pool.device)
    try:
        worst = max(_difference(small, layer, stretches, slots, layout) for layer in range(len(kinds)))
    except Exception as error:
        return f"a trial failed with {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
    limit = 1e-4 if pool.dtype == torch.float32 and not pool.is_small else 3e-2
    return "" if worst < limit else f"a trial computed something else (relative difference {worst:.2g})"


def _difference(pool: KVPool, layer: int, stretches: Seq[TokenSpan], slots: Tensor, layout: MakeLayout) -> float:
    """Return the relative difference (norm) between `layout` and gathered blocks; `slots` [T]."""
    shape, generator = pool.layers[layer], torch.Generator().manual_seed(layer)

    def numbers(tokens: int, heads: int, dim: int) -> Tensor:
        made = torch.randn(1, tokens, heads, dim, generator=generator)
        return made.to(pool.device, pool.dtype).transpose(1, 2)

    every = torch.arange(pool.num_blocks * pool.block_size, device=pool.device)
    pool.write(
        layer,
        every,
        numbers(len(every), shape.kv_heads, shape.key_dim),
        numbers(len(every), shape.kv_heads, shape.value_dim),
    )
    query = numbers(len(slots), shape.query_heads, shape.key_dim)
    key = numbers(len(slots), shape.kv_heads, shape.key_dim)
    value = numbers(len(slots), shape.kv_heads, shape.value_dim)
    found, expected = (
        make(pool, stretches, slots).attend(layer, query, key, value, Scoring(window=shape.window)).float()
        for make in (layout, StepLayout)
    )
    return float((found - expected).norm() / expected.norm())


def _slots(stretch: TokenSpan, block_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    positions = np.arange(stretch.start, stretch.end)
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = stretch.table[positions // block_size] * block_size
    return found + positions % block_size
