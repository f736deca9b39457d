"""`/readyz` knows what the gateway depends on: troubles are shown, end by themselves, and count as they should."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluicegate.engine import Engine, EngineSettings
from sluicegate.gateway.readiness import DiskSpace, TroubleList
from sluicegate.gateway.readiness.disk_space import SILENT_S, free_bytes
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, PluginError, Trouble, UpstreamFailed
from tests.gateway.upstream.servers import ScriptedServer, answers, running
from tests.waiting import soon, until

CHAT = "/v1/chat/completions"
JSON = {"accept": "application/json"}


def levels(app: TestApp) -> dict[str, float]:
    families = {family.name: family for family in text_string_to_metric_families(app.client.get("/metrics").text)}
    return {sample.labels["part"]: sample.value for sample in families["sluicegate_trouble"].samples}


def test_a_gateway_that_is_well_says_one_word() -> None:
    with TestApp() as app:
        assert app.client.get("/readyz").text == "ready"
        found = app.client.get("/readyz", headers=JSON).json()
        assert found == {"state": "ready", "reason": "ready", "troubles": []}
        assert set(levels(app).values()) == {0.0}


class Ailing:
    """A recorder that reports what it is told to."""

    def __init__(self) -> None:
        self.now: list[Trouble] = []

    async def record(self, outcome: Any) -> None: ...

    def troubles(self) -> list[Trouble]:
        if any("raise" in one.reason for one in self.now):
            raise RuntimeError("boom")
        return self.now


@pytest.mark.parametrize(
    ("trouble", "status", "state", "level"),
    [
        (Trouble("its disk is slow"), 200, "degraded", 1.0),
        (Trouble("its thread died", refuses=True), 503, "not ready", 2.0),
        (Trouble("raise"), 200, "degraded", 1.0),
    ],
)
def test_a_stage_reports_its_own(trouble: Trouble, status: int, state: str, level: float) -> None:
    """A plug-in's too; what it raises is its trouble and hides no other's. When it ends all is well again."""
    ailing = Ailing()

    def register(registry: Any) -> None:
        registry.add("record", "ailing", lambda settings: ailing)

    with TestApp(register, pipeline={"record": ["ailing"]}) as app:
        assert app.client.get("/readyz").text == "ready"
        ailing.now = [trouble]
        answer = app.client.get("/readyz", headers=JSON)
        assert (answer.status_code, answer.json()["state"]) == (status, state)
        [said] = answer.json()["troubles"]
        assert said["part"] == "record ailing"
        assert app.client.get("/readyz").text.count("record ailing: ") == 1
        assert app.client.get("/health").status_code == status
        assert levels(app)["record ailing"] == level
        ailing.now = []
        assert app.client.get("/readyz").text == "ready"


def test_half_a_reporter_is_refused() -> None:
    class Wrong(Ailing):
        troubles = ()  # type: ignore[assignment]

    def register(registry: Any) -> None:
        registry.add("record", "ailing", lambda settings: Wrong())

    with pytest.raises((PluginError, ConfigurationError), match="troubles"):
        TestApp(register, pipeline={"record": ["ailing"]})


def test_the_open_breaker_of_another_server_is_named_and_keeps_the_gateway_in_service() -> None:
    with running(ScriptedServer(answers(500))) as url:
        far = {"url": url, "allow_private": True, "retries": 0, "failures_to_open": 2, "attempts": 1}
        stages = {"generate": {"upstream": {"models": {"far": far}}}}
        with TestApp(pipeline={"generate": ["upstream"]}, stages=stages) as app:
            body = {"model": "far", "messages": [{"role": "user", "content": "Hi"}]}
            for _ in range(2):
                assert app.client.post(CHAT, json=body).status_code in (502, 503)
            answer = app.client.get("/readyz")
            assert answer.status_code == 200
            assert answer.text.startswith("degraded\ngenerate upstream: the server of model 'far'")


def test_a_gateway_whose_last_model_was_removed_is_not_ready() -> None:
    """A balancer went on to send it requests, of which each was a 404."""
    far = {"url": "http://127.0.0.1:9", "allow_private": True}
    stages = {"generate": {"upstream": {"models": {"far": far}}}}
    with TestApp(pipeline={"generate": ["upstream"]}, stages=stages) as app:
        assert app.client.get("/readyz").text == "ready"
        assert app.client.delete("/admin/models/far").status_code == 200
        answer = app.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.text == "not ready: models: no model is served; add one: POST /admin/models"
        assert levels(app)["models"] == 2.0
        assert app.client.post("/admin/models", json={"settings": {"name": "near", **far}}).status_code == 200
        assert app.client.get("/readyz").text == "ready"


def test_a_disk_below_the_mark_degrades_and_is_forgiven(tmp_path: Path) -> None:
    more_than_there_is = free_bytes(tmp_path) * 2
    server = {"min_free_bytes": more_than_there_is}
    with TestApp(settings={"server": server, "batches": {"path": str(tmp_path / "b")}}) as app:
        until(lambda: app.client.get("/readyz").text != "ready")
        said = app.client.get("/readyz")
        assert said.status_code == 200
        assert "disk: " in said.text
        assert "make room" in said.text
        assert str(tmp_path) not in said.text
        assert 'sluicegate_disk_free_bytes{folder="batches"}' in app.client.get("/metrics").text
        app.runtime.disks._min_free_bytes = 1
        assert app.client.get("/readyz").text == "ready"


@pytest.mark.asyncio
async def test_a_disk_that_is_nearly_full_is_asked_often_and_reported_to_the_byte(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`/readyz` said for 5 s that 3 MiB were free, of a disk with none."""
    module = "sluicegate.gateway.readiness.disk_space"
    left = [3 * 1024**2, 0, 0, 10**12]
    monkeypatch.setattr(f"{module}.free_bytes", lambda path: left.pop(0))
    monkeypatch.setattr(f"{module}.OFTEN_S", 0.05)
    monkeypatch.setattr(f"{module}.EVERY_S", 600)
    disks = DiskSpace({"batches": tmp_path}, 10 * 1024**2)
    disks.start()
    said: list[str] = []
    try:
        while left:
            await asyncio.sleep(0.005)
            said += [trouble.reason for trouble in disks.troubles()]
        await soon(lambda: not disks.troubles())
    finally:
        await disks.close()
    assert any(reason.startswith("3 MiB are free") for reason in said)
    assert any(reason.startswith("0 bytes are free") for reason in said)


@pytest.mark.asyncio
async def test_a_disk_that_never_answers_is_reported_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a network file system that is away: the pipe below answers when the test says so."""
    read, write = os.pipe()
    module = "sluicegate.gateway.readiness.disk_space"

    def stuck(path: Path) -> int:
        os.read(read, 1)
        return 10**12

    monkeypatch.setattr(f"{module}.free_bytes", stuck)
    disks = DiskSpace({"batches": tmp_path}, 1)
    disks.start()
    try:
        await soon(lambda: "batches" in disks._asked_s)
        assert not disks.troubles()
        disks._asked_s["batches"] -= SILENT_S + 1
        [trouble] = disks.troubles()
        assert "batches has not answered" in trouble.reason
        assert not trouble.refuses
    finally:
        os.write(write, b"..")
        await disks.close()
        os.close(write)


def test_a_folder_that_is_not_made_yet_is_judged_by_its_parent(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b" / "c.db") == pytest.approx(free_bytes(tmp_path), rel=0.1)


@pytest.mark.asyncio
async def test_an_engine_thread_that_died_takes_the_gateway_out() -> None:
    engine = Engine(EngineSettings(watchdog_s=None))
    assert not engine.troubles()
    await engine.start()
    assert not engine.troubles()
    worker = engine._worker
    worker.abandon(UpstreamFailed("the test ends the thread"))
    assert worker._thread is not None
    worker._thread.join(60)
    worker._closing.clear()  # as if it had died by itself
    [trouble] = engine.troubles()
    assert trouble.refuses
    assert "died" in trouble.reason
    worker._closing.set()


@pytest.mark.asyncio
async def test_a_step_that_takes_for_ever_takes_the_gateway_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the watchdog ends it, so that no further request goes there to fail."""
    engine = Engine(EngineSettings(watchdog_s=60.0))
    await engine.start()
    try:
        for stuck_s, refuses in ((29.0, False), (31.0, True)):
            monkeypatch.setattr(type(engine._worker), "stuck_s", lambda _, stuck_s=stuck_s: stuck_s)
            assert [one.refuses for one in engine.troubles()] == [True] * refuses
    finally:
        await engine.close()


@pytest.mark.parametrize("stopping", ["", "not ready: about to stop"])
@pytest.mark.parametrize("starting", ["", "loading"])
@pytest.mark.parametrize("refuses", [None, False, True])
def test_what_refuses_wins_over_what_is_well(stopping: str, starting: str, refuses: bool | None) -> None:
    found = TroubleList()

    def source() -> list[Trouble]:
        return [] if refuses is None else [Trouble("x", refuses)]

    found.watch("part", source)
    assessed = found.assess(stopping=stopping, starting=starting)
    assert assessed.serves == (not stopping and not starting and not refuses)
    assert (assessed.state == "ready") == (assessed.serves and refuses is None)
    assert assessed.headline == (stopping or starting or assessed.headline)
