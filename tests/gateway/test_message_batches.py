"""Anthropic's batches: in its words, upon the files and batches of every other client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.waiting import until

PATH = "/v1/messages/batches"
KEYED: dict[str, Any] = {"pipeline": {"admit": ["api-keys", "limits"], "record": ["ledger"]}}


def request(custom_id: str, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": f"Say {custom_id}"}]
    return {"custom_id": custom_id, "params": {"model": "scripted", "max_tokens": 20, "messages": said, **more}}


@pytest.fixture
def app(tmp_path: Any) -> Iterator[TestApp]:
    with TestApp(script=["said"], settings={"batches": {"path": str(tmp_path)}}) as found:
        yield found


def made(app: TestApp, *requests: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = app.client.post(PATH, json={"requests": requests}, **options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def shown(app: TestApp, batch_id: str, **options: Any) -> dict[str, Any]:
    answer = app.client.get(f"{PATH}/{batch_id}", **options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ended(app: TestApp, batch_id: str, **options: Any) -> dict[str, Any]:
    until(lambda: shown(app, batch_id, **options)["processing_status"] == "ended")
    return shown(app, batch_id, **options)


def results(app: TestApp, batch: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    answer = app.client.get(batch["results_url"], **options)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def error(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert body["type"] == "error"
    return answer.status_code, body["error"]["code"]


def test_each_request_is_answered_in_its_place(app: TestApp) -> None:
    """Whatever became of it; counts are zero but for `processing` until all have ended."""
    batch = made(app, request("a"), request("b", model="nope"), request("c", stream=True), request("d"))
    assert batch["type"] == "message_batch"
    assert batch["id"].startswith("msgbatch")
    if batch["processing_status"] == "in_progress":
        assert batch["request_counts"]["processing"] == 4
        assert batch["results_url"] is None
    batch = ended(app, batch["id"])
    assert batch["request_counts"] == {"processing": 0, "succeeded": 2, "errored": 2, "canceled": 0, "expired": 0}
    assert batch["ended_at"] >= batch["created_at"]
    assert batch["ended_at"].endswith("Z")
    rows = results(app, batch)
    assert [row["custom_id"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["result"]["type"] for row in rows] == ["succeeded", "errored", "errored", "succeeded"]
    message = rows[0]["result"]["message"]
    assert (message["type"], message["content"]) == ("message", [{"type": "text", "text": "said"}])
    assert rows[1]["result"]["error"]["error"]["type"] == "not_found_error"
    assert "stream" in rows[2]["result"]["error"]["error"]["message"]


def test_integers_of_any_length_come_through(tmp_path: Any) -> None:
    """From the body to the model, through a file, to the last digit."""
    schema = {"type": "object", "properties": {"n": {"const": 12345678901234567890123}}}
    tool = {"name": "f", "input_schema": schema}
    with TestApp(script=["said"], settings={"batches": {"path": str(tmp_path)}}) as app:
        ended(app, made(app, request("a", tools=[tool]))["id"])
        [job] = app.model.jobs
    assert "12345678901234567890123" in job.prompt.text


def test_what_is_cancelled_says_so_of_each_request_that_was_not_asked(tmp_path: Any) -> None:
    settings = {"batches": {"path": str(tmp_path), "concurrency": 1}}
    with TestApp(script=["said"], delay_s=0.02, settings=settings) as app:
        batch = made(app, *(request(f"n{i}") for i in range(300)))
        too_early = app.client.get(f"{PATH}/{batch['id']}/results")
        assert error(too_early)[0] == 400
        assert error(app.client.delete(f"{PATH}/{batch['id']}"))[0] == 400
        until(lambda: len(app.model.jobs) > 2)
        cancelled = app.client.post(f"{PATH}/{batch['id']}/cancel").json()
        assert cancelled["processing_status"] in ("canceling", "ended")
        assert cancelled["cancel_initiated_at"]
        batch = ended(app, batch["id"])
        rows = results(app, batch)
    counts = batch["request_counts"]
    assert counts["succeeded"] + counts["canceled"] == 300
    assert counts["canceled"] > 0
    assert [row["custom_id"] for row in rows] == [f"n{i}" for i in range(300)]
    kinds = [row["result"]["type"] for row in rows]
    assert kinds.count("canceled") == counts["canceled"]
    assert kinds.count("succeeded") == counts["succeeded"]


def test_lists_go_both_ways_and_hold_no_other_batches(app: TestApp) -> None:
    ids = [made(app, request("a"))["id"] for _ in range(5)][::-1]
    for one in ids:
        ended(app, one)
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
    line = json.dumps({"custom_id": "a", "url": "/v1/chat/completions", "body": body}).encode()
    file = app.client.post("/v1/files", files={"file": ("in.jsonl", line)}, data={"purpose": "batch"}).json()["id"]
    chat = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    other = app.client.post("/v1/batches", json=chat).json()["id"]
    assert error(app.client.get(f"{PATH}/{other}")) == (404, "batch_not_found")
    first = app.client.get(PATH, params={"limit": 2}).json()
    assert ([one["id"] for one in first["data"]], first["has_more"]) == (ids[:2], True)
    second = app.client.get(PATH, params={"limit": 3, "after_id": first["last_id"]}).json()
    assert ([one["id"] for one in second["data"]], second["has_more"]) == (ids[2:], False)
    back = app.client.get(PATH, params={"limit": 2, "before_id": ids[3]}).json()
    assert ([one["id"] for one in back["data"]], back["has_more"]) == (ids[1:3], True)
    assert error(app.client.get(PATH, params={"after_id": "nope"})) == (404, "batch_not_found")


def test_a_batch_that_is_removed_takes_its_files_with_it(app: TestApp) -> None:
    batch = ended(app, made(app, request("a"), request("b", model="nope"))["id"])
    assert len(app.client.get("/v1/files").json()["data"]) == 3
    gone = app.client.delete(f"{PATH}/{batch['id']}").json()
    assert gone == {"id": batch["id"], "type": "message_batch_deleted"}
    assert app.client.get("/v1/files").json()["data"] == []
    for path in ("", "/results"):
        assert error(app.client.get(f"{PATH}/{batch['id']}{path}")) == (404, "batch_not_found")


def test_messages_run_in_a_batch_of_files_too_and_the_file_stays_its_owners(app: TestApp) -> None:
    """One machinery: made by `/v1/batches`, seen by both; only what the batch wrote goes with it."""
    line = json.dumps({"custom_id": "a", "url": "/v1/messages", "body": request("a")["params"]}).encode()
    file = app.client.post("/v1/files", files={"file": ("in.jsonl", line)}, data={"purpose": "batch"}).json()["id"]
    asked = {"input_file_id": file, "endpoint": "/v1/messages", "completion_window": "24h"}
    batch = ended(app, app.client.post("/v1/batches", json=asked).json()["id"])
    assert results(app, batch)[0]["result"]["type"] == "succeeded"
    app.client.delete(f"{PATH}/{batch['id']}")
    assert [one["id"] for one in app.client.get("/v1/files").json()["data"]] == [file]


def test_results_whose_input_is_gone_are_shown_while_they_are_all_there(app: TestApp) -> None:
    batch = ended(app, made(app, request("a"))["id"])
    [file] = [one for one in app.client.get("/v1/files").json()["data"] if one["filename"].endswith("_input.jsonl")]
    app.client.delete(f"/v1/files/{file['id']}")
    assert results(app, batch)[0]["custom_id"] == "a"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": [{"custom_id": "a"}]}, "requests[0].params"),
        ({"requests": [{"custom_id": "", "params": {}}]}, "requests[0].custom_id"),
        ({"requests": [request("a"), request("b"), request("a")]}, "requests[2].custom_id"),
        ({"requests": [{"custom_id": "a", "params": [1]}]}, "requests[0].params"),
    ],
)
def test_a_batch_that_cannot_be_run_is_refused_before_anything_is_kept(app: TestApp, body: Any, param: str) -> None:
    answer = app.client.post(PATH, json=body)
    assert answer.status_code == 400
    assert param in answer.json()["error"]["message"]
    assert app.client.get("/v1/files").json()["data"] == []
    assert app.client.get(PATH).json()["data"] == []


def test_a_gateway_without_a_folder_says_what_to_configure() -> None:
    with TestApp(script=["x"]) as app:
        answer = app.client.post(PATH, json={"requests": [request("a")]})
    assert error(answer) == (400, "no_store")
    assert "[batches] path" in answer.json()["error"]["message"]


def test_tenants_and_routes_hold_for_every_door(tmp_path: Any) -> None:
    """Another tenant sees nothing of a batch; a key without the route of messages makes none."""
    keys = [
        {"id": "a", "key": "secret-a", "tenant": "one"},
        {"id": "b", "key": "secret-b", "tenant": "two"},
        {"id": "c", "key": "secret-c", "tenant": "one", "routes": ["/v1/messages/batches*"]},
    ]
    owner, other, bound = ({"x-api-key": f"secret-{name}"} for name in "abc")
    with TestApp(script=["x"], keys=keys, settings={"batches": {"path": str(tmp_path)}}, **KEYED) as app:
        batch = made(app, request("a"), headers=owner)
        ended(app, batch["id"], headers=owner)
        for method, path in (("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")):
            answer = app.client.request(method, f"{PATH}/{batch['id']}{path}", headers=other)
            assert error(answer) == (404, "batch_not_found"), (method, path)
        assert app.client.get(PATH, headers=other).json()["data"] == []
        refused = app.client.post(PATH, json={"requests": [request("a")]}, headers=bound)
        assert refused.status_code == 403
        assert app.client.get(PATH).status_code == 401
        assert shown(app, batch["id"], headers=owner)["request_counts"]["succeeded"] == 1


def test_a_batch_goes_on_after_a_restart(tmp_path: Any) -> None:
    """What was answered is not asked again."""
    settings = {"batches": {"path": str(tmp_path), "concurrency": 1}}
    with TestApp(script=["said"], delay_s=0.05, settings=settings) as app:
        batch = made(app, *(request(f"n{i}") for i in range(20)))
        until(lambda: len(app.model.jobs) > 2)
    with TestApp(script=["said"], settings=settings) as app:
        batch = ended(app, batch["id"])
        assert batch["request_counts"]["succeeded"] == 20
        assert len(app.model.jobs) < 20
