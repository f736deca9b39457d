"""The bytes of all tokens in one array, so that what is asked of every token is asked at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class WordBytes:
    """Token t is spelled by `data[starts[t]:ends[t]]`. `data` has a byte more where no token has any."""

    data: npt.NDArray[np.uint8]
    starts: I64
    ends: I64
    sizes: I64

    def holding(self, byte: int) -> list[int]:
        """Return the tokens with `byte` anywhere."""
        places = np.flatnonzero(self.data == byte)
        places = places[places < (self.ends[-1] if self.ends.size else 0)]
        tokens: list[int] = np.unique(np.searchsorted(self.ends, places, side="right")).tolist()
        return tokens

    def beginning(self, firsts: Iterable[int]) -> list[int]:
        """Return the tokens whose first byte is among `firsts`."""
        wanted = np.zeros(256, np.bool_)
        wanted[list(firsts)] = True
        some = np.flatnonzero(self.sizes)
        tokens: list[int] = some[wanted[self.data[self.starts[some]]]].tolist()
        return tokens


def word_bytes(words: Sequence[bytes]) -> WordBytes:
    """Return the bytes of `words`, one after another."""
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    ends = np.cumsum(sizes)
    return WordBytes(np.frombuffer(b"".join(words) or b"\0", np.uint8), ends - sizes, ends, sizes)
