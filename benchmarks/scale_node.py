"""A whole gateway whose engine keeps time instead of computing: one node of `benchmarks.scale`.

    python -m benchmarks.scale_node FIGURES.json          a node
    python -m benchmarks.scale_node load URL URL          a gateway that chooses between nodes

Its steps take as long as the figures say, by the clock and not by the processor, so that several nodes can run on a
machine that has no cores to spare. Everything around the engine is real: HTTP, keys, limits, stages, streams. It prints
its address, and serves until its input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate.gateway.commands.size.capacity import NodeFigures, read_figures
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job, Piece, RegistryLike, ServedModel, Usage
from sluicegate.plugins.testing.doubles import FakeModel
from sluicegate.plugins.timeline import Timeline

MODEL = "timed"
KEY_ENV = "SCALE_NODE_KEY"
KEYS = [{"id": "a", "key": "a"}]
STAGES = {"admit": ["api-keys"], "screen": ["secrets"], "record": ["metrics"]}
"""Without rails on answers: what they hold back comes later than the model drew it."""
BLOCK = 64
"""Tokens that the prefix cache keeps together."""


@dataclass(slots=True)
class TimedGeneration:
    """A `Generation` whose tokens come with the steps of its engine."""

    job: Job
    engine: TimedEngine
    ready: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    sent: int = 0
    drawn: float = 0.0
    """Tokens by the engine's account; `sent` of them have left."""
    cancelled: bool = False
    timeline: Timeline | None = None

    @property
    def wanted(self) -> int:
        return self.job.sampling.max_tokens or 1

    async def begin(self) -> None:
        self.engine.take(self)

    async def __aiter__(self) -> AsyncIterator[Piece]:
        while self.sent < self.wanted and not self.cancelled:
            count = min(await self.ready.get(), self.wanted - self.sent)
            self.sent += count
            yield Piece(0, "a " * count, token_ids=(97,) * count)
        yield Piece(0, finish_reason="length")

    def cancel(self) -> None:
        self.cancelled = True
        self.ready.put_nowait(0)

    @property
    def usage(self) -> Usage:
        return Usage(len(self.job.prompt.token_ids), self.sent)


class TimedEngine:
    """Slot `generate`."""

    def __init__(self, figures: NodeFigures, held: int = 100_000) -> None:
        self._figures = figures
        self._held = held // BLOCK
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._waiting: list[TimedGeneration] = []
        self._running: list[TimedGeneration] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.models: Mapping[str, ServedModel] = {MODEL: FakeModel(MODEL, context_length=1 << 20)}

    async def start(self) -> None:
        self._task = asyncio.create_task(self._steps())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def generate(self, job: Job) -> TimedGeneration:
        return TimedGeneration(job, self)

    def take(self, generation: TimedGeneration) -> None:
        self._waiting.append(generation)
        self._wake.set()

    def stats(self) -> Mapping[str, float]:
        return {
            "requests_running": float(len(self._running)),
            "requests_waiting": float(len(self._waiting)),
            "kv_cache_usage_ratio": 0.0,
        }

    async def _steps(self) -> None:
        clock = asyncio.get_running_loop().time
        at_s = clock()
        while True:
            if not self._waiting and not self._running:
                self._wake.clear()
                await self._wake.wait()
                at_s = clock()
            unread = 0
            while self._waiting and len(self._running) < self._figures.places:
                generation = self._waiting.pop(0)
                unread += self._unread(generation.job.prompt.token_ids)
                self._running.append(generation)
            # By the clock from the last step on: a late wake-up makes one step longer, not all that follow.
            at_s += unread / self._figures.prefill_tokens_per_s + self._figures.step(len(self._running))
            await asyncio.sleep(max(0.0, at_s - clock()))
            for generation in self._running:
                self._draw(generation)
            self._running = [one for one in self._running if not one.cancelled and one.drawn < one.wanted]

    def _draw(self, generation: TimedGeneration) -> None:
        before = generation.drawn
        generation.drawn += self._figures.tokens_per_step
        generation.ready.put_nowait(int(generation.drawn) - int(before))

    def _unread(self, tokens: tuple[int, ...]) -> int:
        """Return the tokens behind the last block that is kept, and keep the prompt."""
        known, digest = 0, 0
        for end in range(BLOCK, len(tokens) + 1, BLOCK):
            digest = hash((digest, tokens[end - BLOCK : end]))
            if digest in self._kept and known == end - BLOCK:
                known = end
            self._kept[digest] = None
            self._kept.move_to_end(digest)
        while len(self._kept) > self._held:
            self._kept.popitem(last=False)
        return len(tokens) - known


def node(figures: NodeFigures) -> TestApp:
    def register(registry: RegistryLike) -> None:
        registry.add("generate", "timed", lambda settings: TimedEngine(figures))

    return TestApp(register, pipeline={**STAGES, "generate": ["timed"]}, keys=KEYS)


def front(choice: str, urls: Sequence[str]) -> TestApp:
    """Return a gateway whose model is that of the nodes at `urls`."""
    model = {"urls": [f"{url}/v1" for url in urls], "allow_private": True, "dialect": "vllm", "choice": choice}
    model |= {"api_key_env": KEY_ENV, "context_length": 1 << 20, "probe_s": 0.5, "first_s": 600.0, "idle_s": 600.0}
    os.environ[KEY_ENV] = "a"
    return TestApp(
        pipeline={**STAGES, "generate": ["upstream"]},
        stages={"generate": {"upstream": {"models": {MODEL: model}}}},
        keys=KEYS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="a file of figures for a node; a way of choosing for a gateway before others")
    parser.add_argument("urls", nargs="*", help="of the nodes that the gateway chooses among")
    asked = parser.parse_args()
    with front(asked.first, asked.urls) if asked.urls else node(read_figures(Path(asked.first))) as app:
        print(json.dumps({"url": app.url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
