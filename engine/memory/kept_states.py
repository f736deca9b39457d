"""Keep states of recurrent layers at borders of blocks, so that a prompt that begins like an earlier one goes on there.

Blocks alone do not say what a recurrent layer has seen. A state is kept under the name of the block that ends where it
stands, and only as long as that block has its name: then the tokens before it were compared, as for any block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Seq

from sluicegate.engine.memory.blocks import Digest
from sluicegate.engine.memory.states import StatePool


class KeptStates:
    """At most `count` states, in places of `pool` from `first` on; least recently used out first. Used by the engine
    thread alone."""

    def __init__(self, pool: StatePool, first: int, count: int) -> None:
        self._pool = pool
        self._free = list(range(first + count - 1, first - 1, -1))
        self._kept: OrderedDict[Digest, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def save(self, digest: Digest, place: int) -> None:
        """Keep a copy of the states of `place` under the name of the block that ends there."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return
        to = self._free.pop() if self._free else self._kept.popitem(last=False)[1]
        self._pool.copy(place, to)
        self._kept[digest] = to

    def longest(self, digests: Seq[Digest]) -> int:
        """Return how many of the blocks named `digests`, from the first on, end where a state is kept."""
        return next((count for count in range(len(digests), 0, -1) if digests[count - 1] in self._kept), 0)

    def restore(self, digest: Digest, place: int) -> None:
        """Copy what was kept under a name to `place`."""
        self._kept.move_to_end(digest)
        self._pool.copy(self._kept[digest], place)

    def drop(self, digest: Digest) -> None:
        """Forget what was kept under a name, if anything was."""
        if (place := self._kept.pop(digest, None)) is not None:
            self._free.append(place)
