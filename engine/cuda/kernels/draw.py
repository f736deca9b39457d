"""The Triton kernel that draws a token for each row of logits, without sorting.
`engine.sampling.torch_draws.TorchDraws` is the twin.

Where top-k or top-p end is a border between two logits. It is looked for among the largest logits, which are sorted.
Where it lies below them it is found digit by digit: bits of floats, read as numbers, are in the order of the floats; so
what lies above each of 16 candidates is added up, 4 bits at a time.
Tokens whose logits are equal to the last one kept are kept too. The draw inverts the cumulative distribution of what is
kept, in the order of the vocabulary, with sums in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def draw_rows(  # type: ignore[no-untyped-def]
    logits, best, numbers, out, stride, vocab,
    COLUMNS: tl.constexpr, NARROW: tl.constexpr, BEST: tl.constexpr,
):  # fmt: skip
    """Draw a token for each row. Grid (rows,). `numbers` [R, 5] float64: temperature (0 = greedy), top_k (0 = all),
    top_p, min_p, and the draw in [0, 1). `out` [R, 2] float64: the largest logit, NaN if one of the row is, and the
    token. `best` [R, BEST]: the largest logits in falling order, in which borders are mostly found. `COLUMNS` are read
    at a time; `NARROW` where 16 borders are tried on each."""
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * stride
    temperature = tl.load(numbers + 5 * row).to(tl.float32)
    top_k = tl.load(numbers + 5 * row + 1)
    top_p = tl.load(numbers + 5 * row + 2)
    min_p = tl.load(numbers + 5 * row + 3).to(tl.float32)
    drawn = tl.load(numbers + 5 * row + 4)
    lane = tl.arange(0, COLUMNS)
    most = tl.full([COLUMNS], float("-inf"), tl.float32)
    first = tl.full([COLUMNS], 0, tl.int32) + vocab
    wrong = tl.full([COLUMNS], 0, tl.int32)
    for at in range(0, vocab, COLUMNS):
        x = tl.load(line + at + lane, mask=at + lane < vocab, other=float("-inf"))
        wrong |= (x != x).to(tl.int32)
        higher = x > most  # never for NaN; the first of equals stays
        most = tl.where(higher, x, most)
        first = tl.where(higher, at + lane, first)
    broken, largest = tl.max(wrong, 0), tl.max(most, 0)
    token = tl.min(tl.where(most == largest, first, vocab), 0)
    # A row with an infinite largest logit has no weights, since infinity minus infinity is not a number; the caller
    # recognises it by that logit.
    if (temperature > 0) & (broken == 0) & (tl.abs(largest) < float("inf")):
        border = tl.full([], 0, tl.int64)
        if (top_k > 0) & (top_k < vocab):
            if top_k <= BEST:
                border = rank(tl.load(best + row * BEST + top_k.to(tl.int64) - 1))
            else:
                border = find_border(line, vocab, largest, temperature, border, top_k, True, NARROW)
        if top_p < 1:
            mass = kept_mass(line, vocab, largest, temperature, border, float("-inf"), COLUMNS)
            known = tl.load(best + row * BEST + tl.arange(0, BEST))
            heavy = weigh(known, largest, temperature, border, float("-inf")).to(tl.float64)
            enough = tl.cumsum(heavy, 0) >= top_p * mass
            if tl.sum(enough.to(tl.int32), 0) > 0:
                border = tl.maximum(border, tl.max(tl.where(enough, rank(known), 0), 0))
            else:
                border = find_border(line, vocab, largest, temperature, border, top_p * mass, False, NARROW)
        lowest = float("-inf") * tl.full([], 1, tl.float32)
        if min_p > 0:
            lowest = largest + temperature * tl.log(min_p)
        goal = drawn * kept_mass(line, vocab, largest, temperature, border, lowest, COLUMNS)
        token = passing(line, vocab, largest, temperature, border, lowest, goal, token, COLUMNS)
    tl.store(out + 2 * row, tl.where(broken > 0, float("nan"), largest).to(tl.float64))
    tl.store(out + 2 * row + 1, tl.minimum(token, vocab - 1).to(tl.float64))


@triton.jit
def rank(x):  # type: ignore[no-untyped-def]
    """Return whole numbers from 0 in the order of the float32 `x`."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.int64) + 2147483648


@triton.jit
def weigh(x, largest, temperature, border, lowest):  # type: ignore[no-untyped-def]
    """Return exp of the logits at a temperature, the largest at 1; 0 below the border, and below the logit `lowest`."""
    kept = (rank(x) >= border) & (x >= lowest)
    return tl.where(kept, tl.exp((x - largest) / temperature), 0.0)


@triton.jit
def kept_mass(line, vocab, largest, temperature, border, lowest, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    mass = tl.zeros([COLUMNS], tl.float64)  # summed up by lanes: a sum over all of them waits for every warp
    for at in range(0, vocab, COLUMNS):
        column = at + tl.arange(0, COLUMNS)
        x = tl.load(line + column, mask=column < vocab, other=float("-inf"))
        mass += weigh(x, largest, temperature, border, lowest).to(tl.float64)
    return tl.sum(mass, 0)


@triton.jit
def passing(  # type: ignore[no-untyped-def]
    line, vocab, largest, temperature, border, lowest, goal, otherwise, COLUMNS: tl.constexpr
):  # fmt: skip
    """Return the first token whose sum of weights, from the beginning of the vocabulary on, passes `goal`; as long as
    none does, the last that could be drawn at all, or `otherwise`."""
    before = tl.full([], 0, tl.float64)
    begin = tl.full([], -1, tl.int32)  # of the columns in which it passes
    last = otherwise
    for at in range(0, vocab, COLUMNS):
        if begin < 0:
            column = at + tl.arange(0, COLUMNS)
            x = tl.load(line + column, mask=column < vocab, other=float("-inf"))
            weight = weigh(x, largest, temperature, border, lowest)
            here = tl.sum(weight.to(tl.float64), 0)
            final = tl.max(tl.where(weight > 0, column, -1), 0)
            last = tl.where(final >= 0, final, last)
            if before + here > goal:
                begin = at
            else:
                before += here
    if begin >= 0:
        column = begin + tl.arange(0, COLUMNS)
        x = tl.load(line + column, mask=column < vocab, other=float("-inf"))
        weight = weigh(x, largest, temperature, border, lowest)
        below = before + tl.cumsum(weight.to(tl.float64), 0)
        # Sums in another order may fall short of the goal by a bit: then it is the last that could be drawn.
        last = tl.minimum(last, tl.min(tl.where((weight > 0) & (below > goal), column, vocab), 0))
    return last


@triton.jit
def find_border(  # type: ignore[no-untyped-def]
    line, vocab, largest, temperature, border, goal, COUNT: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Find the highest rank from which on there are `goal` tokens (COUNT), or the mass `goal`, of those from `border`
    on."""
    found = tl.full([], 0, tl.int64)
    step = tl.full([], 268435456, tl.int64)  # 2 ** 28
    digits = tl.arange(0, 16).to(tl.int64)
    for _ in range(0, 8):
        candidates = found + digits * step  # [16]
        above = tl.zeros([16, COLUMNS], tl.float64)
        for at in range(0, vocab, COLUMNS):
            column = at + tl.arange(0, COLUMNS)
            x = tl.load(line + column, mask=column < vocab, other=float("-inf"))
            if COUNT:
                weight = ((column < vocab) & (rank(x) >= border)).to(tl.float64)
            else:
                weight = weigh(x, largest, temperature, border, float("-inf")).to(tl.float64)
            above += tl.where(rank(x)[None, :] >= candidates[:, None], weight[None, :], 0.0)
        enough = tl.sum((tl.sum(above, 1) >= goal).to(tl.int64), 0)
        found += tl.maximum(enough - 1, 0) * step
        step = step // 16
    return tl.maximum(found, border)
