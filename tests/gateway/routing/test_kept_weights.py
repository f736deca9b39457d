"""Weights in a file: what is in force is what the file says, whoever asks at once, leaves, or fills the disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from sluicegate.gateway.routing.stores import Edit, FileRouteStore, History
from sluicegate.gateway.routing.table import RouteTable
from sluicegate.gateway.settings import RoutingSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import read_settings
from tests.scale.small_disk import SmallDisk, can_mount
from tests.waiting import until

MODELS = ("m@1", "m@2")
FIRST, SECOND = {"m@1": 1.0}, {"m@2": 1.0}


class LateStore(FileRouteStore):
    """Answers its first edit when it is let: others may have written since."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.wrote, self.may_answer = threading.Event(), threading.Event()

    def edit(self, name: str, edit: Edit, beginning: History) -> History:
        after = super().edit(name, edit, beginning)
        if not self.wrote.is_set():
            self.wrote.set()
            assert self.may_answer.wait(30)
        return after


def table_on(store: FileRouteStore, path: Path) -> RouteTable:
    settings = {"state": str(path), "models": {"m": {"weights": {"m@1": 1.0, "m@2": 1.0}}}}
    table = RouteTable(read_settings(RoutingSettings, settings, "routing"))
    table._store = store
    return table


async def test_of_two_changes_at_once_the_one_that_the_file_holds_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    store = LateStore(path)
    table = table_on(store, path)
    first = asyncio.create_task(table.weigh("m", FIRST, MODELS, "a"))
    await asyncio.to_thread(store.wrote.wait, 30)
    second = asyncio.create_task(table.weigh("m", SECOND, MODELS, "b"))
    await asyncio.wait({second}, timeout=0.5)
    store.may_answer.set()
    await asyncio.gather(first, second)
    [*_, kept] = FileRouteStore(path).load()["m"]
    assert table.routes["m"].weights == kept.weights == SECOND


async def test_what_an_operator_who_leaves_has_changed_is_in_force(tmp_path: Path) -> None:
    """It was in the file alone, and in force from the next start on."""
    path = tmp_path / "state.json"
    store = LateStore(path)
    table = table_on(store, path)
    change = asyncio.create_task(table.weigh("m", SECOND, MODELS, "a"))
    await asyncio.to_thread(store.wrote.wait, 30)
    change.cancel()
    store.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await change
    async with table._asking:
        assert table.routes["m"].weights == FileRouteStore(path).load()["m"][-1].weights == SECOND


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    if not can_mount():
        pytest.skip("no file system can be mounted here, so that no disk can be filled")
    return SmallDisk(tmp_path / "disk", 1)


def test_a_change_that_a_full_disk_does_not_take_is_refused_and_not_in_force(disk: SmallDisk, tmp_path: Path) -> None:
    path = tmp_path / "disk" / "state.json"
    settings = {"routing": {"state": str(path), "models": {"m": {"weights": {"m@1": 1.0, "m@2": 1.0}}}}}
    try:
        with TestApp(settings={**settings, "server": {"min_free_bytes": 0}}, names=MODELS) as app:
            change = "/admin/routes/m/weights"
            assert app.client.put(change, json={"weights": FIRST}).status_code == 200
            disk.fill()
            for refused in (
                app.client.put(change, json={"weights": SECOND}),
                app.client.post("/admin/routes/m/rollback"),
            ):
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "state_unavailable")
                assert "No space left" in refused.json()["error"]["message"]
                assert str(tmp_path) not in refused.text
            assert not path.with_name("state.json.new").exists()
            assert app.client.get("/admin/routes").json()["data"][0]["weights"] == FIRST
            disk.free()
            assert app.client.put(change, json={"weights": SECOND}).status_code == 200
    finally:
        disk.unmount()


def test_a_decision_of_a_rollout_waits_for_the_file_and_says_so(tmp_path: Path) -> None:
    """It was tried again in silence, but for a traceback each half second."""
    path = tmp_path / "state.json"
    rollout = {"canary": "m@2", "baseline": "m@1", "steps": [0.5]}
    settings = {"routing": {"state": str(path), "models": {"m": {"sticky": "none", "rollout": rollout}}}}
    with TestApp(settings=settings, names=MODELS) as app:
        until(lambda: _share(app) == 0.5)
        in_the_way = path.with_name("state.json.new")
        in_the_way.mkdir()
        assert app.client.post("/admin/rollouts/m/stop", json={"reason": "no"}).status_code == 200
        until(lambda: "rollout of m: the file of [routing] state cannot be written" in app.client.get("/readyz").text)
        in_the_way.rmdir()
        until(lambda: _share(app) == 0.0)
        until(lambda: app.client.get("/readyz").text == "ready")


def _share(app: TestApp) -> float:
    """Return the weight of the canary that is in force."""
    [route] = app.client.get("/admin/routes").json()["data"]
    return float(route["weights"]["m@2"])
