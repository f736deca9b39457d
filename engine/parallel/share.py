"""One process's share of a model, and the two exchanges that make a whole of all shares.

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


class Share:
    """Share `rank` of `size`. For one thread at a time. The group is an object of its own, no default of the process:
    several models can be shared at once."""

    def __init__(self, rank: int, size: int, meet: Callable[[], None] | None = None) -> None:
        """Take the place `rank` of `size` processes. `meet` is called when the weights are in memory and no pass was
        computed yet: it waits for the other processes, and connects."""
        self.rank, self.size = rank, size
        self._meet = meet
        self._group: Any = None
        self._ended: Any = None
        """The last group: a thread may still wait in it, and gloo aborts the process where it is freed meanwhile."""

    def of(self, total: int) -> slice:
        """Return this share of `total` rows, a multiple of `size`."""
        each = total // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def meet(self) -> None:
        """Wait until all processes have their weights."""
        if self._meet is not None:
            self._meet()

    def connect(self, path: str, device: torch.device, timeout_s: float) -> None:
        """Form the group of all processes that name the same new file `path`, by gloo on CPUs and NCCL on CUDA devices.
        An exchange that takes longer than `timeout_s` fails. Nothing listens but on this machine. No thread may
        wait in the group before."""
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
        """Let an exchange that waits for a process that is gone fail; the group cannot be used any more. From any
        thread."""
        group, self._group = self._group, None
        self._ended = group or self._ended
        if group is not None and group.name() == "nccl":  # gloo's notices by itself that a connection was closed
            group.abort()

    def summed(self, part: Tensor) -> Tensor:
        """Return the sum of every process's `part`, which is overwritten."""
        part = part.contiguous()
        group = self._live()  # held until the exchange is over, whoever aborts it
        group.allreduce([part]).wait()
        return part

    def joined(self, part: Tensor) -> Tensor:
        """Return every process's `part` [..., w], one after another: [..., size * w]."""
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(self.size)]
        group = self._live()
        group.allgather([parts], [part]).wait()
        return torch.cat(parts, -1)

    def _live(self) -> Any:
        if self._group is None:
            raise RuntimeError("the processes of a shared model are not connected")
        return self._group
