"""A dialect is one object: whatever serves requests takes it, and adding one is its module, a line and its docs."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import APIRouter
from pydantic import BaseModel
from websockets.sync.client import connect

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.shared_fields import sampling_of
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Wire
from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.fields_page import page
from sluicegate.gateway.fields import Row, says
from sluicegate.gateway.http.errors import ErrorForm
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Message, Request, SluicegateError

ROOT = Path(__file__).parents[2]
PATH = "/v1/tiny"


class TinyRequest(Wire):
    model: str
    say: str
    stream: bool = False


class TinyAnswer(BaseModel):
    said: str


class TinyError(BaseModel):
    oops: str


def oops(error: SluicegateError) -> bytes:
    return orjson.dumps({"oops": error.message})


FIELDS = BodyFields(
    TinyRequest,
    "tiny",
    rows=(
        Row("say", "What is asked.", says("tiny", otherwise="refused"), by="Tiny"),
        Row("shout", "Answer in capitals.", says(refused="tiny"), "answers are as they are", by="Tiny"),
    ),
    sampling="max_tokens top_p",
)


def read(body: Tree, api_key: str | None) -> Parsed:
    wire, ignored = read_body(body, FIELDS)
    return Parsed(
        Request(
            id="tiny-1",
            model=wire.model,
            messages=(Message("user", wire.say),),
            sampling=sampling_of(wire, FIELDS, on_length="stop", logprobs=None),
            stream=wire.stream,
            api_key=api_key,
        ),
        ignored=ignored,
    )


def whole(exchange: Exchange, parsed: Parsed) -> bytes:
    return orjson.dumps({"said": exchange.answers[0].text})


class Writer:
    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        self.exchange = exchange

    def opening(self) -> bytes:
        return b""

    def delta(self, delta: Delta) -> bytes:
        return b"data: " + orjson.dumps({"more": delta.text}) + b"\n\n" if delta.text else b""

    def closing(self) -> bytes:
        return b"data: [DONE]\n\n"

    def failing(self, error: SluicegateError) -> bytes:
        return b"data: " + oops(error) + b"\n\n"


def add_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get(f"{PATH}/about")
    async def about() -> Any:
        return {"models": len(runtime.models)}


TINY = TextDialect(
    name="tiny",
    path=PATH,
    fields=FIELDS,
    summary="Say it briefly",
    answer=TinyAnswer,
    example={"model": "scripted", "say": "hi"},
    read=read,
    whole=whole,
    writer=Writer,
    errors=ErrorForm(oops, b"tiny-id", TinyError),
    over_socket=True,
    add_routes=add_routes,
)
BODY = {"model": "scripted", "say": "hi"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    batches = {"path": str(tmp_path_factory.mktemp("batches"))}
    with TestApp(dialects=(*DIALECTS, TINY), settings={"batches": batches}) as found:
        yield found


def test_it_is_served_at_its_path(app: TestApp) -> None:
    answer = app.client.post(PATH, json={**BODY, "max_tokens": 7, "top_p": 0.5})
    assert answer.json() == {"said": "Hello back"}
    assert answer.headers["x-sluicegate-cache"] == "miss"
    asked = app.wait_for_outcomes()[-1].request
    assert (asked.sampling.max_tokens, asked.sampling.top_p, asked.messages[0].content) == (7, 0.5, "hi")
    assert app.client.get(f"{PATH}/about").json() == {"models": 1}


def test_it_is_streamed(app: TestApp) -> None:
    answer = app.client.post(PATH, json={**BODY, "stream": True})
    assert answer.text == 'data: {"more":"Hello"}\n\ndata: {"more":" back"}\n\ndata: [DONE]\n\n'


def test_its_errors_have_its_form(app: TestApp) -> None:
    """Those of the way past the router and of the router itself; and the request's id has its name."""
    refused = app.client.post(PATH, content=b"{")
    assert (refused.status_code, set(refused.json())) == (400, {"oops"})
    assert refused.headers["tiny-id"] == refused.headers["x-request-id"]
    assert "method_not_allowed" not in app.client.get(PATH).text
    assert set(app.client.get(PATH).json()) == {"oops"}
    assert "tiny-id" not in app.client.get("/healthz").headers


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("shout", "answers are as they are"),
        ("messages", "it has no effect in this dialect"),
        ("temprature", "did you mean `temperature`"),
        ("max_tokens", "greater than or equal to 1"),
    ],
)
def test_the_table_of_fields_holds_in_it(app: TestApp, field: str, words: str) -> None:
    assert words in app.client.post(PATH, json={**BODY, field: 0}).json()["oops"]


def test_what_it_does_not_use_is_reported(app: TestApp) -> None:
    assert app.client.post(PATH, json={**BODY, "user": "u"}).headers["x-sluicegate-ignored"] == "user"


def test_it_is_served_over_a_socket(app: TestApp) -> None:
    with connect(app.url.replace("http", "ws", 1) + f"{PATH}/ws", proxy=None) as opened:
        opened.send(json.dumps(BODY))
        got = [opened.recv(timeout=30) for _ in range(3)]
        opened.send("{}")
        failed = [opened.recv(timeout=30) for _ in range(2)]
    assert got == ['{"more":"Hello"}', '{"more":" back"}', "[DONE]"]
    assert (set(json.loads(failed[0])), failed[1]) == ({"oops"}, "[DONE]")


def test_it_is_served_in_batches(app: TestApp) -> None:
    lines = [{"custom_id": str(i), "url": PATH, "body": body} for i, body in enumerate((BODY, {"model": "scripted"}))]
    content = "\n".join(map(json.dumps, lines)).encode()
    made = app.client.post("/v1/files", files={"file": ("in.jsonl", io.BytesIO(content))}, data={"purpose": "batch"})
    found = app.client.post("/v1/batches", json={"input_file_id": made.json()["id"], "endpoint": PATH}).json()
    deadline = time.monotonic() + 60
    while found["status"] in ("validating", "in_progress", "finalizing"):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
        found = app.client.get(f"/v1/batches/{found['id']}").json()
    good, bad = (app.client.get(f"/v1/files/{found[f'{name}_file_id']}/content").json() for name in ("output", "error"))
    assert good["response"]["body"] == {"said": "Hello back"}
    assert (bad["response"]["status_code"], set(bad["response"]["body"])) == (400, {"oops"})


def test_it_is_documented(app: TestApp) -> None:
    document = app.client.get("/openapi.json").json()
    operation = document["paths"][PATH]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    assert (operation["summary"], body["example"]) == (TINY.summary, TINY.example)
    shown = document["components"]["schemas"]["TinyRequest"]["properties"]
    assert shown["say"]["description"] == "What is asked."
    assert {"max_tokens", "top_p"} <= set(shown)
    assert "TinyError" in str(operation["responses"]["400"])
    assert {"application/json", "text/event-stream"} == set(operation["responses"]["200"]["content"])
    assert PATH in document["components"]["schemas"]["NewBatch"]["properties"]["endpoint"]["enum"]


def test_the_page_of_fields_has_a_column_for_it() -> None:
    rows = {line.split("|")[1].strip(): line.split("|") for line in page((*DIALECTS, TINY)).splitlines() if "|" in line}
    assert rows["field"][9].strip() == "tiny"
    assert [rows[f"`{name}`"][9].strip() for name in ("model", "max_tokens", "min_p", "user")] == [
        "yes",
        "yes",
        "refused",
        "reported",
    ]


def test_nothing_else_knows_the_path_of_a_dialect() -> None:
    """In product code a path stands in its dialect alone, in what calls the gateway as a client does, and where those
    who ask for another server's path are told which to take."""
    clients = ("commands", "testing.py", "server.py", "ray_serve", "foreign_paths.py")
    files = [file for file in (ROOT / "gateway").rglob("*.py") if not set(file.parts) & set(clients)]
    for dialect in DIALECTS:
        found = [file.name for file in files if f'"{dialect.path}"' in file.read_text("utf-8")]
        assert len(found) == 1, (dialect.path, found)
