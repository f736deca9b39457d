"""Batches from files: checked first, run behind everybody else, kept through restarts, seen by their tenant only."""

from __future__ import annotations

import io
import json
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from sluicegate.gateway.batches.lines import BadLine, check_lines, lines_of
from sluicegate.gateway.batches.records import BatchRecord, FileRecord
from sluicegate.gateway.batches.stores.sqlite import SqliteBatchStore
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Caller, Request, ScreenResult
from tests.gateway.conftest import RunningGateway, running
from tests.waiting import LIMIT_S

CHAT = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running({"batches": {"path": str(tmp_path_factory.mktemp("batches"))}}) as found:
        yield found


def line(i: int, url: str = CHAT, **body: Any) -> str:
    asked: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": f"City {i}?"}]}
    return json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": url, "body": asked | body})


def upload(client: OpenAI, lines: list[str]) -> str:
    file = ("in.jsonl", io.BytesIO("\n".join(lines).encode()))
    return client.files.create(file=file, purpose="batch").id


def finished(client: OpenAI, batch_id: str, limit_s: float = LIMIT_S) -> Any:
    deadline = time.monotonic() + limit_s
    while (batch := client.batches.retrieve(batch_id)).status in ("validating", "in_progress", "finalizing"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.05)
    return batch


def rows(client: OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(row) for row in client.files.content(file_id).text.splitlines()]


def test_every_line_is_answered_in_order_and_the_bad_ones_apart(gateway: RunningGateway) -> None:
    client = gateway.client()
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    lines = [line(i, response_format=fmt, max_tokens=40) for i in range(6)]
    lines.insert(3, line(99, model="nope"))
    batch = client.batches.create(input_file_id=upload(client, lines), endpoint=CHAT, completion_window="24h")
    batch = finished(client, batch.id)
    assert batch.status == "completed"
    assert batch.request_counts.to_dict() == {"total": 7, "completed": 6, "failed": 1}
    good = rows(client, batch.output_file_id)
    assert [row["custom_id"] for row in good] == [f"line-{i}" for i in range(6)]
    for row in good:
        body = row["response"]["body"]
        assert json.loads(body["choices"][0]["message"]["content"])["city"] in ("Oslo", "Rome")
    [bad] = rows(client, batch.error_file_id)
    assert (bad["custom_id"], bad["response"]["status_code"]) == ("line-99", 404)
    assert bad["response"]["body"]["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("endpoint", "body", "found"),
    [
        ("/v1/responses", {"model": "bundled", "input": "Hi", "max_output_tokens": 4}, "output"),
        ("/v1/completions", {"model": "bundled", "prompt": "Hi", "max_tokens": 4}, "choices"),
        ("/v1/embeddings", {"model": "bundled", "input": "Hi"}, "data"),
    ],
)
def test_other_endpoints_run_in_batches_too(
    gateway: RunningGateway, endpoint: Any, body: dict[str, Any], found: str
) -> None:
    client = gateway.client()
    asked = json.dumps({"custom_id": "a", "method": "POST", "url": endpoint, "body": body})
    batch = client.batches.create(
        input_file_id=upload(client, [asked]), endpoint=endpoint, completion_window="24h", metadata={"for": "me"}
    )
    batch = finished(client, batch.id)
    [row] = rows(client, batch.output_file_id)
    assert row["response"]["body"][found]
    assert batch.metadata == {"for": "me"}


@pytest.mark.parametrize(
    ("lines", "number", "said"),
    [
        ([line(1), "{"], 2, "not JSON"),
        ([line(1), line(1)], 2, "used before"),
        ([line(1, url="/v1/embeddings")], 1, "endpoint"),
        ([json.dumps({"custom_id": "x"})], 1, "body"),
        ([], 1, "no requests"),
    ],
)
def test_a_file_that_cannot_be_run_fails_before_anything_runs(
    gateway: RunningGateway, lines: list[str], number: int, said: str
) -> None:
    client = gateway.client()
    batch = client.batches.create(input_file_id=upload(client, lines), endpoint=CHAT, completion_window="24h")
    batch = finished(client, batch.id)
    assert batch.status == "failed"
    [error] = batch.errors.data
    assert (error.line, said in error.message) == (number, True)


def test_a_byte_order_mark_and_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{line(1)}\r\n\r\n{line(2)}\r\n".encode())
    assert check_lines(path, CHAT) == 2
    assert [one.custom_id for one in lines_of(path, CHAT)] == ["line-1", "line-2"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (line(1).encode("utf-16"), "line 1: not UTF-8 at byte 1 of the line; save the file as UTF-8"),
        (line(1).encode() + b"\n" + line(2).encode().replace(b"City", b"\xff"), "line 2: not UTF-8 at byte"),
        (line(1).encode() + b"\n\0\0\n", "line 2: not JSON"),
    ],
    ids=["UTF-16", "Latin-1", "NUL"],
)
def test_a_file_in_another_encoding_is_refused_as_that(tmp_path: Path, data: bytes, said: str) -> None:
    """It was said not to be JSON, because of surrogates."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(data)
    with pytest.raises(BadLine, match=re.escape(said)):
        check_lines(path, CHAT)


def test_a_list_goes_on_only_after_a_batch_that_is_there(gateway: RunningGateway) -> None:
    """It began anew: a client that turns the pages after a batch that was removed never came to their end."""
    with pytest.raises(openai.NotFoundError) as caught:
        gateway.client().batches.list(after="batch-0")
    assert caught.value.param == "after"


def test_what_is_not_there_is_not_found(gateway: RunningGateway) -> None:
    client = gateway.client()
    with pytest.raises(openai.NotFoundError):
        client.files.content("file-0")
    with pytest.raises(openai.NotFoundError):
        client.batches.create(input_file_id="file-../../etc/passwd", endpoint=CHAT, completion_window="24h")
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("x", b"y"), purpose="vision")


def test_files_are_the_owners_only_and_can_be_removed(gateway: RunningGateway) -> None:
    client = gateway.client()
    file_id = upload(client, [line(1)])
    path = Path(gateway.runtime.settings.batches.path) / "files" / file_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert file_id in [file.id for file in client.files.list()]
    assert client.files.delete(file_id).deleted
    assert not path.exists()


def scripted(folder: Path, delay_s: float = 0.0, **options: Any) -> TestApp:
    return TestApp(
        script=["Oslo"], delay_s=delay_s, settings={"batches": {"path": str(folder), "concurrency": 2}}, **options
    )


def start(app: TestApp, count: int, **headers: str) -> str:
    body = "\n".join(line(i, model="scripted") for i in range(count)).encode()
    form: Any = {"files": {"file": ("in.jsonl", body)}, "data": {"purpose": "batch"}}
    sent = app.client.post("/v1/files", headers=headers, **form)
    assert sent.status_code == 200, sent.text
    file_id = sent.json()["id"]
    asked = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    return str(app.client.post("/v1/batches", json=asked, headers=headers).json()["id"])


def until(app: TestApp, batch_id: str, condition: Any, **headers: str) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = dict(app.client.get(f"/v1/batches/{batch_id}", headers=headers).json())
        if condition(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_a_restart_goes_on_where_the_last_process_stood(tmp_path: Path) -> None:
    """No line is lost, and what was answered before is not asked again."""
    with scripted(tmp_path, delay_s=0.02) as first:
        batch_id = start(first, 30)
        until(first, batch_id, lambda b: b["request_counts"]["completed"] >= 3)
        asked_before = len(first.model.jobs)
    assert asked_before < 30
    with scripted(tmp_path) as second:
        batch = until(second, batch_id, lambda b: b["status"] == "completed")
        text = second.client.get(f"/v1/files/{batch['output_file_id']}/content").text
        assert len(second.model.jobs) < 30
    assert [json.loads(row)["custom_id"] for row in text.splitlines()] == [f"line-{i}" for i in range(30)]


def test_a_cancelled_batch_keeps_what_was_answered(tmp_path: Path) -> None:
    with scripted(tmp_path, delay_s=0.05) as app:
        batch_id = start(app, 40)
        until(app, batch_id, lambda b: b["request_counts"]["completed"] >= 2)
        assert app.client.post(f"/v1/batches/{batch_id}/cancel").json()["status"] in ("cancelling", "cancelled")
        batch = until(app, batch_id, lambda b: b["status"] == "cancelled")
        asked = len(app.model.jobs)
        written = app.client.get(f"/v1/files/{batch['output_file_id']}/content").text.splitlines()
        assert 2 <= len(written) < 40
        time.sleep(0.2)
        assert len(app.model.jobs) == asked


def test_lines_run_with_the_callers_rights_and_behind_everybody(tmp_path: Path) -> None:
    """Another tenant sees nothing of it; limits hold, a line that is too early comes again later."""
    keys = [
        {"id": "mine", "key": "k1", "limits": {"concurrency": 1}},
        {"id": "other", "key": "k2"},
        {"id": "narrow", "key": "k3", "routes": ["/v1/files", "/v1/batches"]},
    ]
    admit = {"admit": ["api-keys", "limits"], "record": ["ledger"]}
    with scripted(tmp_path, keys=keys, pipeline=admit) as app:
        batch_id = start(app, 6, authorization="Bearer k1")
        batch = until(app, batch_id, lambda b: b["status"] == "completed", authorization="Bearer k1")
        assert batch["request_counts"] == {"total": 6, "completed": 6, "failed": 0}
        assert {job.priority for job in app.model.jobs} == {10}
        assert {job.tenant for job in app.model.jobs} == {"mine"}
        for path in (f"/v1/batches/{batch_id}", f"/v1/files/{batch['output_file_id']}/content"):
            assert app.client.get(path, headers={"authorization": "Bearer k2"}).status_code == 404
            assert app.client.get(path).status_code == 401
        asked = {"input_file_id": batch["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
        refused = app.client.post("/v1/batches", json=asked, headers={"authorization": "Bearer k3"})
        assert refused.status_code == 403


class Breaking:
    """An input rail that fails while `broken`."""

    name, broken = "breaking", True

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        if self.broken:
            raise RuntimeError("no connection")
        return ScreenResult()


def test_lines_wait_for_a_rail_that_is_left_alone_after_failures(tmp_path: Path) -> None:
    """Only those that it failed on fail: 122 of 150 lines were answered with a 503 that said when to come back."""
    rail = Breaking()
    settings = {
        "batches": {"path": str(tmp_path), "concurrency": 1},
        "policies": {"default": {"screen": {"breaking": {"failures_to_open": 1, "pause_s": 0.5}}}},
    }
    registered = {"pipeline": {"screen": ["breaking"]}, "settings": settings, "script": ["Oslo"]}
    with TestApp(lambda registry: registry.add("screen", "breaking", lambda _: rail), **registered) as app:
        batch_id = start(app, 20)
        until(app, batch_id, lambda b: app.runtime.pipeline.stages.rail_health.is_open("screen", "breaking"))
        rail.broken = False
        batch = until(app, batch_id, lambda b: b["status"] == "completed")
    assert batch["request_counts"]["total"] == 20
    assert 1 <= batch["request_counts"]["failed"] < 10  # one a pause, each of which is twice the last


def test_without_a_folder_files_are_refused_with_the_reason() -> None:
    with TestApp() as app:
        answer = app.client.get("/v1/files")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "no_store")
    assert "[batches] path" in answer.json()["error"]["message"]


def test_a_form_that_is_none_is_a_400(gateway: RunningGateway) -> None:
    for body in ({"content": b"x"}, {"data": {"purpose": "batch"}}, {"files": {"other": b"x"}}):
        assert httpx.post(f"{gateway.url}/v1/files", **body).status_code == 400  # type: ignore[arg-type]


def test_batches_of_one_second_keep_their_places_as_they_run(tmp_path: Path) -> None:
    """Otherwise a page of them may leave one out."""
    store = SqliteBatchStore(tmp_path)
    store.name_file(FileRecord("file-1", "t", "in.jsonl", "batch", 1, 1))
    made = [BatchRecord(f"batch-{k}", "t", None, "/v1/chat/completions", "file-1", 1, 2) for k in range(3)]
    for record in made:
        assert store.add_batch(record, lambda _: None)
    store.move(made[0], replace(made[0], status="in_progress"))
    assert [record.id for record in store.batches("t")] == ["batch-2", "batch-1", "batch-0"]
    assert store.batches("t")[2].status == "in_progress"
    store.close()
