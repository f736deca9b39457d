"""What a prompt is made of, asked beforehand: the counts are those that usage then reports, in every dialect."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from sluicegate import __version__
from sluicegate.gateway.testing import TestApp
from sluicegate.grammar import is_compiled
from tests.gateway.conftest import RunningGateway
from tests.gateway.test_messages import ASKED, SCHEMA, TOOLS
from tests.waiting import until

PLAIN: dict[str, Any] = {"model": "bundled", "messages": ASKED}
THINKING = {"type": "enabled", "budget_tokens": 9}


def post(gateway: RunningGateway, path: str, body: Any) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, timeout=60)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Answer in JSON."},
        {"thinking": {"type": "enabled", "budget_tokens": 50}},
        {"tools": TOOLS, "tool_choice": {"type": "any"}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ],
)
def test_tokens_of_a_message_are_those_that_its_usage_reports(gateway: RunningGateway, fields: dict[str, Any]) -> None:
    body = {**PLAIN, **fields}
    counted = post(gateway, "/v1/messages/count_tokens", body).json()
    usage = post(gateway, "/v1/messages", {**body, "max_tokens": 60}).json()["usage"]
    assert counted == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}


def test_tokens_of_a_response_are_those_that_its_usage_reports(gateway: RunningGateway) -> None:
    form = {"type": "json_schema", "name": "person", "schema": SCHEMA}
    body = {"model": "bundled", "input": "Clara lives in Aarhus.", "text": {"format": form}}
    usage = post(gateway, "/v1/responses", body).json()["usage"]
    wanted = {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]}
    assert post(gateway, "/v1/responses/input_tokens", body).json() == wanted


def test_messages_are_tokenised_as_the_model_reads_them_and_back(gateway: RunningGateway) -> None:
    found = post(gateway, "/tokenize", {**PLAIN, "return_token_strs": True}).json()
    usage = post(gateway, "/v1/chat/completions", {**PLAIN, "max_tokens": 4}).json()["usage"]
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"]) == usage["prompt_tokens"]
    assert found["max_model_len"] >= found["count"]
    text = post(gateway, "/detokenize", {"model": "bundled", "tokens": found["tokens"]}).json()["prompt"]
    assert ASKED[0]["content"] in text
    assert text != ASKED[0]["content"]  # the chat template is there too


def test_a_tokenizer_that_does_not_spell_single_tokens_counts_them() -> None:
    with TestApp(script=["a"]) as app:
        found = app.client.post("/tokenize", json={"model": "scripted", "prompt": "abc"})
    assert (found.status_code, found.json()["tokens"], found.json()["token_strs"]) == (200, [97, 98, 99], None)


@pytest.mark.parametrize("text", ["plain", "zwölf Boxkämpfer, 3.50 €", "日本語 <|user|>"])
def test_a_prompt_is_tokenised_as_it_is_and_comes_back(gateway: RunningGateway, text: str) -> None:
    found = post(gateway, "/tokenize", {"model": "bundled", "prompt": text}).json()
    assert post(gateway, "/detokenize", {"tokens": found["tokens"]}).json() == {"prompt": text}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/messages/count_tokens", {"model": "nobody", "messages": ASKED}, 404, "nobody"),
        ("/v1/messages/count_tokens", {"model": "bundled"}, 400, "messages"),
        ("/v1/messages", {**PLAIN, "max_tokens": 9, "thinking": THINKING}, 400, "thinking.budget_tokens"),
        ("/v1/messages/count_tokens", {**PLAIN, "temprature": 1}, 400, "temperature"),
        ("/tokenize", {"model": "bundled"}, 400, "prompt"),
        ("/tokenize", {"model": "bundled", "prompt": ["a", "b"]}, 400, "one prompt at a time"),
        ("/detokenize", {"model": "bundled", "tokens": [1, 999_999]}, 400, "token 999999"),
        ("/detokenize", {"model": "bundled", "tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"model": "nobody", "tokens": [1]}, 404, "nobody"),
    ],
)
def test_what_cannot_be_counted_is_named(gateway: RunningGateway, path: str, body: Any, status: int, said: str) -> None:
    answer = post(gateway, path, body)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert (answer.json().get("type") == "error") == path.startswith("/v1/messages")


def test_probes_of_other_servers_are_answered(gateway: RunningGateway) -> None:
    for method, path in (("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")):
        answer = httpx.request(method, gateway.url + path)
        assert (answer.status_code, answer.text) == (200, "")
    assert httpx.get(gateway.url + "/version").json() == {
        "version": __version__,
        "grammar": "compiled" if is_compiled() else "python",
    }


def test_load_counts_requests_that_have_begun_and_not_ended() -> None:
    def now() -> int:
        return app.client.get("/load").json()["server_load"]

    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with TestApp(script=["a "] * 500, delay_s=0.05) as app:
        assert now() == 0
        with app.client.stream("POST", "/v1/chat/completions", json=asked) as answer:
            assert (answer.status_code, now()) == (200, 1)
        until(lambda: now() == 0)
