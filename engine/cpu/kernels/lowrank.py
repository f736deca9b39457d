"""Adapters in the compiled forward pass: each run of tokens with an adapter gets its low-rank product added.

`low = down @ x` is made once for the layers that read the same x, then `up @ low` is added to each piece of a product
while that piece is in the cache. Tokens without an adapter cost nothing; every row's sums are made in the same order
whatever else is computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sluicegate.engine.cpu.kernels.products import multiply
from sluicegate.engine.cpu.kernels.rows import floats, integers
from sluicegate.plugins.compiled.kernels import kernel

I64 = npt.NDArray[np.int64]
LAYERS = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip
"""Linear layers of a decoder layer, in the order of the tables below."""
MOST_RANK = 256
_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)")
_NONE = np.zeros((0, 3), np.int64)
_TOKENS = 32
"""Most tokens of a span, so that long prompts are divided among threads."""


class Factors(Protocol):
    """See `engine.checkpoints.lora.LowRank`."""

    @property
    def down(self) -> Tensor: ...
    @property
    def up(self) -> Tensor: ...


class FactorTable:
    """`rows` int64 [layers * 7, 3]: addresses of `down` [r, in] and of `up` transposed [r, out], float32, and r; 0 =
    nothing is added there."""

    def __init__(self, places: Mapping[int, Factors], layers: int) -> None:
        self.rows = np.zeros((len(LAYERS) * layers, 3), np.int64)
        self._kept: list[Tensor] = []
        for place, pair in places.items():
            down, up = pair.down.float().contiguous(), pair.up.float().T.contiguous()
            self._kept += [down, up]
            self.rows[place] = down.data_ptr(), up.data_ptr(), len(down)

    @property
    def address(self) -> int:
        return int(self.rows.ctypes.data)


def factor_table(factors: Mapping[str, Factors], layers: int) -> FactorTable | None:
    """Return the table of an adapter's factors; None where it changes a layer that the program has no place for:
    embeddings and the vocabulary."""
    places: dict[int, Factors] = {}
    for name, pair in factors.items():
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in LAYERS:
            return None
        places[len(LAYERS) * int(match[1]) + LAYERS.index(match[2])] = pair
    return FactorTable(places, layers)


def span_rows(spans: Seq[tuple[int, int, FactorTable]]) -> I64:
    """Return int64 [n, 3]: first token, tokens, address of the adapter's table. Neighbours with one adapter are
    joined."""
    if not spans:
        return _NONE
    joined: list[tuple[int, int, FactorTable]] = []
    for first, count, table in spans:
        if joined and joined[-1][2] is table and joined[-1][0] + joined[-1][1] == first:
            first, before, _ = joined.pop()
            count += before
        joined.append((first, count, table))
    found = [
        (first + at, min(_TOKENS, count - at), table.address)
        for first, count, table in joined
        for at in range(0, count, _TOKENS)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


@kernel()
def lower(spans, count, x, ldx, k, layer, layers, low, ldlow, piece, pieces):  # type: ignore[no-untyped-def]
    """Write `low[t, i] = down of layer + i @ x[t]`, [tokens, layers, MOST_RANK], for this piece of the `count`
    spans."""
    table = integers(spans, 3 * count)
    for span in range(count * piece // pieces, count * (piece + 1) // pieces):
        first, tokens, factors = table[3 * span], table[3 * span + 1], table[3 * span + 2]
        for index in range(layers):
            pair = integers(factors + 24 * (layer + index), 3)
            if pair[2]:
                out = low + first * ldlow + 4 * MOST_RANK * index
                multiply(x + first * ldx, ldx, tokens, pair[0], 4 * k, k, pair[2], out, ldlow, 0)


@kernel(f"void({', '.join(['int64'] * 10)})")
def lift(spans, count, layer, low, ldlow, first_column, columns, width, out, ldo):  # type: ignore[no-untyped-def]
    """Add `up @ low` to columns [first_column, first_column + columns) of a layer's `width` outputs; `out` is where the
    first of these columns is kept for token 0."""
    table = integers(spans, 3 * count)
    for span in range(count):
        first, tokens, factors = table[3 * span], table[3 * span + 1], table[3 * span + 2]
        pair = integers(factors + 24 * layer, 3)
        for token in range(first, first + tokens):
            inner, place = floats(low + token * ldlow, pair[2]), floats(out + token * ldo, columns)
            for rank in range(pair[2]):
                factor, row = inner[rank], floats(pair[1] + 4 * (rank * width + first_column), columns)
                for column in range(columns):
                    place[column] += factor * row[column]
