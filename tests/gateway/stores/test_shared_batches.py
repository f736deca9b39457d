"""Files and batches of several gateways on one PostgreSQL and one folder: all answer, each line is answered once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.adversary.test_batches import batch_of, ended, written
from tests.adversary.test_doors import refusal
from tests.gateway import test_message_batches as messages
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.gateway.test_batches import CHAT, line
from tests.waiting import until

pytestmark = needs_postgres
UPLOAD: Any = {"files": {"file": ("in.jsonl", b"x" * 1000)}, "data": {"purpose": "batch"}}
LEASE_S = 3.0
KEYS = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]
HEADERS = {"authorization": "Bearer operator"}
RUN = """
import sys, time
from tests.gateway.stores.test_shared_batches import gateway_on
with gateway_on(sys.argv[1], sys.argv[2], delay_s=0.05) as app:
    print(app.url, flush=True)
    time.sleep(600)
"""


class KeyedApp(TestApp):
    """Its client shows the key of an operator: with a database nobody is served without one."""

    __test__ = False

    def __enter__(self) -> TestApp:
        super().__enter__()
        self.client.headers.update(HEADERS)
        return self


def gateway_on(url: str, folder: str | Path, delay_s: float = 0.0, **batches: Any) -> TestApp:
    settings = {
        "batches": {"path": str(folder), "concurrency": 2, **batches},
        "database": {"url": url, "lease_s": LEASE_S, "look_s": 0.1, "patience_s": 2.0},
    }
    return KeyedApp(script=["Oslo"], delay_s=delay_s, settings=settings, keys=KEYS)


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Iterator[tuple[TestApp, TestApp]]:
    with gateway_on(url, tmp_path, 0.01) as first, gateway_on(url, tmp_path, 0.01) as second:
        yield first, second


def start(app: TestApp, lines: int) -> str:
    data = "\n".join(line(i, model="scripted") for i in range(lines)).encode()
    file = app.client.post("/v1/files", files={"file": ("in.jsonl", data)}, data={"purpose": "batch"}).json()
    return begin(app, file["id"])


def begin(app: TestApp, file_id: str) -> str:
    made = app.client.post("/v1/batches", json={"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"})
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


def custom_ids(lines: int) -> list[str]:
    return [f"line-{i}" for i in range(lines)]


def test_round_robin_over_two_gateways_is_as_one_gateway(pair: tuple[TestApp, TestApp]) -> None:
    """Every call may reach either: upload, begin, look, list, fetch, cancel, remove."""
    first, second = pair
    data = "\n".join(line(i, model="scripted") for i in range(10)).encode()
    file = first.client.post("/v1/files", files={"file": ("in.jsonl", data)}, data={"purpose": "batch"}).json()
    assert second.client.get(f"/v1/files/{file['id']}").json() == file
    assert second.client.get(f"/v1/files/{file['id']}/content").content == data
    batch_id = begin(second, file["id"])
    batch = ended(first, batch_id)
    assert ended(second, batch_id) == batch
    assert written(first, batch) == written(second, batch) == custom_ids(10)
    for app in pair:
        assert [one["id"] for one in app.client.get("/v1/batches").json()["data"]] == [batch_id]
    assert first.client.delete(f"/v1/files/{file['id']}").status_code == 200
    assert second.client.get(f"/v1/files/{file['id']}").status_code == 404
    assert len(first.model.jobs) + len(second.model.jobs) == 10


def test_many_batches_on_three_gateways_ask_each_line_once(url: str, tmp_path: Path) -> None:
    """While calls come in on all three, in an order drawn by chance."""
    draw = random.Random(5)
    with ExitStack() as stack:
        apps = [stack.enter_context(gateway_on(url, tmp_path, 0.002)) for _ in range(3)]
        sizes = [draw.randrange(1, 30) for _ in range(12)]
        started = [(start(draw.choice(apps), size), size) for size in sizes]
        for batch_id, size in started:
            batch = ended(draw.choice(apps), batch_id)
            assert written(draw.choice(apps), batch) == custom_ids(size)
            assert batch["request_counts"] == {"total": size, "completed": size, "failed": 0}
        assert sum(len(app.model.jobs) for app in apps) == sum(sizes)


def test_a_batch_is_cancelled_through_a_gateway_that_does_not_run_it(url: str, tmp_path: Path) -> None:
    with gateway_on(url, tmp_path, 0.05) as runs:
        batch_id = start(runs, 500)
        until(lambda: batch_of(runs, batch_id)["request_counts"]["completed"] >= 2)
        with gateway_on(url, tmp_path) as other:
            needed = batch_of(other, batch_id)["input_file_id"]
            assert refusal(other.client.delete(f"/v1/files/{needed}")) == (400, "file_in_use")
            assert other.client.post(f"/v1/batches/{batch_id}/cancel").json()["status"] == "cancelling"
            batch = ended(other, batch_id, "cancelled")
            done = batch["request_counts"]["completed"]
            assert 2 <= done < 500
            assert len(written(other, batch)) == done
            assert other.model.jobs == []


def test_a_gateway_that_ends_hands_its_batches_over_at_once(url: str, tmp_path: Path) -> None:
    first = gateway_on(url, tmp_path, 0.02)
    with first, gateway_on(url, tmp_path) as second:
        batch_id = start(first, 60)
        until(lambda: batch_of(second, batch_id)["request_counts"]["completed"] >= 3)
        first.__exit__()
        batch = ended(second, batch_id)
        assert written(second, batch) == custom_ids(60)
        assert 60 <= len(first.model.jobs) + len(second.model.jobs) <= 62  # two ran at a time


def run_process(url: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", RUN, url, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def results_in(server: PostgresServer, url: str) -> int:
    [(count,)] = server.ask("select count(*) from sluicegate.results", url.rsplit("/", 1)[1])
    return int(str(count))


def test_a_killed_gateway_leaves_its_batch_to_another_and_no_line_is_answered_twice(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    process, base = run_process(url, tmp_path)
    try:
        with gateway_on(url, tmp_path) as living:
            data = "\n".join(line(i, model="scripted") for i in range(80)).encode()
            files = {"file": ("in.jsonl", data)}
            other = httpx.Client(base_url=base, headers=HEADERS)
            file = other.post("/v1/files", files=files, data={"purpose": "batch"}).json()
            made = other.post("/v1/batches", json={"input_file_id": file["id"], "endpoint": CHAT}).json()
            until(lambda: results_in(server, url) >= 5)
            process.send_signal(signal.SIGKILL)
            process.wait()
            kept = results_in(server, url)
            assert 5 <= kept < 80
            batch = ended(living, made["id"])
            assert written(living, batch) == custom_ids(80)
            assert len(living.model.jobs) == 80 - kept
    finally:
        process.kill()
        process.wait()


def test_a_gateway_that_was_stopped_for_longer_than_its_lease_writes_nothing_any_more(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """It comes back with an answer in its hands; the other's stands, and the file is whole."""
    process, base = run_process(url, tmp_path)
    try:
        with gateway_on(url, tmp_path, 0.02) as living:
            other = httpx.Client(base_url=base, headers=HEADERS)
            data = "\n".join(line(i, model="scripted") for i in range(60)).encode()
            file = other.post("/v1/files", files={"file": ("in.jsonl", data)}, data={"purpose": "batch"}).json()
            made = other.post("/v1/batches", json={"input_file_id": file["id"], "endpoint": CHAT}).json()
            until(lambda: results_in(server, url) >= 3)
            process.send_signal(signal.SIGSTOP)
            until(lambda: len(living.model.jobs) >= 3)
            process.send_signal(signal.SIGCONT)
            batch = ended(living, made["id"])
            assert written(living, batch) == custom_ids(60)
            assert batch["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
            assert other.get("/v1/batches").json()["data"][0]["status"] == "completed"
    finally:
        process.kill()
        process.wait()


def test_a_database_that_is_away_loses_no_line_and_is_said(own_server: PostgresServer, tmp_path: Path) -> None:
    """What was answered meanwhile waits in memory; calls get a 503 with a reason; all goes on when it is back."""
    with gateway_on(own_server.new(), tmp_path, 0.02) as app:
        batch_id = start(app, 60)
        until(lambda: batch_of(app, batch_id)["request_counts"]["completed"] >= 3)
        own_server.kill()
        answer = app.client.get(f"/v1/batches/{batch_id}")
        assert refusal(answer) == (503, "database_unavailable")
        assert answer.headers["retry-after"]
        assert refusal(app.client.post("/v1/files", **UPLOAD)) == (503, "database_unavailable")
        assert app.ask(stream=False).status == 200
        own_server.start()
        until(lambda: app.client.get(f"/v1/batches/{batch_id}").status_code == 200)
        batch = ended(app, batch_id)
        assert written(app, batch) == custom_ids(60)
        assert len(app.model.jobs) == 61


def test_a_database_that_is_away_for_longer_than_a_lease_makes_nobody_ask_again(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """Who finds it back first does not take what another has under way: that one could not say that it lives."""
    url = own_server.new()
    with gateway_on(url, tmp_path, 0.02) as owner:
        batch_id = start(owner, 60)
        until(lambda: batch_of(owner, batch_id)["request_counts"]["completed"] >= 3)
        with gateway_on(url, tmp_path, 0.02) as other:
            file = other.client.post("/v1/files", **UPLOAD).json()
            own_server.kill()
            time.sleep(LEASE_S + 0.5)
            own_server.start()
            body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
            until(lambda: other.client.post("/v1/batches", json=body).status_code == 200)  # and look for more to run
            batch = ended(owner, batch_id)
            assert written(owner, batch) == custom_ids(60)
            assert len(owner.model.jobs) + len(other.model.jobs) == 60


def test_a_folder_that_is_not_shared_is_refused_at_the_start(url: str, tmp_path: Path) -> None:
    with gateway_on(url, tmp_path / "a") as app:
        start(app, 1)
    lone = gateway_on(url, tmp_path / "b")
    with pytest.raises(RuntimeError, match="mount the same folder"), lone:
        pass


def test_lines_with_any_text_come_back_as_they_were(pair: tuple[TestApp, TestApp]) -> None:
    """PostgreSQL's text has no NUL, and no lone surrogate."""
    strange = ["a\x00b", "\ud800", "é\u2028", "'; drop table x; --", "%s", "\\x00", "x" * 512]
    rows = [json.loads(line(i, model="scripted")) | {"custom_id": text} for i, text in enumerate(strange)]
    data = b"\n".join(json.dumps(row).encode() for row in rows if row["custom_id"] != "\ud800")
    file = pair[0].client.post("/v1/files", files={"file": ("a\x00\u202e%s.jsonl", data)}, data={"purpose": "batch"})
    batch = ended(pair[1], begin(pair[1], file.json()["id"]))
    kept = pair[0].client.get(f"/v1/files/{batch['output_file_id']}/content").content.rstrip(b"\n").split(b"\n")
    assert [json.loads(row)["custom_id"] for row in kept] == [text for text in strange if text != "\ud800"]


def test_batches_of_messages_are_removed_through_either_gateway_once(pair: tuple[TestApp, TestApp]) -> None:
    """One that runs is not; of two who remove one at once, one is told that it is gone. Its files go with it."""
    first, second = pair
    running = messages.made(first, *[messages.request(f"r{i}") for i in range(400)])["id"]
    assert messages.error(second.client.delete(f"{messages.PATH}/{running}"))[0] == 400
    second.client.post(f"{messages.PATH}/{running}/cancel")
    for batch_id in (running, messages.made(second, messages.request("a"), messages.request("b", model="nope"))["id"]):
        messages.ended(second, batch_id)
        path = f"{messages.PATH}/{batch_id}"
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda app: app.client.delete(path).status_code, pair))  # noqa: B023
        assert sorted(found) == [200, 404]
        for app in pair:
            assert messages.error(app.client.get(path)) == (404, "batch_not_found")
            assert messages.error(app.client.get(f"{path}/results")) == (404, "batch_not_found")
    assert [app.client.get("/v1/files").json()["data"] for app in pair] == [[], []]
    assert [app.client.get(messages.PATH).json()["data"] for app in pair] == [[], []]
