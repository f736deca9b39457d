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

from sluicegate.engine.parallel.crew import Crew
from sluicegate.engine.parallel.messages import (
    I64,
    ComputeStep,
    CopyBlocks,
    DropPool,
    LoadShare,
    MeetAt,
    OpenPool,
    PoolOpened,
    ScrubBlocks,
    ShareLoaded,
    ShareReady,
)
from sluicegate.engine.parallel.share import Share
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


class SharingTeam:
    """All processes of one tensor-parallel model."""

    def __init__(self, begin: LoadShare, name: str, device: torch.device, timeout_s: float) -> None:
        """Start the workers. `begin`: the load message, as for rank 0; `timeout_s`: longest wait for another process
        within a pass."""
        self.share = Share(0, begin.size, self._meet)
        self._begin, self._name, self._device, self._timeout_s = begin, name, device, timeout_s
        self._on_lost: Callable[[], None] | None = None
        self._passing = threading.Lock()
        """Held through a pass: no group is put in the place of one that is still computing."""
        self._numbers = count()
        self._pools: set[int] = set()
        self._starting: str | None = None
        """What ended the last group, until the next has a pool."""
        self._crew = self._start(proves=True)

    @property
    def size(self) -> int:
        return self.share.size

    @property
    def fate(self) -> str | None:
        """Return why the group is not available; None while it is."""
        return self._crew.fate or self._starting

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Call `on_lost` when the group is lost, on another thread; at once if it already is."""
        self._on_lost = self._crew.on_lost = on_lost
        if self._crew.fate is not None:
            on_lost()

    def confirm(self, version: str) -> None:
        """Wait until all workers are ready. Raises `ModelLoadError` if one could not load its shard, or loaded other
        files than `version`."""
        found = {ready.version for ready in self._crew.hear(ShareReady)}
        if found != {version}:
            self.close()
            raise ModelLoadError(
                f"the files of {self._name!r} have changed since they were loaded; load the model anew"
            )

    def restart(self, version: str) -> None:
        """Start a new group, whose pools must be opened again; until then passes raise. Raises `ModelLoadError`, after
        which it may be called again."""
        self._starting = self.fate or "its processes are started again"
        with self._passing:
            self._crew.end("the group is started again", lost=False)
            self._pools.clear()
            crew = self._crew = self._start(proves=False)
            try:
                self._meet()
                self.confirm(version)
            except ModelLoadError:
                crew.end("the group could not be started", lost=False)
                raise
            crew.on_lost = self._on_lost

    def lose(self, fate: str) -> None:
        """End a group that hangs, and report it as lost."""
        self._crew.end(fate)

    def close(self) -> None:
        """End all workers."""
        self._crew.end("the model was removed", lost=False)

    def _start(self, *, proves: bool) -> Crew:
        begin = self._begin
        tasks = [replace(begin, rank=rank, proves=proves) for rank in range(1, begin.size)]
        crew = Crew(tasks, self._name, self.share.abort)
        finalize(self, crew.end, "nobody holds on to the model", lost=False)
        return crew

    def _meet(self) -> None:
        try:
            self._crew.hear(ShareLoaded)
            self._crew.tell(MeetAt(self._crew.meeting_place, self._timeout_s))
            self.share.connect(self._crew.meeting_place, self._device, self._timeout_s)
        except (OSError, RuntimeError) as error:
            raise ModelLoadError(f"{self._name!r}: {self._crew.explain(error)}") from error

    # --- pools and passes --------------------------------------------------------------------------------------

    def open(self, facts: OpenPool) -> Mirror:
        """Open a copy of a KV pool in every worker. If the group is lost, passes over it raise. Raises `ModelLoadError`
        if a worker lacks the memory."""
        mirror = Mirror(self, next(self._numbers), facts.block_size)
        with self._passing:
            if self._crew.fate is None:
                self._pools.add(mirror.number)
                self._crew.tell(replace(facts, pool=mirror.number))
                self._crew.hear(PoolOpened)
                self._starting = None
        return mirror

    def drop(self, number: int) -> None:
        """Free a pool in all workers; dropping the last one ends them."""
        if number not in self._pools:
            return
        with self._passing:
            if number in self._pools:
                self._pools.discard(number)
                self._crew.tell(DropPool(number)) if self._pools else self.close()

    def tell(self, message: Any, number: int) -> None:
        """Send `message` to all workers, to be handled before the next pass. Does nothing if the group, and so its
        pools, are gone."""
        if self.fate is not None:
            return
        with self._passing:
            if self._crew.fate is None and number in self._pools:
                try:
                    self._crew.tell(message)
                except OSError as error:
                    self._crew.end(self._crew.explain(error))

    @contextmanager
    def computing(self, step: ComputeStep) -> Iterator[None]:
        """Have all workers compute `step` while this process computes its own shard."""
        with self._together(step.pool):
            self._crew.tell(step)
            yield

    @contextmanager
    def _together(self, number: int) -> Iterator[None]:
        """Guard a pass against the loss of the group. Raises `GenerationFailed` if it is lost before or during the
        pass, and at once while a group is being started."""
        if (fate := self.fate) is not None:
            raise self._lost(fate)
        with self._passing:
            crew = self._crew
            if crew.fate is not None or number not in self._pools:
                raise self._lost(crew.fate or "its processes were started again")
            try:
                yield
            except torch.OutOfMemoryError:
                crew.end("a pass ran out of the device's memory")
                raise
            except Exception as error:
                fate = crew.explain(error)
                crew.end(fate)
                raise self._lost(fate) from error

    def _lost(self, fate: str) -> GenerationFailed:
        return GenerationFailed(
            f"model {self._name!r}: {fate}; its {self.size} processes are started again, send the request again"
        )


class Mirror:
    """A pool of this process that exists in all workers too."""

    def __init__(self, team: SharingTeam, number: int, block_size: int) -> None:
        self.number = number
        self._team = team
        self._block_size = block_size

    @contextmanager
    def computing(self, inputs: PassInputs) -> Iterator[None]:
        """Have all workers compute this pass over their pools."""
        stretches = [(one.start, one.count, one.table) for one in inputs.cut(self._block_size)]
        step = ComputeStep(self.number, inputs.ids, inputs.positions, inputs.slots, inputs.wanted, stretches)
        with self._team.computing(step):
            yield

    def scrub(self, blocks: list[int]) -> None:
        self._team.tell(ScrubBlocks(self.number, blocks), self.number)

    def copy(self, copies: list[tuple[int, int]]) -> None:
        self._team.tell(CopyBlocks(self.number, copies), self.number)

    def close(self) -> None:
        self._team.drop(self.number)
