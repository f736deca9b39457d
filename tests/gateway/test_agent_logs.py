"""Requests as coding agents send them, turn after turn: what is served, and what is refused by name.

The logs are written for these tests, in the shape of the agents' requests; no line of them was recorded.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PATCH_GRAMMAR = r"""
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Add File: " /(.+)/ LF add+
add: "+" /(.*)/ LF
%import common.LF
"""
PATCH = "*** Begin Patch\n*** Add File: hi.py\n+print('hi')\n+\n*** End Patch"
SHELL = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}, "timeout_ms": {"type": "number"}},
    "required": ["command"],
    "additionalProperties": False,
}
PLAN = {"type": "object", "properties": {"plan": {"type": "array", "items": {"type": "object"}}}, "required": ["plan"]}
READ = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}


def called(name: str, arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def app(script: str, **options: Any) -> TestApp:
    return TestApp(script=[script[i : i + 4] for i in range(0, len(script), 4)], **options)


def events(raw: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]


# --- an agent that speaks /v1/responses ------------------------------------------------------------------------------

PATCHER = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files with a patch. The text is free-form, not JSON.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
}
TERMINAL: Any = {
    "model": "scripted",
    "instructions": "You are a coding agent in a terminal.",
    "tools": [
        {"type": "function", "name": "shell", "description": "Run a command.", "strict": False, "parameters": SHELL},
        {"type": "function", "name": "update_plan", "strict": False, "parameters": PLAN},
        PATCHER,
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0198f9a2-1111-7000-8000-000000000000",
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "medium"},
}
FIRST = [
    {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    for role, text in (
        ("developer", "<permissions>ask</permissions>"),
        ("user", "<environment_context>/src</environment_context>"),
        ("user", "Add hi.py."),
    )
]


def test_a_terminal_agent_patches_a_file_and_goes_on() -> None:
    """Two calls of two kinds in one turn; the next turn sends back everything that the first answered."""
    script = (
        "<think>\nLook first.\n</think>\n\nOn it. " + called("shell", {"command": ["ls"]}) + "\n"
        + called("apply_patch", {"input": PATCH})
    )  # fmt: skip
    with app(script) as gateway:
        seen = events(gateway.client.post(RESPONSES, json={**TERMINAL, "input": FIRST}).text)
        output = seen[-1]["response"]["output"]
        assert seen[-1]["type"] == "response.completed"
        assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "custom_tool_call"]
        assert json.loads(output[2]["arguments"]) == {"command": ["ls"]}
        assert output[3]["input"] == PATCH
        results = [
            {"type": "function_call_output", "call_id": output[2]["call_id"], "output": "README.md"},
            {"type": "custom_tool_call_output", "call_id": output[3]["call_id"], "output": "Done."},
        ]
        again = {**TERMINAL, "input": [*FIRST, *output, *results]}
        answer = gateway.client.post(RESPONSES, json={**again, "stream": False})
        assert answer.status_code == 200, answer.text
        said = gateway.model.jobs[-1].request.messages
    assert [m.role for m in said[-3:]] == ["assistant", "tool", "tool"]
    assert [call.name for call in said[-3].tool_calls] == ["shell", "apply_patch"]
    assert "*** Begin Patch" in gateway.model.jobs[-1].prompt.text


# --- an agent that speaks /v1/messages -------------------------------------------------------------------------------

EDITOR: Any = {
    "model": "scripted",
    "max_tokens": 512,
    "system": [
        {"type": "text", "text": "You are an agent for the command line.", "cache_control": {"type": "ephemeral"}},
    ],
    "tools": [
        {"name": "Read", "description": "Read a file.", "input_schema": READ},
        {"name": "Bash", "description": "Run a command.", "input_schema": {
            "type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
            "required": ["command"], "additionalProperties": False, "$schema": "http://json-schema.org/draft-07/schema#",
        }, "cache_control": {"type": "ephemeral"}},
    ],
    "metadata": {"user_id": "user_1_account_2_session_3"},
    "stream": True,
}  # fmt: skip
ASKED = [{"role": "user", "content": [
    {"type": "text", "text": "<system-reminder>none</system-reminder>"},
    {"type": "text", "text": "Show main.py.", "cache_control": {"type": "ephemeral"}},
]}]  # fmt: skip


@pytest.mark.parametrize(
    "thinking", [{"type": "enabled", "budget_tokens": 500}, {"type": "adaptive"}, {"type": "disabled"}, None]
)
def test_an_editor_agent_reads_two_files_at_once_and_goes_on(thinking: Any) -> None:
    """Parallel calls stream as blocks whose JSON is whole; thoughts go back with the next turn, of whatever kind."""
    thinks = thinking is not None and thinking["type"] != "disabled"
    script = ("<think>\nTwo files.\n</think>\n\n" if thinks else "") + "I will look.\n" + "\n".join(
        called("Read", {"file_path": path}) for path in ("/a.py", "/b.py")
    )  # fmt: skip
    turn = {**EDITOR, "messages": ASKED, **({"thinking": thinking} if thinking else {})}
    with app(script) as gateway:
        seen = events(gateway.client.post(MESSAGES, json=turn).text)
        blocks = blocks_of(seen)
        kinds = ["thinking"] * thinks + ["text", "tool_use", "tool_use"]
        assert [block["type"] for block in blocks] == kinds
        assert [b["input"] for b in blocks if b["type"] == "tool_use"] == [
            {"file_path": "/a.py"},
            {"file_path": "/b.py"},
        ]
        assert seen[-2]["delta"]["stop_reason"] == "tool_use"
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "x = 1"}]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        messages = [*ASKED, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        answer = gateway.client.post(MESSAGES, json={**turn, "messages": messages, "stream": False})
        assert answer.status_code == 200, answer.text
        roles = [message.role for message in gateway.model.jobs[-1].request.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool"]


def blocks_of(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join a stream as Anthropic's client does."""
    blocks: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    for event in seen:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            name = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}[
                delta["type"]
            ]
            texts[event["index"]] = texts.get(event["index"], "") + delta[name]
    for index, block in blocks.items():
        said = texts.get(index, "")
        block |= {"input": json.loads(said)} if block["type"] == "tool_use" else {block["type"]: said}
    return [blocks[index] for index in sorted(blocks)]


def test_an_answer_that_was_begun_goes_on_and_says_which_stop_string_ended_it() -> None:
    """A prefilled JSON array, as agents use it to name a topic."""
    begun = [*ASKED, {"role": "assistant", "content": '["topic": '}]
    asked: Any = {"model": "scripted", "max_tokens": 50, "messages": begun, "stop_sequences": ["\n\n", "]"]}
    asked["tools"] = EDITOR["tools"]
    with app('"files"] and more') as gateway:
        answer = gateway.client.post(MESSAGES, json=asked).json()
        prompt = gateway.model.jobs[0].prompt.text
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "]")
    assert answer["content"] == [{"type": "text", "text": '"files"'}]
    assert prompt.rstrip().endswith('["topic":')


def test_stop_and_logprobs_go_with_tools() -> None:
    """As frameworks for agents send them; entries are those of the text before the call."""
    tool = {"type": "function", "function": {"name": "Read", "parameters": READ}}
    body = {
        "model": "scripted", "messages": [{"role": "user", "content": "x"}], "tools": [tool],
        "stop": ["Observation:"], "logprobs": True, "top_logprobs": 2,
    }  # fmt: skip
    with app("Think. Observation: none") as gateway:
        choice = gateway.client.post(CHAT, json=body).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Think. ", "stop")


# --- tools that run elsewhere ----------------------------------------------------------------------------------------

MIXED = [
    (RESPONSES, "web_search", {"type": "web_search"}),
    (RESPONSES, "web_search_preview_2025_03_11", {"type": "web_search_preview_2025_03_11"}),
    (RESPONSES, "code_interpreter", {"type": "code_interpreter", "container": {"type": "auto"}}),
    (RESPONSES, "computer_use_preview", {"type": "computer_use_preview", "display_width": 800, "display_height": 600}),
    (RESPONSES, "mcp", {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example.com"}),
    (RESPONSES, "image_generation", {"type": "image_generation"}),
    (RESPONSES, "file_search", {"type": "file_search", "vector_store_ids": ["v"]}),
    (RESPONSES, "local_shell", {"type": "local_shell"}),
    (MESSAGES, "web_search_20250305", {"type": "web_search_20250305", "name": "web_search"}),
    (MESSAGES, "bash_20250124", {"type": "bash_20250124", "name": "bash"}),
    (MESSAGES, "text_editor_20250728", {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
    (MESSAGES, "computer_20250124", {"type": "computer_20250124", "name": "computer", "display_width_px": 1}),
    (MESSAGES, "code_execution_20250825", {"type": "code_execution_20250825", "name": "code_execution"}),
    (CHAT, "web_search", {"type": "web_search"}),
]


@pytest.mark.parametrize(("path", "kind", "tool"), MIXED)
def test_tools_that_run_elsewhere_are_refused_by_name_and_place(path: str, kind: str, tool: Any) -> None:
    """Among tools that would be served, and before anything is generated."""
    own: Any = {
        RESPONSES: {"type": "function", "name": "Read", "parameters": READ},
        MESSAGES: {"name": "Read", "input_schema": READ},
        CHAT: {"type": "function", "function": {"name": "Read", "parameters": READ}},
    }[path]
    said: Any = {"input": "x"} if path == RESPONSES else {"messages": [{"role": "user", "content": "x"}]}
    with app("x") as gateway:
        body = {"model": "scripted", "max_tokens": 9, **said, "tools": [own, tool]}
        body |= {"max_output_tokens": body.pop("max_tokens")} if path == RESPONSES else {}
        answer = gateway.client.post(path, json=body)
        assert gateway.model.jobs == []
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_tool")
    assert f"'{kind}' (`tools[1]`)" in error["message"]


def test_all_of_them_are_named_at_once() -> None:
    tools = [tool for path, _, tool in MIXED if path == RESPONSES]
    with app("x") as gateway:
        message = gateway.client.post(RESPONSES, json={"model": "scripted", "input": "x", "tools": tools}).json()[
            "error"
        ]
    assert all(tool["type"] in message["message"] for tool in tools)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/responses/resp_1", "not_found"),
        ("DELETE", "/v1/responses/resp_1", "responses_not_stored"),
        ("GET", "/v1/responses/resp_1/input_items", "responses_not_stored"),
        ("POST", "/v1/responses/resp_1/cancel", "responses_not_stored"),
        ("POST", "/v1/responses/compact", "responses_not_stored"),
    ],
)
def test_doors_that_are_not_there_say_so_in_words_of_their_dialect(method: str, path: str, code: str) -> None:
    """An agent that finds one learns what to do instead, not only that a URL is unknown."""
    with app("x") as gateway:
        found = gateway.client.request(method, path)
    assert found.status_code == 404
    body = found.json()
    assert (body.get("type") == "error") is path.startswith("/v1/messages")
    assert body["error"]["code"] == code
    assert "send the" in body["error"]["message"]
