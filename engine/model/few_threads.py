"""Load small models on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sluicegate.engine.settings import thread_count


@contextmanager
def threads_for(parameters: int) -> Iterator[None]:
    """Let torch compute here on one thread where a pass of such a model would take one: its products last microseconds,
    and waiting for a second thread was most of a load on a busy machine."""
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
    """Return how many parameters a folder's weights are at least, from the size of its files; where there are none, as
    many as any model has."""
    size = sum(file.stat().st_size for kind in ("*.safetensors", "*.bin") for file in folder.glob(kind))
    return size // 4 or 1 << 62
