"""Store recurrent states at block borders, so that a prompt with a known prefix can continue from there.

Blocks alone do not hold what a recurrent layer has read. A state is stored under the name of the block at whose end it
stands, for as long as that block is cached: its tokens are then compared as for any block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Seq

from sluicegate.engine.memory.blocks import Digest
from sluicegate.engine.memory.states import StatePool


class KeptStates:
    """Stores at most `count` states, in slots of `pool` from `first` on, evicting the least recently used. Used by the
    engine thread alone."""

    def __init__(self, pool: StatePool, first: int, count: int) -> None:
        self._pool = pool
        self._free = list(range(first + count - 1, first - 1, -1))
        self._kept: OrderedDict[Digest, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def save(self, digest: Digest, slot: int) -> None:
        """Store a copy of the states of `slot` under the name of the block at whose end they stand."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return
        to = self._free.pop() if self._free else self._kept.popitem(last=False)[1]
        self._pool.copy(slot, to)
        self._kept[digest] = to

    def longest(self, digests: Seq[Digest]) -> int:
        """Return the length of the longest prefix of `digests` whose last block has a stored state; 0 = none."""
        return next((count for count in range(len(digests), 0, -1) if digests[count - 1] in self._kept), 0)

    def restore(self, digest: Digest, slot: int) -> None:
        """Copy the state stored under `digest` to `slot`."""
        self._kept.move_to_end(digest)
        self._pool.copy(self._kept[digest], slot)

    def drop(self, digest: Digest) -> None:
        """Remove the state stored under `digest`, if any."""
        if (slot := self._kept.pop(digest, None)) is not None:
            self._free.append(slot)
