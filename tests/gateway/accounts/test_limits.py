"""Limits of keys and teams: they hold whatever runs at once, and what a refusal says comes true."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from sluicegate.gateway.accounts import Accounts, keyring
from sluicegate.gateway.accounts.limits.meter import Meter, UsageEstimate
from sluicegate.gateway.accounts.limits.totals import Totals
from sluicegate.gateway.accounts.limits.windows import SlidingSum, Spend, period_end
from sluicegate.gateway.accounts.records import NANOS, UsageKey, day_of
from sluicegate.gateway.settings import AccountSettings, KeySettings, Limits
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Caller, ConfigurationError, Outcome, RateLimited
from sluicegate.plugins.testing import make_outcome, make_request
from tests.altered import altered

PRICES = {"scripted": {"input": 1.0, "output": 2.0}}


def key(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "sha256": hashlib.sha256(f"secret-{id}".encode()).hexdigest(), **more}


def app(*keys: Mapping[str, Any], accounts: Mapping[str, Any] | None = None, **more: Any) -> TestApp:
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"], **more.pop("pipeline", {})}
    return TestApp(pipeline=pipeline, keys=keys, accounts=accounts or {}, **more)


def ask(gateway: TestApp, id: str, **fields: Any) -> httpx.Response:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 10, **fields}
    answer: httpx.Response = gateway.client.post(
        "/v1/chat/completions", json=body, headers={"authorization": f"Bearer secret-{id}"}
    )
    return answer


def refused(answers: list[httpx.Response]) -> int:
    assert {answer.status_code for answer in answers} <= {200, 429}
    return sum(answer.status_code == 429 for answer in answers)


def test_requests_a_minute_are_counted_and_told() -> None:
    with app(key("a", limits={"requests_per_minute": 3}), key("b")) as gateway:
        answers = [ask(gateway, "a") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert [a.headers["x-ratelimit-remaining-requests"] for a in answers] == ["2", "1", "0", "0", "0"]
        assert answers[0].headers["x-ratelimit-limit-requests"] == "3"
        assert 59 <= int(answers[3].headers["retry-after"]) <= 61
        assert answers[3].json()["error"]["code"] == "rate_limit_exceeded"
        assert ask(gateway, "b").status_code == 200
        assert "x-ratelimit-limit-requests" not in ask(gateway, "b").headers


def test_many_choices_count_as_many_answers() -> None:
    """`n` is no way around tokens a minute: four choices of thirty tokens count as a hundred and twenty."""
    with app(key("a", limits={"tokens_per_minute": 100})) as gateway:
        assert ask(gateway, "a", max_tokens=30, n=4).json()["error"]["code"] == "request_exceeds_limit"
        assert ask(gateway, "a", max_tokens=30).status_code == 200


def test_tokens_are_settled_at_what_was_used() -> None:
    with app(key("a", limits={"tokens_per_minute": 2000})) as gateway:
        ask(gateway, "a", max_tokens=1500)
        gateway.wait_for_outcomes(1)
        assert ask(gateway, "a", max_tokens=1500).status_code == 200


def test_what_can_never_fit_is_no_429() -> None:
    with app(key("a", limits={"tokens_per_minute": 50})) as gateway:
        answer = ask(gateway, "a", max_tokens=51)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "request_exceeds_limit")


def test_concurrency_holds_and_is_given_back() -> None:
    with app(key("a", limits={"concurrency": 2}), delay_s=0.2) as gateway, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: ask(gateway, "a"), range(6)))
        assert refused(answers) == 4
        gateway.wait_for_outcomes(6)
        assert ask(gateway, "a").status_code == 200


def test_an_abandoned_stream_gives_its_place_back() -> None:
    with app(key("a", limits={"concurrency": 1}), delay_s=0.05, script=["word "] * 200) as gateway:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        headers = {"authorization": "Bearer secret-a"}
        with gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            pieces = answer.iter_bytes()  # a name keeps it, and with it the connection, open
            next(pieces)
            assert ask(gateway, "a").status_code == 429
        gateway.wait_for_outcomes(2)
        with gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status_code == 200


def test_a_budget_holds_when_many_ask_at_once() -> None:
    """Forty at a time against money for about ten: what was spent never passes the budget."""
    limits = {"budget_day": 0.0006}
    with app(key("a", limits=limits), accounts={"prices": PRICES}, delay_s=0.02) as gateway:
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: ask(gateway, "a"), range(40)))
        outcomes = gateway.wait_for_outcomes(40)
        spent = sum(cost(outcome) for outcome in outcomes)
        assert 0 < spent <= 600_000
        assert refused(answers) > 0
        assert all(a.json()["error"]["code"] == "insufficient_quota" for a in answers if a.status_code == 429)


def cost(outcome: Outcome) -> int:
    return 1000 * outcome.usage.prompt_tokens + 2000 * outcome.usage.completion_tokens


def test_keys_of_a_team_share_its_limits() -> None:
    keys = (key("a", team="blue"), key("b", team="blue"), key("c"))
    with app(*keys, accounts={"teams": {"blue": {"requests_per_minute": 2}}}) as gateway:
        assert [ask(gateway, id).status_code for id in "aabbc"] == [200, 200, 429, 429, 200]
        assert "team 'blue'" in ask(gateway, "b").json()["error"]["message"]


def test_answers_of_the_cache_count_as_requests_and_tokens() -> None:
    limits = {"requests_per_minute": 3, "tokens_per_minute": 10_000}
    with app(key("a", limits=limits), pipeline={"recall": ["memory"]}, script=["x" * 400]) as gateway:
        answers = [ask(gateway, "a", temperature=0) for _ in range(4)]
        assert [a.headers.get("x-sluicegate-cache") for a in answers] == ["miss", "hit", "hit", None]
        assert answers[3].status_code == 429
        gateway.wait_for_outcomes(4)
        assert int(ask(gateway, "a").headers["x-ratelimit-remaining-tokens"]) < 10_000 - 2 * 100


def test_a_key_is_kept_to_its_routes() -> None:
    with app(key("a", routes=["/v1/models*"]), key("b", routes=["/v1/chat/completions"])) as gateway:
        assert ask(gateway, "a").status_code == 403
        assert "/v1/models*" in ask(gateway, "a").json()["error"]["message"]
        refused = gateway.client.post("/v1/messages", json={}, headers={"authorization": "Bearer secret-a"})
        assert (refused.status_code, refused.json()["type"]) == (403, "error")
        assert gateway.client.get("/v1/models", headers={"authorization": "Bearer secret-a"}).status_code == 200
        assert ask(gateway, "b").status_code == 200


def test_a_key_is_not_served_without_its_rails() -> None:
    keys = (key("a", rails=["pii"]), key("b", rails=["secrets"]))
    with app(*keys, pipeline={"moderate": ["secrets"]}) as gateway:
        assert ask(gateway, "a").status_code == 403
        assert ask(gateway, "b").status_code == 200


@pytest.mark.parametrize(("expires", "status"), [("2020-01-01", 401), ("2999-01-01T00:00:00+02:00", 200)])
def test_a_key_expires(expires: str, status: int) -> None:
    with app(key("a", expires=expires)) as gateway:
        assert ask(gateway, "a").status_code == status


def test_the_sum_of_any_minute_is_within_the_limit() -> None:
    """Asked at every half second for ten minutes: no sixty seconds hold more than the limit, and what `wait_s` says is
    the first moment at which it fits."""
    limit, used, taken = 7, SlidingSum(7), []
    for step in range(1200):
        now = 1000 + step / 2
        wait = used.wait_s(1, now)
        if wait == 0:
            used.add(1, now)
            taken.append(now)
        else:
            assert used_at(taken, now, limit)
            assert copy.deepcopy(used).wait_s(1, now + wait) == 0
    assert all(sum(t <= s < t + 60 for s in taken) <= limit for t in taken)
    assert len(taken) >= 9 * limit


@pytest.mark.parametrize("seed", range(20))
def test_all_is_free_when_as_much_as_the_limit_would_fit(seed: int) -> None:
    drawn, used, now, slots = Random(seed), SlidingSum(100), 1000.0, []
    for _ in range(200):
        now += drawn.choice((0.0, 0.3, 1.0, 7.0, 61.0))
        if slots and drawn.random() < 0.4:
            slot, amount = slots.pop()
            used.amend(slot, drawn.choice((-amount, -1, 0, 2)), now)
        elif used.wait_s(amount := drawn.randrange(1, 9), now) == 0:
            slots.append((used.add(amount, now), amount))
        assert copy.deepcopy(used).wait_s(100, now) == used.left(now)[1]


def used_at(taken: list[float], now: float, limit: int) -> bool:
    return sum(s > now - 61.5 for s in taken) >= limit


@pytest.mark.parametrize("back_s", [5, 3600, 400 * 86400])
def test_a_clock_that_is_set_back_locks_nobody_out(back_s: int) -> None:
    """What was used counts for its minute, and not until the clock is there again."""
    used, now_s = SlidingSum(3), 1_800_000_000.0
    for _ in range(3):
        used.add(1, now_s)
    back = now_s - back_s
    assert 0 < used.wait_s(1, back) <= 61 + 5
    assert used.total(back) == 3
    assert used.wait_s(1, back + 62) == 0


def test_what_was_reserved_before_a_clock_was_set_back_is_given_back_where_it_was_taken() -> None:
    """Seconds of slots move with the clock, so that one could take the name of another, or lose its own."""
    used = SlidingSum(100)
    first, second = used.add(50, 1000.0), used.add(30, 1025.0)
    assert used.total(1000.0) == 80
    third = used.add(10, 1002.0)
    used.amend(first, -50, 1002.0)
    assert used.total(1002.0) == 40
    used.amend(second, -30, 1002.0)
    used.amend(third, -10, 1002.0)
    assert used.total(1002.0) == 0
    assert used.wait_s(100, 1002.0) == 0


def test_a_clock_that_is_set_back_gives_nobody_the_day_again() -> None:
    totals, now_s = Totals(), 1_800_000_000.0
    totals.restore({}, now_s)
    totals.add(UsageKey(day_of(now_s), "a", "", "", "m"), 7, now_s)
    assert totals.of("key", "a", now_s - 86400) == (7, 7)
    assert totals.of("key", "a", now_s) == (7, 7)
    assert totals.of("key", "a", now_s + 86400)[0] == 0


def test_the_day_of_a_clock_that_was_wrong_ends_with_the_right_one() -> None:
    """As of a machine that starts in 2036 and is then set right: what was spent counted for ten years."""
    right_s = 1_800_000_000.0
    wrong_s = right_s + 3650 * 86400
    totals = Totals()
    totals.restore({}, wrong_s)
    totals.add(UsageKey(day_of(wrong_s), "a", "", "", "m"), 7, wrong_s)
    assert totals.of("key", "a", right_s) == (7, 7)
    assert totals.of("key", "a", right_s + 86400)[0] == 0
    for period, days in (("day", 1), ("month", 31)):
        spend = Spend(period, 100)  # type: ignore[arg-type]
        assert spend.left(wrong_s) == 100
        spend.settle(0, 90, wrong_s)
        assert spend.left(right_s) == 10
        assert spend.ends_in_s(right_s) <= days * 86400
        assert spend.left(right_s + days * 86400) == 100


@pytest.mark.parametrize(("period", "days"), [("day", 1), ("month", 31)])
def test_a_clock_that_jumps_there_and_back_gives_nobody_a_period_twice(period: Any, days: int) -> None:
    """Ahead, back by several periods, and ahead again: what was spent in the one ahead is still spent."""
    today_s = 1_800_000_000.0
    spend = Spend(period, 100)
    assert spend.left(today_s) == 100
    for spent, left in ((60, 40), (30, 10)):
        ahead_s = today_s + days * 86400
        spend.left(ahead_s)
        spend.settle(0, spent, ahead_s)
        assert spend.left(ahead_s) == left
        assert spend.left(today_s - 3 * days * 86400) == left  # as after any step back
    assert spend.left(today_s + days * 86400) == 10
    assert spend.left(today_s + 3 * days * 86400) == 100


@pytest.mark.parametrize("step_s", [7200.0, 400 * 86400.0])
def test_a_clock_that_is_set_forward_shuts_out_no_key(
    tmp_path: Path, step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys of the store were a 503 until it was read the next time."""
    with app(key("ops", scopes=["admin"]), accounts={"path": str(tmp_path / "accounts.db")}) as gateway:
        made = gateway.client.post("/admin/keys", json={"id": "a"}, headers={"authorization": "Bearer secret-ops"})
        monkeypatch.setattr(keyring, "time", altered(time, time=lambda: time.time() + step_s))
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": f"Bearer {made.json()['key']}"}
        assert gateway.client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"id": ""},
        {"id": "a\nb"},
        {"id": "x" * 257},
        {"id": "\0"},
        {"id": "\x1b[31m"},
        {"team": "x" * 10_000},
        {"tenant": "a\0"},
        {"limits": {"budget_day": float("nan")}},
        {"limits": {"budget_day": float("inf")}},
        {"limits": {"budget_month": -1}},
        {"limits": {"budget_month": 1e30}},
        {"limits": {"requests_per_minute": 10**13}},
    ],
)
def test_a_key_that_the_books_could_not_keep_stops_the_start(fault: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        app({**key("k"), **fault})


@pytest.mark.parametrize("price", [-1, -0.5, float("nan"), float("inf")])
def test_a_price_is_no_gift(price: float) -> None:
    with pytest.raises(ConfigurationError, match=r"output must be a number from 0( to 1000000000000000)?, found"):
        app(key("k"), accounts={"prices": {"scripted": {"output": price}}})


def test_a_team_of_no_name_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="no name"):
        app(key("k"), accounts={"teams": {"": {"requests_per_minute": 1}}})


def test_a_day_and_a_month_end_in_utc() -> None:
    at = 1_709_164_800.0  # 2024-02-29 00:00 UTC
    assert period_end("day", at) - at == 86400
    assert period_end("month", at + 5) == at + 86400
    spend = Spend("day", 100, 90)
    assert spend.left(at) == 10
    assert spend.left(at + 86400) == 100


def test_a_request_that_is_older_than_a_limit_gives_nothing_back_of_what_others_reserved() -> None:
    """Its reservation was taken off theirs, and as many again were let in beside them."""
    meter, need = Meter("key 'a'", Limits()), UsageEstimate(tokens=60, nanos=6 * NANOS)
    older = meter.take(need, 0.0)
    meter.change(Limits(tokens_per_minute=100, budget_day=10.0), 0, 0)
    meter.take(need, 0.0)
    meter.settle(older, 10, NANOS, 1.0)
    with pytest.raises(RateLimited, match="has used 70 of its 100 tokens"):
        meter.check(UsageEstimate(tokens=40, nanos=0), 1.0)
    with pytest.raises(RateLimited, match=r"has 3\.000000 left"):
        meter.check(UsageEstimate(tokens=0, nanos=4 * NANOS), 1.0)
    meter.check(UsageEstimate(tokens=30, nanos=3 * NANOS), 1.0)


def test_a_limit_of_requests_at_once_that_is_lifted_and_set_again_counts_those_that_run(tmp_path: Path) -> None:
    accounts = Accounts(AccountSettings(), [KeySettings(id="a", key="k", limits=Limits(concurrency=1))])
    caller, request = Caller(tenant="a", key_id="a"), make_request()
    accounts.reserve(request, caller)
    for limits in (Limits(), Limits(concurrency=1)):
        accounts.exchange_keys([KeySettings(id="a", key="k", limits=limits)])
        accounts.meters.of(caller)
    with pytest.raises(RateLimited, match="runs 1 requests"):
        accounts.reserve(make_request(), caller)
    accounts.settle(make_outcome(request=request, caller=caller))
    accounts.reserve(make_request(), caller)
