"""Describe a whole output as one constraint: perhaps thoughts, then an answer or calls of tools.

    <think>...</think>\\n\\n            where reasoning was asked for
    an answer                         free, or under the request's own constraint
    <tool_call>\\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\\n</tool_call>
    <tool_call>\\n{"name": "apply_patch", "arguments": {"input": "..."}}\\n</tool_call>     a custom tool

The marks are those of Hermes and Qwen. Small models trained on them leave them out at times, and write a call as a
block of JSON: `gateway/answer/written_calls.py` reads it. `gateway/answer/regions.py` takes apart what was generated
under such a constraint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sluicegate.gateway.answer.custom_text import TEXT_BEGINS
from sluicegate.plugins import Constraint, GrammarError, Prompt, Request, RequestError, Tool
from sluicegate.plugins.frozen import frozen_when_checked

THINK, THOUGHT, AFTER_THOUGHT = "<think>", "</think>", "\n\n"
CALL, CALLED = "<tool_call>", "\n</tool_call>"
Format = dict[str, Any]
Thoughts = Literal["none", "asked", "begun"]


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Shape:
    """`constraint`: what the grammar compiles. `thoughts`: none, to be opened by the model, or opened by its prompt.
    `must_call`: the answer is calls alone."""

    constraint: Constraint | None
    thoughts: Thoughts = "none"
    calls: bool = False
    must_call: bool = False
    at_most_one_call: bool = False
    reads_plain_calls: bool = False
    """Whether calls that the model writes as JSON without the marks are read as calls."""

    @property
    def is_plain(self) -> bool:
        """Return whether all of the output is the answer."""
        return self.thoughts == "none" and not self.calls

    def in_callers_words(self, error: GrammarError, request: Request) -> GrammarError:
        """Return the error with the place of the schema, pattern or grammar in `request` that is wrong, and its pointer
        moved from `constraint` into that, where it points into it."""
        found = None if self.is_plain else _WRITTEN.match(error.pointer)
        number, of_text, pointer = found.groups() if found is not None else (None, None, error.pointer)
        reason, place = error.reason, "constraint.value"
        if number is not None:
            tool = request.callable_tools[int(number)]
            what = "text" if of_text else "parameters"
            reason = f"the {what} of tool {tool.name!r}: {reason}"
            place = f"tools[{request.tools.index(tool)}].{'form.value' if of_text else 'parameters'}"
        elif error.param is not None:  # one of its options
            place = f"constraint.options.{error.param}"
        elif request.constraint is None:
            return error
        told = type(error)(reason, pointer=pointer, param=place)
        told.message = f"`{place}`: {told.message}"
        return told


_WRITTEN = re.compile(
    r"/format(?:/elements/\d+)*(?:/tags/(\d+)/content)?(/content)?/(?:json_schema|pattern|grammar)(.*)", re.DOTALL
)
"""Where the constraint of a whole output holds a schema, pattern or grammar of its caller."""


def shape_of(request: Request, prompt: Prompt, *, knows_marks: bool = False) -> Shape:
    """Return the shape of the output. `knows_marks`: the model's own template writes calls between them. Raises
    `RequestError` for a structural tag beside tools or reasoning."""
    tools, thoughts = request.callable_tools, _thoughts(request, prompt)
    if not tools and thoughts == "none":
        return Shape(request.constraint)
    _check(request)
    wanted = _answer_or_calls(request, tools) if tools else _answer(request.constraint)
    if thoughts != "none":
        wanted = {"type": "sequence", "elements": [*_thinking(thoughts), wanted]}
    options = request.constraint.options if request.constraint else {}
    constraint = Constraint("structural_tag", {"format": wanted}, options=options)
    must_call = bool(tools) and request.tool_choice.mode == "required"
    is_free = bool(tools) and not must_call and request.constraint is None
    one = bool(tools) and not request.tool_choice.parallel
    return Shape(constraint, thoughts, bool(tools), must_call, one, knows_marks and is_free)


def _check(request: Request) -> None:
    if request.constraint is not None and request.constraint.kind == "structural_tag":
        raise RequestError(
            "`structural_tag` describes the whole output, so that tools and reasoning have no place in it",
            param="structured_outputs",
            code="unsupported_parameter",
        )


def _thoughts(request: Request, prompt: Prompt) -> Thoughts:
    """Return whether the prompt has opened the thoughts already, as some chat templates do unasked, or the request asks
    for them, or neither."""
    if prompt.text[-16:].rstrip().endswith(THINK):
        return "begun"
    return "asked" if request.reasoning else "none"


def _thinking(thoughts: Thoughts) -> Iterable[Format]:
    begin = THINK if thoughts == "asked" else ""
    yield {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": THOUGHT}
    yield {"type": "const_string", "value": AFTER_THOUGHT}


def _answer_or_calls(request: Request, tools: tuple[Tool, ...]) -> Format:
    most = {} if request.tool_choice.parallel else {"max_count": 1}
    tags = [_call(tool) for tool in tools]
    calls = {"type": "tags_with_separator", "tags": tags, "separator": "\n", "at_least_one": True, **most}
    if request.tool_choice.mode == "required":
        return calls
    if request.constraint is not None:
        return {"type": "or", "elements": [_answer(request.constraint), calls]}
    stop = {"stop_after_first": True} if most else {}
    return {"type": "triggered_tags", "triggers": [CALL], "tags": tags, **stop}


def _call(tool: Tool) -> Format:
    begin = f'{CALL}\n{{"name": "{tool.name}", "arguments": '
    if tool.form is not None:
        text = {"type": "json_string", "content": _answer(tool.form)}
        return {"type": "tag", "begin": begin + TEXT_BEGINS, "content": text, "end": "}}" + CALLED}
    content = {"type": "json_schema", "json_schema": tool.parameters}
    return {"type": "tag", "begin": begin, "content": content, "end": "}" + CALLED}


def _answer(constraint: Constraint | None) -> Format:
    if constraint is None:
        return {"type": "any_text"}
    if constraint.kind == "json_schema":
        return {"type": "json_schema", "json_schema": constraint.value}
    if constraint.kind == "json_object":
        return {"type": "json_schema", "json_schema": {"type": "object"}}
    if constraint.kind == "regex":
        return {"type": "regex", "pattern": constraint.value}
    if constraint.kind == "choice":
        return {"type": "or", "elements": [{"type": "const_string", "value": text} for text in constraint.value]}
    return {"type": "grammar", "grammar": constraint.value}
