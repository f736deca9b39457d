"""Custom tools: a text instead of arguments, under a grammar of its own, in chat completions and in responses."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.answer.custom_text import TextDecoder, arguments_of, text_of
from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ASK = "Query the table."
LARK = r"""
start: "SELECT " NAME " FROM \"" NAME "\"" ("\n" "LIMIT " NUMBER)?
NAME: /[a-z]{1,8}/
NUMBER: /[1-9][0-9]{0,2}/
"""
SQL = re.compile(r'SELECT [a-z]{1,8} FROM "[a-z]{1,8}"(\nLIMIT [1-9][0-9]{0,2})?')
PLAIN = re.compile(r"(north|south)-[0-9]{3}")
GRAMMARS = [("lark", LARK, SQL), ("regex", PLAIN.pattern, PLAIN)]
CALLED = (
    'Here. <tool_call>\n{"name": "note", "arguments": {"input": "say \\"h\\u00e9\\"\\n\\ud83d\\ude00"}}\n</tool_call>'
)
TEXT = 'say "hé"\n😀'


def chat_tool(name: str, syntax: str = "", definition: str = "") -> dict[str, Any]:
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"type": "custom", "custom": {"name": name, **({"format": form} if syntax else {})}}


def response_tool(name: str, syntax: str = "", definition: str = "") -> dict[str, Any]:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": name, **({"format": form} if syntax else {})}


def events(raw: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]


def app(script: str = CALLED, size: int = 3, **options: Any) -> TestApp:
    return TestApp(script=[script[i : i + size] for i in range(0, len(script), size)], **options)


# --- with the bundled model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("syntax", "definition", "means"), GRAMMARS)
def test_the_text_of_a_custom_tool_follows_its_grammar(
    gateway: RunningGateway, syntax: str, definition: str, means: re.Pattern[str]
) -> None:
    asked: Any = {
        "model": "bundled", "messages": [{"role": "user", "content": ASK}],
        "tools": [chat_tool("ask", syntax, definition)],
        "tool_choice": {"type": "custom", "custom": {"name": "ask"}}, "temperature": 1.2, "seed": 4,
    }  # fmt: skip
    [call] = gateway.client().chat.completions.create(**asked).choices[0].message.tool_calls or []
    assert call.type == "custom"
    assert means.fullmatch(call.custom.input)
    raw = httpx.post(gateway.url + CHAT, json={**asked, "stream": True}, timeout=60).text
    parts = [part for event in events(raw) for c in event["choices"] for part in c["delta"].get("tool_calls", ())]
    assert parts[0]["custom"]["name"] == "ask"
    assert means.fullmatch("".join(part["custom"]["input"] for part in parts))


@pytest.mark.parametrize(("syntax", "definition", "means"), GRAMMARS)
def test_responses_serve_custom_tools(
    gateway: RunningGateway, syntax: str, definition: str, means: re.Pattern[str]
) -> None:
    """The client's own types read both answers."""
    asked: Any = {
        "model": "bundled", "input": ASK, "tools": [response_tool("ask", syntax, definition)],
        "tool_choice": {"type": "custom", "name": "ask"}, "store": False,
    }  # fmt: skip
    [item] = gateway.client().responses.create(**asked).output
    assert item.type == "custom_tool_call"
    assert means.fullmatch(item.input)
    seen = list(gateway.client().responses.create(**asked, stream=True))
    text = "".join(event.delta for event in seen if event.type == "response.custom_tool_call_input.delta")
    [done] = [event for event in seen if event.type == "response.custom_tool_call_input.done"]
    assert means.fullmatch(text)
    assert done.input == text


def test_calls_of_both_kinds_obey(gateway: RunningGateway) -> None:
    """Whatever is called, and however often."""
    weather = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
    tools: Any = [
        chat_tool("ask", "lark", LARK),
        {"type": "function", "function": {"name": "weather", "parameters": weather}},
    ]
    asked: Any = {"model": "bundled", "messages": [{"role": "user", "content": ASK}], "tools": tools, "max_tokens": 120}
    for seed in range(2):
        done = gateway.client().chat.completions.create(**asked, tool_choice="required", temperature=1.5, seed=seed)
        choice = done.choices[0]
        for call in choice.message.tool_calls or [] if choice.finish_reason == "tool_calls" else []:
            if call.type == "custom":
                assert SQL.fullmatch(call.custom.input)
            else:
                assert json.loads(call.function.arguments)["city"] == "Oslo"


@pytest.mark.parametrize(("syntax", "definition"), [("lark", "start: nobody"), ("regex", "(a")])
def test_a_grammar_that_cannot_be_read_is_a_400(gateway: RunningGateway, syntax: str, definition: str) -> None:
    tool = chat_tool("ask", syntax, definition)
    body = {"model": "bundled", "messages": [{"role": "user", "content": ASK}], "tools": [tool]}
    answer = httpx.post(gateway.url + CHAT, json=body, timeout=60)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "tools[0].custom.format.grammar.definition"
    assert "the text of tool 'ask'" in error["message"]


# --- with a scripted model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_text_streams_decoded_whatever_the_tokens(size: int) -> None:
    with app(size=size) as gateway:
        chat = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "tools": [chat_tool("note")]}
        asked = {"model": "scripted", "input": "x", "tools": [response_tool("note")]}
        parts = [
            part
            for event in events(gateway.client.post(CHAT, json={**chat, "stream": True}).text)
            for choice in event["choices"]
            for part in choice["delta"].get("tool_calls", ())
        ]
        [call] = gateway.client.post(CHAT, json=chat).json()["choices"][0]["message"]["tool_calls"]
        seen = events(gateway.client.post(RESPONSES, json={**asked, "stream": True}).text)
        whole = gateway.client.post(RESPONSES, json=asked).json()["output"][-1]
    assert "".join(part["custom"]["input"] for part in parts) == TEXT
    assert (call["type"], call["custom"]) == ("custom", {"name": "note", "input": TEXT})
    assert "".join(e["delta"] for e in seen if e["type"] == "response.custom_tool_call_input.delta") == TEXT
    assert (whole["type"], whole["name"], whole["input"]) == ("custom_tool_call", "note", TEXT)
    assert seen[-1]["response"]["output"][-1]["input"] == TEXT


def test_earlier_calls_and_their_results_are_read_back() -> None:
    chat = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "note", "input": TEXT}}]},
        {"role": "tool", "tool_call_id": "c", "content": "kept"},
    ]
    items = [
        {"role": "user", "content": "x"},
        {"type": "custom_tool_call", "call_id": "c", "name": "note", "input": TEXT},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "kept"},
    ]
    with app("Fine.") as gateway:
        for path, body in ((CHAT, {"messages": chat, "tools": [chat_tool("note")]}),
                           (RESPONSES, {"input": items, "tools": [response_tool("note")]})):  # fmt: skip
            assert gateway.client.post(path, json={"model": "scripted", **body}).status_code == 200
        first, second = (job.request.messages for job in gateway.model.jobs)
    assert first == second
    assert text_of(first[1].tool_calls[0].arguments) == TEXT


@pytest.mark.parametrize("action", ["redact", "block"])
def test_rails_read_the_text_and_replace_nothing_under_a_grammar(action: str) -> None:
    """Nobody knows what else the grammar takes in place of a part: the call ends, and no character of it leaves."""
    rail = {"phrases": ["hé"], "action": action}
    for tool, ends in ((chat_tool("note"), {"redact": "tool_calls"}), (chat_tool("note", "regex", "(?s).*"), {})):
        body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
        with app(pipeline={"moderate": ["blocklist"]}, stages={"moderate": {"blocklist": rail}}) as gateway:
            answer = gateway.client.post(CHAT, json=body)
        choice = answer.json()["choices"][0]
        assert choice["finish_reason"] == ends.get(action, "content_filter")
        assert "hé" not in answer.text
        assert "h\\u00e9" not in answer.text


def test_what_a_grammar_spells_is_screened_like_every_text() -> None:
    rail = {"phrases": ["nightingale"], "action": "block", "roles": ["user"]}
    tool = chat_tool("note", "lark", 'start: "project nightingale"')
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    with app(pipeline={"screen": ["blocklist"]}, stages={"screen": {"blocklist": rail}}) as gateway:
        assert gateway.client.post(CHAT, json=body).json()["error"]["code"] == "content_filter"


@pytest.mark.parametrize(
    ("path", "tool", "param"),
    [
        (CHAT, {"type": "custom"}, "tools[0]"),
        (CHAT, {"type": "custom", "custom": {"name": "n"}, "function": {"name": "n"}}, "tools[0]"),
        (CHAT, {"type": "custom", "custom": {"name": "n", "format": {"type": "grammar"}}}, "tools[0].custom.format"),
        (CHAT, chat_tool("n", "ebnf", "x"), "tools[0].custom.format.grammar.syntax"),
        (RESPONSES, {"type": "custom", "name": "n", "parameters": {}}, "tools[0]"),
        (
            RESPONSES,
            {"type": "custom", "name": "n", "format": {"type": "grammar", "syntax": "lark"}},
            "tools[0].format",
        ),
        (RESPONSES, {"type": "function", "name": "n", "format": {"type": "text"}}, "tools[0]"),
    ],
)
def test_half_a_custom_tool_is_refused_by_name(path: str, tool: Any, param: str) -> None:
    said: dict[str, Any] = {"input": "x"} if path == RESPONSES else {"messages": [{"role": "user", "content": "x"}]}
    with app() as gateway:
        answer = gateway.client.post(path, json={"model": "scripted", **said, "tools": [tool]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


# --- the decoder -----------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 9), st.sampled_from(["raw", "ascii", "wide"]))
def test_the_decoder_says_what_json_says_however_it_is_cut(text: str, size: int, way: str) -> None:
    written = arguments_of(text) if way == "raw" else json.dumps({"input": text}, indent=1 if way == "wide" else None)
    decoder = TextDecoder()
    assert "".join(decoder.feed(written[i : i + size]) for i in range(0, len(written), size)) == text


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_a_text_that_was_cut_short_is_a_beginning(text: str, data: st.DataObject) -> None:
    written = json.dumps({"input": text})
    assert text.startswith(text_of(written[: data.draw(st.integers(0, len(written)))]))
