"""Capture work on a CUDA device as a graph. Imported without Triton, unlike the graphs of decode steps."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import TokenSpan

I64 = npt.NDArray[np.int64]
Replay = Callable[[], None]


class Capture(Protocol):
    """Captures `work` as a graph, after calling it at least once; returns a function that replays it on the same
    tensors, with their contents at that time."""

    def __call__(self, work: Callable[[], None]) -> Replay: ...


class CudaCapture:
    """Captures graphs of one device in a shared memory pool: they share temporary memory, so only one may run at a
    time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)

    def __call__(self, work: Callable[[], None]) -> Replay:
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                work()  # compiles kernels and has libraries take their memory, neither of which can be captured
                work()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Other threads may load a model or fill masks meanwhile; only this one must keep to what can be captured.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                work()
        replay: Replay = graph.replay
        return replay


class StepGraphs(Protocol):
    """Captured forward passes; see `sluicegate.engine.cuda.graphs.DecodeGraphs`."""

    def warm_up(self) -> None: ...

    def run(
        self, ids: I64, positions: I64, slots: I64, stretches: Seq[TokenSpan]
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return logits [T, V] and states [T, d] for `ids`, `positions`, `slots` [T]; None if no graph fits the
        step."""


class FusedForward(Protocol):
    """A forward pass with few kernel launches; see `sluicegate.engine.cuda.fused_pass.FusedPass`."""

    def logits(
        self, ids: Tensor, positions: Tensor, wanted: Tensor | None, paged: Any, *, adapted: bool = False
    ) -> Tensor:
        """Return logits [R, V] in the model's dtype at the places `wanted` [R]."""
