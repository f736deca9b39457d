"""The law of admission under overload, on a model of an engine with a clock of its own: what it promises holds for many
shapes of load, whatever machine runs the test."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest

from sluicegate.gateway.routing.first_texts import FirstTextEstimate, FirstTextWait

SLO_S = 1.0
SECONDS = 120.0
WARM_S = 20.0
"""What came before is not counted: the law has to learn the pace first."""
Draw = Callable[[random.Random], float]


@dataclass
class Plant:
    """`seats` answers at once, each for as long as `stays` says, its first text `reads` after it got its seat. From
    `slows_at_s` on everything takes `slower` times as long."""

    seats: int
    stays: Draw
    reads: float
    tenants: int = 1
    slows_at_s: float = SECONDS
    slower: float = 1.0
    texts: FirstTextEstimate = field(init=False)
    now_s: float = 0.0
    firsts: list[float] = field(default_factory=list)
    by_tenant: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.texts = FirstTextEstimate(SLO_S, lambda: self.now_s)

    def run(self, rate: float) -> Plant:
        """Offer `rate` requests a second."""
        dice, queue, events, free = (
            random.Random(5),
            deque[tuple[float, str, FirstTextWait]](),
            [(0.0, 0, "come", None)],
            0,
        )
        free, number = self.seats, 0
        while events:
            self.now_s, _, what, about = heappop(events)
            number += 1
            if what == "come":
                if self.now_s < SECONDS:
                    heappush(events, (self.now_s + dice.expovariate(rate), number, "come", None))
                tenant = f"t{dice.randrange(self.tenants)}"
                if self.texts.wait_s(tenant) <= self.texts.target_s:
                    queue.append((self.now_s, tenant, self.texts.expect(tenant)))
            elif what == "first" and about is not None:
                came_s, tenant, awaited = about
                awaited.came(self.now_s - came_s)
                if WARM_S <= came_s < SECONDS:
                    self.firsts.append(self.now_s - came_s)
                    self.by_tenant[tenant] = self.by_tenant.get(tenant, 0) + 1
            elif what == "leave":
                free += 1
            while free and queue:
                free -= 1
                taken = queue.popleft()
                slow = self.slower if self.now_s >= self.slows_at_s else 1.0
                heappush(events, (self.now_s + self.reads * slow, number, "first", taken))
                heappush(events, (self.now_s + (self.reads + self.stays(dice)) * slow, -number, "leave", None))
                number += 1
        return self

    @property
    def goodput(self) -> float:
        return sum(first <= SLO_S for first in self.firsts) / (SECONDS - WARM_S)

    @property
    def p99_s(self) -> float:
        ordered = sorted(self.firsts)
        return ordered[int(0.99 * len(ordered))]


PLANTS: dict[str, Callable[[], Plant]] = {
    "a batch of 32": lambda: Plant(32, lambda dice: 1.0, 0.05),
    "few seats": lambda: Plant(4, lambda dice: 0.4, 0.02),
    "many seats": lambda: Plant(256, lambda dice: dice.uniform(4, 16), 0.1),
    "answers of very different length": lambda: Plant(32, lambda dice: dice.lognormvariate(-0.5, 1.0), 0.05),
    "prompts that take half of the objective": lambda: Plant(16, lambda dice: dice.expovariate(1.0), 0.4),
    "many short answers": lambda: Plant(16, lambda dice: dice.uniform(0.15, 0.4), 0.02),
    "short answers, and now and then a jam": lambda: Plant(
        16, lambda dice: dice.expovariate(4.0) * (5 if dice.random() < 0.02 else 1), 0.02
    ),
    "several tenants": lambda: Plant(32, lambda dice: dice.expovariate(1.0), 0.05, tenants=4),
}


@pytest.mark.parametrize("name", PLANTS)
def test_four_times_the_capacity_costs_a_tenth_of_the_goodput_at_most(name: str) -> None:
    """And the 99th percentile of those who were let in is within twice their objective."""
    make = PLANTS[name]
    dice = random.Random(1)
    plant = make()
    stay = sum(plant.stays(dice) for _ in range(20_000)) / 20_000
    capacity = plant.seats / (stay + plant.reads)
    found = {factor: make().run(factor * capacity) for factor in (0.5, 1.0, 2.0, 4.0)}
    peak = max(plant.goodput for plant in found.values())
    assert found[4.0].goodput >= 0.9 * peak, {factor: plant.goodput for factor, plant in found.items()}
    assert peak >= 0.8 * capacity
    assert max(plant.p99_s for plant in found.values()) <= 2 * SLO_S


def test_a_plant_that_becomes_three_times_slower_is_noticed() -> None:
    """What was let in at the old pace is late; what comes after is not, but for the tenth that the law leaves."""
    plant = Plant(32, lambda dice: dice.expovariate(1.0), 0.05, slows_at_s=60.0, slower=3.0).run(120.0)
    late = sum(first > SLO_S for first in plant.firsts)
    assert late <= 0.2 * len(plant.firsts)
    assert plant.p99_s <= 2 * SLO_S


def test_no_tenant_starves() -> None:
    plant = Plant(32, lambda dice: dice.expovariate(1.0), 0.05, tenants=4).run(120.0)
    assert min(plant.by_tenant.values()) >= 0.8 * max(plant.by_tenant.values())
