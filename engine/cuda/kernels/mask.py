"""The Triton kernel that applies token bitmasks. `engine.sampling.bitmasks.apply_bitmask` is the slow twin."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def refuse_tokens(logits, masks, logits_stride, words, vocab, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write -inf where masks refuse a token. Grid (masks, ceil(vocab / COLUMNS)). `masks` [n, 1 + words] int32: which
    row of `logits` a mask is for, then its bits. Only what is refused is written, so a mask costs its own bytes and
    little more."""
    mask = masks + tl.program_id(0) * (1 + words)
    row = tl.load(mask).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < vocab
    bits = tl.load(mask + 1 + column // 32, mask=inside, other=-1)
    refused = ((bits >> (column % 32)) & 1) == 0
    nothing = tl.full([COLUMNS], float("-inf"), tl.float32)
    tl.store(logits + row * logits_stride + column, nothing, mask=inside & refused)
