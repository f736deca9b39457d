"""A name that stands twice in a body is refused by its place: who reads the first sees another request than we do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.gateway.conftest import RunningGateway, running
from tests.waiting import until

CHAT = "/v1/chat/completions"
ASKED = '"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4'
SCHEMA = '{"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "enum": ["y"]}}}'
FORMAT = '{"type": "json_schema", "json_schema": {"name": "n", "schema": ' + SCHEMA + "}}"
IN_SCHEMA = "response_format.json_schema.schema.properties.a.enum"
TALK = '[{"role": "user", "content": "a", "content": "b"}]'


def asking(more: str) -> str:
    return "{" + ASKED + ", " + more + "}"


def ended_batch(gateway: RunningGateway, line: str) -> Any:
    form = {"file": ("in.jsonl", line)}
    file = httpx.post(f"{gateway.url}/v1/files", data={"purpose": "batch"}, files=form).json()
    asked = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    batch = httpx.post(f"{gateway.url}/v1/batches", json=asked).json()
    url = f"{gateway.url}/v1/batches/{batch['id']}"
    until(lambda: httpx.get(url).json()["status"] in ("completed", "failed"))
    return httpx.get(url).json()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("batches")
    with running({"batches": {"path": str(folder)}, "mcp": {"own_tools": True}}) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, asking('"max_tokens": 8'), "max_tokens"),
        (CHAT, asking('"\\u006dodel": "other"'), "model"),
        (CHAT, asking(f'"response_format": {FORMAT}'), IN_SCHEMA),
        (CHAT, '{"model": "bundled", "messages": ' + TALK + "}", "messages[0].content"),
        (CHAT, asking('"metadata": ' + "[" * 1000 + "]" * 1000 + ', "metadata": {}'), None),
        ("/v1/completions", '{"model": "bundled", "prompt": "a", "prompt": "b"}', "prompt"),
        ("/v1/responses", '{"model": "bundled", "input": "a", "input": "b"}', "input"),
        ("/v1/messages", '{"model": "bundled", "max_tokens": 4, "messages": [], "messages": []}', None),
        ("/v1/embeddings", '{"model": "bundled", "input": "a", "input": "b"}', "input"),
        ("/v1/moderations", '{"input": "a", "input": "b"}', "input"),
        ("/tokenize", '{"model": "bundled", "prompt": "a", "prompt": "b"}', "prompt"),
        ("/mcp", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "method": "tools/call"}', "method"),
    ],
)  # fmt: skip
def test_every_route_refuses_it(gateway: RunningGateway, path: str, body: str, param: str | None) -> None:
    answer = httpx.post(gateway.url + path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "stands twice in one object" in answer.text or "nests too deeply" in answer.text
    if param is not None:
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("duplicate_name", param)


def test_a_schema_inside_a_text_is_read_as_strictly(gateway: RunningGateway) -> None:
    body = {"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "json_schema": SCHEMA}
    answer = httpx.post(gateway.url + CHAT, json=body)
    assert answer.status_code == 400
    assert "`properties.a.enum` stands twice" in answer.json()["error"]["message"]


def test_a_message_of_a_socket_is_refused(gateway: RunningGateway) -> None:
    with connect(gateway.url.replace("http", "ws") + CHAT + "/ws") as socket:
        socket.send(asking('"max_tokens": 8'))
        assert json.loads(socket.recv())["error"]["code"] == "duplicate_name"


def test_a_batch_with_such_a_line_fails_and_names_the_line(gateway: RunningGateway) -> None:
    body = asking('"max_tokens": 8')
    line = f'{{"custom_id": "one", "method": "POST", "url": "{CHAT}", "body": {body}}}'
    done = ended_batch(gateway, line)
    assert done["status"] == "failed"
    assert "line 1: `body.max_tokens` stands twice" in done["errors"]["data"][0]["message"]


def test_a_line_that_is_too_deep_is_its_own_error(gateway: RunningGateway) -> None:
    """Of the request, when it runs; where its numbers need the slower reader too, of the file."""
    deep = "[" * 1010 + "]" * 1010
    for long, status in (("1", "completed"), ("1" * 25, "failed")):
        body = asking(f'"metadata": {{"a": {deep}, "b": {long}}}')
        line = f'{{"custom_id": "one", "method": "POST", "url": "{CHAT}", "body": {body}}}'
        done = ended_batch(gateway, line)
        assert done["status"] == status
        assert done["request_counts"]["completed"] == 0


def test_texts_that_only_look_like_it_are_served(gateway: RunningGateway) -> None:
    """Colons in texts, escaped ones, and one name in many objects."""
    talk = [{"role": "user", "content": 'a: b {"a":1,"a":2}'}, {"role": "assistant", "content": ":"}]
    body = json.dumps({"model": "bundled", "messages": [*talk, talk[0]], "max_tokens": 4})
    for spelled in (body, body.replace(": b", "\\u003a b")):
        answer = httpx.post(gateway.url + CHAT, content=spelled, headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.text
