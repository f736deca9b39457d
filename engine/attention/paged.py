"""Bring the paged KV cache into a `transformers` model: one registered attention function, one object per step.

The model code calls `paged_attention` in every layer with this step's q, k, v. The step's layout comes by the keyword
`paged` where the model's layers pass keywords on, else from the context that `running` sets around every forward pass.
All sequences of a step lie in one flattened row of T tokens; the layout knows which tokens belong to which sequence,
where their keys and values go, and what each may see.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.in_place import attend_in_place
from sluicegate.engine.attention.latent import ROOM, LatentHeads, LatentScores, alike, attend_absorbed, attend_chunk
from sluicegate.engine.memory.kv import KVPool, LayerShape, attend

ATTENTION_NAME = "sluicegate_paged"
_STEP: ContextVar[AttentionStep | None] = ContextVar("_STEP", default=None)


class AttentionWindow(NamedTuple):
    """How far back queries see; None = to the first position. See `Scoring`."""

    window: int | None = None
    section: int | None = None

    def begin(self, position: int) -> int:
        """Return the first position that a token sees."""
        far = 0 if self.window is None else max(0, position - self.window + 1)
        return far if self.section is None else max(far, position // self.section * self.section)

    def covers(self, count: int) -> bool:
        """Return whether each of the first `count` positions sees all positions before it."""
        return self.begin(count - 1) == 0

    def hides(self, queries: Tensor, seen: Tensor) -> Tensor:
        """Return a mask bool [..., T, S]: True where positions `queries` [..., T] do not see positions `seen`
        [..., S]."""
        distance = queries[..., :, None] - seen[..., None, :]
        hidden = distance < 0
        if self.window is not None:
            hidden |= distance >= self.window
        if self.section is not None:
            hidden |= seen[..., None, :] < (queries // self.section * self.section)[..., :, None]
        return hidden


class Scoring(NamedTuple):
    """How a layer scores keys. Defaults: `scaling` 1 / sqrt(D), every earlier position visible, no cap."""

    scaling: float | None = None
    window: int | None = None
    """How many of the newest positions a token sees, its own included."""
    softcap: float | None = None
    """Scores are capped smoothly to (-softcap, softcap)."""
    sinks: Tensor | None = None
    """[H]: one extra score per head, which takes part in the softmax and adds no value (learned attention sinks)."""
    section: int | None = None
    """Positions are split into sections of this length; a token sees only its own section (Llama 4's chunked
    attention)."""
    latent: LatentHeads | None = None
    """Set where keys and values are compressed: the cache holds the shared part of keys [1, 1, T, R] and latents [1, 1,
    T, L], from which this computes heads."""

    def scores(self, query: Tensor) -> LatentScores:
        """Return the same parameters for attention over latents, with `scaling` 1 / sqrt(D) of queries [..., D] if
        unset."""
        scaling = query.shape[-1] ** -0.5 if self.scaling is None else self.scaling
        return LatentScores(scaling, self.softcap, self.sinks)

    @property
    def reach(self) -> AttentionWindow:
        return AttentionWindow(self.window, self.section)


class AttentionStep(Protocol):
    """One layer's attention within a step."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        """Store k and v [1, H_kv, T, D]; return the attention output [T, H, D_v] of q [1, H, T, D]."""


@contextmanager
def running(step: AttentionStep) -> Iterator[None]:
    """Make `step` the current one on this thread, for layers that pass no keywords on to attention."""
    token = _STEP.set(step)
    try:
        yield
    finally:
        _STEP.reset(token)


def step_in_progress() -> AttentionStep | None:
    """Return the step that `running` set on this thread, or None."""
    return _STEP.get()


def register_attention() -> None:
    """Register `ATTENTION_NAME` with transformers. Idempotent."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, paged_attention)


def paged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    paged: AttentionStep | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend, called by model code: `query` [1, H, T, D], `key` and `value` [1, H_kv, T, D]. Returns ([1, T, H, D_v],
    no weights). Other keywords (dropout, position ids ...) are ignored: none matters for inference over our own cache,
    and the comparison at load would catch one that did."""
    step = paged if paged is not None else _STEP.get()
    assert step is not None, "a forward pass over the paged cache outside `running`"
    if (placed := getattr(module, "placed_query", None)) is not None:
        query = placed(query)
    section, latent = getattr(module, "section", None), getattr(module, "latent_heads", None)
    scoring = Scoring(scaling, sliding_window, softcap, s_aux, section, latent)
    out = step.attend(module.layer_idx, query, key, value, scoring)
    return out.unsqueeze(0), None


class TokenSpan(NamedTuple):
    """Consecutive new tokens of one sequence: its positions [start, start + count) and its block table."""

    start: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    table: npt.NDArray[np.int64]
    """Block ids [ceil((start + count) / block_size)]."""
    address: int = 0
    """Address of the table's memory, where it is known: asking the array for it takes longer than all the rest."""
    state_slot: int = 0
    """The sequence's number among the running ones: where recurrent layers keep its states."""

    @property
    def end(self) -> int:
        return self.start + self.count


class StepLayout:
    """The layout of one step over gathered blocks: single tokens in one padded batch, then chunks, one by one.

    `stretches` are in the order of the flattened row, shortest first; `slots` [T] int64 is the slot mapping.
    """

    longest_short: ClassVar[int] = 1
    """Spans up to this length are attended to together."""

    def __init__(self, pool: KVPool, stretches: Seq[TokenSpan], slots: Tensor) -> None:
        short = sum(stretch.count <= self.longest_short for stretch in stretches)
        self._pool = pool
        self._short, self._chunks = stretches[:short], stretches[short:]
        self._short_tokens = sum(stretch.count for stretch in self._short)
        self._slots = slots
        self._views: dict[AttentionWindow, list[PagedView]] = {}
        self._short_views: dict[AttentionWindow, PagedView] = {}
        self._latent_views: dict[AttentionWindow, list[tuple[Tensor, PagedView]]] = {}
        self._rows: TokenRows | None = None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        self._pool.write(layer, self._slots, key, value)
        parts = []
        if self._short:
            rows = query[0, :, : self._short_tokens].transpose(0, 1)  # [R, H, D]
            parts.append(self.attend_short(layer, rows, scoring))
        at = self._short_tokens
        for chunk, view in zip(self._chunks, self._chunk_views(scoring.reach, query), strict=True):
            here = slice(at, at := at + chunk.count)
            keys, values = self._seen(layer, view, key[:, :, here], value[:, :, here])
            parts.append(attend_one(query[:, :, here], keys, values, view.bias, scoring))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def attend_short(self, layer: int, query: Tensor, scoring: Scoring) -> Tensor:
        """Return the attention output [R, H, D_v] of the tokens `query` [R, H, D] of all short stretches over the
        pool."""
        if scoring.latent is not None:
            return self._attend_latent(layer, query, scoring, scoring.latent)
        view = self._short_view(scoring.reach, query)
        keys, values = self._pool.gather(layer, view.table)
        rows, cap = query.unsqueeze(2), scoring.softcap
        return attend(rows, keys, values, view.bias, scoring.scaling, cap, scoring.sinks).squeeze(2)

    def _attend_latent(self, layer: int, query: Tensor, scoring: Scoring, heads: LatentHeads) -> Tensor:
        """Attend as `attend_short` does, over latents; sequences of similar length are batched together."""
        out = query.new_empty(len(query), heads.head_count, heads.value_dim)
        for which, view in self._latent_views_of(self._pool.layers[layer], query):
            shared, latent = self._pool.gather(layer, view.table)
            assert view.bias is not None
            found = attend_absorbed(
                query[which][:, None], shared[:, 0], latent[:, 0], view.bias[:, 0], heads, scoring.scores(query)
            )
            out[which] = found[:, 0]
        return out

    # Tables and biases are the same in every layer of one reach: made once a step.

    def _latent_views_of(self, shape: LayerShape, like: Tensor) -> list[tuple[Tensor, PagedView]]:
        reach = AttentionWindow(shape.window, shape.section)
        if reach not in self._latent_views:
            size = self._pool.block_size
            rows = alike([len(one.table) for one in self._short], ROOM // (size * shape.numbers_per_seen))
            self._latent_views[reach] = [
                (torch.tensor(which, device=like.device), view_of([self._short[at] for at in which], size, reach, like))
                for which in rows
            ]
        return self._latent_views[reach]

    def _short_view(self, reach: AttentionWindow, like: Tensor) -> PagedView:
        if reach not in self._short_views:
            self._short_views[reach] = view_of(self._short, self._pool.block_size, reach, like)
        return self._short_views[reach]

    def _chunk_views(self, reach: AttentionWindow, like: Tensor) -> list[PagedView]:
        if reach not in self._views:
            rounded = self._pool.is_small
            self._views[reach] = [_view_of_chunk(c, self._pool.block_size, reach, like, rounded) for c in self._chunks]
        return self._views[reach]

    def _seen(self, layer: int, view: PagedView, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [B, H_kv, S, D] visible to a chunk: its own if it begins the sequence, else the
        pool's."""
        return (key, value) if view.bias is None else self._pool.gather(layer, view.table)


def attend_one(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scoring: Scoring) -> Tensor:
    """Attend with the tokens `query` [1, H, T, D] of one sequence over its `key` and `value` [1, H_kv, S, D]; `bias`
    [1, 1, T, S] is -inf where a key is hidden (None = causal, T == S). Returns [T, H, D_v]."""
    if scoring.latent is not None:
        return attend_chunk(query, key, value, bias, scoring.latent, scoring.scores(query))
    return attend(query, key, value, bias, scoring.scaling, scoring.softcap, scoring.sinks)[0].transpose(0, 1)


class InPlaceLayout(StepLayout):
    """Lets single tokens and short chunks read the blocks where they are; on a CPU in float32."""

    longest_short = 8

    def attend_short(self, layer: int, query: Tensor, scoring: Scoring) -> Tensor:
        rows = self._rows = self._rows or TokenRows.of(self._short)
        out = attend_in_place(
            query.contiguous().numpy(),
            self._pool.key_arrays[layer],
            self._pool.value_arrays[layer],
            rows.tables,
            rows.starts,
            rows.positions,
            scoring.scaling if scoring.scaling is not None else query.shape[-1] ** -0.5,
            scoring.softcap or 0.0,
            scoring.window or 0,
        )
        return torch.from_numpy(out)


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Block tables for the kernel: one row a token, all tables one after another."""

    tables: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    @classmethod
    def of(cls, stretches: Seq[TokenSpan]) -> TokenRows:
        counts = [stretch.count for stretch in stretches]
        starts = np.cumsum([0, *(len(stretch.table) for stretch in stretches[:-1])])
        return cls(
            np.concatenate([stretch.table for stretch in stretches]),
            np.repeat(starts, counts),
            np.concatenate([np.arange(stretch.start, stretch.end) for stretch in stretches]),
        )


@dataclass(frozen=True, slots=True)
class PagedView:
    """Blocks [B, N] to gather for some rows, and a bias [B, 1, T, N * block_size] that hides keys (None = causal)."""

    table: Tensor
    bias: Tensor | None


def _view_of_chunk(chunk: TokenSpan, block_size: int, reach: AttentionWindow, like: Tensor, rounded: bool) -> PagedView:
    """Return the view of a chunk. The beginning of a sequence needs no blocks, only its own keys; but a pool that
    rounds keys is read back even then, or answers would depend on how a prompt was cut."""
    if not rounded and chunk.start == 0 and reach.covers(chunk.count):
        return PagedView(torch.empty(0), None)
    return view_of([chunk], block_size, reach, like)


def view_of(rows: Seq[TokenSpan], block_size: int, reach: AttentionWindow, like: Tensor) -> PagedView:
    """Return the view of rows of equal `count`; short tables are padded with the row's last block. Blocks wholly out of
    reach are left out. Dtype and device are those of `like`."""
    first = [reach.begin(row.start) // block_size for row in rows]
    width = max(len(row.table) - skip for row, skip in zip(rows, first, strict=True))
    table = np.empty((len(rows), width), np.int64)
    for at, (row, skip) in enumerate(zip(rows, first, strict=True)):
        table[at] = row.table[-1]
        table[at, : len(row.table) - skip] = row.table[skip:]
    queries = np.array([row.start for row in rows])[:, None] + np.arange(rows[0].count)  # [B, T]
    seen = np.array(first)[:, None] * block_size + np.arange(width * block_size)  # [B, S]
    hidden = reach.hides(torch.from_numpy(queries), torch.from_numpy(seen))  # [B, T, S]
    bias = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, float("-inf"))
    return PagedView(torch.from_numpy(table).to(like.device), bias.unsqueeze(1).to(like.device))


class ShapeProbe:
    """An attention step that stores nothing: it attends causally and records the shapes each layer would store."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}
        self.repeated: set[int] = set()
        """Layers that attended more than once in a step."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        if layer in self.layers:
            self.repeated.add(layer)
        self.layers[layer] = LayerShape(
            key.shape[1],
            key.shape[-1],
            value.shape[-1],
            query.shape[1],
            scoring.window,
            scoring.sinks is not None,
            scoring.section,
            scoring.latent is not None,
        )
        return attend_one(query, key, value, None, scoring)
