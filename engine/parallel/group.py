"""Coordinate a tensor-parallel model from its first process, which schedules and samples; the workers only compute.

Each pass is announced to all workers before it begins; in it they wait for each other at every all-reduce. A pass that
fails anywhere ends the group, since the state of the others is unknown: running requests get a typed error, and the
engine restarts the group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Protocol
from weakref import finalize

import torch

from sluicegate.engine.parallel.messages import (
    I64,
    ComputeStep,
    CopyBlocks,
    DropPool,
    JoinGroup,
    LoadShard,
    OpenPool,
    PoolOpened,
    ScrubBlocks,
    ShardLoaded,
    ShardReady,
)
from sluicegate.engine.parallel.shard import Shard
from sluicegate.engine.parallel.worker_group import WorkerGroup
from sluicegate.plugins import GenerationFailed, ModelLoadError


class PassInputs(Protocol):
    """The fields of `engine.batching.step_inputs.StepInputs` that workers need."""

    @property
    def ids(self) -> I64: ...
    @property
    def positions(self) -> I64: ...
    @property
    def slots(self) -> I64: ...
    @property
    def wanted(self) -> I64: ...

    def cut(self, block_size: int) -> list[Any]: ...


class TensorParallelGroup:
    """All processes of one tensor-parallel model."""

    def __init__(self, begin: LoadShard, name: str, device: torch.device, timeout_s: float) -> None:
        """Start the workers. `begin`: the load message, as for rank 0; `timeout_s`: longest wait for another process
        within a pass."""
        self.shard = Shard(0, begin.size, self._connect)
        self._begin, self._name, self._device, self._timeout_s = begin, name, device, timeout_s
        self._on_lost: Callable[[], None] | None = None
        self._passing = threading.Lock()
        """Held through a pass, so that no group is replaced while it computes."""
        self._numbers = count()
        self._pools: set[int] = set()
        self._starting: str | None = None
        """Why the last group ended; None once the next one has a pool."""
        self._workers = self._start(proves=True)

    @property
    def size(self) -> int:
        return self.shard.size

    @property
    def end_reason(self) -> str | None:
        """Return why the group is not available; None while it is."""
        return self._workers.end_reason or self._starting

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Call `on_lost` when the group is lost, on another thread; at once if it already is."""
        self._on_lost = self._workers.on_lost = on_lost
        if self._workers.end_reason is not None:
            on_lost()

    def confirm(self, version: str) -> None:
        """Wait until all workers are ready. Raises `ModelLoadError` if one could not load its shard, or loaded other
        files than `version`."""
        found = {ready.version for ready in self._workers.receive(ShardReady)}
        if found != {version}:
            self.close()
            raise ModelLoadError(
                f"the files of {self._name!r} have changed since they were loaded; load the model anew"
            )

    def restart(self, version: str) -> None:
        """Start a new group, whose pools must be opened again; until then passes raise. Raises `ModelLoadError`, after
        which it may be called again."""
        self._starting = self.end_reason or "its processes are started again"
        with self._passing:
            self._workers.end("the group is started again", lost=False)
            self._pools.clear()
            workers = self._workers = self._start(proves=False)
            try:
                self._connect()
                self.confirm(version)
            except ModelLoadError:
                workers.end("the group could not be started", lost=False)
                raise
            workers.on_lost = self._on_lost

    def fail(self, end_reason: str) -> None:
        """End a group that hangs, and report it as lost."""
        self._workers.end(end_reason)

    def close(self) -> None:
        """End all workers."""
        self._workers.end("the model was removed", lost=False)

    def _start(self, *, proves: bool) -> WorkerGroup:
        begin = self._begin
        tasks = [replace(begin, rank=rank, proves=proves) for rank in range(1, begin.size)]
        workers = WorkerGroup(tasks, self._name, self.shard.abort)
        finalize(self, workers.end, "nobody holds on to the model", lost=False)
        return workers

    def _connect(self) -> None:
        try:
            self._workers.receive(ShardLoaded)
            self._workers.send(JoinGroup(self._workers.rendezvous_path, self._timeout_s))
            self.shard.connect(self._workers.rendezvous_path, self._device, self._timeout_s)
        except (OSError, RuntimeError) as error:
            raise ModelLoadError(f"{self._name!r}: {self._workers.explain(error)}") from error

    # --- pools and passes --------------------------------------------------------------------------------------

    def open(self, facts: OpenPool) -> ShardedPool:
        """Open a copy of a KV pool in every worker. If the group is lost, passes over it raise. Raises `ModelLoadError`
        if a worker lacks the memory."""
        pool = ShardedPool(self, next(self._numbers), facts.block_size)
        with self._passing:
            if self._workers.end_reason is None:
                self._pools.add(pool.number)
                self._workers.send(replace(facts, pool=pool.number))
                self._workers.receive(PoolOpened)
                self._starting = None
        return pool

    def drop(self, number: int) -> None:
        """Free a pool in all workers; dropping the last one ends them."""
        if number not in self._pools:
            return
        with self._passing:
            if number in self._pools:
                self._pools.discard(number)
                self._workers.send(DropPool(number)) if self._pools else self.close()

    def send(self, message: Any, number: int) -> None:
        """Send `message` to all workers, to be handled before the next pass. Does nothing if the group, and so its
        pools, are gone."""
        if self.end_reason is not None:
            return
        with self._passing:
            if self._workers.end_reason is None and number in self._pools:
                try:
                    self._workers.send(message)
                except OSError as error:
                    self._workers.end(self._workers.explain(error))

    @contextmanager
    def computing(self, step: ComputeStep) -> Iterator[None]:
        """Have all workers compute `step` while this process computes its own shard."""
        with self._together(step.pool):
            self._workers.send(step)
            yield

    @contextmanager
    def _together(self, number: int) -> Iterator[None]:
        """Guard a pass against the loss of the group. Raises `GenerationFailed` if it is lost before or during the
        pass, and at once while a group is being started."""
        if (end_reason := self.end_reason) is not None:
            raise self._lost(end_reason)
        with self._passing:
            workers = self._workers
            if workers.end_reason is not None or number not in self._pools:
                raise self._lost(workers.end_reason or "its processes were started again")
            try:
                yield
            except torch.OutOfMemoryError:
                workers.end("a pass ran out of the device's memory")
                raise
            except Exception as error:
                end_reason = workers.explain(error)
                workers.end(end_reason)
                raise self._lost(end_reason) from error

    def _lost(self, end_reason: str) -> GenerationFailed:
        return GenerationFailed(
            f"model {self._name!r}: {end_reason}; its {self.size} processes are started again, send the request again"
        )


class ShardedPool:
    """A pool of this process that exists in all workers too."""

    def __init__(self, group: TensorParallelGroup, number: int, block_size: int) -> None:
        self.number = number
        self._group = group
        self._block_size = block_size

    @contextmanager
    def computing(self, inputs: PassInputs) -> Iterator[None]:
        """Have all workers compute this pass over their pools."""
        stretches = [(one.start, one.count, one.table) for one in inputs.cut(self._block_size)]
        step = ComputeStep(self.number, inputs.ids, inputs.positions, inputs.slots, inputs.wanted, stretches)
        with self._group.computing(step):
            yield

    def scrub(self, blocks: list[int]) -> None:
        self._group.send(ScrubBlocks(self.number, blocks), self.number)

    def copy(self, copies: list[tuple[int, int]]) -> None:
        self._group.send(CopyBlocks(self.number, copies), self.number)

    def close(self) -> None:
        self._group.drop(self.number)
