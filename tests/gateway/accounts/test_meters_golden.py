"""What meters ask, let in, refuse and give back over drawn hours: kept, so that no change to them goes unseen.

The store of leases is a script: it grants some of what it is asked for, nothing, or does not answer.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sluicegate.gateway.accounts.limits.estimates import CandidateModels, fairly_read, most_read, need_of
from sluicegate.gateway.accounts.limits.lease_script import SLOT_S, LeaseQuestion, LeaseReply, read_reply
from sluicegate.gateway.accounts.limits.leases import SharedMeter
from sluicegate.gateway.accounts.limits.meter import Meter, UsageEstimate
from sluicegate.gateway.accounts.limits.windows import SlidingSum, Spend, period_end
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import (
    Constraint,
    Message,
    Overloaded,
    RateLimited,
    Request,
    RequestError,
    Sampling,
    Tool,
    ToolCall,
)
from tests.altered import altered
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
NOON = 1_700_049_600.0
"""2023-11-15, 12:00 UTC."""


class Script:
    """Stands in for the connection to Redis."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.now_s = NOON
        self.is_alive = True
        self.asked: list[Any] = []
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    async def ask(self, name: str, question: LeaseQuestion) -> LeaseReply:
        self.asked.append([name, *asdict(question).values()])
        deed = self.chance.random()
        if deed < 0.1:
            raise Overloaded("no answer", retry_after_s=1.0)
        grant = (
            0
            if deed < 0.25 or question.want < question.least
            else self.chance.randint(question.least, max(question.least, question.want))
        )
        slot = int(self.now_s // SLOT_S)
        label = str(slot) if question.mode == "rate" else question.label
        return LeaseReply(grant, self.chance.randint(0, 50), slot - 13, label, 5.0 + self.chance.random(), 0)


async def hours(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    chance = Random(seed)
    store = Script(chance)
    monkeypatch.setattr("sluicegate.gateway.accounts.limits.leases.time", altered(time, monotonic=lambda: store.now_s))
    limits = Limits(
        requests_per_minute=chance.choice((None, 5, 40)),
        tokens_per_minute=chance.choice((None, 100, 1000)),
        concurrency=chance.choice((None, 2, 10)),
        budget_day=chance.choice((None, 0.001)),
        budget_month=chance.choice((None, 0.005)),
    )
    meter = SharedMeter("key", "a", limits, store)  # type: ignore[arg-type]
    running: list[Any] = []
    said: list[Any] = []
    for _ in range(30):
        store.now_s += chance.choice((0.5, 2, 6, 70, 3600, 90_000)) if chance.random() < 0.6 else 0
        store.is_alive = chance.random() < 0.9
        need = UsageEstimate(
            chance.choice((1, 10, 60, 200)), chance.choice((0, 20_000, 200_000)), chance.choice((0, 1))
        )
        deed = chance.random()
        try:
            if deed < 0.6:
                await meter.refill(need, store.now_s)
                meter.check(need, store.now_s)
                running.append(meter.take(need, store.now_s))
                said.append("let in")
            elif deed < 0.85 and running:
                taken = running.pop(chance.randrange(len(running)))
                meter.settle(taken, chance.choice((0, 5, 60, 300)), chance.choice((0, 10_000, 300_000)), store.now_s)
                said.append("settled")
            else:
                await meter.give_back(store.now_s)
                said.append("gave back")
        except (RateLimited, RequestError, Overloaded) as error:
            said.append([type(error).__name__, str(error), getattr(error, "retry_after_s", None)])
        standing = [one and asdict(one) for one in meter.standing(store.now_s)]
        said.append([meter.lacking(need, store.now_s), standing])
    return [said, store.asked]


async def test_shared_meters_over_drawn_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_golden(GOLDEN / "shared_meters.jsonl", {str(seed): await hours(seed, monkeypatch) for seed in range(15)})


def windows(seed: int) -> list[Any]:
    chance = Random(seed)
    window, day, month = SlidingSum(50), Spend("day", 1000), Spend("month", 5000, spent=100)
    now, said, slots = NOON, [], []
    for _ in range(40):
        now += chance.choice((0, 0.4, 1, 7, 30, 61, -1, -100, 40_000))
        amount = chance.choice((1, 5, 20, 60))
        deed = chance.random()
        if deed < 0.5:
            slots.append(window.add(amount, now))
        elif slots:
            window.amend(chance.choice(slots), chance.choice((-3, 4, 0)), now)
        for spend in (day, month):
            if deed < 0.6:
                spend.reserved += amount
            else:
                spend.settle(amount, chance.choice((0, amount, 300)), now)
            said.append([spend.left(now), spend.ends_in_s(now), spend.spent, spend.reserved])
        said.append([window.total(now), window.wait_s(amount, now)])
    return said


def test_windows_over_drawn_minutes() -> None:
    assert_golden(GOLDEN / "windows.jsonl", {str(seed): windows(seed) for seed in range(8)})


@pytest.mark.parametrize(("month", "days"), [(1, 31), (2, 29), (4, 30), (12, 31)])
def test_a_month_ends_with_its_last_day(month: int, days: int) -> None:
    begins = calendar.timegm((2024, month, 1, 0, 0, 0))
    for second in (0, 1, days * 86400 - 1):
        assert period_end("month", begins + second) == begins + days * 86400
    assert period_end("day", begins) == begins + 86400
    assert period_end("day", begins + 86399) == begins + 86400


def local_hours(seed: int) -> list[Any]:
    """Do as `hours`, with a meter that shares nothing."""
    chance = Random(seed)

    def drawn() -> Limits:
        return Limits(
            requests_per_minute=chance.choice((None, 5, 40)),
            tokens_per_minute=chance.choice((None, 100, 1000)),
            concurrency=chance.choice((None, 2, 10)),
            budget_day=chance.choice((None, 0.001)),
            budget_month=chance.choice((None, 0.005)),
        )

    meter = Meter("key 'a'", drawn())
    now, running, said = NOON, [], []
    for _ in range(40):
        now += chance.choice((0.5, 2, 6, 70, 3600, 90_000)) if chance.random() < 0.5 else 0
        need = UsageEstimate(
            chance.choice((0, 1, 10, 60, 2000)), chance.choice((0, 20_000, 2_000_000)), chance.choice((0, 1))
        )
        try:
            if chance.random() < 0.6 or not running:
                meter.check(need, now)
                running.append(meter.take(need, now))
                said.append("let in")
            else:
                taken = running.pop(chance.randrange(len(running)))
                meter.settle(taken, chance.choice((0, 5, 60, 300)), chance.choice((0, 10_000, 300_000)), now)
                said.append("settled")
        except (RateLimited, RequestError) as error:
            said.append([type(error).__name__, str(error), getattr(error, "retry_after_s", None)])
        if chance.random() < 0.05:
            meter.change(drawn(), 100, 200)
        said.append([one and asdict(one) for one in meter.standing(now)])
    return said


def test_meters_of_one_gateway_over_drawn_hours() -> None:
    assert_golden(GOLDEN / "meters.jsonl", {str(seed): local_hours(seed) for seed in range(15)})


class Dear:
    """Prices that tell what they were asked."""

    def most_nanos(self, models: Any, read: int, written: int) -> int:
        return 1_000_000 * read + written


CALL = ToolCall("id", "name", '{"a": 1}')
TOOL = Tool("f", "does", {"type": "object"})
SCHEMA = Constraint("json_schema", {"type": "string"})
ASKED: dict[str, Request] = {
    "plain": Request("r", "m", (Message("user", "four words of text"),)),
    "wide": Request("r", "m", (Message("user", "é" * 40), Message("assistant", "x" * 9))),
    "named": Request("r", "m", (Message("user", "text", name="somebody"),)),
    "called": Request(
        "r", "m", (Message("assistant", "", tool_calls=(CALL, CALL)), Message("tool", "ok", tool_call_id="id"))
    ),
    "tools": Request("r", "m", (Message("user", "text"),), tools=(TOOL, TOOL)),
    "schema": Request("r", "m", (Message("user", "text"),), constraint=SCHEMA),
    "regex": Request("r", "m", (Message("user", "text"),), constraint=Constraint("regex", "a+")),
    "both": Request("r", "m", (Message("user", "text", tool_call_id="x"),), tools=(TOOL,), constraint=SCHEMA),
    "short": Request("r", "m", (Message("user", "text"),), Sampling(max_tokens=7), n=3),
    "best": Request("r", "m", (Message("user", "text"),), Sampling(max_tokens=7, best_of=5), n=2),
    "long": Request("r", "m", (Message("user", "x" * 5000),), Sampling(max_tokens=5000)),
    "nothing": Request("r", "m", (Message("user", "text"),), n=0),
}


def test_estimates_of_drawn_requests() -> None:
    found = {}
    for name, request in ASKED.items():
        for context in (100, 100_000):
            needs = [
                need_of(request, Dear(), lambda _, c=context: CandidateModels(None, c), budgeted=b)
                for b in (False, True)
            ]
            found[f"{name} {context}"] = [*map(asdict, needs), most_read(request, context), fairly_read(request)]
    assert_golden(GOLDEN / "estimates.jsonl", found)


def question(mode: str) -> LeaseQuestion:
    return LeaseQuestion(1, mode, "7", 5, 1, 10, "", (), {})


@pytest.mark.parametrize(
    "parts", [None, [], [1, 2, 3, b"7", 5, 0, 0], [6, 2, 3, b"7", 5, 0], [-1, 2, 3, b"7", 5, 0], [1, 2, 3, b"x", 5, 0]]
)
def test_what_the_script_cannot_have_said_is_refused(parts: object) -> None:
    with pytest.raises(ValueError, match=r"shape|grant|slot"):
        read_reply(parts, question("rate"))


def test_what_the_script_said_is_read() -> None:
    assert read_reply([5, 2, 3, b"7", 5500, 1], question("rate")) == LeaseReply(5, 2, 3, "7", 5.5, 1)
    assert read_reply([0, 2, 3, "2024-01", 0, 0], question("money")) == LeaseReply(0, 2, 3, "2024-01", 0.0, 0)
