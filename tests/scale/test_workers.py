"""`sluicegate serve --workers 3` in front of a server of models, with PostgreSQL: workers are killed under load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cache.redis_server import free_port
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.gateway.upstream.servers import ScriptedServer, chunk, event, streams
from tests.gateway.upstream.servers import running as served
from tests.scale.deployment import ROOT
from tests.scale.test_faults import CALLERS, Tally, table
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.scale, needs_postgres]
WORKERS, WORDS, LINES = 3, 12, 60
CONFIG = """
[server]
port = {port}
workers = 3
lame_duck_s = 1
drain_s = 20

[pipeline]
generate = ["upstream"]
recall = []

[stages.generate.upstream.models.far]
url = "{far}"
allow_private = true

[database]
url = "{database}"
lease_s = 3

[accounts]
journal = "{folder}/journal"
flush_s = 0.2
prices = {{ far = {{ input = 0.0, output = 1000.0 }} }}

[batches]
path = "{folder}/files"
concurrency = 2

[[keys]]
id = "caller"
key = "caller"
limits = {{ requests_per_minute = 1000000, concurrency = 1000 }}

[[keys]]
id = "poor"
key = "poor"
limits = {{ budget_day = 0.5 }}

[[keys]]
id = "operator"
key = "operator"
scopes = ["admin"]
"""
BODY = {"model": "far", "max_tokens": 20, "messages": [{"role": "user", "content": "Speak."}]}
USAGE = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": WORDS}})


class WorkerDeployment:
    """Used with `with`."""

    def __init__(self, folder: Path, far: str) -> None:
        self.database = PostgresServer()
        self.port = free_port()
        self._log = folder / "log"
        (folder / "files").mkdir()
        self._config = folder / "gateway.toml"
        self._far, self._folder = far, folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> WorkerDeployment:
        self.database.start()
        facts = {"port": self.port, "far": self._far, "database": self.database.url(), "folder": self._folder}
        self._config.write_text(CONFIG.format(**facts), "utf-8")
        command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(self._config)]
        with self._log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
        until(lambda: self.process.poll() is not None or b"3 workers serve" in self._log.read_bytes())
        assert self.process.poll() is None, self._log.read_text("utf-8")[-3000:]
        return self

    def __exit__(self, *error: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.database.remove()

    def workers(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill_one(self, at: int) -> None:
        """Kill it, and wait until another one has begun in its place and all serve again."""
        before, log = self.workers(), self._log.read_bytes().count(b"grammar is warm")
        os.kill(before[at], signal.SIGKILL)
        until(lambda: len(self.workers()) == WORKERS and self.workers() != before)
        until(lambda: self._log.read_bytes().count(b"grammar is warm") > log)

    def usage(self, key: str) -> dict[str, Any]:
        head = {"authorization": "Bearer operator"}
        answer = httpx.get(f"{self.url}/admin/usage", params={"by": "key_id"}, headers=head)
        rows = answer.raise_for_status().json()["data"]
        return next((row for row in rows if row["key_id"] == key), {"requests": 0, "cost": 0.0})

    def settled(self, key: str) -> dict[str, Any]:
        """Return what is in the books once it no longer changes."""
        last: dict[str, Any] = {}
        since = time.monotonic()

        def is_still() -> bool:
            nonlocal last, since
            try:
                now = self.usage(key)
            except httpx.HTTPError:
                return False
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since > 3.0

        until(is_still)
        return last


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[ScriptedServer, str]]:
    frames = [*(chunk("word ") for _ in range(WORDS)), chunk(reason="stop"), USAGE, b"data: [DONE]\n\n"]
    server = ScriptedServer(streams(*frames, pause_s=0.02))
    with served(server) as url:
        yield server, url


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, far: tuple[ScriptedServer, str]) -> Iterator[WorkerDeployment]:
    with WorkerDeployment(tmp_path_factory.mktemp("workers"), far[1]) as found:
        yield found


def ask(deployment: WorkerDeployment, key: str = "caller") -> str:
    """Ask once, on a connection of its own: `whole`, `cut`, or `refused` with its status."""
    words, ended = 0, False
    head = {"authorization": f"Bearer {key}"}
    try:
        with httpx.stream(
            "POST", f"{deployment.url}/v1/chat/completions", json={**BODY, "stream": True}, headers=head, timeout=60
        ) as answer:
            if answer.status_code != 200:
                return "refused"
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:]).get("choices", ()):
                        words += (choice["delta"].get("content") or "").count("word")
                        ended = ended or choice["finish_reason"] == "stop"
    except httpx.ConnectError:
        return "refused"
    except httpx.HTTPError:
        return "cut"
    assert not ended or words == WORDS, "an answer that ends well is whole"
    return "whole" if ended else "cut"


def keep_asking(deployment: WorkerDeployment, tally: Tally, over: threading.Event) -> None:
    while not over.is_set():
        began, outcome = time.monotonic(), ""
        while outcome != "whole" and time.monotonic() - began < LIMIT_S:
            outcome = ask(deployment)
            tally.count(outcome)
            tally.longest_s = max(tally.longest_s, time.monotonic() - began)
        if outcome != "whole":
            tally.count("lost")


def test_a_worker_that_is_killed_loses_its_streams_and_nothing_else(
    deployment: WorkerDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks again is answered by another one meanwhile; each answer is charged once."""
    tally, over = Tally("a worker of three is killed (SIGKILL), twice"), threading.Event()
    callers = [threading.Thread(target=keep_asking, args=(deployment, tally, over)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        until(lambda: tally.whole >= CALLERS)
        deployment.kill_one(0)
        deployment.kill_one(1)
        had = tally.whole
        until(lambda: tally.whole >= had + 2 * CALLERS)
    finally:
        over.set()
        for caller in callers:
            caller.join()
    tally.charged = deployment.settled("caller")["requests"]
    with capsys.disabled():
        print("\n" + table([tally]))
    assert (tally.lost, tally.twice) == (0, 0)
    assert tally.charged >= tally.whole
    assert tally.refused == 0, "nobody is sent to a worker that is not ready"


def test_a_budget_holds_over_all_of_them(deployment: WorkerDeployment) -> None:
    """Forty callers at once on connections of their own, each answer 0.012 of the 0.5 that there are."""
    with ThreadPoolExecutor(20) as pool:
        found = Counter(pool.map(lambda _: ask(deployment, "poor"), range(120)))
    spent = deployment.settled("poor")["cost"]
    assert spent == pytest.approx(found["whole"] * 0.012)
    assert 0.0 < spent <= 0.5
    assert found["refused"] > 0


def test_a_batch_ends_whole_whoever_dies(deployment: WorkerDeployment, far: tuple[ScriptedServer, str]) -> None:
    """Each line has one answer, and only those under way are asked again."""
    lines = [
        json.dumps({"custom_id": f"{at}", "method": "POST", "url": "/v1/chat/completions", "body": BODY})
        for at in range(LINES)
    ]
    asked = len(far[0].bodies)
    with httpx.Client(base_url=f"{deployment.url}/v1", headers={"authorization": "Bearer caller"}) as client:
        file = client.post("/files", data={"purpose": "batch"}, files={"file": ("lines", "\n".join(lines))}).json()
        made = client.post(
            "/batches",
            json={"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"},
        ).json()

    def state() -> dict[str, Any]:
        head = {"authorization": "Bearer caller"}
        for _ in range(20):  # a worker may die with the connection
            try:
                return dict(httpx.get(f"{deployment.url}/v1/batches/{made['id']}", headers=head).json())
            except httpx.HTTPError:
                continue
        raise AssertionError("no worker answers")

    until(lambda: state()["request_counts"]["completed"] >= 5)
    for at in range(WORKERS):  # one of them runs it
        deployment.kill_one(at)
    until(lambda: state()["status"] == "completed")
    found = state()
    assert found["request_counts"] == {"total": LINES, "completed": LINES, "failed": 0}
    head = {"authorization": "Bearer caller"}
    text = httpx.get(f"{deployment.url}/v1/files/{found['output_file_id']}/content", headers=head).text
    answers = [json.loads(line)["custom_id"] for line in text.splitlines()]
    assert sorted(answers, key=int) == [str(at) for at in range(LINES)]
    assert len(far[0].bodies) - asked <= LINES + 2 * WORKERS, "two lines run at a time"


def test_at_the_end_all_have_said_what_they_had(deployment: WorkerDeployment) -> None:
    """SIGTERM to the one that holds them: all of them drain, and the status is zero."""
    assert deployment.process is not None
    deployment.process.send_signal(signal.SIGTERM)
    assert deployment.process.wait(LIMIT_S) == 0
    left = [file for file in deployment._folder.glob("journal/worker-*/*.log") if file.stat().st_size]
    assert left == []
