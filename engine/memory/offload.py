"""Keep evicted KV blocks in a bounded file, or in memory beside a device's, so that a later prompt gets them back.

A block is kept under its name in the prefix cache, which is keyed by a secret of this process, the model (or adapter)
and the tenant; so nobody finds what is another's, and the file, which has no name on the disk, means nothing to anyone
after the process. A block that cannot be written, or does not read back as it was written, is a miss.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import RawIOBase
from threading import BoundedSemaphore
from zlib import crc32

from sluicegate.engine.memory.blocks import Digest, OffloadCounters
from sluicegate.engine.memory.kv import KVPool
from sluicegate.plugins import ConfigurationError

WAITING = 64
"""Most blocks waiting to be written; with a disk too slow for that, fewer blocks are kept."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _OffloadedBlock:
    slot: int
    tokens: tuple[int, ...]
    checksum: int
    data: bytes | None
    """None once it is written."""


class OffloadStore:
    """Stores at most `budget_bytes` of blocks, evicting the least recently used. Used by the engine thread; its own
    thread writes. Takes part in a `BlockPool`, whose block `index` is block `index` of `pool`."""

    def __init__(self, pool: KVPool, budget_bytes: int, folder: str | None = None) -> None:
        """Open a file in `folder` for `budget_bytes`; None = in memory. Raises `ConfigurationError` where that is less
        than one block, or more than the machine's memory."""
        self.counters = OffloadCounters()
        self._pool = pool
        self._slots = budget_bytes // pool.block_bytes
        self._used_slots = 0
        """The slots from here on were never used."""
        self._free_slots: list[int] = []
        if self._slots < 1:
            raise ConfigurationError(
                f"engine: offload_bytes is {budget_bytes}, and one block has {pool.block_bytes}; give room for many"
            )
        if folder is None and budget_bytes > (memory := memory_bytes()):
            raise ConfigurationError(
                f"engine: offload_bytes is {budget_bytes:,}, and this machine has {memory:,} bytes of memory; "
                "lower it, or name a folder for the file (offload_path)"
            )
        self._file = _open(folder)
        self._kept: OrderedDict[Digest, _OffloadedBlock] = OrderedDict()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="kv-offload")
        self._room = BoundedSemaphore(WAITING)

    @property
    def kept_bytes(self) -> int:
        return len(self._kept) * self._pool.block_bytes

    def save(self, index: int, digest: Digest, tokens: tuple[int, ...]) -> None:
        """Store a copy of block `index`, which is about to be overwritten."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return
        if not self._room.acquire(blocking=False):
            self.counters.lost += 1
            return
        data = self._pool.read_block(index)
        kept = self._kept[digest] = _OffloadedBlock(self._slot(), tokens, crc32(data), data)
        self.counters.saved += 1
        self._writer.submit(self._write, kept, data)

    def _slot(self) -> int:
        """Return a free slot, that of the least recently used block where there is none."""
        if self._free_slots:
            return self._free_slots.pop()
        if self._used_slots < self._slots:
            self._used_slots += 1
            return self._used_slots - 1
        return self._kept.popitem(last=False)[1].slot

    def has(self, digest: Digest, tokens: Seq[int]) -> bool:
        kept = self._kept.get(digest)
        return kept is not None and kept.tokens == tuple(tokens)

    def load(self, index: int, digest: Digest) -> bool:
        """Copy the block stored under `digest` into block `index`; return False if it was lost."""
        kept = self._kept[digest]
        data = kept.data
        if data is None:
            data = self._read(kept)
        if len(data) != self._pool.block_bytes or crc32(data) != kept.checksum:
            self.drop(digest)
            self.counters.lost += 1
            return False
        self._kept.move_to_end(digest)
        self._pool.write_block(index, data)
        self.counters.restored += 1
        return True

    def drop(self, digest: Digest) -> None:
        if kept := self._kept.pop(digest, None):
            self._free_slots.append(kept.slot)

    def _read(self, kept: _OffloadedBlock) -> bytes:
        try:
            return os.pread(self._file.fileno(), self._pool.block_bytes, kept.slot * self._pool.block_bytes)
        except OSError as error:
            _LOG.warning("a KV block could not be read back: %s", error)
            return b""

    def _write(self, kept: _OffloadedBlock, data: bytes) -> None:
        """Write on the store's thread, in the order of `save`: a place that changes hands is written last by its owner.
        A block that was not written does not have its checksum when it is read."""
        try:
            os.pwrite(self._file.fileno(), data, kept.slot * len(data))
        except OSError as error:
            _LOG.warning("a KV block could not be written: %s", error)
        finally:
            kept.data = None
            self._room.release()


def memory_bytes() -> int:
    """Return the size of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _open(folder: str | None) -> RawIOBase:
    """Open a file that nobody else can open, and that is gone with the process. Raises `ConfigurationError`."""
    if folder is None:
        if hasattr(os, "memfd_create"):
            return open(os.memfd_create("kv-offload"), "r+b", buffering=0)
        raise ConfigurationError("engine: offload_bytes without offload_path needs Linux; name a folder for the file")
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0, prefix="kv-offload-")
    except OSError as error:
        raise ConfigurationError(f"engine: no file can be made in offload_path {folder!r}: {error}") from error
