"""Put the weights that a step reads from end to end into huge pages.

A step reads every weight once. In pages of 4 KiB that is a page's address to be found for each 4 KiB read, twice as
dear under a hypervisor, and the processor fetches ahead only to the end of a page.

Not covered: systems other than Linux on 64 bits, kernels before 6.1, and those that were told to have no huge pages:
weights stay where they are there. Memory on the edge of a run of weights, less than half of a block, is not moved.
Finding a huge page takes a virtual machine some 5 ms, so it is done beside a model that answers already.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from torch import Tensor

from sluicegate.plugins.memory.huge_pages import BLOCK, collapse, system


def settle(tensors: Iterable[Tensor]) -> int:
    """Move the memory of CPU tensors into huge pages; return the number of blocks moved. Contents and addresses do not
    change; other threads may read them meanwhile."""
    return _move(_blocks_of(tensors))


def settle_beside(tensors: Iterable[Tensor]) -> threading.Thread | None:
    """Call `settle` on a background thread and return it; None if there is nothing to move. Tensors may be freed
    meanwhile: moving whatever then lies there changes no contents."""
    found = _blocks_of(tensors)
    if not found:
        return None
    thread = threading.Thread(target=_move, args=(found,), name="huge-pages", daemon=True)
    thread.start()
    return thread


def _blocks_of(tensors: Iterable[Tensor]) -> list[int]:
    if system() is None:
        return []
    return blocks((tensor.data_ptr(), tensor.nbytes) for tensor in tensors if tensor.device.type == "cpu")


def _move(found: list[int]) -> int:
    """Move blocks, one per system call: another thread that allocates memory then waits for one block at most."""
    linux = system()
    return 0 if linux is None else sum(collapse(linux, block * BLOCK) for block in found)


def blocks(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the numbers of blocks of which `ranges` (address, bytes) together cover more than half. Large tensors are
    adjacent, and share the blocks at their borders."""
    covered: Counter[int] = Counter()
    for start, size in set(ranges):
        first, last = start // BLOCK, (start + size) // BLOCK
        for block in range(first, last + 1):
            covered[block] += min(start + size, (block + 1) * BLOCK) - max(start, block * BLOCK)
    return sorted(block for block, held in covered.items() if held > BLOCK // 2)
