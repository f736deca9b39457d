"""A discrete-event model of many nodes: queues, places, prefix caches, and who is asked.

A node steps as the engine does: it takes what waits into free places, reads their prompts, and draws the tokens of one
step for all that run. Not covered: preemption, the network, the gateways' own CPU, nodes that fail.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import simpy

from sluicegate.gateway.commands.bench.load import spread
from sluicegate.gateway.commands.size.capacity import NodeFigures
from sluicegate.gateway.ray_serve.affinity import PrefixAffinity

Choice = Literal["prefix", "load", "random"]


@dataclass(slots=True)
class Arrival:
    """One request, and what became of it. `prefix`: which beginning it shares with others, and how long that is."""

    at_s: float
    prompt: int
    answer: int
    prefix: tuple[int, int] | None = None
    first_s: float = math.inf
    ended_s: float = math.inf
    drawn: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A kind of request. Lengths are lognormal around their means, `spread` being the sigma; `prefixes`: how many
    beginnings of `prefix` tokens there are."""

    share: float
    prompt: int
    answer: int
    prefix: int = 0
    prefixes: int = 1
    spread: float = 0.5


def arrivals(mix: Sequence[RequestClass], rate: float, seconds: float, seed: int = 1) -> Iterator[Arrival]:
    """Yield a Poisson process of `rate` requests a second."""
    dice, at_s = random.Random(seed), 0.0
    weights = [kind.share for kind in mix]
    while (at_s := at_s + dice.expovariate(rate)) < seconds:
        number = dice.choices(range(len(mix)), weights)[0]
        kind = mix[number]
        own, answer = _length(dice, kind.prompt - kind.prefix, kind.spread), _length(dice, kind.answer, kind.spread)
        shared = (number * 1_000_000 + dice.randrange(kind.prefixes), kind.prefix) if kind.prefix else None
        yield Arrival(at_s, kind.prefix + own, answer, shared)


def _length(dice: random.Random, mean: int, sigma: float) -> int:
    return max(1, round(dice.lognormvariate(math.log(max(1, mean)) - sigma * sigma / 2, sigma)))


class Node:
    """`held`: tokens of beginnings that its prefix cache keeps; those not read for longest go."""

    def __init__(self, env: simpy.Environment, figures: NodeFigures, held: int) -> None:
        self._env = env
        self._figures = figures
        self._room = held
        self._kept: OrderedDict[int, int] = OrderedDict()
        self._waiting: deque[Arrival] = deque()
        self._running: list[Arrival] = []
        self._wake = env.event()
        self.busy_s = 0.0
        self.read = 0
        """Tokens of prompts that were in the cache."""
        env.process(self._steps())

    @property
    def load(self) -> int:
        return len(self._waiting) + len(self._running)

    def ask(self, request: Arrival) -> None:
        self._waiting.append(request)
        if not self._wake.triggered:
            self._wake.succeed()

    def _steps(self) -> Generator[Any, Any, None]:
        while True:
            if not self.load:
                self._wake = self._env.event()
                yield self._wake
            unread = 0
            while self._waiting and len(self._running) < self._figures.places:
                request = self._waiting.popleft()
                unread += request.prompt - self._recall(request)
                self._running.append(request)
            took_s = unread / self._figures.prefill_tokens_per_s + self._figures.step(len(self._running))
            yield self._env.timeout(took_s)
            self.busy_s += took_s
            self._draw()

    def _draw(self) -> None:
        now = self._env.now
        for request in self._running:
            request.drawn += self._figures.tokens_per_step
            request.first_s = min(request.first_s, now - request.at_s)
            if request.drawn >= request.answer:
                request.ended_s = now
        self._running = [request for request in self._running if request.ended_s == math.inf]

    def _recall(self, request: Arrival) -> int:
        """Return how much of the prompt need not be read, and keep its beginning."""
        if request.prefix is None:
            return 0
        name, size = request.prefix
        found = self._kept.pop(name, 0)
        self._kept[name] = size
        while sum(self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        self.read += found
        return found


@dataclass(frozen=True, slots=True)
class Simulated:
    """What callers saw. `busy`: share of the time that nodes computed; `read`: of the prompts that caches held."""

    requests: int
    first_s: dict[str, float]
    total_s: dict[str, float]
    token_s: dict[str, float]
    mean_first_s: float
    mean_total_s: float
    tokens_per_s: float
    busy: float
    read: float


@dataclass(slots=True)
class Fleet:
    """`kept`: probability that a kept answer answers, which no node hears of."""

    figures: NodeFigures
    nodes: int
    choice: Choice = "prefix"
    held: int = 100_000
    kept: float = 0.0
    seed: int = 1
    _dice: random.Random = field(init=False)
    _affinity: PrefixAffinity[int] = field(init=False)

    def run(self, requests: Iterable[Arrival]) -> Simulated:
        """Ask all of `requests` of the nodes, and wait for the last answer."""
        env = simpy.Environment()
        self._dice, self._affinity = random.Random(self.seed), PrefixAffinity()
        nodes = [Node(env, self.figures, self.held) for _ in range(self.nodes)]
        asked: list[Arrival] = []

        def arrive() -> Generator[Any, Any, None]:
            for request in requests:
                yield env.timeout(request.at_s - env.now)
                if self._dice.random() < self.kept:
                    continue
                asked.append(request)
                nodes[self._chosen(nodes, request)].ask(request)

        env.process(arrive())
        env.run()
        return _seen(asked, nodes, env.now)

    def _chosen(self, nodes: Sequence[Node], request: Arrival) -> int:
        loads = {number: node.load for number, node in enumerate(nodes)}
        if self.choice == "random":
            return self._dice.randrange(len(nodes))
        if self.choice == "load" or request.prefix is None:
            least = min(loads.values())
            return self._dice.choice([number for number, load in loads.items() if load == least])
        digest = request.prefix[0].to_bytes(8, "big")
        chosen = self._affinity.order(loads, [digest])[0]
        self._affinity.read([digest], chosen)
        return chosen


def _seen(asked: Sequence[Arrival], nodes: Sequence[Node], until_s: float) -> Simulated:
    totals = [request.ended_s - request.at_s for request in asked]
    tokens = sum(request.answer for request in asked)
    prompts = sum(request.prompt for request in asked)
    return Simulated(
        requests=len(asked),
        first_s=spread(request.first_s for request in asked),
        total_s=spread(totals),
        token_s=spread((request.ended_s - request.at_s - request.first_s) / request.answer for request in asked),
        mean_first_s=sum(request.first_s for request in asked) / max(1, len(asked)),
        mean_total_s=sum(totals) / max(1, len(asked)),
        tokens_per_s=tokens / max(until_s, 1e-9),
        busy=sum(node.busy_s for node in nodes) / max(until_s * len(nodes), 1e-9),
        read=sum(node.read for node in nodes) / max(1, prompts),
    )


@dataclass(frozen=True, slots=True)
class Objective:
    """Of a hundred answers 99 keep both: seconds to the first text, and of each further token."""

    first_s: float
    token_s: float

    def kept_by(self, seen: Simulated) -> bool:
        return seen.first_s.get("p99", 0.0) <= self.first_s and seen.token_s.get("p99", 0.0) <= self.token_s


def fewest(fleet: Fleet, mix: Sequence[RequestClass], rate: float, seconds: float, wanted: Objective) -> int:
    """Return the fewest nodes that keep the objective at `rate`, by bisection. Raises `ValueError` where an idle node
    does not keep it."""
    low, high = 0, max(1, fleet.nodes)
    while not _kept(fleet, high, mix, rate, seconds, wanted):
        if high > 64 * max(1.0, rate):
            raise ValueError("no number of nodes keeps the objective: an idle one does not")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _kept(fleet, middle, mix, rate, seconds, wanted):
            high = middle
        else:
            low = middle
    return high


def most_per_s(
    fleet: Fleet, mix: Sequence[RequestClass], ideal_s: float, seconds: float, wanted: Objective, steps: int = 7
) -> float:
    """Return the most requests a second for which the nodes of `fleet` keep the objective, within 2 %, by bisection.
    `ideal_s`: node-seconds of a request of which nothing was read before; not more than 1.8 times that is looked at."""
    low, high = 0.0, 1.8 * fleet.nodes / ideal_s
    for _ in range(steps):
        middle = (low + high) / 2
        if _kept(fleet, fleet.nodes, mix, middle, seconds, wanted):
            low = middle
        else:
            high = middle
    if not low:
        raise ValueError("no load keeps the objective: an idle node does not")
    return low


def _kept(
    fleet: Fleet, nodes: int, mix: Sequence[RequestClass], rate: float, seconds: float, wanted: Objective
) -> bool:
    tried = Fleet(fleet.figures, nodes, fleet.choice, fleet.held, fleet.kept, fleet.seed)
    return wanted.kept_by(tried.run(arrivals(mix, rate, seconds, fleet.seed)))
