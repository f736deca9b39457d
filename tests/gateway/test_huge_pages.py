"""Memory that the process keeps lies in huge pages, where the system has them, and means what it meant."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import pytest

from sluicegate.gateway import huge_pages
from sluicegate.gateway.huge_pages import _in_use, blocks, gather
from sluicegate.plugins.memory.huge_pages import BLOCK

MAPS = """\
55d6c8a00000-55d6c8e00000 rw-p 00000000 00:00 0                          [heap]
7f0000100000-7f0000500000 rw-p 00000000 00:00 0
7f0010000000-7f0010200000 r-xp 00000000 00:00 0
7f0020000000-7f0020400000 rw-p 00000000 08:01 77                         /usr/lib/with a blank.so
7f0030000000-7f0030400000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
7f0040000000-7f0041000000 rw-p 00000000 00:00 0                          [anon: pool]
7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0                          [stack]
"""


def test_whole_blocks_of_private_memory_are_found_small_mappings_first() -> None:
    found = list(blocks(MAPS))
    assert found[:3] == [0x55D6C8A00000, 0x55D6C8C00000, 0x7F0000200000]
    assert found[3:] == list(range(0x7F0040000000, 0x7F0041000000, BLOCK))
    assert not any(start % BLOCK for start in found)


def huge_kib() -> int:
    [line] = [line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if "AnonHugePages" in line]
    return int(line.split()[1])


def mapping() -> tuple[mmap.mmap, str]:
    """Return eight MiB in small pages, and the line that `/proc/self/maps` has of them."""
    memory = mmap.mmap(-1, 4 * BLOCK, mmap.MAP_PRIVATE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return memory, f"{place:x}-{place + len(memory):x} rw-p 00000000 00:00 0"


@pytest.mark.skipif(sys.platform != "linux", reason="pages of Linux")
def test_blocks_are_in_use_by_half_or_more() -> None:
    memory, line = mapping()
    system, found = ctypes.CDLL(None), list(blocks(line))
    for at in range(0, len(memory), BLOCK // 64):
        memory[at] = 1
    assert list(_in_use(system, line)) == []
    place = int(line.split("-")[0], 16)
    for at in range(found[1] - place, found[1] - place + BLOCK // 2, 4096):
        memory[at] = 1
    assert list(_in_use(system, line)) == [found[1]]


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages of Linux")
def test_memory_in_use_is_moved_with_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, _ = mapping()
    for at in range(0, len(memory), 4096):
        memory[at : at + 8] = at.to_bytes(8, "little")
    memory.madvise(mmap.MADV_HUGEPAGE)
    before, written = huge_kib(), bytes(memory)
    monkeypatch.setattr(huge_pages, "MOST", 4096)
    if not gather():
        pytest.skip("this system has no huge pages, or a kernel before 6.1")
    assert huge_kib() - before >= 3 * BLOCK // 1024
    assert memory[:] == written
