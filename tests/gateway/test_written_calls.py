"""Calls that a model writes as JSON in place of its marks: read as calls where they are nothing else, in every cutting;
any other text leaves unchanged."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.text.chat_rendering import render
from sluicegate.engine.text.tool_prompt import knows_tools
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.shape import Shape, shape_of
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.answer.written_calls import CallJudge
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Constraint, Message, Piece, Prompt, Request, Tool, ToolChoice
from tests.gateway.test_tools import PERSON, WEATHER, body, calls_of

OSLO = '{\n    "city": "Oslo"\n  }'
CALL = '{\n  "name": "get_weather",\n  "arguments": %s\n}'
ONE_LINE = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
FENCE = "```json\n%s\n```"
MARKED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
NASTY = '{"city": "}] \\" ```\\n<tool"}'
TOOLS = (
    Tool("get_weather", parameters=WEATHER["function"]["parameters"]),
    Tool("get", parameters={"type": "object"}),
    Tool("patch", custom=True, parameters={"type": "object"}, form=Constraint("regex", "a+")),
)
Found = tuple[str, list[tuple[str, str]], str]


def read(text: str, cuts: list[int] | None = None, *, parallel: bool = True, ends: str = "stop") -> Found:
    """Return the content, the calls, and how the choice ended."""
    request = Request("r", "m", (Message("user", "?"),), tools=TOOLS, tool_choice=ToolChoice(parallel=parallel))
    validator = Validator()
    judge = CallJudge(("get_weather", "get"), lambda call: validator.allows_call(request, call))
    splitter = Regions(shape_of(request, Prompt("", ()), knows_marks=True), judge=judge)
    edges = [0, *sorted(set(cuts or [])), len(text)]
    pieces = [Piece(0, text[a:b]) for a, b in pairwise(edges)]
    content, calls, ended = "", {}, ""
    for piece in [*pieces[:-1], Piece(0, pieces[-1].text, finish_reason=ends)]:  # type: ignore[arg-type]
        for part in splitter.feed(piece):
            ended = part.finish_reason or ended
            if part.tool:
                calls[part.call] = (part.tool, "")
            if part.channel == "tool_arguments":
                calls[part.call] = (calls[part.call][0], calls[part.call][1] + part.text)
            else:
                content += part.text
    return content, list(calls.values()), ended


READ = [
    (FENCE % (CALL % OSLO), "", [OSLO]),
    ("```\n" + ONE_LINE + "\n```\n", "", ['{"city": "Oslo"}']),
    (ONE_LINE, "", ['{"city": "Oslo"}']),
    ("Let me look.\n\n" + FENCE % (CALL % OSLO) + "\n", "Let me look.", [OSLO]),
    ("I will:\n" + ONE_LINE + "  \nDone.", "I will:Done.", ['{"city": "Oslo"}']),
    (FENCE % (ONE_LINE + "\n" + CALL % OSLO), "", ['{"city": "Oslo"}', OSLO]),
    (FENCE % f"[{ONE_LINE}, {CALL % OSLO}]", "", ['{"city": "Oslo"}', OSLO]),
    (f"[\n{ONE_LINE}\n]", "", ['{"city": "Oslo"}']),
    (FENCE % ONE_LINE + "\n\n" + FENCE % ONE_LINE, "", ['{"city": "Oslo"}'] * 2),
    (ONE_LINE + "\n" + ONE_LINE, "", ['{"city": "Oslo"}'] * 2),
    (ONE_LINE + "\n" + MARKED, "", ['{"city": "Oslo"}', '{"city": "Rome"}']),
    (MARKED + "\n" + ONE_LINE, "", ['{"city": "Rome"}', '{"city": "Oslo"}']),
    (FENCE % (CALL % NASTY), "", [NASTY]),
    ("```json\n{}\n```\n" + FENCE % ONE_LINE, "```json\n{}\n```", ['{"city": "Oslo"}']),
]


@pytest.mark.parametrize(("text", "content", "arguments"), READ)
def test_a_call_written_as_json_is_a_call(text: str, content: str, arguments: list[str]) -> None:
    found = read(text)
    assert found == (content, [("get_weather", each) for each in arguments], "tool_calls")
    assert read(text, list(range(1, len(text)))) == found


TEXTS = [
    "no call",
    "",
    "{",
    "```",
    "``` json",
    "```python\nprint({})\n```",
    FENCE % '{"name": "Ada", "age": 30}',
    FENCE % '{"name": "delete_all", "arguments": {}}',
    FENCE % '{"name": "patch", "arguments": {"input": "b"}}',
    FENCE % '{"name": "get_weather", "arguments": {"city": 3}}',
    FENCE % '{"name": "get_weather", "arguments": {"city": "a", "city": "b"}}',
    FENCE % '{"name": "get_weather", "arguments": {"city": "a"}, "id": 1}',
    FENCE % '{"name": "get_weather", "arguments": "Oslo"}',
    FENCE % '{"name": "get_weather", "arguments": {"city": "Oslo"]}',
    FENCE % '{"arguments": {"city": "Oslo"}, "name": "get_weather"}',
    FENCE % (ONE_LINE + "\n" + '{"name": "get_weather", "arguments": {}}'),
    FENCE % (ONE_LINE + ",\n" + ONE_LINE),
    FENCE % "[]",
    "```json\n" + ONE_LINE,
    "```json\n" + ONE_LINE + "\n``` is how one asks.",
    "Write " + ONE_LINE,
    ONE_LINE + " is how one asks.",
    ONE_LINE[:-1],
    ONE_LINE[:-20],
    "[" + ONE_LINE,
    "a\n\n  {b\n[1, 2]\n`c`",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_other_text_leaves_unchanged(text: str) -> None:
    assert read(text) == (text, [], "stop")
    assert read(text, list(range(1, len(text)))) == (text, [], "stop")


@given(st.lists(st.sampled_from([*TEXTS, *[text for text, *_ in READ], MARKED]), max_size=3), st.data())
def test_the_cut_of_the_pieces_changes_nothing(texts: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(["", "\n", " ", "\n\n"])).join(texts)
    cuts = data.draw(st.lists(st.integers(1, max(1, len(text) - 1)), max_size=30))
    assert read(text, [cut for cut in cuts if cut < len(text)]) == read(text)


@pytest.mark.parametrize("text", [ONE_LINE, FENCE % (CALL % OSLO), FENCE % f"[{ONE_LINE}]"])
def test_an_output_cut_short_shows_its_text_or_its_call(text: str) -> None:
    for cut in range(len(text)):
        content, calls, ended = read(text[:cut], ends="length")
        assert ended == "length"
        assert content == text[:cut] if not calls else text[cut:] in ("\n```", "```")


def test_one_call_where_one_is_allowed_ends_what_is_said() -> None:
    for text in (FENCE % (ONE_LINE + "\n" + ONE_LINE), ONE_LINE + "\nand\n" + ONE_LINE, ONE_LINE + "\n" + MARKED):
        found = read(text, parallel=False)
        assert found == ("", [("get_weather", '{"city": "Oslo"}')], "tool_calls")
        assert read(text, list(range(1, len(text))), parallel=False) == found


def test_nothing_of_a_call_leaves_before_it_is_whole() -> None:
    text = "Hm.\n" + FENCE % (CALL % OSLO)
    validator, request = Validator(), Request("r", "m", (Message("user", "?"),), tools=TOOLS)
    judge = CallJudge(("get_weather",), lambda call: validator.allows_call(request, call))
    splitter = Regions(Shape(None, calls=True), judge=judge)
    shown = [part for letter in text for part in splitter.feed(Piece(0, letter))]
    assert "".join(part.text for part in shown) == "Hm."


@pytest.mark.parametrize(
    ("fields", "reads"),
    [
        ({}, True),
        ({"tool_choice": ToolChoice("required")}, False),
        ({"tool_choice": ToolChoice("none")}, False),
        ({"constraint": Constraint("json_object")}, False),
    ],
)
def test_calls_without_marks_are_read_only_where_the_answer_is_free(fields: Any, reads: bool) -> None:
    request = Request("r", "m", (Message("user", "?"),), tools=TOOLS, **fields)
    assert shape_of(request, Prompt("", ()), knows_marks=True).reads_plain_calls is reads
    assert not shape_of(request, Prompt("", ())).reads_plain_calls


# --- through the whole gateway ---------------------------------------------------------------------------------------

TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
    "{% for message in messages %}{{ message.content }}{% endfor %}<tool_call>"
)


def served(script: str, template: str | None = TEMPLATE, **options: Any) -> TestApp:
    app = TestApp(script=[script[i : i + 3] for i in range(0, len(script), 3)], **options)
    for model in app.model.models.values():
        model.tokenizer.chat_template = template
        model.tokenizer.apply_chat_template = lambda turns, **more: render(TEMPLATE, turns, tools=more.get("tools"))
    return app


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_sees_the_call(stream: bool) -> None:
    assert knows_tools(TEMPLATE)
    script = FENCE % f'[{ONE_LINE}, {{"name": "save_person", "arguments": {{"name": "Ada", "city": "Lyon"}}}}]'
    with served(script) as app:
        answer = app.client.post("/v1/chat/completions", json=body(stream=stream))
    wanted = [["get_weather", '{"city": "Oslo"}'], ["save_person", '{"name": "Ada", "city": "Lyon"}']]
    if stream:
        content, calls, reasons = calls_of(answer.text)
        assert (content, list(calls.values()), reasons) == ("", wanted, ["tool_calls"])
        return
    [choice] = answer.json()["choices"]
    found = [[call["function"]["name"], call["function"]["arguments"]] for call in choice["message"]["tool_calls"]]
    assert (choice["message"]["content"], found, choice["finish_reason"]) == (None, wanted, "tool_calls")


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_with_another_template_writes_text(stream: bool) -> None:
    with served(FENCE % ONE_LINE, None) as app:
        answer = app.client.post("/v1/chat/completions", json=body(stream=stream)).text
    assert '"finish_reason":"stop"' in answer
    assert "tool_calls" not in json.dumps(answer).replace('"tool_calls":null', "")


def test_rails_see_the_arguments_of_such_a_call() -> None:
    stages = {"moderate": {"blocklist": {"phrases": ["Oslo"]}}}
    script = FENCE % ONE_LINE.replace("Oslo", "\\u004fslo")
    with served(script, stages=stages, pipeline={"moderate": ["blocklist"]}) as app:
        answer = app.client.post("/v1/chat/completions", json=body(tools=[WEATHER, PERSON])).json()
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] not in (OSLO, '{"city": "Oslo"}')
    assert "slo" not in json.dumps(answer["choices"])
