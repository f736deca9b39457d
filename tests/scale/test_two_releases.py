"""Gateways of an earlier state and of today on one database, under load: replaced one by one, and put back."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cache.redis_server import needs_redis
from tests.gateway.stores.postgres_server import needs_postgres
from tests.gateway.upstream.servers import ScriptedServer, chunk, running, streams
from tests.scale.deployment import ROOT, FullDeployment, GatewayProcess, needs_nginx
from tests.scale.earlier_release import FIRST_SHARED, needs_history, unpacked
from tests.scale.faults import UNDER_WAY, Fault
from tests.scale.load import LINES, Tally, ask, printed
from tests.scale.test_faults import suffered
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.scale, needs_nginx, needs_redis, needs_postgres, needs_history]
GRACE_S = 60.0


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(FIRST_SHARED, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, earlier: Path) -> Iterator[FullDeployment]:
    """Three gateways of the earlier release."""
    answers = streams(chunk("word "), chunk(reason="stop"), b"data: [DONE]\n\n")
    with (
        running(ScriptedServer(answers)) as server,
        FullDeployment(tmp_path_factory.mktemp("deployment"), server, earlier) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def tallies(request: pytest.FixtureRequest) -> Iterator[list[Tally]]:
    with printed(request) as found:
        yield found


def end(gateway: GatewayProcess) -> None:
    """End a gateway as an orchestrator does. The earlier release may hang at its end where it waits for the
    database."""
    assert gateway.process is not None
    gateway.signal(signal.SIGTERM)
    try:
        gateway.process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        gateway.kill()


def upgrade(gateway: GatewayProcess) -> None:
    end(gateway)
    gateway.root = ROOT
    gateway.begin()
    until(gateway.serves)


def first_replaced(deployment: FullDeployment) -> None:
    """Upgrade the first gateway, which brings the tables up to date while the others serve."""
    upgrade(deployment.gateways[0])


def earlier_killed(deployment: FullDeployment) -> None:
    """Whichever release runs the batch by then goes on with it."""
    gateway = deployment.gateways[1]
    gateway.kill()
    time.sleep(2)
    gateway.root = ROOT
    gateway.begin()
    until(gateway.serves)


def last_replaced(deployment: FullDeployment) -> None:
    upgrade(deployment.gateways[2])


def whole_under(deployment: FullDeployment, tallies: list[Tally], name: str, fault: Fault) -> None:
    """Assert that nothing is lost and nothing charged twice."""
    tally = suffered(deployment, name, fault)
    tallies.append(tally)
    assert (tally.lost, tally.twice) == (0, 0), tally
    assert tally.charged >= tally.whole, tally
    assert tally.lines_charged >= LINES, tally


def call(gateway: GatewayProcess, method: str, path: str, key: str = "operator", **body: Any) -> httpx.Response:
    head = {"authorization": f"Bearer {key}"}
    return httpx.request(method, f"{gateway.url}{path}", headers=head, timeout=30, **body)


def is_known(gateway: GatewayProcess, key: str) -> bool:
    return call(gateway, "GET", "/v1/models", key).status_code == 200


def command(gateway: GatewayProcess, *arguments: object) -> None:
    """Run `sluicegate` of the release that the gateway is of."""
    program = [sys.executable, "-m", "sluicegate.gateway.commands.cli", *map(str, arguments)]
    run = [*program[:4], "--config", str(gateway.config), *program[4:]]
    done = subprocess.run(run, cwd=gateway.root, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_backup_is_made_before(deployment: FullDeployment, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = call(deployment.gateways[0], "POST", "/admin/keys", json={"id": "before"})
    assert made.status_code == 200, made.text
    deployment.before = made.json()["key"]  # type: ignore[attr-defined]
    command(deployment.gateways[0], "backup", deployment.folder / "backup")


def test_the_first_is_replaced_under_load(deployment: FullDeployment, tallies: list[Tally]) -> None:
    name = "the first of three gateways is replaced by one of the next release"
    whole_under(deployment, tallies, name, Fault(first_replaced, UNDER_WAY))
    taken = deployment.database.ask("select max(number) from sluicegate.migrations")
    assert taken > [(1,)]


def test_two_releases_agree(deployment: FullDeployment) -> None:
    """What one is told the other knows: keys and their end, files, limits over both."""
    new, old = deployment.gateways[0], deployment.gateways[2]
    for here, there in ((new, old), (old, new)):
        secret = call(here, "POST", "/admin/keys", json={"id": f"of-{here.port}"}).json()["key"]
        until(lambda there=there, secret=secret: is_known(there, secret))
        sent = call(here, "POST", "/v1/files", "batcher", data={"purpose": "batch"}, files={"file": ("f", b"{}\n")})
        read = call(there, "GET", f"/v1/files/{sent.json()['id']}/content", "batcher")
        assert read.content == b"{}\n"
        assert call(here, "DELETE", f"/admin/keys/of-{here.port}").status_code == 200
        until(lambda there=there, secret=secret: not is_known(there, secret))
    assert [ask(one.url, "seated") for one in (new, old)] == ["whole"] * 2


def test_one_of_the_earlier_is_killed_under_load(deployment: FullDeployment, tallies: list[Tally]) -> None:
    """A batch that it ran goes on at a gateway of either release."""
    name = "a gateway of the earlier release is killed, and replaced"
    whole_under(deployment, tallies, name, Fault(earlier_killed, UNDER_WAY))


def test_one_of_the_earlier_cannot_start_again(deployment: FullDeployment, earlier: Path) -> None:
    """The tables are those of a newer release, and it says so; those that run go on."""
    gateway = deployment.gateways[1]
    assert gateway.stop() == 0
    gateway.root = earlier
    gateway.begin()
    assert gateway.process is not None
    assert gateway.process.wait(LIMIT_S) != 0
    assert "newer release" in gateway.said.splitlines()[-1]
    assert ask(deployment.gateways[2].url) == "whole"
    gateway.root = ROOT
    gateway.begin()
    until(gateway.serves)


def test_the_last_is_replaced_under_load(deployment: FullDeployment, tallies: list[Tally]) -> None:
    name = "the last gateway of the earlier release is replaced"
    whole_under(deployment, tallies, name, Fault(last_replaced, UNDER_WAY))


def test_the_backup_brings_the_earlier_release_back(deployment: FullDeployment, earlier: Path) -> None:
    """With what it had then; a key that was made since is unknown."""
    since = call(deployment.gateways[0], "POST", "/admin/keys", json={"id": "since"}).json()["key"]
    for gateway in deployment.gateways:
        assert gateway.stop() == 0
        gateway.root = earlier
    deployment.database.ask("drop schema sluicegate cascade")  # its restore refuses tables of a newer release
    command(deployment.gateways[0], "restore", "--replace", deployment.folder / "backup")
    for gateway in deployment.gateways:
        gateway.begin()
    for gateway in deployment.gateways:
        until(gateway.serves)
        assert is_known(gateway, deployment.before)  # type: ignore[attr-defined]
        assert not is_known(gateway, since)
        assert ask(gateway.url) == "whole"
