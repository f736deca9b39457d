"""Attend over compressed keys and values (multi-head latent attention, MLA).

A token keeps one latent [L], from which the key and value of every head are computed, and a rotary key part [R] that
all heads share. Attention is computed in one of two ways, whose results differ in the last bits only:

- *absorbed*: each query is multiplied with the key projection and scored against the latents; the weighted sum of
  latents is multiplied with the value projection. Keys and values of earlier tokens are never computed.
- *expanded*: keys and values are computed from the latents, some heads at a time.

Absorbed takes fewer multiplications for few new tokens, expanded for a long prompt.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import torch
from torch import Tensor

from sluicegate.engine.memory.kv import attend

ROOM = 1 << 24
"""Upper bound on temporary float32 numbers: heads, tokens or sequences are computed in parts of at most this size."""


class LatentHeads(NamedTuple):
    """The up-projection from latents to heads. `weight` [H, N + V, L]: the key rows of a head, then its value rows;
    `key_dim` is N. A query of a head is [N + R]: N numbers scored against the head's own key, then R against the shared
    part."""

    weight: Tensor
    key_dim: int

    @property
    def head_count(self) -> int:
        return len(self.weight)

    @property
    def value_dim(self) -> int:
        return self.weight.shape[1] - self.key_dim

    def some(self, first: int, count: int) -> LatentHeads:
        """Return `count` heads from `first` on."""
        return self._replace(weight=self.weight[first : first + count])

    def expand(self, shared: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys [B, H, S, N + R] and values [B, H, S, V] computed from `shared` [B, 1, S, R] and `latent`
        [B, 1, S, L]."""
        made = torch.nn.functional.linear(latent[:, 0], self.weight.flatten(0, 1))
        made = made.unflatten(-1, (self.head_count, -1)).transpose(1, 2)
        keys, values = made.split([self.key_dim, self.value_dim], -1)
        return torch.cat([keys, shared.expand(-1, self.head_count, -1, -1)], -1), values

    def absorb(self, query: Tensor) -> Tensor:
        """Multiply the first part of queries [R, H, N] with the key projection; return queries over latents
        [R, H, L]."""
        return torch.bmm(query.transpose(0, 1), self.weight[:, : self.key_dim]).transpose(0, 1)

    def values_of(self, found: Tensor) -> Tensor:
        """Multiply weighted sums of latents [R, H, L] with the value projection; return head outputs [R, H, V]."""
        return torch.bmm(found.transpose(0, 1), self.weight[:, self.key_dim :].transpose(1, 2)).transpose(0, 1)

    def expands(self, tokens: int, seen: int, shared: int) -> bool:
        """Return whether attending with `tokens` new tokens over `seen` ones takes fewer multiplications expanded than
        absorbed. `shared` is R."""
        wide, latent = self.weight.shape[1], self.weight.shape[2]
        expanded = seen * latent * wide + tokens * seen * (wide + shared)
        return expanded < tokens * latent * wide + tokens * seen * (2 * latent + shared)


class LatentScores(NamedTuple):
    """How scores are computed: times `scaling`, capped softly to (-softcap, softcap), with attention `sinks` [H]."""

    scaling: float
    softcap: float | None = None
    sinks: Tensor | None = None


def attend_chunk(
    query: Tensor, shared: Tensor, latent: Tensor, bias: Tensor | None, heads: LatentHeads, scores: LatentScores
) -> Tensor:
    """Attend with the tokens `query` [1, H, T, N + R] of one sequence over `shared` [1, 1, S, R] and `latent`
    [1, 1, S, L]; `bias` [1, 1, T, S] is added to the scores (None = causal, with T == S). Returns [T, H, V]."""
    tokens, seen = query.shape[2], shared.shape[2]
    if bias is None or heads.expands(tokens, seen, shared.shape[-1]):
        return _attend_expanded(query, shared, latent, bias, heads, scores)
    rows, size = query[0].transpose(0, 1), max(1, ROOM // (seen * heads.head_count))
    keys, latents = shared[:, 0], latent[:, 0]
    parts = [
        attend_absorbed(rows[at : at + size][None], keys, latents, bias[:, 0, at : at + size], heads, scores)[0]
        for at in range(0, tokens, size)
    ]
    return torch.cat(parts)


def _attend_expanded(
    query: Tensor, shared: Tensor, latent: Tensor, bias: Tensor | None, heads: LatentHeads, scores: LatentScores
) -> Tensor:
    tokens, seen = query.shape[2], shared.shape[2]
    size = max(1, ROOM // (seen * (tokens + heads.weight.shape[1] + shared.shape[-1])))
    parts = []
    for first in range(0, heads.head_count, size):
        here = slice(first, first + size)
        keys, values = heads.some(first, size).expand(shared, latent)
        sinks = None if scores.sinks is None else scores.sinks[here]
        parts.append(attend(query[:, here], keys, values, bias, scores.scaling, scores.softcap, sinks))
    return torch.cat(parts, 1)[0].transpose(0, 1)


def attend_absorbed(
    query: Tensor, shared: Tensor, latent: Tensor, bias: Tensor, heads: LatentHeads, scores: LatentScores
) -> Tensor:
    """Attend with T tokens of each of B sequences, `query` [B, T, H, N + R], over their `shared` [B, S, R] and `latent`
    [B, S, L]; `bias` [B, T, S]. Returns [B, T, H, V]."""
    rows, tokens, count, _ = query.shape
    own, turned = query.split([heads.key_dim, shared.shape[-1]], -1)
    inner = heads.absorb(own.flatten(0, 1)).reshape(rows, tokens * count, -1)  # [B, T H, L]
    found = torch.bmm(turned.reshape(rows, tokens * count, -1), shared.transpose(1, 2))
    found = torch.baddbmm(found, inner, latent.transpose(1, 2)).mul_(scores.scaling)
    found = found.view(rows, tokens, count, -1)  # [B, T, H, S]
    if scores.softcap is not None:
        found = found.div_(scores.softcap).tanh_().mul_(scores.softcap)
    shares = _shares(found.add_(bias[:, :, None]), scores.sinks).view(rows, tokens * count, -1)
    mixed = torch.bmm(shares, latent).view(rows * tokens, count, -1)
    return heads.values_of(mixed).view(rows, tokens, count, -1)


def _shares(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Return the softmax of `scores` [B, T, H, S] with the logits `sinks` [H] in its denominator; the weights of the
    sinks are dropped."""
    if sinks is None:
        return torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype)
    beside = sinks.to(scores).view(1, 1, -1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, beside], -1), -1, dtype=torch.float32)[..., :-1].to(scores.dtype)


def alike(lengths: Seq[int], most: int) -> list[list[int]]:
    """Group indices into `lengths` so that a group padded to its longest sequence is less than twice as large as
    unpadded. A group of several holds at most `most` numbers when padded."""
    groups: list[list[int]] = []
    longest = 0
    for at in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if groups and longest < 2 * lengths[at] and longest * (len(groups[-1]) + 1) <= most:
            groups[-1].append(at)
        else:
            groups.append([at])
            longest = lengths[at]
    return groups
