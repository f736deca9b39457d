"""Faults while load runs: every question is answered in the end, and every answer is charged once.

`WRITE_GOLDEN=1` writes the table into `docs/scale.md`: faults that were tried in place of what stood there of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cache.redis_server import needs_redis
from tests.gateway.stores.postgres_server import needs_postgres
from tests.gateway.upstream.servers import ScriptedServer, chunk, event, running, streams
from tests.scale.deployment import BUDGET, PRICE, ROOT, FullDeployment, needs_nginx
from tests.scale.faults import FAULTS, LIES, Fault
from tests.scale.gateway_process import WORDS
from tests.scale.load import (
    BODY,
    CALLERS,
    LINES,
    BatchLoad,
    Books,
    Tally,
    ask,
    books_of,
    callers,
    printed,
    settled,
    table,
)
from tests.scale.small_disk import can_mount
from tests.waiting import until

pytestmark = [pytest.mark.scale, needs_nginx, needs_redis, needs_postgres]
PAGE = ROOT / "docs" / "scale.md"
TABLE = re.compile(r"(?<=<!-- faults -->\n).*?(?=\n<!-- end of faults -->)", re.DOTALL)
CLAIM = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 12 * 10**12}})


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullDeployment]:
    lies = streams(*(chunk("word ") for _ in range(WORDS)), chunk(reason="stop"), CLAIM, b"data: [DONE]\n\n")
    with (
        running(ScriptedServer(lies)) as liar,
        FullDeployment(tmp_path_factory.mktemp("deployment"), liar) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def tallies(request: pytest.FixtureRequest) -> Iterator[list[Tally]]:
    """Yield what was seen so far. It is printed, and written down, at the end."""
    with printed(request) as found:
        yield found
    if os.environ.get("WRITE_GOLDEN"):
        page = PAGE.read_text("utf-8")
        [old] = TABLE.findall(page)
        PAGE.write_text(page.replace(old, merged(old, table(found))), "utf-8")


def merged(old: str, new: str) -> str:
    """Return one table with a row for each fault, in their order."""
    rows = {line.split(" | ")[0].strip("| "): line for line in [*old.splitlines(), *new.splitlines()]}
    return "\n".join([*new.splitlines()[:2], *(rows[name] for name in FAULTS if name in rows)])


def now_in(deployment: FullDeployment) -> Books:
    return settled(lambda: books_of([gateway.url for gateway in deployment.gateways]))


def suffered(deployment: FullDeployment, name: str, fault: Fault) -> Tally:
    """Return what callers and a batch saw of one fault."""
    before, tally = now_in(deployment), Tally(name)
    tally.may_be_asked_again = fault.lines_again
    with callers(deployment.url, tally):
        batch = BatchLoad(deployment.url)
        tally.began = time.monotonic()
        fault.happens(deployment)
        tally.lasted_s = time.monotonic() - tally.began
        had = tally.whole
        until(lambda: tally.whole >= had + 2 * CALLERS)
    tally.lines = batch.ended()
    tally.lost += LINES - tally.lines
    after = now_in(deployment)
    tally.charged, tally.lines_charged = (
        after.get(key, (0, 0.0))[0] - before.get(key, (0, 0.0))[0] for key in ("caller", "batcher")
    )
    return tally


@pytest.mark.parametrize("name", FAULTS)
def test_under_a_fault_nothing_is_lost_and_nothing_charged_twice(
    deployment: FullDeployment, tallies: list[Tally], name: str
) -> None:
    """Who asks again is answered; an answer that came whole is charged, and no request is that nobody sent. So is a
    batch. Afterwards no seat is taken, and a budget is spent at most once."""
    if FAULTS[name].fills_disks and not can_mount():
        pytest.skip("no file system can be mounted here, so that no disk can be filled")
    tally = suffered(deployment, name, FAULTS[name])
    tallies.append(tally)
    assert (tally.lost, tally.twice) == (0, 0), tally
    assert tally.charged >= tally.whole, tally
    assert tally.lines_charged >= LINES, tally
    if name == "none":
        assert (tally.cut, tally.refused, tally.charged) == (0, 0, tally.whole)
    if "one after the other" in name:
        assert tally.cut == 0, "a restart that is announced cuts nobody"
    until(lambda: [ask(gateway.url, "seated") for gateway in deployment.gateways] == ["whole"] * 3)
    ask(deployment.url, "poor")


def test_a_budget_held_through_all_of_it(deployment: FullDeployment) -> None:
    """What was spent before, while and after things broke is not more than there was, and it was given out."""
    each = WORDS * PRICE / 1e6
    until(lambda: ask(deployment.url, "poor") == "refused")
    spent = now_in(deployment)["poor"][1]
    assert BUDGET - 3 * BODY["max_tokens"] * PRICE / 1e6 <= spent <= BUDGET
    assert spent >= each


def test_a_claim_is_charged_at_what_was_reserved_at_most(deployment: FullDeployment) -> None:
    spent = now_in(deployment).get("deceived", (0, 0.0))[1]
    assert spent <= LIES * BODY["max_tokens"] * PRICE / 1e6


def test_the_folder_of_a_gateway_holds_nothing_of_callers(deployment: FullDeployment, tmp_path: Path) -> None:
    """Neither a key nor a text is in its log or journal."""
    for place in deployment.folder.glob("gateway-*/**/*"):
        if place.is_file() and place.name != "gateway.toml":
            assert b"Speak." not in place.read_bytes()
