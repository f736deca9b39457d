"""How the paged KV cache gets into a `transformers` model: one registered attention function, one object per step.

The model code calls `paged_attention` in every layer with this step's q, k, v and hands through the keyword `paged`,
the step's layout. All sequences of a step lie in one flattened row of T tokens; the layout knows which tokens belong to
which sequence, where their keys and values go, and what each may see.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.kv import KVPool, LayerShape, attend

ATTENTION_NAME = "sluicegate_paged"


class AttentionStep(Protocol):
    """One layer's attention within a step: q [1, H, T, D], k and v [1, H_kv, T, D] -> [T, H, D_v]."""

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scaling: float | None,
        window: int | None,
        softcap: float | None,
    ) -> Tensor: ...


def register_attention() -> None:
    """Make `ATTENTION_NAME` known to transformers. Idempotent."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, paged_attention)


def paged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    paged: AttentionStep,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What model code calls. Other keywords (dropout, position ids ...) mean nothing to inference over our own cache;
    one that would is caught by the comparison at load. Returns ([1, T, H, D_v], no weights)."""
    out = paged.attend(module.layer_idx, query, key, value, scaling=scaling, window=sliding_window, softcap=softcap)
    return out.unsqueeze(0), None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive new tokens of one sequence: its positions [start, start + count) and its block table."""

    start: int
    count: int
    table: npt.NDArray[np.int64]
    """Block ids [ceil((start + count) / block_size)]."""

    @property
    def end(self) -> int:
        return self.start + self.count


class StepLayout:
    """The layout of one step: single tokens first, attended to in one padded batch; then chunks, one by one."""

    def __init__(self, pool: KVPool, singles: Seq[Stretch], chunks: Seq[Stretch], slots: Tensor) -> None:
        self._pool = pool
        self._singles = singles
        self._chunks = chunks
        self._slots = slots
        self._plans: dict[int | None, _Plan] = {}

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scaling: float | None,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        self._pool.write(layer, self._slots, key, value)
        plan = self._plan(window, query)
        parts = []
        if plan.singles is not None:
            keys, values = self._pool.gather(layer, plan.singles.table)
            rows = query[0, :, : len(self._singles)].transpose(0, 1).unsqueeze(2)  # [B, H, 1, D]
            parts.append(attend(rows, keys, values, plan.singles.bias, scaling, softcap).squeeze(2))
        at = len(self._singles)
        for chunk, view in zip(self._chunks, plan.chunks, strict=True):
            here = slice(at, at := at + chunk.count)
            keys, values = self._view(layer, view, key[:, :, here], value[:, :, here])
            out = attend(query[:, :, here], keys, values, view.bias, scaling, softcap)
            parts.append(out[0].transpose(0, 1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _view(self, layer: int, view: _View, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values a chunk sees: its own alone when it is the beginning, else those in the pool."""
        return (key, value) if view.bias is None else self._pool.gather(layer, view.table)

    def _plan(self, window: int | None, like: Tensor) -> _Plan:
        """Tables and biases are the same in every layer of a window: made once a step."""
        found = self._plans.get(window)
        if found is None:
            found = self._plans[window] = _make_plan(self._singles, self._chunks, self._pool, window, like)
        return found


@dataclass(frozen=True, slots=True)
class _View:
    """Blocks [B, N] that rows see, and what of them, as a bias [B, 1, T, N * block_size] (None = causal)."""

    table: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class _Plan:
    singles: _View | None
    chunks: tuple[_View, ...]


def _make_plan(singles: Seq[Stretch], chunks: Seq[Stretch], pool: KVPool, window: int | None, like: Tensor) -> _Plan:
    return _Plan(
        singles=_view_of(singles, pool.block_size, window, like) if singles else None,
        chunks=tuple(_view_of_chunk(chunk, pool.block_size, window, like) for chunk in chunks),
    )


def _view_of_chunk(chunk: Stretch, block_size: int, window: int | None, like: Tensor) -> _View:
    if chunk.start == 0 and (window is None or chunk.count <= window):
        return _View(torch.empty(0), None)
    return _view_of([chunk], block_size, window, like)


def _view_of(rows: Seq[Stretch], block_size: int, window: int | None, like: Tensor) -> _View:
    """Padded over rows of equal `count`, with a row's own last block. Blocks wholly before the window are left out."""
    first = [0 if window is None else max(0, row.start - window + 1) // block_size for row in rows]
    width = max(len(row.table) - skip for row, skip in zip(rows, first, strict=True))
    table = np.empty((len(rows), width), np.int64)
    for at, (row, skip) in enumerate(zip(rows, first, strict=True)):
        table[at] = row.table[-1]
        table[at, : len(row.table) - skip] = row.table[skip:]
    queries = np.array([row.start for row in rows])[:, None] + np.arange(rows[0].count)  # [B, T]
    seen = np.array(first)[:, None] * block_size + np.arange(width * block_size)  # [B, S]
    distance = queries[:, :, None] - seen[:, None, :]  # [B, T, S]
    hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
    bias = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(torch.from_numpy(hidden), float("-inf"))
    return _View(torch.from_numpy(table).to(like.device), bias.unsqueeze(1).to(like.device))


class ShapeProbe:
    """An attention step that stores nothing: plain causal attention, noting what each layer would store."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scaling: float | None,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        self.layers[layer] = LayerShape(key.shape[1], key.shape[-1], value.shape[-1], window)
        return attend(query, key, value, None, scaling, softcap)[0].transpose(0, 1)
