"""The first process's side of a model that several processes share: it schedules and draws, the others only compute.

Each pass is announced to all of them before it begins; in it they wait for each other at every sum. A pass that breaks
off anywhere ends the group, since nobody knows where the others stand in it: requests that ran get a typed error, and
the engine starts the group again.
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
    """A step's tokens, as `engine.batching.step_inputs.StepInputs` has them."""

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
    """All processes of one model."""

    def __init__(self, begin: LoadShare, name: str, device: torch.device, timeout_s: float) -> None:
        """Start the processes. `begin`: what the first would be told, were it another; `timeout_s`: longest time that
        one process waits for the others within a pass."""
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
        """Return why there is no group now; None = it computes."""
        return self._crew.fate or self._starting

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Have `on_lost` called, on a thread of its own, when the group is lost; at once where it is already."""
        self._on_lost = self._crew.on_lost = on_lost
        if self._crew.fate is not None:
            on_lost()

    def confirm(self, version: str) -> None:
        """Wait until all processes are ready. Raises `ModelLoadError` where one could not load its share, or has loaded
        something else."""
        found = {ready.version for ready in self._crew.hear(ShareReady)}
        if found != {version}:
            self.close()
            raise ModelLoadError(
                f"the files of {self._name!r} have changed since they were loaded; load the model anew"
            )

    def restart(self, version: str) -> None:
        """Start a new group, whose pools are to be opened; until then passes raise. Raises `ModelLoadError`, and may be
        called again then."""
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
        """End the group, which hangs."""
        self._crew.end(fate)

    def close(self) -> None:
        """End all processes."""
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
        """Make a pool like one of this process in all others. Where the group is lost, passes over it raise. Raises
        `ModelLoadError` where one of them has no room for it."""
        mirror = Mirror(self, next(self._numbers), facts.block_size)
        with self._passing:
            if self._crew.fate is None:
                self._pools.add(mirror.number)
                self._crew.tell(replace(facts, pool=mirror.number))
                self._crew.hear(PoolOpened)
                self._starting = None
        return mirror

    def drop(self, number: int) -> None:
        """Free a pool; with the last of them the processes end."""
        if number not in self._pools:
            return
        with self._passing:
            if number in self._pools:
                self._pools.discard(number)
                self._crew.tell(DropPool(number)) if self._pools else self.close()

    def tell(self, message: Any, number: int) -> None:
        """Have all others do what `message` says, before the next pass. Where the group is lost, nothing is to be done:
        its pools are gone."""
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
        """Let all others compute the pass that this process computes meanwhile."""
        with self._together(step.pool):
            self._crew.tell(step)
            yield

    @contextmanager
    def _together(self, number: int) -> Iterator[None]:
        """Hold the group together through a pass. Raises `GenerationFailed` where it is lost, or gets lost meanwhile.
        Nothing waits for a group that is being started."""
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
    """A pool of this process, which all others have too."""

    def __init__(self, team: SharingTeam, number: int, block_size: int) -> None:
        self.number = number
        self._team = team
        self._block_size = block_size

    @contextmanager
    def computing(self, inputs: PassInputs) -> Iterator[None]:
        """Let all others compute this pass over their pools."""
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
