"""Hold the KV pool, one K and one V tensor per layer, in blocks; and the reference attention that reads it.

One tensor per layer, not one over all layers: compilers copy a pool they see written to in part.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine.memory.fresh import fresh_zeros
from sluicegate.engine.settings import KVKind

E4M3 = torch.float8_e4m3fn
LARGEST = {"int8": 127.0, "fp8": 448.0}
"""The code that a head's largest number is scaled to."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Shape of the keys and values a layer stores per token. `window`: positions a query sees, itself included; None =
    all before it."""

    kv_heads: int
    key_dim: int
    value_dim: int
    query_heads: int
    window: int | None = None
    has_sinks: bool = False
    """Whether its heads have learned attention sinks."""
    section: int | None = None
    """Positions are split into sections of this length; a query sees only its own section."""
    is_latent: bool = False
    """Whether keys and values are compressed: `key_dim` is then the width of the key part that all heads share,
    `value_dim` that of the latent."""

    @property
    def is_empty(self) -> bool:
        """Return whether the layer stores nothing, as recurrent layers do."""
        return self.kv_heads == 0

    @property
    def needs_reference(self) -> bool:
        """Return whether only the reference attention supports the layer."""
        return self.has_sinks or self.section is not None or self.is_latent

    @property
    def numbers_per_seen(self) -> int:
        """Return how many temporary numbers attention with one token needs per visible position: scores, key, value."""
        return self.query_heads + self.kv_heads * (self.key_dim + self.value_dim)

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        """Return the bytes of a token's keys and values in a pool of this dtype, scales of 8-bit pools included."""
        scales = 8 if dtype == torch.int8 else 0
        return self.kv_heads * ((self.key_dim + self.value_dim) * dtype.itemsize + scales)


NO_ATTENTION = LayerShape(0, 0, 0, 0)
"""Shape of a layer without attention."""


class KVPool:
    """`keys[i]` is [num_blocks, block_size, H_kv, D_k], `values[i]` [num_blocks, block_size, H_kv, D_v].

    Contents of a block are undefined until written. Memory is untouched, so not resident, until then. `key_arrays` and
    `value_arrays` are the same memory as NumPy sees it, where it can (float32 on a CPU; else they are empty).

    In 8 bits, each head of a key or a value is rounded with a scale of its own (`key_scales[i]`, `value_scales[i]`
    [num_blocks, block_size, H_kv] float32), and read back as `dtype`: that of the model on `device`. Bytes are int8
    tensors, for `fp8` too (floats of 4 bits of exponent and 3 of fraction, the largest of a head becoming 448): that is
    how numbers are kept, whatever the device computes with.
    """

    def __init__(
        self,
        layers: Seq[LayerShape],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        kv: KVKind = "full",
    ) -> None:
        self.kv = kv
        self.dtype = dtype
        self.device = device
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.layers = tuple(layers)

        def tensor(heads: int, dim: int) -> Tensor:
            kept = torch.int8 if self.is_small else dtype
            return fresh_zeros((num_blocks, block_size, heads, dim), kept, device)

        self.keys = [tensor(layer.kv_heads, layer.key_dim) for layer in layers]
        self.values = [tensor(layer.kv_heads, layer.value_dim) for layer in layers]
        kept = layers if self.is_small else ()
        scales = [(num_blocks, block_size, layer.kv_heads) for layer in kept]
        self.key_scales = [fresh_zeros(shape, torch.float32, device) for shape in scales]
        self.value_scales = [fresh_zeros(shape, torch.float32, device) for shape in scales]
        in_place = dtype == torch.float32 and device.type == "cpu" and not self.is_small
        self.key_arrays = [keys.numpy() for keys in self.keys] if in_place else []
        self.value_arrays = [values.numpy() for values in self.values] if in_place else []

    @property
    def is_small(self) -> bool:
        """Return whether keys and values are stored in 8 bits with scales."""
        return self.kv != "full"

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Store `key` and `value` [1, H_kv, T, D] at `slots` [T] int64 (block * block_size + offset)."""
        for pool, scales, new in (
            (self.keys, self.key_scales, key[0].transpose(0, 1)),
            (self.values, self.value_scales, value[0].transpose(0, 1)),
        ):
            if self.is_small:
                units = new.abs().amax(-1).float() / LARGEST[self.kv]
                scales[layer].flatten(0, 1).index_copy_(0, slots, units)
                new = self._bytes(new / units.clamp_min(1e-30)[..., None])
            pool[layer].flatten(0, 1).index_copy_(0, slots, new)

    def _bytes(self, numbers: Tensor) -> Tensor:
        """Return `numbers`, rounded to the pool's 8-bit format, as int8."""
        return numbers.round_().to(torch.int8) if self.kv == "int8" else numbers.to(E4M3).view(torch.int8)

    def give_up(self) -> None:
        """Free the memory; the pool is unusable afterwards."""
        for held in (self.keys, self.values, self.key_scales, self.value_scales, self.key_arrays, self.value_arrays):
            held.clear()

    def scrub(self, blocks: Seq[int]) -> None:
        """Zero these blocks: a NaN left behind would reach the next holder even through masked positions."""
        index = torch.tensor(list(blocks), dtype=torch.int64, device=self.keys[0].device)
        for tensor in self._tensors():
            tensor.index_fill_(0, index, 0)

    def copy(self, copies: Seq[tuple[int, int]]) -> None:
        """Copy whole blocks, given as (from, to); no block may be both source and target."""
        sources, targets = (torch.tensor(side, device=self.keys[0].device) for side in zip(*copies, strict=True))
        for tensor in self._tensors():
            tensor.index_copy_(0, targets, tensor.index_select(0, sources))

    @property
    def block_bytes(self) -> int:
        return sum(tensor[0].nbytes for tensor in self._tensors())

    def read_block(self, index: int) -> bytes:
        """Return the contents of block `index` in all layers, as one buffer."""
        parts = [tensor[index].flatten().view(torch.uint8) for tensor in self._tensors()]
        return bytes(torch.cat(parts).cpu().numpy())

    def write_block(self, index: int, data: bytes) -> None:
        """Write a buffer from `read_block` of a pool of the same shape to block `index`."""
        at, whole = 0, torch.frombuffer(bytearray(data), dtype=torch.uint8)
        for tensor in self._tensors():
            target = tensor[index]
            target.copy_(whole[at : at + target.nbytes].view(target.dtype).view(target.shape))
            at += target.nbytes

    def _tensors(self) -> list[Tensor]:
        """Return scales first, so that four-byte numbers are aligned to four bytes in a block's buffer."""
        return [*self.key_scales, *self.value_scales, *self.keys, *self.values]

    def gather(self, layer: int, table: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V [B, H_kv, N * block_size, D] of the blocks in `table` [B, N] int64."""
        if not self.is_small:
            return _gather(self.keys[layer], table), _gather(self.values[layer], table)
        pairs = ((self.keys, self.key_scales), (self.values, self.value_scales))
        keys, values = (
            (self._numbers(_gather(pool[layer], table)) * _gather(scales[layer].unsqueeze(-1), table)).to(self.dtype)
            for pool, scales in pairs
        )
        return keys, values

    def _numbers(self, kept: Tensor) -> Tensor:
        return kept if self.kv == "int8" else kept.view(E4M3).float()


def _gather(blocks: Tensor, table: Tensor) -> Tensor:
    """Return [B, H, N * block_size, D] of `blocks` [num_blocks, block_size, H, D] by `table` [B, N]."""
    rows, width = table.shape
    found = blocks.index_select(0, table.flatten())  # [B * N, block_size, H, D]
    return found.view(rows, width * blocks.shape[1], *blocks.shape[2:]).transpose(1, 2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attend with `query` [B, H, T, D] over `key`, `value` [B, H_kv, S, D]; `bias` [B, 1, T, S] is added to the scores
    (-inf = not seen; None = causal, with T == S), `sinks` [H] are scores that nothing is read for. Query heads are
    taken in groups of H / H_kv. Returns [B, H, T, D_v].
    """
    if softcap is not None or sinks is not None:
        return _attend_softly(query, key, value, bias, scaling, softcap, sinks)
    if query.shape[2] == 1 and bias is not None:
        return _attend_grouped(query, key, value, bias, scaling)
    width = value.shape[-1]
    if width < key.shape[-1]:  # scores are kept out of memory for equal widths only: 1.5 times as fast on a CPU
        value = torch.nn.functional.pad(value, (0, key.shape[-1] - width))
    out = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=bias,
        is_causal=bias is None,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out[..., :width]


def _attend_grouped(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scaling: float | None) -> Tensor:
    """Attend as `attend` does for one query per row: a group's heads become query positions, so that keys are not
    repeated in memory."""
    rows, heads, _, dim = query.shape
    groups = query.view(rows, key.shape[1], heads // key.shape[1], dim)
    out = torch.nn.functional.scaled_dot_product_attention(groups, key, value, attn_mask=bias, scale=scaling)
    return out.reshape(rows, heads, 1, value.shape[-1])


def _attend_softly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Attend as `attend` does with a softcap or sinks, which SDPA does not support."""
    repeat = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    scores = query @ key.transpose(2, 3) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is None:
        length = query.shape[2]
        bias = torch.full((length, length), float("-inf"), dtype=query.dtype, device=query.device).triu(1)
    scores = scores + bias
    if sinks is not None:
        rows, heads, length, _ = scores.shape
        scores = torch.cat([scores, sinks.to(scores).view(1, heads, 1, 1).expand(rows, heads, length, 1)], -1)
    shares = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    return shares[..., : value.shape[2]] @ value
