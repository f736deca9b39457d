"""Define the messages between the first process of a tensor-parallel model and its workers. They are pickled; the pipes
connect a process to its own children alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.engine.settings import AttentionKind, KVKind

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoadShard:
    """Load shard `rank` of a model. Not `proves`: skip the comparison at load, which the first process has already
    made."""

    rank: int
    size: int
    path: str
    dtype: str | None
    device: str
    threads: int | None
    proves: bool = True


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """Answer: the weights are in memory."""


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Connect to the group through the file `path`."""

    path: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ShardReady:
    """Answer: ready for steps; `version` is the digest of the loaded files."""

    version: str


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class OpenPool:
    """Make KV pool `pool`; answered by `PoolOpened` or `WorkerFailed`."""

    pool: int
    layers: Any
    """As in the first process: all shards have the same shapes."""
    num_blocks: int
    block_size: int
    attention: AttentionKind
    kv: KVKind
    max_tokens: int


@dataclass(frozen=True, slots=True)
class PoolOpened:
    """Answer: the pool exists."""


@dataclass(frozen=True, slots=True)
class ComputeStep:
    """Compute the tokens `ids` [T] at `positions` [T], written to `slots` [T] of a pool; logits of `wanted` [R]."""

    pool: int
    ids: I64
    positions: I64
    slots: I64
    wanted: I64
    stretches: list[tuple[int, int, I64]]
    """Start, count and block table of each sequence's new tokens."""


@dataclass(frozen=True, slots=True)
class ScrubBlocks:
    pool: int
    blocks: list[int]


@dataclass(frozen=True, slots=True)
class CopyBlocks:
    pool: int
    copies: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DropPool:
    pool: int
