"""Manage KV blocks: references to them, and reuse of cached blocks by prompts with a common prefix.

A full block is named by a keyed hash over (name of the block before it, its tokens). The chain starts from the model's
version and the tenant, so a tenant can neither read nor time another tenant's prefixes. A block without references
keeps its name until it is reused or, least recently used first, evicted: it counts as free.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np

Digest = bytes


class OutOfBlocks(Exception):
    """Raised when fewer blocks are free than requested; no block was taken."""


@dataclass(slots=True)
class _Block:
    holders: int = 0
    digest: Digest | None = None
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class PrefixCounters:
    """Prefix cache totals, in tokens: looked up, and found."""

    asked: int = 0
    found: int = 0


@dataclass(slots=True)
class OffloadCounters:
    """Offload totals, in blocks."""

    saved: int = 0
    restored: int = 0
    lost: int = 0
    """Blocks that could not be written, or were not read back as written."""


class Offload(Protocol):
    """Stores evicted blocks outside the pool; see `engine.memory.offload.OffloadStore`."""

    counters: OffloadCounters

    @property
    def kept_bytes(self) -> int: ...
    def save(self, index: int, digest: Digest, tokens: tuple[int, ...]) -> None: ...
    def has(self, digest: Digest, tokens: Seq[int]) -> bool: ...
    def load(self, index: int, digest: Digest) -> bool: ...
    def drop(self, digest: Digest) -> None: ...


class StateStore(Protocol):
    """Stores recurrent states under the names of blocks; see `engine.memory.kept_states.KeptStates`."""

    def save(self, digest: Digest, slot: int) -> None: ...
    def longest(self, digests: Seq[Digest]) -> int: ...
    def restore(self, digest: Digest, slot: int) -> None: ...
    def drop(self, digest: Digest) -> None: ...


class BlockPool:
    """Reference counts and names of `num_blocks` blocks of `block_size` positions. Used by the engine thread alone."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        reuse: bool = True,
        offload: Offload | None = None,
        states: StateStore | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.offload = offload
        self.states = states
        """Where recurrent layers store the states that reused blocks need."""
        self.block_size = block_size
        self.counters = PrefixCounters()
        self.reuses = reuse
        """Whether full blocks get a digest, by which other sequences find them."""
        self._blocks = [_Block() for _ in range(num_blocks)]
        self._free = list(range(num_blocks - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._named: dict[Digest, int] = {}
        self._key = os.urandom(16)

    @property
    def free_count(self) -> int:
        return len(self._free) + len(self._idle)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def take(self, count: int) -> list[int]:
        """Return `count` blocks with undefined contents and one reference each. Raises `OutOfBlocks`, taking none."""
        if count > self.free_count:
            raise OutOfBlocks(f"{count} KV blocks asked for, {self.free_count} of {self.num_blocks} are free")
        return [self._take_one() for _ in range(count)]

    def share(self, blocks: Seq[int]) -> None:
        """Add a reference to each of these blocks. Whoever shares a block that is not full must not write to it."""
        for index in blocks:
            self._hold(index)

    def release(self, blocks: Seq[int]) -> None:
        """Drop a reference to each block. A chain is released from its end, so that its last blocks are evicted
        first."""
        for index in reversed(blocks):
            block = self._blocks[index]
            block.holders -= 1
            assert block.holders >= 0, f"block {index} was released more often than taken"
            if block.holders == 0:
                self._retire(index, block)

    def root(self, version: str, tenant: str) -> Digest:
        """Return the name from which the chains of a tenant on a model version start."""
        return blake2b(f"{version}\0{tenant}".encode(), key=self._key, digest_size=16).digest()

    def name(self, parent: Digest, tokens: Seq[int]) -> Digest:
        """Return the name of a full block of `tokens` after the block named `parent`."""
        return blake2b(parent + np.asarray(tokens, np.int64).tobytes(), key=self._key, digest_size=16).digest()

    def extend_names(self, named: list[Digest], root: Digest, tokens: Seq[int], count: int) -> list[Digest]:
        """Return the names of the blocks filled by the first `count` of `tokens`; [] if the pool reuses nothing.

        `named` caches the names computed so far, and is extended in place. The first block follows `root`.
        """
        if not self.reuses:
            return []
        size = self.block_size
        for at in range(len(named), count // size):
            named.append(self.name(named[-1] if named else root, tokens[at * size : (at + 1) * size]))
        return named[: count // size]

    def match(self, digests: Seq[Digest], tokens: Seq[int]) -> list[int]:
        """Return the cached blocks of the longest known prefix of `tokens`, with a reference to each; `digests` name
        its full blocks.

        Tokens are compared, not only hashes: a collision must never serve someone else's keys and values.
        """
        found: list[int] = []
        for at, digest in enumerate(digests):
            index = self._named.get(digest)
            if index is None or self._blocks[index].tokens != self._cut(tokens, at):
                break
            self._hold(index)
            found.append(index)
        return found

    def restore(self, digests: Seq[Digest], tokens: Seq[int], start: int) -> list[int]:
        """Return consecutive cached blocks from block `start` on, with a reference to each.

        Offloaded blocks are loaded into free ones. Stops at the first block that is neither cached nor offloaded, or
        has no free block to go to. Contents are valid when this returns.
        """
        found: list[int] = []
        for at in range(start, len(digests) if self.offload is not None else start):
            cut = self._cut(tokens, at)
            if not (here := self.match(digests[at : at + 1], cut) or self._load(digests[at], cut)):
                break
            found += here
        return found

    def keep_state(self, digest: Digest, slot: int) -> None:
        """Store the recurrent states of `slot`, which end with the block named `digest`, if that block is cached."""
        if self.states is not None and digest in self._named:
            self.states.save(digest, slot)

    def publish(self, index: int, digest: Digest, tokens: Seq[int]) -> None:
        """Make a full, computed block available for reuse under `digest`. If another block has that name, nothing
        changes."""
        if self.reuses and digest not in self._named:
            self._named[digest] = index
            self._blocks[index].digest = digest
            self._blocks[index].tokens = tuple(tokens)

    def forget(self, blocks: Seq[int]) -> list[int]:
        """Remove the names of those of `blocks` that nobody else references, and return them: their contents must not
        be reused. Shared blocks keep their names."""
        own = [index for index in blocks if self._blocks[index].holders == 1]
        for index in own:
            if self.offload is not None and (digest := self._blocks[index].digest) is not None:
                self.offload.drop(digest)
            self._drop_digest(self._blocks[index])
        return own

    def _cut(self, tokens: Seq[int], at: int) -> tuple[int, ...]:
        return tuple(tokens[at * self.block_size : (at + 1) * self.block_size])

    def _hold(self, index: int) -> None:
        self._idle.pop(index, None)
        self._blocks[index].holders += 1

    def _load(self, digest: Digest, cut: tuple[int, ...]) -> list[int]:
        if self.offload is None or not self.free_count or not self.offload.has(digest, cut):
            return []
        index = self._take_one()
        # Taking a block may have offloaded another, and that may have pushed out the one that is looked for.
        if self.offload.has(digest, cut) and self.offload.load(index, digest):
            self.publish(index, digest, cut)
            return [index]
        self.release([index])
        return []

    def _take_one(self) -> int:
        index = self._free.pop() if self._free else self._evict()
        self._blocks[index].holders = 1
        return index

    def _evict(self) -> int:
        index, _ = self._idle.popitem(last=False)
        block = self._blocks[index]
        if self.offload is not None and block.digest is not None:
            self.offload.save(index, block.digest, block.tokens)
        self._drop_digest(block)
        return index

    def _drop_digest(self, block: _Block) -> None:
        if block.digest is not None:
            if self.states is not None:
                self.states.drop(block.digest)
            del self._named[block.digest]
            block.digest, block.tokens = None, ()

    def _retire(self, index: int, block: _Block) -> None:
        if block.digest is None:
            self._free.append(index)
        else:
            self._idle[index] = None
