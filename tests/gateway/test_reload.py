"""Rails and policies are exchanged while requests run; what does not hold is refused and the old stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.admin.reload import HangupHandler
from sluicegate.gateway.config import load
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import PermissionDenied, Verdict
from tests.waiting import until

SCRIPT = ["one ", "two ", "three ", "four"]


class Marking:
    """Redacts nothing, counts its sessions, and says when it was started and closed."""

    name = "marking"
    events: list[str]

    def __init__(self, label: str, events: list[str]) -> None:
        self.label, self.events = label, events

    async def start(self) -> None:
        if self.label == "unstartable":
            raise OSError("no")
        self.events.append(f"start {self.label}")

    async def close(self) -> None:
        self.events.append(f"close {self.label}")

    def open(self, request: Any, caller: Any, channel: Any) -> Any:
        self.events.append(f"open {self.label}")
        return Passing()

    def stats(self) -> dict[str, float]:
        return {"opened_total": float(self.events.count(f"open {self.label}"))}


class Passing:
    def __init__(self) -> None:
        self._end = 0

    def feed(self, text: str) -> Verdict:
        self._end += len(text)
        return Verdict(self._end)

    def close(self) -> Verdict:
        return Verdict(self._end)


class Bench:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.tables: dict[str, Any] = {
            "pipeline": {"moderate": ["marking"]},
            "stages": {"moderate": {"marking": {"label": "old"}}},
        }
        self.app = TestApp(self._register, **self.tables, script=SCRIPT, delay_s=0.05)
        self.app.runtime.reloader.source = self._read

    def _register(self, registry: Any) -> None:
        registry.add("moderate", "marking", lambda table: Marking(table.get("label", "?"), self.events))

    def _read(self) -> Settings:
        now = self.app.runtime.settings
        pipeline = {slot: list(getattr(now.pipeline, slot)) for slot in now.pipeline.__dataclass_fields__}
        return load(overrides={**self.tables, "pipeline": {**pipeline, **self.tables["pipeline"]}})

    def reload(self) -> httpx.Response:
        found: httpx.Response = self.app.client.post("/admin/reload")
        return found


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    with made.app:
        yield made


def test_new_requests_get_the_new_rails_and_a_stream_that_runs_ends_on_the_old(bench: Bench) -> None:
    replies: list[Any] = []
    running = threading.Thread(target=lambda: replies.append(bench.app.ask()))
    running.start()
    until(lambda: "open old" in bench.events)
    bench.tables["stages"] = {"moderate": {"marking": {"label": "new"}}}
    assert bench.reload().json()["reloaded"] is True
    assert "close old" not in bench.events, "a stream still runs on it"
    assert bench.app.ask().text == "one two three four"
    running.join()
    assert replies[0].text == "one two three four"
    until(lambda: "close old" in bench.events)
    assert bench.events == ["start old", "open old", "start new", "open new", "close old"]


def test_the_numbers_of_rails_are_those_of_the_rails_in_place(bench: Bench) -> None:
    def opened() -> str:
        lines = bench.app.client.get("/metrics").text.splitlines()
        [found] = [line for line in lines if line.startswith("sluicegate_moderate_marking_opened_total ")]
        return found.split()[-1]

    bench.app.ask()
    bench.app.ask()
    assert opened() == "2.0"
    bench.tables["stages"] = {"moderate": {"marking": {"label": "new"}}}
    assert bench.reload().status_code == 200
    bench.app.ask()
    assert opened() == "1.0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pipeline": {"moderate": ["no-such-rail"]}}, "no-such-rail"),
        ({"stages": {"moderate": {"marking": {"label": "unstartable"}}}}, "did not start"),
        ({"policies": {"default": {"moderate": {"marking": {"mode": "maybe"}}}}}, "enforce, shadow, off"),
    ],
)
def test_what_does_not_hold_is_refused_and_the_old_stays(bench: Bench, change: Any, said: str) -> None:
    bench.tables |= change
    refused = bench.reload()
    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
    assert bench.app.ask().text == "one two three four"
    assert bench.events[-1] == "open old"


def test_reloads_and_refusals_are_counted_and_a_refusal_is_reported_until_a_reload_works(bench: Bench) -> None:
    def numbers() -> dict[str, float]:
        lines = bench.app.client.get("/metrics").text.splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("sluicegate_reload_")]
        return {name.removeprefix("sluicegate_reload_"): float(value) for name, value in pairs}

    def ready() -> str:
        return str(bench.app.client.get("/readyz").text)

    before, good = numbers(), bench.tables
    assert (before["done_total"], before["refused_total"], before["behind"]) == (0, 0, 0)
    assert before["last_success_seconds"] > 0, "the configuration was read at the start"
    bench.tables = {**good, "pipeline": {"moderate": ["no-such-rail"]}}
    assert bench.reload().status_code == 400
    refused = numbers()
    assert (refused["done_total"], refused["refused_total"], refused["behind"]) == (0, 1, 1)
    assert refused["last_success_seconds"] == before["last_success_seconds"]
    assert "reload: the last reload was refused" in ready()
    bench.tables = good
    assert bench.reload().status_code == 200
    after = numbers()
    assert (after["done_total"], after["refused_total"], after["behind"]) == (1, 1, 0)
    assert after["last_success_seconds"] > before["last_success_seconds"]
    assert "reload" not in ready()


def test_signals_that_come_while_the_configuration_is_read_are_answered_by_one_more_reading(bench: Bench) -> None:
    """300 signals in two seconds were 300 reloads one after another."""
    began, go_on, read = threading.Event(), threading.Event(), bench._read

    def slowly() -> Settings:
        began.set()
        go_on.wait()
        return read()

    bench.app.runtime.reloader.source = slowly
    reloader, handler = bench.app.runtime.reloader, HangupHandler(bench.app.runtime)
    signalled = partial(bench.app._loop.call_soon_threadsafe, handler)
    signalled()
    began.wait()
    for _ in range(300):
        signalled()
    assert httpx.get(f"{bench.app.url}/healthz").status_code == 200, "the signals before it have been handled"
    go_on.set()
    until(lambda: reloader.done == 2)
    assert bench.reload().status_code == 200
    assert reloader.done == 3


def test_a_configuration_that_cannot_be_read_for_long_holds_up_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file system that hung stopped the whole gateway. A pipe that nobody writes to hangs like one."""
    monkeypatch.setattr("sluicegate.gateway.reload.READ_S", 1.0)
    path = tmp_path / "gateway.toml"
    os.mkfifo(path)
    bench.app.runtime.reloader.source = lambda: load(path)
    found: list[httpx.Response] = []
    reloading = threading.Thread(target=lambda: found.append(bench.reload()))
    reloading.start()
    assert bench.app.ask().text == "one two three four"
    reloading.join()
    assert found[0].status_code == 400
    assert "could not be read within 1 s" in found[0].json()["error"]["message"]
    bench.app.runtime.reloader.source = bench._read
    assert bench.reload().status_code == 200


def test_policies_are_reloaded_too_and_change_what_a_cached_answer_is_kept_under(bench: Bench) -> None:
    before = bench.app.runtime.pipeline.stages
    bench.tables["policies"] = {"default": {"moderate": {"marking": {"mode": "off"}}}}
    bench.reload()
    bench.app.ask()
    assert "open new" not in bench.events
    after = bench.app.runtime.pipeline.stages
    assert after.policies.default.fingerprint != before.policies.default.fingerprint


def test_what_needs_a_restart_is_named(bench: Bench) -> None:
    bench.tables["telemetry"] = {"recent": 7}
    assert "[telemetry]" in bench.reload().json()["restart_needed_for"]


PLUGIN = """
from sluicegate.plugins import RailProperties, ScreenResult
class Rail:
    properties = RailProperties(version="{version}")
    async def screen(self, request, caller):
        return ScreenResult({result})
def register(registry):
    registry.add("screen", "hot-rail", lambda table: Rail(), api_version=1)
"""


def test_a_new_version_of_an_installed_plugin_counts_after_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, info = tmp_path / "hot_rail_plugin.py", tmp_path / "hot_rail_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hot-rail-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sluicegate.plugins]\nhot-rail = hot_rail_plugin:register\n")
    module.write_text(PLUGIN.format(version="1", result=""))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with TestApp(pipeline={"screen": ["hot-rail"]}) as app:
        settings = app.runtime.settings
        app.runtime.reloader.source = lambda: settings
        assert app.ask().text == "Hello back"
        module.write_text(PLUGIN.format(version="2", result='"block", reason="version 2"'))
        assert app.client.post("/admin/reload").json()["rails"][0]["version"] == "2"
        assert (app.ask(stream=False).error or {})["code"] == "content_filter"
        module.write_text("this is not python")
        refused = app.client.post("/admin/reload")
        assert refused.status_code == 400
        assert (app.ask(stream=False).error or {})["code"] == "content_filter", "version 2 still runs"
    sys.modules.pop("hot_rail_plugin", None)


def test_a_key_that_needs_a_rail_is_not_served_where_a_policy_keeps_it_from_acting() -> None:
    keys = [{"id": "k", "key": "secret", "rails": ["secrets"]}]
    pipeline = {"admit": ["api-keys"], "screen": ["secrets"]}
    shadow = {"policies": {"default": {"screen": {"secrets": {"mode": "shadow"}}}}}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
    for settings, status in (({}, 200), (shadow, PermissionDenied.status)):
        with TestApp(pipeline=pipeline, keys=keys, settings=settings) as app:
            answer = app.client.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer secret"})
            assert answer.status_code == status


def test_nothing_is_reloaded_while_the_stages_start(bench: Bench) -> None:
    """Those that are exchanged meanwhile would be started once they are closed."""
    progress = bench.app.runtime.progress
    progress.state = "starting generate engine"
    refused = bench.reload()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
    progress.state = "ready"
    assert bench.reload().status_code == 200


@pytest.mark.slow
def test_sighup_reloads_a_running_server(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    table = '[pipeline]\nscreen = ["blocklist"]\n[stages.screen.blocklist]\naction = "block"\nphrases = ["{}"]\n'
    config.write_text(table.format("first phrase"))
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(config), "--port", "0"]
    said = tmp_path / "said"
    with said.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" on ")[1].strip()

        def flagged(text: str) -> bool:
            answer = httpx.post(f"{url}/v1/moderations", json={"input": text}, timeout=30)
            return bool(json.loads(answer.text)["results"][0]["flagged"])

        assert (flagged("the first phrase"), flagged("the second phrase")) == (True, False)
        config.write_text(table.format("second phrase"))
        process.send_signal(signal.SIGHUP)
        until(lambda: flagged("the second phrase"))
        assert (flagged("the first phrase"), flagged("the second phrase")) == (False, True)
        config.write_text("nonsense = [")
        process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: not reloaded, the old stays" in said.read_text())
        assert flagged("the second phrase")
        config.write_text("# just being written\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "gateway.toml is empty; reload once it is whole" in said.read_text())
        assert flagged("the second phrase"), "rails and keys were gone"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_sighup_during_the_start_is_answered_after_it(tmp_path: Path) -> None:
    """Its default would end the process."""
    config = tmp_path / "gateway.toml"
    config.write_text("[server]\nport = 0\n")
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        until(lambda: holds_back_hangups(process.pid))
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        url = process.stdout.readline().split(" on ")[1].strip()
        until(lambda: "\nsluicegate_reload_done_total 1.0" in httpx.get(f"{url}/metrics", timeout=30).text)
    finally:
        process.terminate()
        process.wait(30)


def holds_back_hangups(pid: int) -> bool:
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("SigBlk:")]
    return bool(int(line.split()[1], 16) >> (signal.SIGHUP - 1) & 1)
