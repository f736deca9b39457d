"""Score pairs of questions in one thread of their own: those that wait at once are scored in one pass.

More threads are slower where cores are few and make the event loop wait for the interpreter: with six of them it stood
still for 1.4 s at 40 look-ups at once, on two busy cores.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Pair = tuple[str, str]
MOST_AT_ONCE = 4
"""Most pairs of one pass, some 40 ms of one core: all of them wait for the last."""


class ScoreBatches:
    """Used from one event loop."""

    def __init__(self, score: Callable[[list[Pair]], Sequence[float]]) -> None:
        """Start with nothing waiting. `score` is called in the thread, with 1 to `MOST_AT_ONCE` pairs."""
        self._score = score
        self._thread = ThreadPoolExecutor(1, "sameness", initializer=_use_one_core)
        self._waiting: deque[tuple[Pair, asyncio.Future[float]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def score(self, pair: Pair) -> float:
        """Return a pair's score. Raises what `score` raised for its batch."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((pair, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Cancel what waits; a pass that has begun ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._running is not None:
            self._running.cancel()
        for _, future in self._waiting:
            future.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while batch := self._batch():
                try:
                    scores = await loop.run_in_executor(self._thread, self._score, [pair for pair, _ in batch])
                except Exception as error:
                    _settle(batch, error)
                except BaseException:
                    for _, future in batch:
                        future.cancel()
                    raise
                else:
                    _settle(batch, scores)
        finally:
            self._running = None

    def _batch(self) -> list[tuple[Pair, asyncio.Future[float]]]:
        """Return the next pairs that somebody still waits for."""
        batch: list[tuple[Pair, asyncio.Future[float]]] = []
        while self._waiting and len(batch) < MOST_AT_ONCE:
            waiting = self._waiting.popleft()
            if not waiting[1].done():
                batch.append(waiting)
        return batch


def _settle(batch: list[tuple[Pair, asyncio.Future[float]]], outcome: Sequence[float] | Exception) -> None:
    for at, (_, future) in enumerate(batch):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome[at])


def _use_one_core() -> None:
    """Let torch use one core in this thread: two wait for one another at each of a hundred products, which take less
    than a millisecond. A thread that torch has not seen takes the last number said, so the old one is said again."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    other = threading.Thread(target=torch.set_num_threads, args=(before,))
    other.start()
    other.join()
