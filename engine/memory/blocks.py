"""Manage KV blocks: who holds which, and which can be reused for another prompt's beginning.

A full block is named by a keyed hash over (name of the block before it, its tokens); the chain starts from the model's
version and the tenant, so a tenant can neither read nor time another tenant's prefixes. A block that nobody holds keeps
its name and waits, least recently used first, to be reused or evicted: it counts as free.
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
    """The pool has fewer free blocks than asked for; nothing was taken."""


@dataclass(slots=True)
class _Block:
    holders: int = 0
    digest: Digest | None = None
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class PrefixCounters:
    """In tokens: how many a match was asked for, and how many it found."""

    asked: int = 0
    found: int = 0


@dataclass(slots=True)
class OffloadCounters:
    """In blocks."""

    saved: int = 0
    restored: int = 0
    lost: int = 0
    """Not written, or not read back as written."""


class Offload(Protocol):
    """Keeps evicted blocks and brings them back; see `engine.memory.offload.OffloadStore`."""

    counters: OffloadCounters

    @property
    def kept_bytes(self) -> int: ...
    def save(self, index: int, digest: Digest, tokens: tuple[int, ...]) -> None: ...
    def has(self, digest: Digest, tokens: Seq[int]) -> bool: ...
    def load(self, index: int, digest: Digest) -> bool: ...
    def drop(self, digest: Digest) -> None: ...


class StateStore(Protocol):
    """Keeps states of recurrent layers under names of blocks; see `engine.memory.kept_states.KeptStates`."""

    def save(self, digest: Digest, place: int) -> None: ...
    def longest(self, digests: Seq[Digest]) -> int: ...
    def restore(self, digest: Digest, place: int) -> None: ...
    def drop(self, digest: Digest) -> None: ...


class BlockPool:
    """`num_blocks` blocks of `block_size` positions. Used by the engine thread alone."""

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
        """Where recurrent layers keep states, those that blocks can be reused with."""
        self.block_size = block_size
        self.counters = PrefixCounters()
        self.reuses = reuse
        """Full blocks are named, and found again by others."""
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
        """Return `count` blocks with undefined contents, each with one hold. Raises `OutOfBlocks`."""
        if count > self.free_count:
            raise OutOfBlocks(f"{count} KV blocks asked for, {self.free_count} of {self.num_blocks} are free")
        return [self._take_one() for _ in range(count)]

    def share(self, blocks: Seq[int]) -> None:
        """Add one hold on each of these held blocks; whoever shares a block that is not full must not write there."""
        for index in blocks:
            self._hold(index)

    def release(self, blocks: Seq[int]) -> None:
        """Give up one hold on each. The last of a chain is given back first, so that it is evicted first."""
        for index in reversed(blocks):
            block = self._blocks[index]
            block.holders -= 1
            assert block.holders >= 0, f"block {index} was released more often than taken"
            if block.holders == 0:
                self._retire(index, block)

    def root(self, version: str, tenant: str) -> Digest:
        """Return the name where the chains of a tenant on a model begin."""
        return blake2b(f"{version}\0{tenant}".encode(), key=self._key, digest_size=16).digest()

    def name(self, parent: Digest, tokens: Seq[int]) -> Digest:
        """Return the name of a full block of `tokens` after the block named `parent`."""
        return blake2b(parent + np.asarray(tokens, np.int64).tobytes(), key=self._key, digest_size=16).digest()

    def extend_names(self, named: list[Digest], root: Digest, tokens: Seq[int], count: int) -> list[Digest]:
        """Return the names of the blocks that the first `count` of `tokens` fill, of which `named` keeps those known so
        far; none where nothing is reused. The first block comes after `root`."""
        if not self.reuses:
            return []
        size = self.block_size
        for at in range(len(named), count // size):
            named.append(self.name(named[-1] if named else root, tokens[at * size : (at + 1) * size]))
        return named[: count // size]

    def match(self, digests: Seq[Digest], tokens: Seq[int]) -> list[int]:
        """Hold and return the blocks of the longest known beginning of `tokens`; `digests` name its full blocks.

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
        """Acquire consecutive cached blocks from block `start` on, as far as they are in the pool or were offloaded and
        there are free blocks to put them into. Contents are there when this returns."""
        found: list[int] = []
        for at in range(start, len(digests) if self.offload is not None else start):
            cut = self._cut(tokens, at)
            if not (here := self.match(digests[at : at + 1], cut) or self._load(digests[at], cut)):
                break
            found += here
        return found

    def keep_state(self, digest: Digest, place: int) -> None:
        """Keep the states of `place`, which stand where the block named `digest` ends, as long as it has its name."""
        if self.states is not None and digest in self._named:
            self.states.save(digest, place)

    def publish(self, index: int, digest: Digest, tokens: Seq[int]) -> None:
        """Offer a held block, now full and computed, for reuse. The first block of a name keeps it."""
        if self.reuses and digest not in self._named:
            self._named[digest] = index
            self._blocks[index].digest = digest
            self._blocks[index].tokens = tuple(tokens)

    def forget(self, blocks: Seq[int]) -> list[int]:
        """Take the names from those of these blocks that nobody else holds, and return them: their contents must not be
        reused. A block that others share keeps its name."""
        own = [index for index in blocks if self._blocks[index].holders == 1]
        for index in own:
            if self.offload is not None and (digest := self._blocks[index].digest) is not None:
                self.offload.drop(digest)
            self._unname(self._blocks[index])
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
        self._unname(block)
        return index

    def _unname(self, block: _Block) -> None:
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
