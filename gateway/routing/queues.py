"""Queue of a model: how many requests run, how many wait, and for how long."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from sluicegate.gateway.routing.first_texts import FirstTextEstimate, FirstTextWait
from sluicegate.gateway.routing.kept_shares import KeptShares
from sluicegate.gateway.settings import QueueSettings
from sluicegate.plugins import Generator, LoadReporter, Overloaded, ReadingModel, offers, shows

USUAL_SECONDS = 2.0


class Queue:
    """First come, first served within a priority. Used on the event loop."""

    def __init__(self, name: str, settings: QueueSettings) -> None:
        self._name = name
        self._settings = settings
        self._seconds = USUAL_SECONDS
        self.running = 0
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        return sum(len(line) for line in self._waiting.values())

    async def take(self, priority: int) -> QueueTicket:
        """Wait for a place. Raises `Overloaded` where too many wait already, or none became free in time."""
        if self.running < self._settings.max_running and not self.waiting:
            self.running += 1
            return QueueTicket(self)
        if self.waiting >= self._settings.max_waiting:
            raise self._overloaded(f"{self.waiting} requests wait for model {self._name!r}, as many as may")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(priority, deque()).append(mine)
        try:
            async with asyncio.timeout(self._settings.wait_s):
                await mine
        except BaseException as error:
            self._leave(priority, mine)
            if isinstance(error, TimeoutError):
                waited = f"no place at model {self._name!r} became free in {self._settings.wait_s:g} s"
                raise self._overloaded(waited) from None
            raise
        return QueueTicket(self)

    def give_back(self, seconds: float) -> None:
        self._seconds += 0.1 * (seconds - self._seconds)
        self.running -= 1
        while (found := self._next()) is not None:
            if not found.done():
                self.running += 1
                found.set_result(None)
                return

    def wait_s(self) -> float:
        """Estimate the seconds until a new request gets a place."""
        return self._seconds * (self.waiting + 1) / max(1, self._settings.max_running)

    def _next(self) -> asyncio.Future[None] | None:
        for priority in sorted(self._waiting):
            if self._waiting[priority]:
                return self._waiting[priority].popleft()
        return None

    def _leave(self, priority: int, mine: asyncio.Future[None]) -> None:
        """Leave the queue. A ticket that was just assigned is passed on."""
        if mine.done() and not mine.cancelled():
            self.give_back(self._seconds)
        elif mine in self._waiting[priority]:
            self._waiting[priority].remove(mine)

    def _overloaded(self, message: str) -> Overloaded:
        return Overloaded(message, retry_after_s=self.wait_s())


class QueueTicket:
    """Held by one request until it has ended."""

    def __init__(self, queue: Queue) -> None:
        self._queue: Queue | None = queue
        self._since_s = time.monotonic()

    def give_back(self) -> None:
        if self._queue is not None:
            queue, self._queue = self._queue, None
            queue.give_back(time.monotonic() - self._since_s)


class ModelQueues:
    """The queues of all models that have one, and who is let in at all."""

    def __init__(
        self,
        settings: Mapping[str, QueueSettings],
        shed_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a queue for each model of `settings`. `shed_s`: interactive requests that would wait longer for their
        first text are refused; 0 means never."""
        self._queues = {name: Queue(name, one) for name, one in settings.items()}
        self.shed_s = shed_s
        self._first_texts: defaultdict[str, FirstTextEstimate] = defaultdict(lambda: FirstTextEstimate(shed_s, clock))
        self._kept = KeptShares()
        self._shed = 0
        self._turned_away = 0

    async def take(self, model: str, priority: int) -> QueueTicket | None:
        queue = self._queues.get(model)
        return None if queue is None else await queue.take(priority)

    def shed(self, generator: Generator, model: str, priority: int, tenant: str, waited_s: float = 0.0) -> None:
        """Refuse a request whose first text is further away than anybody would wait: raises `Overloaded`. The wait is
        taken from the generator's account of its places, or from how first texts came lately. `waited_s`: from the
        request's arrival until it was read."""
        if not self.shed_s or priority > 0:
            return
        self._kept.missed(tenant)
        over_s = self._over_s(generator, model, tenant, waited_s)
        if over_s > 0:
            self._shed += 1
            raise self._busy(f"model {model!r} is busy", over_s)

    def served_kept(self, tenant: str) -> None:
        """Count an answer that came from the cache."""
        if self.shed_s:
            self._kept.hit(tenant)

    def turn_away(self, generator: Generator, tenant: str, waited_s: float) -> None:
        """Decide about a request of which nothing but its head is read, and which has waited for that: raises
        `Overloaded` where every model would refuse it, whichever it asks for. A tenant whose answers are often kept is
        read first."""
        if not self.shed_s or (waited_s < self.shed_s and self._kept.often(tenant)):
            return
        over_s = math.inf
        for name, model in generator.models.items():
            if shows(model, ReadingModel):
                continue
            over_s = min(over_s, self._over_s(generator, name, tenant, waited_s))
            if over_s <= 0:
                return
        if over_s < math.inf:
            self._shed += 1
            self._turned_away += 1
            raise self._busy("the gateway is busy", over_s)

    def _over_s(self, generator: Generator, model: str, tenant: str, waited_s: float) -> float:
        """Return by how many seconds a first text would exceed the aim; 0 or less admits the request."""
        if waited_s >= self.shed_s:
            return waited_s
        texts = self._first_texts[model]
        place_s = generator.load(model).wait_s if offers(generator, LoadReporter) else 0.0
        wait_s = max(place_s, texts.wait_s(tenant))
        return 0.0 if not wait_s and texts.is_idle else wait_s + waited_s - texts.target_s

    def _busy(self, what: str, over_s: float) -> Overloaded:
        return Overloaded(
            f"{what}: a first text is expected {over_s:.1f} s later than is sure to be within the {self.shed_s:g} s "
            "that anybody waits here; try again later",
            retry_after_s=over_s,
        )

    def expect(self, model: str, priority: int, tenant: str) -> FirstTextWait | None:
        """Register the wait for a request's first text. Return None where load is never shed, or where the request
        comes after all that could be shed."""
        return self._first_texts[model].expect(tenant) if self.shed_s and priority <= 0 else None

    def stats(self) -> Mapping[str, float]:
        queues = self._queues.values()
        running, waiting = sum(q.running for q in queues), sum(q.waiting for q in queues)
        first = sum(texts.waiting for texts in self._first_texts.values())
        return {
            "places_taken": float(running),
            "places_awaited": float(waiting),
            "first_texts_awaited": float(first),
            "shed_aim_ratio": min((texts.target for texts in self._first_texts.values()), default=1.0),
            "shed_total": float(self._shed),
            "turned_away_total": float(self._turned_away),
        }
