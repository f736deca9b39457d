"""Hold a growing text that a guard reads: its tokens, and the KV blocks of those computed.

Nothing is drawn from it, and between two calls it has no pending tokens. Its full blocks are named and shared like
those of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sluicegate.engine.memory.blocks import BlockPool, Digest


@dataclass(slots=True, eq=False)
class GrowingText:
    """A text for one guard. `blocks` hold keys and values of the first `computed` tokens. Used by the engine thread
    alone."""

    root: Digest
    """Digest at which the tenant's chains of blocks begin."""
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    born: int = 0
    """Its number among all texts; 0 = no question was asked about it yet."""
    used_s: float = 0.0
    """When its newest tokens were computed, on the monotonic clock."""
    closed: bool = False
    _table: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, np.int64))
    _digests: list[Digest] = field(default_factory=list)

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """Return the block table, int64; entries after the last block are undefined."""
        return self._table

    def find(self, pool: BlockPool, before: int) -> None:
        """Take cached blocks for the first `before` tokens from the pool, if the text has no blocks yet."""
        if not self.blocks:
            self._hold(pool.match(self._named(pool, min(before, len(self.tokens) - 1)), self.tokens))
            self.computed = len(self.blocks) * pool.block_size
            pool.counters.asked += len(self.tokens)
            pool.counters.found += self.computed

    def lacks(self, pool: BlockPool, count: int) -> int:
        """Return how many more blocks `count` more tokens need."""
        return max(0, pool.blocks_for(self.computed + count) - len(self.blocks))

    def take(self, pool: BlockPool, blocks: int) -> None:
        self._hold(pool.take(blocks))

    def advance(self, pool: BlockPool, count: int) -> None:
        """Count `count` more tokens as computed, and publish blocks that are now full."""
        size, before = pool.block_size, self.computed // pool.block_size
        self.computed += count
        names = self._named(pool, self.computed)
        for at in range(before, len(names)):
            pool.publish(self.blocks[at], names[at], self.tokens[at * size : (at + 1) * size])

    def give_up(self, pool: BlockPool) -> None:
        """Release all blocks; they are found in the cache or recomputed when next needed."""
        pool.release(self.blocks)
        self.blocks, self.computed = [], 0

    def _hold(self, blocks: list[int]) -> None:
        start, end = len(self.blocks), len(self.blocks) + len(blocks)
        if end > len(self._table):
            self._table = np.concatenate([self._table, np.zeros(max(end, len(self._table)), np.int64)])
        self._table[start:end] = blocks
        self.blocks += blocks

    def _named(self, pool: BlockPool, tokens: int) -> list[Digest]:
        """Return the names of the blocks filled by the first `tokens` tokens."""
        return pool.extend_names(self._digests, self.root, self.tokens, tokens)
