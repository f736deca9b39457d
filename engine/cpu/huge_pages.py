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
    """Move the memory of tensors on a CPU into huge pages, and return how many blocks were. What they hold, and where,
    stays the same; others may read them meanwhile."""
    return _move(_blocks_of(tensors))


def settle_beside(tensors: Iterable[Tensor]) -> threading.Thread | None:
    """Do so on a thread of its own; None where there is nothing to move. The tensors may go before it is done: to move
    whatever lies in their place then changes nothing but where it lies."""
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
    """Move blocks, one a call: other threads that need new memory wait for no more than one."""
    linux = system()
    return 0 if linux is None else sum(collapse(linux, block * BLOCK) for block in found)


def blocks(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the numbers of the blocks that are covered to more than a half by ranges (address, bytes) together: large
    tensors lie one behind the other, and share the blocks on their borders."""
    covered: Counter[int] = Counter()
    for start, size in set(ranges):
        first, last = start // BLOCK, (start + size) // BLOCK
        for block in range(first, last + 1):
            covered[block] += min(start + size, (block + 1) * BLOCK) - max(start, block * BLOCK)
    return sorted(block for block, held in covered.items() if held > BLOCK // 2)
