"""Integers past 64 bits in a schema are enforced to the last digit, at every door that takes one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import RunningGateway, running
from tests.waiting import until

LEAST = 12345678901234567890123
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "between": {"type": "integer", "minimum": LEAST, "maximum": LEAST + 2},
        "const": {"const": LEAST},
        "listed": {"enum": [LEAST + 5, 1]},
    },
    "required": ["between", "const", "listed"],
    "additionalProperties": False,
}
ASKED = [{"role": "user", "content": "Say it."}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def content(body: Any) -> Any:
    return exactly(body["choices"][0]["message"]["content"])


def call(body: Any) -> Any:
    return exactly(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


def exactly(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


Door = tuple[str, dict[str, Any], Callable[[Any], Any]]
DOORS: dict[str, Door] = {
    "chat": ("chat/completions", {"messages": ASKED, "response_format": FORMAT}, content),
    "as text": ("chat/completions", {"messages": ASKED, "json_schema": json.dumps(SCHEMA)}, content),
    "confidence": (
        "chat/completions",
        {"messages": ASKED, "response_format": FORMAT, "sluicegate": {"confidence": True, "explain": True}},
        content,
    ),
    "tools": ("chat/completions", {"messages": ASKED, "tools": [TOOL], "tool_choice": "required"}, call),
    "responses": (
        "responses",
        {"input": "Say it.", "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
        lambda body: exactly(body["output"][-1]["content"][0]["text"]),
    ),
    "messages": (
        "messages",
        {"messages": ASKED, "max_tokens": 300, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        lambda body: exactly(body["content"][0]["text"]),
    ),
    "a message's tools": (
        "messages",
        {
            "messages": [
                *ASKED,
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"const": LEAST}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "again"}]},
            ],
            "max_tokens": 300,
            "tools": [{"name": "f", "input_schema": SCHEMA}],
            "tool_choice": {"type": "any"},
        },
        lambda body: body["content"][0]["input"],
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """Run a gateway with all that keeps requests."""
    folder: Path = tmp_path_factory.mktemp("kept")
    telemetry = {"content": True, "history": str(folder)}
    recording = {"enabled": True, "path": str(folder / "recordings.db"), "secret": "ab" * 32}
    with running({"telemetry": telemetry, "recording": recording}) as found:
        yield found


@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
def test_no_digit_is_lost(served: RunningGateway, door: Door) -> None:
    path, body, value_of = door
    answer = httpx.post(f"{served.url}/v1/{path}", json={"model": "bundled", **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    value = value_of(json.loads(answer.text, parse_float=Decimal))
    assert LEAST <= value["between"] <= LEAST + 2
    assert value["const"] == LEAST
    assert value["listed"] in (LEAST + 5, 1)


def test_streams_tell_such_values_too(served: RunningGateway) -> None:
    body = {"model": "bundled", "messages": ASKED, "response_format": FORMAT, "stream": True}
    told = {**body, "sluicegate": {"partial": True, "cache": False}}
    text = httpx.post(f"{served.url}/v1/chat/completions", json=told, timeout=60).text
    assert f'"pointer":"/const","value":{LEAST}' in text
    assert text.endswith("data: [DONE]\n\n")


def test_what_is_kept_of_them_can_be_shown_and_asked_again(served: RunningGateway) -> None:
    body = {"model": "bundled", "messages": ASKED, "response_format": FORMAT, "sluicegate": {"cache": False}}
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=60).status_code == 200
    newest = httpx.get(f"{served.url}/admin/console/requests").json()["recent"][0]["id"]
    shown = httpx.get(f"{served.url}/admin/console/requests/{newest}")
    assert shown.status_code == 200
    until(lambda: httpx.get(f"{served.url}/admin/recordings").json()["data"])
    kept = httpx.get(f"{served.url}/admin/recordings").json()["data"][0]["id"]
    assert httpx.post(f"{served.url}/admin/recordings/{kept}/replay", json={}, timeout=60).status_code == 200
