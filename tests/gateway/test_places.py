"""An error names the place in the caller's own body, whatever dialect that is written in."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from openai import BadRequestError, OpenAI

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.testing.doubles import MODEL
from tests.gateway.conftest import RunningGateway

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
COMPLETIONS, EMBEDDINGS, RERANK, SCORE = "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/score"
BAD = "on project nightjar"
SETTINGS: Any = {
    "pipeline": {"screen": ["blocklist"]},
    "stages": {"screen": {"blocklist": {"phrases": ["project nightjar"], "action": "block"}}},
}
HI: Any = {"role": "user", "content": "Hi"}
PART: Any = {"type": "text", "text": BAD}
MAX: Any = {"max_tokens": 9}


def called(name: str = "f", arguments: str = "{}") -> Any:
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": name, "arguments": arguments}}]}


def function(**fields: Any) -> Any:
    return {"type": "function", "function": {"name": "f", **fields}}


def blocks(*found: Any) -> Any:
    return {"messages": [HI, {"role": "user", "content": list(found)}], **MAX}


def output(text: Any) -> Any:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    return [{"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": "c", "output": text}]


DESCRIBED: Any = {"type": "object", "properties": {"a": {"description": BAD}}}
NAMED: Any = {"type": "object", "properties": {"a": {"enum": [BAD]}}}
SCREENED: list[tuple[str, Any, str]] = [
    (CHAT, {"messages": [HI, {"role": "user", "content": BAD}]}, "messages[1].content"),
    (
        CHAT,
        {"messages": [called(arguments=json.dumps({"a": BAD})), HI]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    (CHAT, {"messages": [called(BAD), HI]}, "messages[0].tool_calls[0].function.name"),
    (CHAT, {"messages": [HI], "tools": [function(description=BAD)]}, "tools[0].function.description"),
    (
        CHAT,
        {"messages": [HI], "tools": [function(parameters=NAMED)]},
        "tools[0].function.parameters.properties[0].enum[0]",
    ),
    (
        CHAT,
        {"messages": [HI], "tools": [{"type": "custom", "custom": {"name": "t", "description": BAD}}]},
        "tools[0].custom.description",
    ),
    (CHAT, {"messages": [HI], "structured_outputs": {"choice": ["a", BAD]}}, "structured_outputs.choice[1]"),
    (CHAT, {"messages": [HI], "guided_regex": BAD}, "guided_regex"),
    (CHAT, {"messages": [HI], "stop": ["a", BAD]}, "stop[1]"),
    (CHAT, {"messages": [HI], "sluicegate": {"context": [{"text": "x"}, {"text": BAD}]}}, "sluicegate.context[1].text"),
    (
        CHAT,
        {"messages": [HI, {"role": "user", "content": BAD}], "sluicegate": {"context": [{"text": "x"}]}},
        "messages[1].content",
    ),
    (COMPLETIONS, {"prompt": BAD}, "prompt"),
    (COMPLETIONS, {"prompt": ["a", BAD]}, "prompt[1]"),
    (COMPLETIONS, {"prompt": "a", "stop": BAD}, "stop[0]"),
    (RESPONSES, {"input": BAD}, "input"),
    (RESPONSES, {"input": "Hi", "instructions": BAD}, "instructions"),
    (
        RESPONSES,
        {"input": [HI, HI, {"role": "user", "content": [{"type": "input_text", "text": BAD}]}]},
        "input[2].content[0].text",
    ),
    (RESPONSES, {"input": output(BAD), "instructions": "x"}, "input[2].output"),
    (
        RESPONSES,
        {
            "input": [
                HI,
                {"type": "message", "role": "assistant", "content": "x"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": json.dumps({"a": BAD})},
            ]
        },
        "input[2].arguments",
    ),
    (
        RESPONSES,
        {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": DESCRIBED}]},
        "tools[0].parameters.properties[0].description",
    ),
    (
        RESPONSES,
        {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": NAMED}}},
        "text.format.schema.properties[0].enum[0]",
    ),
    (MESSAGES, {"messages": [HI], "system": BAD, **MAX}, "system"),
    (MESSAGES, {"messages": [HI], "system": [PART], **MAX}, "system[0].text"),
    (MESSAGES, {"messages": [HI, {"role": "user", "content": BAD}], "system": "x", **MAX}, "messages[1].content"),
    (MESSAGES, blocks({"type": "thinking", "thinking": ""}, PART), "messages[1].content[1].text"),
    (MESSAGES, blocks({"type": "text", "text": "a "}, PART), "messages[1].content"),
    (
        MESSAGES,
        blocks({"type": "document", "source": {"type": "text", "data": BAD}}, {"type": "text", "text": "x"}),
        "messages[1].content[0].source.data",
    ),
    (
        MESSAGES,
        blocks({"type": "tool_result", "tool_use_id": "c", "content": [PART]}, {"type": "text", "text": "x"}),
        "messages[1].content[0].content[0].text",
    ),
    (
        MESSAGES,
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": BAD}}]},
                HI,
            ],
            **MAX,
        },
        "messages[0].content[0].input",
    ),
    (MESSAGES, {"messages": [HI], "stop_sequences": [BAD], **MAX}, "stop_sequences[0]"),
    (
        MESSAGES,
        {"messages": [HI], "tools": [{"name": "f", "input_schema": DESCRIBED}], **MAX},
        "tools[0].input_schema.properties[0].description",
    ),
    (
        MESSAGES,
        {"messages": [HI], "output_config": {"format": {"type": "json_schema", "schema": NAMED}}, **MAX},
        "output_config.format.schema.properties[0].enum[0]",
    ),
    (EMBEDDINGS, {"input": BAD}, "input"),
    (EMBEDDINGS, {"input": ["a", BAD]}, "input[1]"),
    (RERANK, {"query": BAD, "documents": ["a", "b"]}, "query"),
    (RERANK, {"query": "a", "documents": ["a", {"text": BAD}]}, "documents[1].text"),
    (SCORE, {"text_1": BAD, "text_2": ["a"]}, "text_1"),
    (SCORE, {"text_1": "a", "text_2": ["a", BAD]}, "text_2[1]"),
]


@pytest.fixture(scope="module")
def screened() -> Any:
    with TestApp(**SETTINGS) as app:
        yield app


@pytest.mark.parametrize(("path", "body", "place"), SCREENED, ids=lambda value: value if type(value) is str else "")
def test_a_refusal_of_a_rail_names_the_place(screened: TestApp, path: str, body: Any, place: str) -> None:
    error = screened.client.post(path, json={"model": MODEL, **body}).json()["error"]
    said = error["message"]
    assert f"at {place} is" in said or f"`{place}`" in said, said
    if path != MESSAGES:  # whose errors have no field for it
        assert error["param"] == place


def test_a_socket_names_the_place(screened: TestApp) -> None:
    from websockets.sync.client import connect

    with connect(screened.url.replace("http", "ws") + f"{CHAT}/ws", proxy=None) as socket:
        body = {"model": MODEL, "messages": [HI], "tools": [function(description=BAD)]}
        socket.send(httpx.Request("POST", "http://x", json=body).content.decode())
        assert "tools[0].function.description" in str(socket.recv())


TYPO: Any = {"type": "object", "properties": {"a": {"type": "strng"}}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": TYPO}}
ODD: Any = {"grammar": {"whitespaces": " "}}
UNREAD: list[tuple[str, Any]] = [
    ("whitespace", "("),
    ("whitespace", "[ ]{0,1000000}"),
    ("blocklist_patterns", ["a", "("]),
]
"""Options with a pattern that cannot be read."""
FLAT: Any = {"type": "function", "name": "f", "parameters": TYPO}
SCHEMAS: list[tuple[str, Any, str]] = [
    (CHAT, {"messages": [HI], "response_format": FORMAT}, "response_format.json_schema.schema"),
    (CHAT, {"messages": [HI], "response_format": {"type": "json_object", "schema": TYPO}}, "response_format.schema"),
    (CHAT, {"messages": [HI], "guided_json": TYPO}, "guided_json"),
    (CHAT, {"messages": [HI], "guided_json": {}, "sluicegate": ODD}, "sluicegate.grammar.whitespaces"),
    *(
        (
            CHAT,
            {"messages": [HI], "guided_json": {}, "sluicegate": {"grammar": {name: value}}},
            f"sluicegate.grammar.{name}",
        )
        for name, value in UNREAD
    ),
    (CHAT, {"messages": [HI], "structured_outputs": {"json": TYPO}}, "structured_outputs.json"),
    (CHAT, {"messages": [HI], "structured_outputs": {"regex": "(a"}}, "structured_outputs.regex"),
    (CHAT, {"messages": [HI], "ebnf": "root ::= nobody"}, "ebnf"),
    (
        CHAT,
        {"messages": [HI], "tools": [function(), function(name="g", parameters=TYPO)]},
        "tools[1].function.parameters",
    ),
    (CHAT, {"messages": [HI], "tools": [function(parameters={"type": "array"})]}, "tools[0].function.parameters"),
    (COMPLETIONS, {"prompt": "a", "json_schema": TYPO}, "json_schema"),
    (
        RESPONSES,
        {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": TYPO}}},
        "text.format.schema",
    ),
    (RESPONSES, {"input": "Hi", "tools": [FLAT]}, "tools[0].parameters"),
    (
        RESPONSES,
        {"input": "Hi", "tools": [{"type": "custom", "name": "t", "format": {"type": "grammar", "syntax": "regex",
         "definition": "(a"}}]},
        "tools[0].format.definition",
    ),
    (MESSAGES, {"messages": [HI], "tools": [{"name": "f", "input_schema": TYPO}], **MAX}, "tools[0].input_schema"),
    (
        MESSAGES,
        {"messages": [HI], "output_config": {"format": {"type": "json_schema", "schema": TYPO}}, **MAX},
        "output_config.format.schema",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "place"), SCHEMAS, ids=lambda value: value if type(value) is str else "")
def test_a_schema_that_cannot_be_enforced_is_named(gateway: RunningGateway, path: str, body: Any, place: str) -> None:
    answer = httpx.post(gateway.url + path, json={"model": "bundled", **body}, timeout=60)
    error = answer.json()["error"]
    assert answer.status_code == 400
    if path == MESSAGES:
        assert f"`{place}`" in error["message"]
    else:
        assert error["param"] == place, error


LONG = "word " * 40_000
LONG_ONES: list[tuple[str, Any, str]] = [
    (CHAT, {"messages": [{"role": "user", "content": LONG}]}, "messages"),
    (COMPLETIONS, {"prompt": LONG}, "prompt"),
    (RESPONSES, {"input": LONG}, "input"),
    (MESSAGES, {"messages": [{"role": "user", "content": LONG}], **MAX}, "messages"),
]


@pytest.mark.parametrize(("path", "body", "place"), LONG_ONES, ids=lambda value: value if type(value) is str else "")
def test_a_prompt_that_is_too_long_is_named(gateway: RunningGateway, path: str, body: Any, place: str) -> None:
    answer = httpx.post(gateway.url + path, json={"model": "bundled", **body}, timeout=60)
    error = answer.json()["error"]
    assert f"shorten `{place}`" in error["message"]
    assert path == MESSAGES or (error["code"], error["param"]) == ("context_length_exceeded", place)


def test_the_official_client_reads_the_place(screened: TestApp) -> None:
    openai = OpenAI(base_url=f"{screened.url}/v1", api_key="none", max_retries=0)
    with pytest.raises(BadRequestError) as refused:
        openai.responses.create(
            model=MODEL, input=[{"role": "user", "content": "Hi"}, {"role": "user", "content": BAD}]
        )
    assert refused.value.param == "input[1].content"
