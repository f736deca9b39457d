"""Lay out a step's attention for the Triton kernels: an `AttentionStep` over the pool, on the device."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import Scoring, TokenSpan
from sluicegate.engine.cuda.attend import Tiles, attend_paged, store, tokens_a_tile
from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.memory.kv import KVPool

I64 = npt.NDArray[np.int64]


class TritonLayout:
    """Attends to stretches up to `longest_short` tokens token by token, their keys split; to longer ones in tiles.

    `stretches` are in the order of the flattened row, shortest first; `slots` [T] int64 is the slot mapping.
    """

    longest_short: ClassVar[int] = 8
    """Drafts up to this length use the same arithmetic as a single token, so that speculation changes no bit of an
    answer."""

    def __init__(self, pool: KVPool, stretches: Seq[TokenSpan], slots: Tensor) -> None:
        self._pool = pool
        self._stretches = stretches
        self.slots = slots
        self._tables = upload(np.concatenate([stretch.table for stretch in stretches]), slots.device)
        self._tiles: dict[int, tuple[Tiles, Tiles]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        store(self._pool, layer, self.slots, key, value)
        return self.attend_stored(layer, query, scoring)

    def attend_stored(self, layer: int, query: Tensor, scoring: Scoring) -> Tensor:
        """Attend with `query` [1, H, T, D] where the pool has the step's keys and values already: [T, H, D_v]."""
        shape = self._pool.layers[layer]
        out = query.new_empty(query.shape[2], query.shape[1], shape.value_dim)
        short, long = self._tiles_of(tokens_a_tile(query, shape.kv_heads))
        if short.count:
            attend_paged(self._pool, layer, query, short, out, scoring)
        if long.count:
            self.attend_long(layer, query, long, out, scoring)
        return out

    def attend_long(self, layer: int, query: Tensor, tiles: Tiles, out: Tensor, scoring: Scoring) -> None:
        """Attend with the tokens of long stretches, the last of the row, into their places of `out` [T, H, D_v]."""
        attend_paged(self._pool, layer, query, tiles, out, scoring)

    def _tiles_of(self, tokens: int) -> tuple[Tiles, Tiles]:
        """Make the tiles once a step: they are the same in all layers that share keys among as many heads."""
        if tokens not in self._tiles:
            found = tile(self._stretches, self.longest_short, tokens)
            short, long = upload(np.concatenate(found), self.slots.device).split([len(part) for part in found])
            self._tiles[tokens] = Tiles(short, self._tables), Tiles(long, self._tables, tokens)
        return self._tiles[tokens]


class FixedLayout:
    """Attends with single tokens whose tiles and slots lie in buffers that stay where they are, as a graph needs."""

    def __init__(self, pool: KVPool, tiles: Tiles, slots: Tensor) -> None:
        """Lay out a step. `slots` [T]; rows of `tiles` without a token, and slots below 0, are padding."""
        self._pool = pool
        self._tiles = tiles
        self.slots = slots

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        store(self._pool, layer, self.slots, key, value)
        return self.attend_stored(layer, query, scoring)

    def attend_stored(self, layer: int, query: Tensor, scoring: Scoring) -> Tensor:
        """Attend over keys and values already stored; see `TritonLayout.attend_stored`."""
        out = query.new_empty(query.shape[2], query.shape[1], self._pool.layers[layer].value_dim)
        attend_paged(self._pool, layer, query, self._tiles, out, scoring)
        return out


def tile(stretches: Seq[TokenSpan], longest_short: int, tokens: int) -> tuple[I64, I64]:
    """Return rows of `Tiles.numbers` for the short stretches, a token each, and for the others, `tokens` each; block
    tables lie one after another in the order of `stretches`."""
    if stretches and stretches[-1].count == 1:
        return _tile_single_tokens(stretches), np.zeros((0, 4), np.int64)
    short: list[tuple[int, int, int, int]] = []
    long: list[tuple[int, int, int, int]] = []
    token = table = 0
    for stretch in stretches:
        size, found = (1, short) if stretch.count <= longest_short else (tokens, long)
        for at in range(0, stretch.count, size):
            found.append((token + at, min(size, stretch.count - at), stretch.start + at, table))
        token += stretch.count
        table += len(stretch.table)
    return np.array(short, np.int64).reshape(-1, 4), np.array(long, np.int64).reshape(-1, 4)


def _tile_single_tokens(stretches: Seq[TokenSpan]) -> I64:
    """Return the tiles of stretches of one token each. Fast, as the device waits for it between two steps."""
    found = np.ones((len(stretches), 4), np.int64)
    found[:, 0] = np.arange(len(stretches))
    found[:, 2] = [stretch[0] for stretch in stretches]
    found[:, 3] = [0, *accumulate(len(stretch[2]) for stretch in stretches[:-1])]
    return found


def upload(numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
    return to_device(torch.from_numpy(numbers), device)
