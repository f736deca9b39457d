"""Rails in the real pipeline: nothing forbidden leaves, and what is left of a structured answer is still valid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import openai
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway, running

DOCUMENT = "My name is Clara Winther and I live in Aarhus."
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
MESSAGES: Any = [{"role": "user", "content": f"Extract the fields.\n\n{DOCUMENT}"}]


def settings(action: str, where: str = "moderate") -> dict[str, Any]:
    rail = {"phrases": ["Clara Winther"], "action": action}
    return {"pipeline": {where: ["blocklist"]}, "stages": {where: {"blocklist": rail}}}


@pytest.fixture(scope="module")
def redacting() -> Iterator[RunningGateway]:
    with running(settings("redact")) as found:
        yield found


@pytest.fixture(scope="module")
def blocking() -> Iterator[RunningGateway]:
    with running(settings("block")) as found:
        yield found


def streamed(gateway: RunningGateway, **options: Any) -> tuple[str, str | None, str]:
    """Return the text, the reason it ended and the raw bytes of a stream."""
    body = {"model": "bundled", "messages": MESSAGES, "response_format": FORMAT, "stream": True, **options}
    raw = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60).text
    assert raw.rstrip().endswith("data: [DONE]")
    chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return "".join(c["delta"].get("content", "") for c in choices), reasons[-1] if reasons else None, raw


def test_a_redacted_answer_still_satisfies_its_schema(redacting: RunningGateway) -> None:
    answer = redacting.client().chat.completions.create(model="bundled", messages=MESSAGES, response_format=FORMAT)
    text = answer.choices[0].message.content or ""
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(text))
    assert json.loads(text) == {"name": "[REDACTED]", "city": "Aarhus"}


def test_a_stream_says_the_same_as_a_whole_answer(redacting: RunningGateway) -> None:
    text, reason, _ = streamed(redacting)
    assert json.loads(text) == {"name": "[REDACTED]", "city": "Aarhus"}
    assert reason == "stop"


@pytest.mark.parametrize("gateway_name", ["redacting", "blocking"])
def test_log_probabilities_do_not_spell_what_a_rail_took_out(gateway_name: str, request: pytest.FixtureRequest) -> None:
    """The tokens of a redacted or blocked span are missing from `logprobs`, in a stream too."""
    _, _, raw = streamed(request.getfixturevalue(gateway_name), logprobs=True, top_logprobs=2)
    chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    spelled = b"".join(
        bytes(entry["bytes"])
        for chunk in chunks
        for choice in chunk["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    )
    assert b"Winther" not in spelled
    assert b"name" in spelled


def test_a_blocked_stream_ends_as_one(blocking: RunningGateway) -> None:
    """The open message is closed with `content_filter` and a refusal; nothing of the phrase has left."""
    text, reason, raw = streamed(blocking)
    assert reason == "content_filter"
    assert "Clara" not in text
    assert '"refusal":"' in raw


def test_a_blocked_whole_answer_shows_no_half_json(blocking: RunningGateway) -> None:
    for asked in ({}, {"logprobs": True, "top_logprobs": 2}):
        answer: Any = blocking.client().chat.completions.create(
            model="bundled", messages=MESSAGES, response_format=FORMAT, **asked
        )
        choice = answer.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("content_filter", None)
        assert choice.message.refusal
        assert choice.logprobs is None, "nor in the tokens"


def test_what_must_match_a_pattern_is_blocked_rather_than_changed(redacting: RunningGateway) -> None:
    """A redacted choice would be no choice any more."""
    answer = redacting.client().chat.completions.create(
        model="bundled", messages=MESSAGES, extra_body={"structured_outputs": {"choice": ["Clara Winther"]}}
    )
    assert (answer.choices[0].finish_reason, answer.choices[0].message.content) == ("content_filter", None)


def test_what_cannot_be_redacted_is_generated_anew_without_it(redacting: RunningGateway) -> None:
    """The model's first choice had to go; under the tighter grammar it cannot be written."""
    found = redacting.client().chat.completions.create(
        model="bundled",
        messages=MESSAGES,
        temperature=0,
        extra_body={"structured_outputs": {"choice": ["Clara Winther", "Aarhus"]}, "sluicegate": {"cache": False}},
    )
    assert (found.choices[0].finish_reason, found.choices[0].message.content) == ("stop", "Aarhus")


def test_where_the_tighter_grammar_has_a_dead_end_the_answer_stays_refused(redacting: RunningGateway) -> None:
    answer = redacting.client().chat.completions.create(
        model="bundled", messages=MESSAGES, extra_body={"structured_outputs": {"regex": "Clara (Winther|Winther)"}}
    )
    assert (answer.choices[0].finish_reason, answer.choices[0].message.content) == ("content_filter", None)


def test_a_stream_cannot_be_generated_anew_and_is_refused(redacting: RunningGateway) -> None:
    body = {"model": "bundled", "messages": MESSAGES, "stream": True, "temperature": 0}
    asked = {"structured_outputs": {"choice": ["Clara Winther", "Aarhus"]}, "sluicegate": {"cache": False}}
    raw = httpx.post(f"{redacting.url}/v1/chat/completions", json=body | asked, timeout=60).text
    assert "Clara Winther" not in raw
    assert raw.rstrip().endswith("data: [DONE]")


def test_a_blocked_request_generates_nothing() -> None:
    """An input rail's block is a typed 400, and no token was drawn for it."""
    with running(settings("block", "screen")) as gateway:
        before = gateway.metric("sluicegate_tokens_generated_total")
        with pytest.raises(openai.BadRequestError) as caught:
            gateway.client().chat.completions.create(model="bundled", messages=MESSAGES)
        assert caught.value.code == "content_filter"
        assert gateway.metric("sluicegate_tokens_generated_total") == before
        assert "Clara" not in str(caught.value)


def test_verdicts_are_counted_by_rail(redacting: RunningGateway) -> None:
    streamed(redacting, sluicegate={"cache": False})
    lines = httpx.get(f"{redacting.url}/metrics").text.splitlines()
    assert any('rail="blocklist",verdict="redact"' in line for line in lines)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", [{"regex": r'\{"a":"[^"]*"\}'}, {"grammar": 'root ::= "{" [^}]* "}"'}])
def test_an_escape_in_an_answer_that_a_pattern_determines_hides_nothing(kind: dict[str, str], stream: bool) -> None:
    """A client decodes it if it is JSON; nothing says so."""
    script = '{"a":"of \\u0070roject nightj\\u0061r"}'
    stages = {"moderate": {"blocklist": {"phrases": ["project nightjar"], "action": "block"}}}
    pieces = [script[at : at + 3] for at in range(0, len(script), 3)]
    with TestApp(pipeline={"moderate": ["blocklist"]}, stages=stages, script=pieces) as app:
        found = app.ask(stream=stream, structured_outputs=kind)
        assert (found.finish_reason, found.text in ("", '{"a":"of ')) == ("content_filter", True)
