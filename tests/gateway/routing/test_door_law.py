"""Refusing at the door, on a model of a gateway whose processor is the bottleneck, with a clock of its own: requests
wait in the kernel, and whatever is done with one of them is not done for another."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest

from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.plugins import Overloaded
from sluicegate.plugins.testing import ScriptedModel

SLO_S = 1.0
SECONDS, WARM_S = 120.0, 20.0
MODEL = "scripted"
ANSWER_S, READ_S, HEAD_S = 0.025, 0.005, 0.0005
"""Of the processor: all that an answer takes; reading, screening and rendering a request; its head."""
CAPACITY = 1 / ANSWER_S


@dataclass
class Processor:
    """Serves one request after the other, in the order in which they came."""

    has_door: bool = True
    tenants: tuple[str, ...] = ("t",)
    now_s: float = 0.0
    firsts: list[float] = field(default_factory=list)
    by_tenant: Counter[str] = field(default_factory=Counter)

    def run(self, rate: float) -> Processor:
        dice, waiting = random.Random(5), deque[tuple[float, str]]()
        queues, generator = ModelQueues({}, SLO_S, lambda: self.now_s), ScriptedModel((), names=(MODEL,))
        next_s = dice.expovariate(rate)
        while next_s < SECONDS or waiting:
            if not waiting:
                self.now_s = max(self.now_s, next_s)
            while next_s <= self.now_s and next_s < SECONDS:
                waiting.append((next_s, dice.choice(self.tenants)))
                next_s += dice.expovariate(rate)
            if not waiting:
                break
            self._serve(queues, generator, *waiting.popleft())
        return self

    def _serve(self, queues: ModelQueues, generator: ScriptedModel, came_s: float, tenant: str) -> None:
        """Serve one request. Without a door nobody knows how long the kernel kept it."""
        waited_s = self.now_s - came_s if self.has_door else 0.0
        try:
            if self.has_door:
                self.now_s += HEAD_S
                queues.turn_away(generator, tenant, waited_s)
            self.now_s += READ_S - HEAD_S
            queues.shed(generator, MODEL, 0, tenant, waited_s)
        except Overloaded:
            return
        awaited = queues.expect(MODEL, 0, tenant)
        self.now_s += ANSWER_S - READ_S
        assert awaited is not None
        awaited.came(waited_s + ANSWER_S)
        if came_s >= WARM_S:
            self.firsts.append(self.now_s - came_s)
            self.by_tenant[tenant] += 1

    @property
    def goodput(self) -> float:
        return sum(first <= SLO_S for first in self.firsts) / (SECONDS - WARM_S)


@pytest.mark.parametrize("factor", [1.5, 2.0, 4.0])
def test_a_processor_that_is_asked_for_more_than_it_can_keeps_its_goodput(factor: float) -> None:
    peak = Processor().run(0.9 * CAPACITY).goodput
    over = Processor().run(factor * CAPACITY)
    assert peak >= 0.8 * CAPACITY
    assert over.goodput >= 0.9 * peak
    assert max(over.firsts) <= 2 * SLO_S


def test_behind_the_reader_alone_the_same_law_keeps_none_of_it() -> None:
    """The model shows what the door is for."""
    assert Processor(has_door=False).run(4 * CAPACITY).goodput <= 0.1 * CAPACITY


def test_no_tenant_starves_at_the_door() -> None:
    found = Processor(tenants=("a", "b", "c", "d")).run(4 * CAPACITY).by_tenant
    assert min(found[tenant] for tenant in "abcd") >= 0.8 * max(found.values())
