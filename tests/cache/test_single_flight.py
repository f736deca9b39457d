"""Identical concurrent requests share one generation, however the first one ends."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from sluicegate.cache import SingleFlight
from sluicegate.plugins import CacheKey
from tests.waiting import LIMIT_S

KEY = CacheKey("t", "m", "1")


class Requests:
    """Requests for one key: each takes the lead, or what the leader made."""

    def __init__(self, flights: SingleFlight[str], seconds: float = 0.01) -> None:
        self.flights = flights
        self.seconds = seconds
        self.generated = 0
        self.at_once = 0
        self.most_at_once = 0

    async def ask(self, key: CacheKey = KEY, fails: bool = False, shareable: bool = True) -> str:
        seat = await self.flights.join(key)
        if seat.answers is not None:
            return seat.answers
        try:
            self.generated += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(self.seconds)
            if fails:
                raise RuntimeError("no answer")
            (seat.land(f"made {self.generated}") if shareable else seat.release())
            return f"made {self.generated}"
        finally:
            self.at_once -= 1
            seat.abandon()


async def test_a_hundred_equal_requests_make_one_generation() -> None:
    requests = Requests(SingleFlight())
    assert set(await asyncio.gather(*(requests.ask() for _ in range(100)))) == {"made 1"}
    assert requests.generated == 1
    assert requests.flights.stats() | {"led_total": 1, "shared_total": 99, "in_flight": 0} == requests.flights.stats()


async def test_other_keys_do_not_wait() -> None:
    requests = Requests(SingleFlight())
    await asyncio.gather(requests.ask(), requests.ask(CacheKey("other", "m", "1")))
    assert requests.generated == 2
    assert requests.most_at_once == 2


async def test_a_later_request_starts_anew() -> None:
    requests = Requests(SingleFlight())
    assert [await requests.ask(), await requests.ask()] == ["made 1", "made 2"]


async def test_a_leader_that_fails_passes_the_lead_on() -> None:
    requests = Requests(SingleFlight())
    ends = await asyncio.gather(requests.ask(fails=True), *(requests.ask() for _ in range(20)), return_exceptions=True)
    assert isinstance(ends[0], RuntimeError)
    assert set(ends[1:]) == {"made 2"}
    assert requests.most_at_once == 1


async def test_a_leader_that_is_cancelled_passes_the_lead_on() -> None:
    requests = Requests(SingleFlight())
    leader = asyncio.create_task(requests.ask())
    followers = [asyncio.create_task(requests.ask()) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leader.cancel()
    assert set(await asyncio.gather(*followers)) == {"made 2"}
    with pytest.raises(asyncio.CancelledError):
        await leader


async def test_a_follower_cancelled_in_the_moment_of_its_promotion_passes_the_lead_on() -> None:
    flights: SingleFlight[str] = SingleFlight()
    seat = await flights.join(KEY)
    first = asyncio.create_task(flights.join(KEY))
    second = asyncio.create_task(flights.join(KEY))
    await asyncio.sleep(0)
    seat.abandon()
    first.cancel()
    async with asyncio.timeout(LIMIT_S):
        promoted = await second
    assert promoted.role == "leads"
    promoted.land("x")
    assert flights.stats()["in_flight"] == 0


async def test_an_answer_that_is_not_to_be_shared_sets_everyone_free_at_once() -> None:
    requests = Requests(SingleFlight())
    await asyncio.gather(requests.ask(shareable=False), *(requests.ask() for _ in range(5)))
    assert requests.generated == 6
    assert requests.most_at_once == 5


async def test_patience_with_a_leader_that_hangs_ends() -> None:
    requests = Requests(SingleFlight(patience_s=0.02), seconds=0.2)
    await asyncio.gather(requests.ask(), requests.ask())
    assert requests.generated == 2
    assert requests.flights.stats()["impatient_total"] == 1


async def test_ending_a_flight_twice_does_nothing_more() -> None:
    flights: SingleFlight[str] = SingleFlight()
    seat = await flights.join(KEY)
    seat.land("x")
    again = await flights.join(KEY)
    seat.abandon()
    seat.release()
    assert again.role == "leads"
    assert flights.stats()["in_flight"] == 1
    again.abandon()


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_waits_for_ever_whatever_fails_or_goes_away(seed: int) -> None:
    random = Random(seed)
    requests = Requests(SingleFlight(patience_s=5), seconds=0.001)
    tasks = []
    for _ in range(30):
        kind = random.choice(("good", "fails", "private"))
        tasks.append(asyncio.create_task(requests.ask(fails=kind == "fails", shareable=kind != "private")))
        if random.random() < 0.3:
            random.choice(tasks).cancel()
        if random.random() < 0.3:
            await asyncio.sleep(random.random() / 500)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert requests.flights.stats()["in_flight"] == 0
    assert requests.flights.stats()["followers_waiting"] == 0
