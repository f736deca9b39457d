"""What clients of other servers send: served where it means something here, else refused in words that help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TURN = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def app() -> Iterator[TestApp]:
    with TestApp(script=["said"]) as found:
        yield found


def ask(gateway: RunningGateway, **fields: Any) -> Any:
    return gateway.client().chat.completions.create(
        model="bundled",
        messages=TURN,
        max_tokens=60,
        extra_body=fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("kind", ["json", "json_object"])
def test_a_schema_under_tgis_name_is_enforced(gateway: RunningGateway, kind: str) -> None:
    """huggingface_hub sends one as `value`, whatever its caller wrote."""
    answer = ask(gateway, response_format={"type": kind, "value": SCHEMA})
    assert set(json.loads(answer.choices[0].message.content)) == {"city"}


def test_a_pattern_under_tgis_name_is_enforced(gateway: RunningGateway) -> None:
    assert ask(gateway, response_format={"type": "regex", "value": "[AB]{3}"}).choices[0].message.content in {
        f"{a}{b}{c}" for a in "AB" for b in "AB" for c in "AB"
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"type": "json"},
        {"type": "regex"},
        {"type": "regex", "value": SCHEMA},
        {"type": "json", "value": "[a-z]+"},
        {"type": "text", "value": SCHEMA},
        {"type": "json_object", "value": SCHEMA, "schema": SCHEMA},
        {"type": "json_schema", "json_schema": {"schema": SCHEMA}, "value": SCHEMA},
    ],
)
def test_a_value_without_its_kind_is_refused(app: TestApp, asked: Any) -> None:
    answer = app.client.post(CHAT, json={"model": "scripted", "messages": TURN, "response_format": asked})
    assert answer.status_code == 400
    assert "response_format" in answer.json()["error"]["message"]


SHAPES: dict[str, Any] = {
    CHAT: lambda more: {"response_format": {"type": "json_object", **more}},
    RESPONSES: lambda more: {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, **more}}},
    MESSAGES: lambda more: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA, **more}}},
}


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("unknown", [SCHEMA, "[a-z]+", ["a", "b"]])
def test_a_shape_under_a_name_that_nobody_knows_is_refused(app: TestApp, path: str, unknown: Any) -> None:
    """An answer of another shape with the schema among what was ignored is a promise broken in a footnote."""
    body: dict[str, Any] = {"model": "scripted", **SHAPES[path]({"wxyz_form": unknown})}
    body |= {"input": "x"} if path == RESPONSES else {"messages": TURN, "max_tokens": 9}
    error = app.client.post(path, json=body).json()["error"]
    assert "wxyz_form" in error["message"]
    assert error["code"] == "unsupported_parameter"


def test_a_switch_that_nobody_knows_is_reported_there(app: TestApp) -> None:
    """No shape fits into it, and clients add such."""
    schema = {"name": "x", "schema": {}, "wxyz_switch": True}
    body = {"model": "scripted", "messages": TURN, "response_format": {"type": "json_schema", "json_schema": schema}}
    answer = app.client.post(CHAT, json=body)
    assert "wxyz_switch" in answer.headers.get("x-sluicegate-ignored", "") or answer.json()["error"]["code"] in (
        "constraint_unsupported",
        "unconstrained",
        "invalid_grammar",
    )


def test_mistrals_words_mean_what_they_mean_there(app: TestApp) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    body = {"model": "scripted", "messages": TURN, "random_seed": 7}
    assert app.client.post(CHAT, json=body).status_code == 200
    assert app.model.jobs[-1].sampling.seed == 7
    contrary = app.client.post(CHAT, json={**body, "seed": 8})
    assert contrary.json()["error"]["code"] == "contradiction"
    app.client.post(CHAT, json={**body, "tools": [tool], "tool_choice": "any"})
    assert app.client.post(CHAT, json={**body, "tool_choice": "any"}).status_code == 400


def test_anthropics_client_learns_that_there_are_no_threads(app: TestApp) -> None:
    """In the words after which it sends the whole conversation by itself."""
    body = {"model": "scripted", "max_tokens": 9, "messages": TURN, "thread": {"type": "create"}}
    answer = app.client.post(MESSAGES, json=body)
    assert answer.status_code == 400
    details = answer.json()["error"]["details"]
    assert details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("POST", "/api/chat", "/v1/chat/completions"),
        ("POST", "/api/embed", "/v1/embeddings"),
        ("GET", "/api/tags", "/v1/models"),
        ("POST", "/v2/chat", "Cohere"),
        ("POST", "/v2/embed/", "/v1/embeddings"),
        ("POST", "/v1beta/models/x:streamGenerateContent", "Gemini"),
        ("POST", "/model/x.y-v1:0/converse-stream", "Bedrock"),
        ("POST", "/v1/fim/completions", "write forward"),
        ("POST", "/v1/images/generations", "text"),
        ("POST", "/v1/threads/t/runs", "not stored"),
        ("POST", "/", "TGI"),
    ],
)
def test_a_path_of_another_server_says_what_to_send_instead(app: TestApp, method: str, path: str, word: str) -> None:
    answer = app.client.request(method, path)
    assert answer.status_code in (404, 405)
    assert word in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/nowhere", "/v1/nothing", "/api", "/v1/" + "a" * 5000, "/v1/" + "%0a" * 40])
def test_other_paths_are_unknown_and_no_more(app: TestApp, path: str) -> None:
    answer = app.client.get(path)
    assert answer.json()["error"]["code"] == "unknown_url"
    assert "interface" not in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "whose", "instead"),
    [
        ("/invocations", "SageMaker's", "send /v1/chat/completions"),
        ("/get_model_info", "SGLang's", "see /v1/models"),
        ("/props", "llama.cpp's", "see /v1/models"),
        ("/classify", "vLLM's", "send /v1/moderations"),
        ("/v1/fine_tuning/jobs", "OpenAI's", "nothing is trained here"),
        ("/v1/uploads", "OpenAI's", "send the whole file to /v1/files"),
    ],
)
def test_a_path_of_another_server_says_what_to_use_here(app: TestApp, path: str, whose: str, instead: str) -> None:
    answer = app.client.post(path, json={})
    assert answer.status_code == 404
    assert f"that is {whose} interface, which is not served here: {instead}" in answer.json()["error"]["message"]
