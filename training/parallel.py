"""Data-parallel training over processes of one thread each: one meeting per step.

Two threads that meet at every operation stand still whenever something else wants a core; two processes that meet
once a step do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import spawn


def launch(work: Callable[..., None], processes: int, folder: Path, *arguments: object) -> None:
    """Run `work(rank, *arguments)` in so many processes, joined in one gloo group when there are several."""
    if processes == 1:
        work(0, *arguments)
        return
    meeting = (folder / "meeting").resolve()
    meeting.unlink(missing_ok=True)
    spawn(_joined, args=(processes, meeting, work, arguments), nprocs=processes)  # type: ignore[no-untyped-call]


def _joined(rank: int, processes: int, meeting: Path, work: Callable[..., None], arguments: tuple[object, ...]) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
    try:
        work(rank, *arguments)
    finally:
        dist.destroy_process_group()


@torch.no_grad()
def average(parameters: Iterable[Tensor], *numbers: float) -> list[float]:
    """Replace every gradient by its mean over the processes; return the means of `numbers`."""
    if not dist.is_initialized():
        return list(numbers)
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients] + [torch.tensor(numbers)])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
    return [float(number) for number in flat[-len(numbers) :]]
