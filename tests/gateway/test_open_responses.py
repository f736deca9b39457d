"""The kinds of cases by which openresponses.org accepts a server, in our own words, on a real gateway.

A plain text, a stream, a system's message, a call of a tool (whole and streamed), an image, a conversation of turns.
"""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import RunningGateway
from tests.gateway.stream_laws import check_response, of_response, of_responses
from tests.gateway.test_responses import TOOLS
from tests.gateway.test_tools import TWO_CALLS, app

PIXEL = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(32)).decode()
TIDES: dict[str, Any] = {
    "type": "function",
    "name": "get_tides",
    "description": "When the tide is high in a harbour",
    "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]},
}


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


CASES: dict[str, dict[str, Any]] = {
    "a text": {"input": [message("user", "Name three harbours.")]},
    "a system's message": {"input": [message("system", "You are a harbour master."), message("user", "Who are you?")]},
    "turns": {
        "input": [
            message("user", "I sail the Freja."),
            message("assistant", "A fine ship."),
            message("user", "What do I sail?"),
        ]
    },
    "a call": {"input": [message("user", "When is high tide in Aarhus?")], "tools": [TIDES], "tool_choice": "required"},
    "settings": {
        "input": "Name one harbour.",
        "instructions": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"ship": "Freja"},
        "text": {"format": {"type": "json_object"}},
        "reasoning": {"effort": "none"},
        "parallel_tool_calls": False,
    },
}


def asked(gateway: RunningGateway, **fields: Any) -> httpx.Response:
    body = {"model": "bundled", "max_output_tokens": 48, **fields}
    return httpx.post(f"{gateway.url}/v1/responses", json=body, timeout=120)


@pytest.mark.parametrize("name", CASES)
def test_a_response_has_every_field_that_the_published_schema_requires(gateway: RunningGateway, name: str) -> None:
    """Whole, and as the last event of a stream whose events keep their order."""
    whole = asked(gateway, **CASES[name])
    assert whole.status_code == 200, whole.text
    check_response(whole.json())
    joined = of_response(whole.json())
    streamed = of_responses(asked(gateway, stream=True, **CASES[name]).text)
    for one in (joined, streamed):
        assert one.calls if name == "a call" else one.content
        assert all(call == "get_tides" for call, _ in one.calls)


def test_what_was_asked_and_what_the_model_brings_is_told_as_it_was_used(gateway: RunningGateway) -> None:
    told = asked(gateway, **CASES["settings"]).json()
    given = ("temperature", "top_p", "instructions", "metadata")
    assert {name: told[name] for name in given} == {name: CASES["settings"][name] for name in given}
    assert told["parallel_tool_calls"] is False
    told = asked(gateway, input="Name one harbour.").json()
    model = gateway.runtime.models["bundled"]
    assert told["temperature"] == model.default_temperature
    assert told["top_p"] == model.defaults.get("top_p", 1.0)


def test_calls_under_auto_are_items_with_every_event() -> None:
    with app(TWO_CALLS) as gateway:
        body = {"model": "scripted", "input": "Hi", "stream": True, "tools": TOOLS}
        raw = gateway.client.post("/v1/responses", json=body).text
    for kind in ("added", "done"):
        assert f"response.output_item.{kind}" in raw
    assert "response.function_call_arguments.delta" in raw
    assert "response.function_call_arguments.done" in raw


def test_an_image_is_refused_by_name_where_the_model_reads_none(gateway: RunningGateway) -> None:
    parts = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]
    answer = asked(gateway, input=[{"type": "message", "role": "user", "content": parts}])
    assert answer.status_code == 400
    assert "image" in answer.json()["error"]["message"]
