"""Faults while load runs: every question is answered in the end, and every answer is charged once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.cache.redis_server import needs_redis
from tests.gateway.stores.postgres_server import needs_postgres
from tests.scale.deployment import FullDeployment, needs_nginx
from tests.scale.gateway_process import WORDS
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.scale, needs_nginx, needs_redis, needs_postgres]
CALLERS = 6
CALLER = {"authorization": "Bearer caller"}
BODY = {"model": "scripted", "stream": True, "max_tokens": 200, "messages": [{"role": "user", "content": "Speak."}]}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullDeployment]:
    with FullDeployment(tmp_path_factory.mktemp("deployment")) as found:
        yield found


@dataclass
class Tally:
    """What callers saw of one fault. `refused`: answered by a status and nothing begun; `cut`: begun and not ended, or
    ended by an error event; `lost`: questions without an answer in the end."""

    fault: str
    whole: int = 0
    refused: int = 0
    cut: int = 0
    lost: int = 0
    charged: int = 0
    recovery_s: float = 0.0
    longest_s: float = 0.0
    """From the first to the last try of one question."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def twice(self) -> int:
        """Requests charged that nobody sent."""
        return max(0, self.charged - self.whole - self.cut)

    def count(self, name: str) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)


def ask(client: httpx.Client) -> str:
    """Ask once: `whole`, `cut` or `refused`."""
    words, ended = 0, False
    try:
        with client.stream("POST", "/v1/chat/completions", json=BODY) as answer:
            if answer.status_code != 200:
                return "refused"
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line[6:]).get("choices", ()):
                    words += (choice["delta"].get("content") or "").count("word")
                    ended = ended or choice["finish_reason"] == "stop"
    except httpx.ConnectError:
        return "refused"
    except httpx.HTTPError:
        return "cut"
    assert not ended or words == WORDS, "an answer that ends well is whole"
    return "whole" if ended else "cut"


def keep_asking(deployment: FullDeployment, tally: Tally, over: threading.Event) -> None:
    while not over.is_set():
        began, outcome = time.monotonic(), ""
        while outcome != "whole" and time.monotonic() - began < LIMIT_S:
            with httpx.Client(
                base_url=deployment.url, headers={"authorization": "Bearer caller"}, timeout=60
            ) as client:
                outcome = ask(client)
            tally.count(outcome)
            tally.longest_s = max(tally.longest_s, time.monotonic() - began)
            if outcome == "refused":
                time.sleep(0.1)
        if outcome != "whole":
            tally.count("lost")


def charged(deployment: FullDeployment) -> int:
    """Return the requests in the books of the caller's key."""
    for gateway in deployment.gateways:
        try:
            answer = httpx.get(
                f"{gateway.url}/admin/usage", params={"by": "key_id"}, headers={"authorization": "Bearer operator"}
            )
        except httpx.HTTPError:
            continue
        if answer.status_code == 200:
            return sum(row["requests"] for row in answer.json()["data"] if row["key_id"] == "caller")
    return -1


def settled(deployment: FullDeployment) -> int:
    """Return the same once it no longer changes: every gateway has written down what it had."""
    last, since = -2, time.monotonic()

    def is_still() -> bool:
        nonlocal last, since
        if (now := charged(deployment)) != last:
            last, since = now, time.monotonic()
        return last >= 0 and time.monotonic() - since > 3.0

    until(is_still)
    return last


def nothing(deployment: FullDeployment) -> None:
    time.sleep(3)


def gateway_killed(deployment: FullDeployment) -> None:
    deployment.gateways[0].kill()
    time.sleep(2)
    deployment.gateways[0].begin()
    until(deployment.gateways[0].serves)


def rolling_restart(deployment: FullDeployment) -> None:
    for gateway in deployment.gateways:
        assert gateway.stop() == 0
        gateway.begin()
        until(gateway.serves)


def database_killed(deployment: FullDeployment) -> None:
    deployment.database.kill()
    time.sleep(3)
    deployment.database.start()


def database_frozen(deployment: FullDeployment) -> None:
    deployment.database.freeze()
    time.sleep(5)
    deployment.database.thaw()


def redis_fails_over(deployment: FullDeployment) -> None:
    deployment.fail_over()


FAULTS: dict[str, Callable[[FullDeployment], None]] = {
    "none": nothing,
    "a gateway is killed (SIGKILL) and started again": gateway_killed,
    "all gateways restart, one after the other (SIGTERM)": rolling_restart,
    "PostgreSQL is killed for 3 s": database_killed,
    "PostgreSQL stands still for 5 s": database_frozen,
    "the main Redis is killed, Sentinel chooses the other": redis_fails_over,
}


def suffered(deployment: FullDeployment, name: str) -> Tally:
    """Return what callers saw of one fault."""
    before, tally, over = settled(deployment), Tally(name), threading.Event()
    callers = [threading.Thread(target=keep_asking, args=(deployment, tally, over)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        until(lambda: tally.whole >= CALLERS)
        FAULTS[name](deployment)
        began, had = time.monotonic(), tally.whole
        until(lambda: tally.whole >= had + 2 * CALLERS)
        tally.recovery_s = time.monotonic() - began
    finally:
        over.set()
        for caller in callers:
            caller.join()
    tally.charged = settled(deployment) - before
    return tally


def test_under_every_fault_nothing_is_lost_and_nothing_charged_twice(
    deployment: FullDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks again is answered; an answer that came whole is charged, and no request is that nobody sent."""
    found = [suffered(deployment, name) for name in FAULTS]
    with capsys.disabled():
        print("\n" + table(found))
    for tally in found:
        assert (tally.lost, tally.twice) == (0, 0), tally
        assert tally.charged >= tally.whole, tally
    calm = found[0]
    assert (calm.cut, calm.refused, calm.charged) == (0, 0, calm.whole)
    assert found[2].cut == 0, "a restart that is announced cuts nobody"


def table(found: list[Tally]) -> str:
    lines = [
        "| fault | answers | cut | refused | lost | charged | charged twice | longest question |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.fault} | {one.whole} | {one.cut} | {one.refused} | {one.lost} | {one.charged} | {one.twice} "
        f"| {one.longest_s:.1f} s |"
        for one in found
    ]
    return "\n".join(lines)


def test_the_folder_of_a_gateway_holds_nothing_of_callers(deployment: FullDeployment, tmp_path: Path) -> None:
    """Neither a key nor a text is in its log or journal."""
    for place in Path(deployment._folder).glob("gateway-*/**/*"):
        if place.is_file() and place.name != "gateway.toml":
            assert b"Speak." not in place.read_bytes()
