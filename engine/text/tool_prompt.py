"""Write tools into a prompt: those the model may call, earlier calls, and their results.

A chat template that knows the marks of Hermes and Qwen gets the tools in its own format. For any other template they
are written out as text with the same marks, so that the prompt and the grammar agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Turn = dict[str, Any]
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")
"""Marks of the gateway's own prompt; text inside a pair of them would be read as the gateway's."""


def knows_tools(chat_template: Any) -> bool:
    """Return whether the template writes calls as JSON between the marks. (Some use the marks around XML.)"""
    text = str(chat_template)
    return "<tool_call>" in text and "tools" in text and "<function=" not in text


def as_functions(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tools in the format of chat templates; each of `tools` is `{"name", "description", "parameters"}`."""
    return [{"type": "function", "function": dict(tool)} for tool in tools]


def with_functions(turns: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Return turns with calls in the format of chat templates: arguments parsed, since templates write them as JSON."""
    return [_called(turn) if turn.get("tool_calls") else dict(turn) for turn in turns]


def without_functions(turns: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Return turns with calls and results as plain text of the assistant and the user."""
    return [_flat(turn) for turn in turns]


def tool_instruction(tools: Sequence[Mapping[str, Any]]) -> str:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in as_functions(tools))
    return (
        f"You may call these functions:\n<tools>\n{listed}\n</tools>\n"
        "To call one, write its name and arguments as JSON, in these marks and nothing around them:\n"
        '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    )


def _called(turn: Mapping[str, Any]) -> Turn:
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": _parsed(call["arguments"])},
        }
        for call in turn["tool_calls"]
    ]
    return {**turn, "tool_calls": calls}


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _flat(turn: Mapping[str, Any]) -> Turn:
    if turn["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{turn['content']}\n</tool_response>"}
    if not turn.get("tool_calls"):
        return {"role": turn["role"], "content": turn["content"]}
    calls = "\n".join(
        f'<tool_call>\n{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}\n</tool_call>'
        for call in turn["tool_calls"]
    )
    return {"role": turn["role"], "content": f"{turn['content']}\n{calls}" if turn["content"] else calls}
