"""Define one process's shard of a model, and its two collectives: all-reduce and all-gather.

Layers are split as Shoeybi et al., "Megatron-LM" (2019) do: a product whose outputs are split feeds one whose inputs
are, so that one sum over all processes follows each attention and each MLP. Between them every process has the same
states.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

_C10D: Any = torch.distributed  # its stubs leave out most of what it offers


class Shard:
    """Shard `rank` of `size`, and its process group. For one thread at a time. The group is not the process-wide
    default, so several models can be sharded at once."""

    def __init__(self, rank: int, size: int, wait_for_peers: Callable[[], None] | None = None) -> None:
        """Become process `rank` of `size`. `wait_for_peers` is called once the weights are in memory, before the first
        pass: it waits for the other processes and connects."""
        self.rank, self.size = rank, size
        self._wait_for_peers = wait_for_peers
        self._group: Any = None
        self._ended: Any = None
        """The previous group: a thread may still wait in it, and gloo aborts the process if it is freed meanwhile."""

    def slice_of(self, total: int) -> slice:
        """Return this shard's slice of `total` rows; `total` must be a multiple of `size`."""
        each = total // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def wait_for_peers(self) -> None:
        """Wait until all processes have loaded their weights."""
        if self._wait_for_peers is not None:
            self._wait_for_peers()

    def connect(self, path: str, device: torch.device, timeout_s: float) -> None:
        """Form the group of all processes that pass the same new file `path`, by gloo on CPUs and NCCL on CUDA devices.

        A collective that takes longer than `timeout_s` fails. Listens on the loopback interface only. No thread may be
        waiting in an earlier group.
        """
        self._ended = None
        store, limit = _C10D.FileStore(path, self.size), timedelta(seconds=timeout_s)
        if device.type == "cuda":
            torch.cuda.set_device(device)
            own = _C10D.ProcessGroupNCCL.Options()
            own._timeout = limit
            self._group = _C10D.ProcessGroupNCCL(store, self.rank, self.size, own)
            return
        local = _C10D.ProcessGroupGloo._Options()
        local._devices = [_C10D.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        local._timeout = limit
        self._group = _C10D.ProcessGroupGloo(store, self.rank, self.size, local)

    def abort(self) -> None:
        """Make a collective that waits for a dead process fail; the group is unusable afterwards. From any thread."""
        group, self._group = self._group, None
        self._ended = group or self._ended
        if group is not None and group.name() == "nccl":  # gloo's notices by itself that a connection was closed
            group.abort()

    def all_reduce(self, part: Tensor) -> Tensor:
        """Return the sum of `part` over all processes (all-reduce); overwrites `part`."""
        part = part.contiguous()
        group = self._live()  # held until the exchange is over, whoever aborts it
        group.allreduce([part]).wait()
        return part

    def all_gather(self, part: Tensor) -> Tensor:
        """Concatenate `part` [..., w] of all processes, in order of rank, to [..., size * w] (all-gather)."""
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(self.size)]
        group = self._live()
        group.allgather([parts], [part]).wait()
        return torch.cat(parts, -1)

    def _live(self) -> Any:
        if self._group is None:
            raise RuntimeError("the processes of a shared model are not connected")
        return self._group
