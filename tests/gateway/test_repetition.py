"""A constrained answer that goes round in circles is ended with its shortest valid end, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from transformers import AutoTokenizer

from tests.gateway.conftest import RunningGateway, running

SCHEMA: Any = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"enum": ["a", "b"]}}, "note": {"type": "string"}},
    "required": ["rows", "note"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
MOST = 700


@pytest.fixture(scope="module")
def looping(random_checkpoint: Path) -> Any:
    """Run a gateway with random weights; `ask` biases them so that an array is never closed."""
    models = [{"name": "noise", "path": str(random_checkpoint)}]
    engine = {"models": models, "repetition": {"min_tokens": 64, "min_count": 4, "max_pattern_size": 64}}
    with running({"stages": {"generate": {"engine": engine}}}) as found:
        yield found


@pytest.fixture(scope="module")
def bias(random_checkpoint: Path) -> dict[str, float]:
    """Return biases by token, towards another item of an array, as `"a",`."""
    tokenizer = AutoTokenizer.from_pretrained(random_checkpoint)
    texts = {token: tokenizer.decode([token]) for token in range(len(tokenizer))}
    plain = {str(token): 60.0 if text in (",", "a", '"') else -60.0 for token, text in texts.items() if text}
    return {token: value for token, value in plain.items() if value > 0 or "]" in texts[int(token)]}


def ask(gateway: RunningGateway, bias: dict[str, float], **fields: Any) -> httpx.Response:
    body = {"model": "noise", "messages": [{"role": "user", "content": "go"}], "max_tokens": MOST, "temperature": 0}
    body |= {"response_format": FORMAT, "logit_bias": bias, "sluicegate": {"cache": False}, **fields}
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def valid(text: str) -> bool:
    value = json.loads(text)
    return len(value["rows"]) > 8 and jsonschema_rs.is_valid(SCHEMA, value)


@pytest.mark.parametrize("fields", [{}, {"n": 2}, {"n": 1, "best_of": 2}, {"temperature": 1.0, "seed": 3}])
def test_it_ends_early_valid_and_says_so(looping: Any, bias: Any, fields: dict[str, Any]) -> None:
    body = ask(looping, bias, **fields).json()
    for choice in body["choices"]:
        assert choice["finish_reason"] == "length"
        assert valid(choice["message"]["content"])
    assert body["usage"]["completion_tokens"] < MOST
    assert body["sluicegate"] == {"ended_by_repetition": list(range(fields.get("n", 1)))}


def test_a_stream_says_so_at_its_end(looping: Any, bias: Any) -> None:
    lines = [line[6:] for line in ask(looping, bias, stream=True).text.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    deltas = [choice for chunk in chunks for choice in chunk["choices"]]
    assert valid("".join(delta["delta"].get("content") or "" for delta in deltas))
    assert [delta["finish_reason"] for delta in deltas if delta["finish_reason"]] == ["length"]
    assert chunks[-1]["sluicegate"] == {"ended_by_repetition": [0]}


def test_arguments_of_a_call_are_ended_too(looping: Any, bias: Any) -> None:
    tool = {"type": "function", "function": {"name": "note", "parameters": SCHEMA}}
    body = ask(looping, bias, tools=[tool], tool_choice="required", response_format=None).json()
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert valid(call["function"]["arguments"])
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["sluicegate"] == {"ended_by_repetition": [0]}


def test_who_wants_whole_answers_gets_stop(looping: Any, bias: Any) -> None:
    body = ask(looping, bias, sluicegate={"cache": False, "on_length": "close"}).json()
    assert body["choices"][0]["finish_reason"] == "stop"
    assert valid(body["choices"][0]["message"]["content"])
    assert body["sluicegate"] == {"ended_by_repetition": [0]}


def test_a_request_may_ask_for_it_sooner_or_never(looping: Any, bias: Any) -> None:
    sooner = ask(looping, bias, repetition_detection={"max_pattern_size": 8, "min_count": 10}).json()
    assert valid(sooner["choices"][0]["message"]["content"])
    assert sooner["usage"]["completion_tokens"] < 64
    never = ask(looping, bias, repetition_detection={"max_pattern_size": 0}).json()
    assert never["usage"]["completion_tokens"] == MOST
    assert "sluicegate" not in never


def test_a_prompt_that_repeats_itself_lets_the_answer_do_so(looping: Any, bias: Any) -> None:
    table = [{"role": "user", "content": "0, 0, 0, 0, " * 8}]
    assert ask(looping, bias, messages=table).json()["usage"]["completion_tokens"] == MOST


MANY: Any = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"const": True}, "minItems": 100}},
    "required": ["rows"],
    "additionalProperties": False,
}
"""Whatever the model likes, it repeats itself: each item is the same, and there are many."""
TURNS: Any = [{"role": "user", "content": "go"}]
WIRES: dict[str, Any] = {
    "/v1/chat/completions": {
        "messages": TURNS,
        "max_tokens": MOST,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": MANY}},
    },
    "/v1/completions": {"prompt": "go", "max_tokens": MOST, "structured_outputs": {"json": MANY}},
    "/v1/responses": {
        "input": "go",
        "max_output_tokens": MOST,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": MANY}},
    },
    "/v1/messages": {
        "messages": TURNS,
        "max_tokens": MOST,
        "output_config": {"format": {"type": "json_schema", "schema": MANY}},
    },
}


@pytest.mark.parametrize("path", WIRES)
def test_every_dialect_says_so_in_its_own_words(looping: Any, path: str) -> None:
    ours = {"cache": False, "grammar": {"whitespace": "compact"}}
    body = {"model": "noise", "sluicegate": ours, **WIRES[path]}
    found = httpx.post(f"{looping.url}{path}", json=body, timeout=60).json()
    assert found["sluicegate"] == {"ended_by_repetition": [0]}
    text, ended = text_and_end(found)
    assert jsonschema_rs.is_valid(MANY, json.loads(text))
    assert ended in ("length", "max_tokens", "incomplete")


def text_and_end(body: Any) -> tuple[str, str]:
    """Return the text of an answer and how it ended, in any dialect."""
    if "choices" in body:
        (choice,) = body["choices"]
        return choice["text"] if "text" in choice else choice["message"]["content"], choice["finish_reason"]
    if "output" in body:
        (message,) = body["output"]
        return message["content"][0]["text"], body["status"]
    return body["content"][0]["text"], body["stop_reason"]


def test_it_is_counted_and_explained(looping: Any, bias: Any) -> None:
    before = counted(looping)
    body = ask(looping, bias, sluicegate={"cache": False, "explain": True}).json()
    assert body["sluicegate"]["engine"]["repetitions"] == 1
    assert counted(looping) == before + 1


def counted(gateway: RunningGateway) -> float:
    lines = httpx.get(f"{gateway.url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sluicegate_ended_by_repetition_total"))
