"""`sluicegate serve --workers 3` in front of a server of models, with PostgreSQL: workers are killed under load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
from tests.scale.gateway_process import WORDS
from tests.scale.load import BODY, CALLERS, Books, Tally, ask, books_of, callers, settled, table
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.scale, needs_postgres]
WORKERS, LINES = 3, 60
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

    def books(self) -> Books | None:
        return books_of([self.url])


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


def test_a_worker_that_is_killed_loses_its_streams_and_nothing_else(
    deployment: WorkerDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks again is answered by another one meanwhile; each answer is charged once."""
    tally = Tally("a worker of three is killed (SIGKILL), twice")
    with callers(deployment.url, tally, "far"):
        tally.began = time.monotonic()
        deployment.kill_one(0)
        deployment.kill_one(1)
        tally.lasted_s, had = time.monotonic() - tally.began, tally.whole
        until(lambda: tally.whole >= had + 2 * CALLERS)
    tally.charged = settled(deployment.books)["caller"][0]
    with capsys.disabled():
        print("\n" + table([tally]))
    assert (tally.lost, tally.twice) == (0, 0)
    assert tally.charged >= tally.whole
    assert tally.refused == 0, "nobody is sent to a worker that is not ready"


def test_a_budget_holds_over_all_of_them(deployment: WorkerDeployment) -> None:
    """Forty callers at once on connections of their own, each answer 0.012 of the 0.5 that there are."""
    with ThreadPoolExecutor(20) as pool:
        found = Counter(pool.map(lambda _: ask(deployment.url, "poor", "far"), range(120)))
    spent = settled(deployment.books)["poor"][1]
    assert spent == pytest.approx(found["whole"] * 0.012)
    assert 0.0 < spent <= 0.5
    assert found["refused"] > 0


def test_a_batch_ends_whole_whoever_dies(deployment: WorkerDeployment, far: tuple[ScriptedServer, str]) -> None:
    """Each line has one answer, and only those under way are asked again."""
    lines = [
        json.dumps(
            {"custom_id": f"{at}", "method": "POST", "url": "/v1/chat/completions", "body": {**BODY, "model": "far"}}
        )
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
