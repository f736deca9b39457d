"""Find the states that unfinished characters in a table of string bodies may lead to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluicegate.plugins.compiled.kernels import kernel

_WORD = 64


def character_ends(table: npt.NDArray[np.int32], chars: int) -> npt.NDArray[np.uint64]:
    """Return uint64[S, W]: for each state of a `StringTable` the states of its texts, as bits, that the character begun
    there may lead to; between characters, which is in the first `chars` states, the state itself."""
    ends = np.zeros((table.shape[0], (chars + _WORD - 1) // _WORD), np.uint64)
    between = np.arange(chars)
    ends[between, between // _WORD] = np.uint64(1) << (between % _WORD).astype(np.uint64)
    gather_ends(table, chars, ends)
    return ends


def _gather_by_numpy(table: npt.NDArray[np.int32], chars: int, ends: npt.NDArray[np.uint64]) -> None:
    for state in range(chars, table.shape[0] - 1):
        row = table[state]
        ends[state] = np.bitwise_or.reduce(ends[np.unique(row[row >= 0])], axis=0)


@kernel("(int32[:, ::1], int64, uint64[:, ::1])", python=_gather_by_numpy)
def gather_ends(table, chars, ends):  # type: ignore[no-untyped-def]
    """Write the rows of `ends` for states inside a character: each stands behind all that it leads to."""
    for state in range(chars, table.shape[0] - 1):
        last = -1
        for byte in range(table.shape[1]):
            after = table[state, byte]
            if after >= 0 and after != last:
                for word in range(ends.shape[1]):
                    ends[state, word] |= ends[after, word]
            last = after


def warm() -> None:
    """Load or compile the loop of this file."""
    gather_ends(np.full((2, 256), -1, np.int32), 1, np.zeros((2, 1), np.uint64))
