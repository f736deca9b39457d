"""One thread that runs encoders: rows of many requests, alike in length, in one forward pass.

Requests take turns: each forward pass begins with rows of the request that has waited longest since its last turn, and
is filled up with rows of others for the same model.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from sluicegate.engine.encoders.model import EncoderModel
from sluicegate.engine.encoders.tokens import TokenRow
from sluicegate.engine.failures import as_failure
from sluicegate.engine.settings import thread_count
from sluicegate.plugins import Overloaded

_LOG = logging.getLogger(__name__)
Numbers = npt.NDArray[np.float32]


@dataclass(slots=True, eq=False)
class ReadingTask:
    """The rows of one request. `found` maps row numbers to results, float32."""

    model: EncoderModel
    rows: Sequence[TokenRow]
    future: asyncio.Future[Numbers]
    waiting: list[int] = field(default_factory=list)
    """Indices of rows not read yet; the longest row comes last."""
    found: dict[int, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = sorted(range(len(self.rows)), key=lambda at: len(self.rows[at].ids))

    def take(self, room: int, longest: int | None) -> list[int]:
        """Take rows, longest first, while `room` tokens hold them padded to the longest.

        `longest`: the length to which a batch begun by others is padded. Takes at least one row for an empty batch.
        """
        taken: list[int] = []
        while self.waiting:
            size = len(self.rows[self.waiting[-1]].ids)
            widest = longest or size
            if size > widest or ((taken or longest) and (len(taken) + 1) * widest > room):
                break
            longest = widest
            taken.append(self.waiting.pop())
        return taken

    def settle(self, result: Numbers | Exception) -> None:
        """Set the future's result or error, on its event loop."""

        def act() -> None:
            if self.future.done():
                return
            if isinstance(result, Exception):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)

        if not self.future.get_loop().is_closed():
            self.future.get_loop().call_soon_threadsafe(act)


class EncoderThread:
    """Owns the models while it runs."""

    def __init__(self, max_batch_tokens: int, threads: int | None) -> None:
        self._most = max_batch_tokens
        self._threads = threads
        self._readings: deque[ReadingTask] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.passes = 0
        """Number of forward passes so far."""
        self.tokens = 0
        """Number of tokens read so far, without padding."""

    @property
    def waiting(self) -> int:
        return len(self._readings)

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="encoders", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Refuse waiting requests, and stop the thread after its current forward pass."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        for reading in self._readings:
            reading.settle(_shutting_down())

    async def read(self, model: EncoderModel, rows: Sequence[TokenRow]) -> Numbers:
        """Return the model's output for `rows`, float32 [n, d]. Rows of a cancelled caller are dropped."""
        reading = ReadingTask(model, rows, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closing:
                raise _shutting_down()
            self._readings.append(reading)
            self._changed.notify()
        return await reading.future

    def _serve(self) -> None:
        while (taken := self._next()) is not None:
            if not taken:
                continue
            try:
                self._run(taken)
            except Exception as error:
                _LOG.exception("a forward pass of %s failed; its requests are ended", taken[0][0].model.name)
                for reading, _ in taken:
                    self._drop(reading)
                    reading.settle(as_failure(error, "reading texts"))

    def _next(self) -> list[tuple[ReadingTask, list[int]]] | None:
        """Return the next batch; None at shutdown."""
        with self._changed:
            while not self._readings and not self._closing:
                self._changed.wait()
            if self._closing:
                return None
            for gone in [reading for reading in self._readings if reading.future.cancelled()]:
                self._readings.remove(gone)
            return self._batch()

    def _batch(self) -> list[tuple[ReadingTask, list[int]]]:
        batch: list[tuple[ReadingTask, list[int]]] = []
        used, longest = 0, None
        for reading in list(self._readings):
            if batch and reading.model is not batch[0][0].model:
                continue
            if taken := reading.take(self._most - used, longest):
                longest = longest or len(reading.rows[taken[0]].ids)
                used += longest * len(taken)
                batch.append((reading, taken))
                self._readings.remove(reading)
                if reading.waiting:
                    self._readings.append(reading)
        return batch

    def _run(self, batch: list[tuple[ReadingTask, list[int]]]) -> None:
        model = batch[0][0].model
        torch.set_num_threads(self._threads or thread_count(model.parameter_count))
        rows = [reading.rows[at] for reading, places in batch for at in places]
        out = model.run(rows).numpy().astype(np.float32, copy=False)
        if not np.isfinite(out).all():
            raise ValueError("the model computed numbers that are not finite; check the checkpoint")
        self.passes += 1
        self.tokens += sum(len(row.ids) for row in rows)
        at = 0
        for reading, places in batch:
            reading.found.update(zip(places, out[at : at + len(places)], strict=True))
            at += len(places)
            if len(reading.found) == len(reading.rows):
                reading.settle(np.stack([reading.found[place] for place in range(len(reading.rows))]))

    def _drop(self, reading: ReadingTask) -> None:
        with self._changed:
            if reading in self._readings:
                self._readings.remove(reading)


def _shutting_down() -> Overloaded:
    return Overloaded("the encoders are shutting down; send the request elsewhere", retry_after_s=5.0)
