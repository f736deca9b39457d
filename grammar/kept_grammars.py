"""Grammars that are kept for further requests, in order of their last use."""

from __future__ import annotations

import asyncio
import gc
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Any

from sluicegate.grammar.compile_pool import CompileJob
from sluicegate.plugins.memory.freed import give_back

_GARBAGE = 0.25
"""Share of what may be kept that dropped grammars may take beside it until they are collected."""
LEAST_GARBAGE = 64 << 20
"""Bytes that they may take in any case: a collection stops everything, for a second where millions of objects live, and
would come with every large grammar where few may be kept."""
_USES = 0.25
"""Uses after which grammars are measured again, as a share of their number: it takes a microsecond for each, and one
may grow by a hundred MB with its first mask."""
_NEWEST = 8
"""Grammars used last that are measured with each use."""

Key = tuple[str, bytes]


class KeptGrammars:
    """Keeps up to `most` grammars of `most_bytes`, and the last one however large it is. Used on one event loop.

    A grammar grows while matchers use it: what they add is counted after some uses of any.

    Grammars hold themselves in cycles, and the collector counts objects, not the megabytes of tables that one object
    has: it is called where kept and dropped ones together are a quarter more than may be kept, or 64 MiB.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._most_garbage = max(LEAST_GARBAGE, round(_GARBAGE * most_bytes))
        self._jobs: OrderedDict[Key, tuple[CompileJob, int]] = OrderedDict()
        self._bytes = 0
        self._dropped_bytes = 0
        self._uses = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def bytes(self) -> int:
        """Return the bytes of all that is kept, as they were measured last."""
        return self._bytes

    def get(self, key: Key) -> CompileJob | None:
        """Return the compilation under `key`, which may still run; None where there is none, or it failed."""
        found = self._jobs.get(key)
        if found is None:
            return None
        if _failed(found[0].done):  # just now: its callback has not run yet
            self._drop(key)
            return None
        self._jobs.move_to_end(key)
        self._used()
        return found[0]

    def keep(self, key: Key, job: CompileJob) -> None:
        """Keep a compilation while it runs, and then if it succeeds: the error of one that failed holds all that the
        compiler had in hand."""
        self._jobs[key] = job, 0
        self._make_room()
        job.done.add_done_callback(lambda done: self._ended(key, job))

    def _ended(self, key: Key, job: CompileJob) -> None:
        if self._jobs.get(key, (None,))[0] is not job:
            return
        self._jobs[key] = job, job.kept_bytes
        self._bytes += job.kept_bytes
        if _failed(job.done):
            self._drop(key)
        self._used()
        self._make_room()

    def _used(self) -> None:
        self._uses += 1
        whole = self._uses > _USES * len(self._jobs)
        if whole:
            self._uses = 0
        self._measure(list(self._jobs) if whole else list(islice(reversed(self._jobs), _NEWEST)))
        self._make_room()

    def _measure(self, keys: Iterable[Key]) -> None:
        """Count what matchers have added to each of these grammars."""
        for key in keys:
            job, known = self._jobs[key]
            if job.done.done() and not _failed(job.done):
                size = job.kept_bytes + job.done.result().learned_bytes
                self._jobs[key] = job, size
                self._bytes += size - known

    def _make_room(self) -> None:
        while len(self._jobs) > self._most or (self._bytes > self._most_bytes and len(self._jobs) > 1):
            self._drop(next(iter(self._jobs)))

    def _drop(self, key: Key) -> None:
        found = self._jobs.pop(key)[1]
        self._bytes -= found
        self._dropped_bytes += found
        if (
            self._bytes + self._dropped_bytes > self._most_bytes + self._most_garbage
            and self._dropped_bytes > self._most_garbage
        ):
            self._dropped_bytes = 0
            gc.collect()
            give_back()


def _failed(done: asyncio.Future[Any]) -> bool:
    return done.done() and (done.cancelled() or done.exception() is not None)
