"""Pass token masks to the forward pass, so that a row whose mask allows few tokens gets only their logits computed.

Masks are filled while the forward pass runs. The product with the vocabulary is its last part, so they are mostly ready
when it begins; a row without its mask by then is computed whole. Addresses are int64.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from sluicegate.engine.cpu.kernels.machine import read, write
from sluicegate.engine.cpu.kernels.rows import integers, words
from sluicegate.plugins.compiled.kernels import kernel

I32 = npt.NDArray[np.int32]
_SHARE = 8
"""A row whose mask allows at most one in this many tokens is computed separately. One product alone takes about four
times its time beside seven others."""


class WantedLogits:
    """The masks of one step. Created by the thread that computes it, set by the one that fills masks, at any time."""

    def __init__(self, rows: int) -> None:
        self._marks = np.zeros(1 + rows, np.int64)
        """First entry: whether any mask was set. Then, for each row, the address of its mask; 0 = all of its logits are
        wanted."""
        self._kept: I32 | None = None

    @property
    def address(self) -> int:
        return int(self._marks.ctypes.data)

    def mark_refused(self, bitmask: I32, rows: Seq[int]) -> None:
        """Declare that logits refused by `bitmask[i]` (int32 [M, words]) will not be read in row `rows[i]`; -1 = they
        may be."""
        self._kept = bitmask
        mark_rows(self._marks, bitmask, np.array(rows, np.int64))


@kernel("void(int64[::1], int32[:, ::1], int64[::1])")
def mark_rows(told, bitmask, rows):  # type: ignore[no-untyped-def]
    most = 32 * bitmask.shape[1] // _SHARE
    for index in range(len(rows)):
        mask = bitmask[index]
        if rows[index] >= 0 and _count(mask) <= most:
            told[1 + rows[index]] = mask.ctypes.data
    write(told.ctypes.data, 1)


@kernel()
def _count(mask):  # type: ignore[no-untyped-def]
    found = np.int64(0)
    for word in mask:
        bits = np.uint32(word)
        bits -= (bits >> np.uint32(1)) & np.uint32(0x55555555)
        bits = (bits & np.uint32(0x33333333)) + ((bits >> np.uint32(2)) & np.uint32(0x33333333))
        bits = (bits + (bits >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
        found += np.int64((bits * np.uint32(0x01010101)) >> np.uint32(24)) & np.int64(0xFF)
    return found


@kernel()
def sort_rows(told, rows, order, masks):  # type: ignore[no-untyped-def]
    """Sort rows whose logits are all needed to the front; return their number.

    `order` and `masks` are addresses of int64 [rows]: row numbers in the new order, and the masks of the rows after the
    front. `told`: `WantedLogits.address`, 0 = none.
    """
    is_known = told != 0 and read(told) != 0
    places, found = integers(order, rows), integers(masks, rows)
    whole = 0
    for row in range(rows):
        if not is_known or integers(told, rows + 1)[row + 1] == 0:
            places[whole] = row
            whole += 1
    at = whole
    for row in range(rows if whole < rows else 0):
        mask = integers(told, rows + 1)[row + 1]
        if mask != 0:
            places[at] = row
            found[at] = mask
            at += 1
    return whole


@kernel()
def allowed_in(mask, first, count):  # type: ignore[no-untyped-def]
    """Return bits [first, first + count) of the mask at this address, as an integer; count <= 32."""
    last = (first + count - 1) // 32
    found = words(mask, last + 1)
    bits = np.int64(found[first // 32]) & np.int64(0xFFFFFFFF)
    if last > first // 32:
        bits |= np.int64(found[last]) << np.int64(32)
    return (bits >> np.int64(first % 32)) & ((np.int64(1) << np.int64(count)) - np.int64(1))
