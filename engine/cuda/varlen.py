"""Attend with chunks of prompts by torch's `varlen_attn` with block tables: a FlashAttention that some builds of torch
have.

Whether this build has it, only a call can tell: see `engine.cuda.choice`. Single tokens stay with our own kernel, which
splits their keys; a chunk's are not split (`num_splits=1`), so that the rest of a batch changes no bit of it.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import Scoring, TokenSpan
from sluicegate.engine.cuda.attend import Tiles
from sluicegate.engine.cuda.layout import TritonLayout, upload
from sluicegate.engine.memory.kv import KVPool


def refuse_pool(pool: KVPool) -> str:
    """Return why `varlen_attn` cannot read this pool; '' if nothing is known against it before a call."""
    if pool.is_small or pool.dtype not in (torch.bfloat16, torch.float16):
        return f"it reads keys in half precision, not {pool.kv if pool.is_small else pool.dtype}"
    if any(layer.key_dim != layer.value_dim for layer in pool.layers):
        return "keys and values differ in width"
    return ""


class VarlenLayout(TritonLayout):
    """Attends with long stretches by `varlen_attn`; where scores are capped, which it does not support, by our own
    kernel."""

    def __init__(self, pool: KVPool, stretches: Seq[TokenSpan], slots: Tensor) -> None:
        super().__init__(pool, stretches, slots)
        self._long = [stretch for stretch in stretches if stretch.count > self.longest_short]
        self._pages = _Pages.of(self._long, slots.device) if self._long else None

    def attend_long(self, layer: int, query: Tensor, tiles: Tiles, out: Tensor, scoring: Scoring) -> None:
        if scoring.softcap or self._pages is None:
            super().attend_long(layer, query, tiles, out, scoring)
            return
        from torch.nn.attention.varlen import varlen_attn

        first = len(out) - sum(stretch.count for stretch in self._long)
        pages, pool = self._pages, self._pool
        found = varlen_attn(
            query[0, :, first:].transpose(0, 1),
            pool.keys[layer],
            pool.values[layer],
            pages.borders,
            None,
            max(stretch.count for stretch in self._long),
            max(stretch.end for stretch in self._long),
            scale=scoring.scaling,
            window_size=(scoring.window - 1 if scoring.window else -1, 0),
            enable_gqa=query.shape[1] != pool.keys[layer].shape[2],
            seqused_k=pages.lengths,
            block_table=pages.tables,
            num_splits=1,
        )
        assert isinstance(found, Tensor)
        out[first:] = found


class _Pages:
    """int32 on the device: where chunks begin and end [n + 1], how long their sequences are [n], and their block tables
    [n, blocks of the longest], filled up with zeros."""

    def __init__(self, borders: Tensor, lengths: Tensor, tables: Tensor) -> None:
        self.borders, self.lengths, self.tables = borders, lengths, tables

    @classmethod
    def of(cls, stretches: Seq[TokenSpan], device: torch.device) -> _Pages:
        borders = np.cumsum([0, *(stretch.count for stretch in stretches)])
        tables = np.zeros((len(stretches), max(len(stretch.table) for stretch in stretches)), np.int32)
        for row, stretch in zip(tables, stretches, strict=True):
            row[: len(stretch.table)] = stretch.table
        lengths = np.array([stretch.end for stretch in stretches], np.int32)
        return cls(upload(borders.astype(np.int32), device), upload(lengths, device), upload(tables, device))
