"""`on_length: close`: a structured answer that runs out of tokens is closed within them, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from sluicegate.engine.sequences.closing import Closer
from sluicegate.grammar.completion import Completion
from tests.gateway.conftest import RunningGateway, running

MESSAGES: Any = [{"role": "user", "content": "Tell me everything."}]
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "body": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    "required": ["title", "tags", "body"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def babbling(random_checkpoint: Path) -> Any:
    """Run a gateway with random weights: strings have no end of their own, so that every answer runs out of tokens."""
    overrides = {"stages": {"generate": {"engine": {"models": [{"name": "noise", "path": str(random_checkpoint)}]}}}}
    with running(overrides) as found:
        yield found


def ask(gateway: RunningGateway, max_tokens: int, **fields: Any) -> dict[str, Any]:
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body = {"model": "noise", "messages": MESSAGES, "max_tokens": max_tokens, "seed": max_tokens, "temperature": 1.0}
    body |= {"response_format": fmt, "sluicegate": {"on_length": "close", "cache": False}, **fields}
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("max_tokens", [24, 25, 31, 40, 64, 90])
def test_the_answer_is_whole_within_its_tokens_and_says_that_it_was_closed(babbling: Any, max_tokens: int) -> None:
    body = ask(babbling, max_tokens, n=2)
    for choice in body["choices"]:
        assert choice["finish_reason"] == "stop"
        assert jsonschema_rs.is_valid(SCHEMA, json.loads(choice["message"]["content"]))
    assert body["usage"]["completion_tokens"] <= 2 * max_tokens
    assert body["sluicegate"]["closed_on_length"]


def test_where_no_valid_answer_fits_the_reason_is_length(babbling: Any) -> None:
    """Never a silent half."""
    body = ask(babbling, 4)
    assert body["choices"][0]["finish_reason"] == "length"
    assert "sluicegate" not in body


def test_without_the_option_the_reason_is_length(babbling: Any) -> None:
    assert ask(babbling, 40, sluicegate={"cache": False})["choices"][0]["finish_reason"] == "length"


def test_thoughts_that_never_end_are_closed_too(babbling: Any) -> None:
    body = ask(babbling, 60, sluicegate={"on_length": "close", "cache": False, "reasoning": True})
    choice = body["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(choice["message"]["content"]))
    assert choice["message"]["reasoning_content"]


def test_arguments_of_a_demanded_call_are_closed_too(babbling: Any) -> None:
    tool = {"type": "function", "function": {"name": "note", "parameters": SCHEMA}}
    body = ask(babbling, 70, tools=[tool], tool_choice="required", response_format=None)
    choice = body["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    for call in choice["message"]["tool_calls"]:
        assert jsonschema_rs.is_valid(SCHEMA, json.loads(call["function"]["arguments"]))


def test_an_end_that_cannot_be_found_is_looked_for_less_and_less_often() -> None:
    """A search that gives up takes as long as a step may: for every token it took all the time that a request has."""

    class Searches:
        is_finished = False
        count = found = 0

        def shortest_completion(self) -> Completion | None:
            self.count += 1
            return Completion(b"", ()) if self.found else None

        def accept(self, token_id: int) -> None: ...

        def rollback(self, n: int) -> None: ...

    matcher = Searches()
    closer = Closer(matcher)  # type: ignore[arg-type]
    assert {closer.instead_of(1, room) for room in range(100, 0, -1)} == {None}
    assert matcher.count < 40
    matcher.found = 1
    assert () in [closer.instead_of(1, -1) for _ in range(12)], "and it is noticed that there is one"


@pytest.mark.parametrize(
    "constraint",
    [{"regex": "[a-z ]+"}, {"json": {"type": "integer"}}, {"grammar": 'start: /[a-z]/+ ("," /[a-z]/+)*'}],
    ids=["regex", "number", "grammar"],
)
def test_a_text_that_may_end_anywhere_is_whole_at_its_last_token(babbling: Any, constraint: Any) -> None:
    """Nothing is left to write there, so the reason was `length`, as where no valid end fits."""
    fields = {
        "structured_outputs": constraint,
        "response_format": None,
        "repetition_detection": {"max_pattern_size": 0},
    }
    for max_tokens in range(1, 6):
        body = ask(babbling, max_tokens, n=2, **fields)
        assert {choice["finish_reason"] for choice in body["choices"]} == {"stop"}
        assert body["usage"]["completion_tokens"] <= 2 * max_tokens
    assert ask(babbling, 1, **fields)["sluicegate"]["closed_on_length"] == [0]
    without = ask(babbling, 1, **fields, sluicegate={"cache": False})
    assert without["choices"][0]["finish_reason"] == "length"
