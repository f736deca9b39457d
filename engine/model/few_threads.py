"""Load small models on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sluicegate.engine.settings import thread_count


@contextmanager
def threads_for(parameters: int) -> Iterator[None]:
    """Limit torch to one thread within this context if a forward pass of the model would use one. Its products take
    microseconds; on a busy machine, waiting for a second thread was most of the load time."""
    before = torch.get_num_threads()
    if thread_count(parameters) > 1 or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def least_parameters(folder: Path) -> int:
    """Return a lower bound of a checkpoint's parameters, from the size of its files; 2^62 if it has none."""
    size = sum(file.stat().st_size for kind in ("*.safetensors", "*.bin") for file in folder.glob(kind))
    return size // 4 or 1 << 62
