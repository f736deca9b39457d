"""Nothing asked is dropped: each field is served, refused by name, or reported, through HTTP, in every dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.api.body.depth import MAX_DEPTH
from tests.gateway.conftest import RunningGateway
from tests.gateway.upstream.servers import ScriptedServer, running, says
from tests.gateway.upstream.servers import gateway as in_front_of

CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
PEOPLE = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
TURN: Any = [{"role": "user", "content": PEOPLE}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": TURN, "max_tokens": 40},
    RESPONSES: {"input": PEOPLE, "max_output_tokens": 40},
    MESSAGES: {"messages": TURN, "max_tokens": 40},
    COMPLETIONS: {"prompt": PEOPLE, "max_tokens": 40},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL: Any = {"type": "function", "function": {"name": "save", "parameters": SCHEMA}}


def ask(gateway: RunningGateway, path: str = CHAT, **fields: Any) -> httpx.Response:
    body = {"model": "bundled", "temperature": 0, **BODIES[path], "sluicegate": {"cache": False}, **fields}
    return httpx.post(gateway.url + path, json=body, timeout=120)


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    return str(choice["text"] if "text" in choice else choice["message"]["content"])


def refused(answer: httpx.Response, param: str) -> str:
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert param in (error.get("param") or error["message"].split("`")[1], error["message"].split("`")[1]), error
    return str(error["message"])


@pytest.mark.parametrize("dialect", ["openai", "vllm", "sglang", "tgi", "llama.cpp"])
@pytest.mark.parametrize(
    "fields", [{"guided_choice": []}, {"structured_outputs": {"choice": []}}], ids=["older", "newer"]
)
def test_a_choice_of_nothing_is_refused_whoever_reads_it(dialect: str, fields: Any) -> None:
    """A server's dialect, or a stranger's stage, makes a pattern of the choices; of none it made an error of ours."""
    with running(ScriptedServer(says("x"))) as url, in_front_of(url, dialect=dialect) as gateway:
        answer = httpx.post(gateway.url + CHAT, json={"model": "far", "messages": TURN, **fields})
    assert answer.status_code == 400, answer.text
    assert "there is no choice to make" in answer.json()["error"]["message"]


# --- constraints under the names of other servers --------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"regex": "[ab]{3}"}, "[ab]{3}"),
        ({"ebnf": 'root ::= "yes" | "no"'}, "yes|no"),
        ({"json_schema": SCHEMA}, r"\{\s*\"a\":\s*-?\d+.*\}"),
        ({"json_schema": json.dumps(SCHEMA)}, r"\{\s*\"a\":\s*-?\d+.*\}"),
        ({"guided_json_object": True}, r"\{.*\}"),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, r"\{\"a\":-?\d+.*\}"),
        ({"guided_json": SCHEMA, "guided_decoding_disable_any_whitespace": True}, r"\{\"a\":-?\d+.*\}"),
    ],
)
def test_a_constraint_under_another_servers_name_is_enforced(
    gateway: RunningGateway, path: str, fields: dict[str, Any], pattern: str
) -> None:
    """As SGLang, vLLM and `outlines.from_sglang` (`extra_body={"regex": ...}`) send it."""
    closed = {"sluicegate": {"cache": False, "on_length": "close"}}
    assert re.fullmatch(pattern, text_of(ask(gateway, path, **fields, **closed)), re.DOTALL)


@pytest.mark.parametrize("place", [{"structured_outputs": {"disable_any_whitespace": True}},
                                   {"guided_decoding_disable_any_whitespace": True}])  # fmt: skip
def test_options_alone_act_on_the_response_format(gateway: RunningGateway, place: dict[str, Any]) -> None:
    shape = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
    closed = {"sluicegate": {"cache": False, "on_length": "close"}}
    assert re.fullmatch(r"\{\"a\":-?\d+.*\}", text_of(ask(gateway, **shape, **place, **closed)))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
        ({"regex": "a", "ebnf": 'root ::= "a"'}, "ebnf"),
        ({"json_schema": SCHEMA, "structured_outputs": {"regex": "a"}}, "json_schema"),
        ({"structured_outputs": {"regex": "a", "json": SCHEMA}}, "structured_outputs"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"structured_outputs": {"disable_any_whitespace": True}}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"regex": "a", "guided_decoding_disable_any_whitespace": True}, "structured_outputs"),
        ({"guided_json": {}, "guided_whitespace_pattern": " ", "guided_decoding_disable_any_whitespace": True},
         "guided_decoding_disable_any_whitespace"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"min_tokens": 50, "max_tokens": 40}, "min_tokens"),
        ({"include_stop_str_in_output": False, "no_stop_trim": True}, "no_stop_trim"),
        ({"reasoning_effort": "low", "include_reasoning": False}, "include_reasoning"),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
         "chat_template_kwargs.enable_thinking"),
        ({"reasoning": {"enabled": True}, "sluicegate": {"reasoning": False}}, "reasoning.enabled"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
        ({"repetition_detection": {"max_pattern_size": 4, "min_count": 1}}, "repetition_detection"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(gateway: RunningGateway, fields: dict[str, Any], param: str) -> None:
    refused(ask(gateway, **fields), param)


# --- what could change the answer, and what could not ------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_token_ids", [1]), ("truncate_prompt_tokens", 5), ("chat_template", "{{ x }}"),
        ("documents", [{"text": "x"}]), ("logits_processors", ["x"]), ("prompt_logprobs", 1), ("prompt_embeds", "x"),
        ("lora_path", "x"), ("skip_special_tokens", False), ("detokenize", False), ("separate_reasoning", False),
        ("stop_regex", "x"), ("custom_logit_processor", "x"), ("thinking_token_budget", 0), ("return_token_ids", True),
        ("temprature", 0), ("max_token", 5), ("reponse_format", {}), ("Temperature", 0), ("tempreature", False),
    ],
)  # fmt: skip
def test_what_could_change_the_answer_is_refused_by_name(
    gateway: RunningGateway, path: str, name: str, value: Any
) -> None:
    refused(ask(gateway, path, **{name: value}), name)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
@pytest.mark.parametrize("value", [False, 0, "", [], {}, "x"])
def test_whatever_an_unknown_field_says_is_reported(gateway: RunningGateway, path: str, value: Any) -> None:
    answer = ask(gateway, path, flavour=value)
    assert (answer.status_code, answer.json()["sluicegate"]["ignored"]) == (200, ["flavour"])
    assert answer.headers["x-sluicegate-ignored"] == "flavour"


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", ["max_tokens", "temperature", "top_p", "top_k", "n", "seed", "top_logprobs", "min_p"])
def test_true_and_false_are_no_numbers(gateway: RunningGateway, name: str, value: bool) -> None:
    answer = ask(gateway, **{name: value})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


def test_stream_options_that_ask_for_nothing_need_no_stream(gateway: RunningGateway) -> None:
    assert ask(gateway, stream=False, stream_options={"include_usage": False}).status_code == 200
    assert ask(gateway, stream=False, stream_options={"include_usage": True}).status_code == 400


def test_a_kept_answer_has_its_properties_in_the_order_that_was_asked_for(gateway: RunningGateway) -> None:
    found = []
    for names in (("name", "city"), ("city", "name")):
        whole = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": whole}}
        found.append(list(json.loads(text_of(ask(gateway, response_format=form, sluicegate={"cache": True})))))
    assert found == [["name", "city"], ["city", "name"]]


def test_a_mistyped_name_inside_a_field_is_refused_too(gateway: RunningGateway) -> None:
    said = refused(ask(gateway, messages=[{**TURN[0], "nmae": "Ann"}]), "messages[].nmae")
    assert "`name`" in said
    refused(ask(gateway, stream=True, stream_options={"include_usag": True}), "stream_options.include_usag")


def test_a_body_of_unknown_names_is_refused_as_a_whole(gateway: RunningGateway) -> None:
    answer = ask(gateway, **{f"wholly_new_{i}": 1 for i in range(5000)})
    assert answer.status_code == 400
    assert "more than 50" in answer.json()["error"]["message"]


def test_a_part_that_is_no_text_is_refused_by_its_type(gateway: RunningGateway) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    said = refused(ask(gateway, messages=[{"role": "user", "content": [part]}]), "messages[0].content[0].type")
    assert "'image_url' is not served" in said
    block = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    assert "'image' is not served" in ask(gateway, MESSAGES, messages=[{"role": "user", "content": [block]}]).text


# --- prompts ---------------------------------------------------------------------------------------------------------


def test_an_answer_goes_on_from_where_the_last_message_ends(gateway: RunningGateway) -> None:
    """In chat by name, in messages by what the last message is; the constraint holds for what is added."""
    begun = [*TURN, {"role": "assistant", "content": '{"name": "Clara Winther", "city": "'}]
    text = text_of(ask(gateway, messages=begun, continue_final_message=True, regex='[A-Za-z ]+"}'))
    assert text.endswith('"}')
    assert "name" not in text
    answer = ask(gateway, MESSAGES, messages=begun)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "name", ["messages", "chat_template", "tools", "tokenize", "bos_token", "add_generation_prompt"]
)
def test_a_template_keeps_its_own_names(gateway: RunningGateway, name: str) -> None:
    refused(ask(gateway, chat_template_kwargs={name: "x"}), f"chat_template_kwargs.{name}")


def test_a_variable_that_the_template_does_not_have_is_refused_unless_it_is_false(gateway: RunningGateway) -> None:
    refused(ask(gateway, chat_template_kwargs={"flavour": "salt"}), "chat_template_kwargs.flavour")
    assert ask(gateway, chat_template_kwargs={"flavour": False, "enable_thinking": False}).status_code == 200


def test_a_prompt_may_end_with_the_last_message(gateway: RunningGateway) -> None:
    with_, without = (
        ask(gateway, add_generation_prompt=said).json()["usage"]["prompt_tokens"] for said in (True, False)
    )
    assert without < with_


def test_adaptive_thoughts_are_thoughts(gateway: RunningGateway) -> None:
    answer = ask(gateway, MESSAGES, thinking={"type": "adaptive"}, max_tokens=200)
    assert answer.status_code == 200
    assert answer.json()["content"][0]["type"] == "thinking"


# --- tools beside stop strings and log probabilities -----------------------------------------------------------------


def test_tools_go_together_with_stop_strings_and_log_probabilities(gateway: RunningGateway) -> None:
    """As agents send them: LangChain's `bind_tools(...).invoke(stop=...)`."""
    plain = ask(gateway, tools=[TOOL], logprobs=True, top_logprobs=2).json()["choices"][0]
    content = plain["message"]["content"] or ""
    spelled = b"".join(bytes(entry["bytes"]) for entry in plain["logprobs"]["content"]).decode()
    assert content
    assert spelled in (content, content[:-1])
    stop = content[4:6]
    cut = ask(gateway, tools=[TOOL], stop=[stop]).json()["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"]) == (content[: content.index(stop)], "stop")
    kept = ask(gateway, tools=[TOOL], stop=[stop], include_stop_str_in_output=True).json()["choices"][0]
    assert kept["message"]["content"] == content[: content.index(stop)] + stop


# --- depth -----------------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    """Make a schema that is `levels` objects and arrays deep. `levels` must be odd."""
    schema: Any = {"type": "string"}
    for _ in range((levels - 1) // 2):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def with_schema(path: str, schema: Any) -> dict[str, Any]:
    return {
        CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
        RESPONSES: {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}},
        MESSAGES: {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        COMPLETIONS: {"structured_outputs": {"json": json.dumps(schema)}},
    }[path]


def with_tool(path: str, schema: Any) -> dict[str, Any]:
    return {
        CHAT: {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
        RESPONSES: {"tools": [{"type": "function", "name": "f", "parameters": schema}]},
        MESSAGES: {"tools": [{"name": "f", "input_schema": schema}]},
        COMPLETIONS: {"structural_tag": json.dumps({"format": schema})},
    }[path]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
@pytest.mark.parametrize("place", [with_schema, with_tool])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 15, MAX_DEPTH + 1, 401, 901])
def test_a_deep_schema_is_an_answer_or_a_400(gateway: RunningGateway, path: str, place: Any, levels: int) -> None:
    """Never a 500; past the bound the place is named."""
    answer = ask(gateway, path, **place(path, deep(levels)))
    assert answer.status_code in ((200, 400) if levels < MAX_DEPTH else (400,)), answer.text
    if levels > MAX_DEPTH:
        assert "nests deeper than the 200 levels" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"a": 1}},
        {"sluicegate": {"template": "t", "variables": {"a": 1}}},
        {"chat_template_kwargs": {"a": 1}},
        {"response_format": {"type": "structural_tag", "format": 1}},
        {"flavour": 1},
    ],
)
def test_anything_deep_is_refused_at_the_door(gateway: RunningGateway, fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "bundled", **BODIES[CHAT], **fields}).replace("1}", "[" * 300 + "]" * 300 + "}")
    assert "[" * 300 in body
    answer = httpx.post(gateway.url + CHAT, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "nested_too_deeply")


def test_arguments_of_an_earlier_call_may_be_any_text(gateway: RunningGateway) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "save", "arguments": "[" * 150 + "]" * 150}}
    told = {"role": "tool", "tool_call_id": "c", "content": "done"}
    answer = ask(gateway, messages=[*TURN, {"role": "assistant", "content": "", "tool_calls": [call]}, told])
    assert answer.status_code in (200, 400), answer.text


# --- other servers ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def far() -> Iterator[Any]:
    server = ScriptedServer(*[says("ok")] * 20)
    with running(server) as url, in_front_of(url) as known, in_front_of(url, dialect="openai") as plain:
        yield server, known, plain


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"stop_token_ids": [3]}, "stop_token_ids"),
        ({"include_stop_str_in_output": True, "stop": "x"}, "include_stop_str_in_output"),
        ({"no_stop_trim": True, "stop": "x"}, "include_stop_str_in_output"),
        ({"repetition_detection": {"max_pattern_size": 4, "min_count": 3}}, "repetition_detection"),
        ({"chat_template_kwargs": {"language": "da"}}, "chat_template_kwargs"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
    ],
)
def test_another_server_is_sent_what_it_knows_and_the_rest_is_refused(
    far: Any, fields: dict[str, Any], name: str
) -> None:
    server, known, plain = far
    assert known.ask("hi", stream=False, model="far", **fields).status == 200
    assert name in server.bodies[-1]
    reply = plain.ask("hi", stream=False, model="far", **fields)
    assert (reply.status, (reply.error or {})["param"]) == (400, name)


def test_options_of_json_are_sent_on(far: Any) -> None:
    server, known, _ = far
    asked = {"json": {"type": "string"}, "disable_any_whitespace": True}
    known.ask("hi", stream=False, model="far", structured_outputs=asked)
    assert server.bodies[-1]["structured_outputs"] == asked


def test_tools_as_deep_as_are_read_reach_another_server(far: Any) -> None:
    server, known, _ = far
    tool = with_tool(CHAT, deep(MAX_DEPTH - 5))
    reply = known.ask("hi", stream=False, model="far", **tool)
    assert reply.status == 200, reply.error
    assert server.bodies[-1]["tools"][0]["function"]["parameters"] == deep(MAX_DEPTH - 5)
