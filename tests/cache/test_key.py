"""A key holds whatever an answer depends on: read off the types, so that a new field is keyed or says why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from sluicegate.cache.key import OUTSIDE, cache_key
from sluicegate.plugins import (
    Caller,
    Constraint,
    Message,
    Parts,
    RepetitionDetection,
    Request,
    Reuse,
    Sampling,
    Tool,
    ToolCall,
    ToolChoice,
)

PLAIN = Request("r", "m", (Message("user", "why?"),), Sampling(temperature=0.5, seed=1))
OTHER_SAMPLING: Mapping[str, Any] = {
    "max_tokens": 7,
    "temperature": 0.25,
    "top_k": 3,
    "top_p": 0.5,
    "min_p": 0.125,
    "repetition_penalty": 1.5,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "seed": 2,
    "stop": ("x",),
    "logprobs": 0,
    "logit_bias": {5: 1.0},
    "min_tokens": 2,
    "ignore_eos": True,
    "typical_p": 0.5,
    "bad_words": ("x",),
    "best_of": 2,
    "use_beam_search": True,
    "length_penalty": 0.5,
    "early_stopping": "never",
    "beam_groups": 2,
    "diversity_penalty": 0.5,
    "close_on_length": True,
    "stop_token_ids": (3,),
    "include_stop_str_in_output": True,
    "repetition_detection": RepetitionDetection(4, 3),
}
TOOL = Tool("f", "does", {"type": "object"})
OTHER_REQUEST: Mapping[str, Any] = {
    "messages": (Message("user", "how?"),),
    "sampling": Sampling(),
    "constraint": Constraint("regex", "a"),
    "n": 2,
    "tools": (TOOL,),
    "tool_choice": ToolChoice("required", frozenset({"f"}), parallel=False),
    "reasoning": True,
    "raw": True,
    "chat_template_kwargs": {"language": "da"},
    "add_generation_prompt": False,
    "continue_final_message": True,
    "id": "s",
    "model": "an alias",
    "stream": True,
    "user": "u",
    "api_key": "k",
    "on_behalf_of": "k",
    "priority": 10,
    "deadline_s": 3.0,
    "metadata": {"a": "b"},
    "cache": False,
    "reuse": Reuse(tags=("a",)),
    "explain": True,
    "retrieve": True,
    "confidence": True,
    "partial": True,
    "nbytes": 100_000,
    "parts": Parts("t"),
}
MESSAGE: Mapping[str, Any] = {
    "role": "assistant",
    "content": "other",
    "name": "ann",
    "tool_calls": (ToolCall("c", "f", "{}"),),
    "tool_call_id": "c",
}


def key(request: Request) -> str:
    return cache_key(request, Caller(), model="m", model_version="1").digest


def test_the_examples_name_every_field() -> None:
    """So a field that is added fails here until it is tried below."""
    assert set(OTHER_SAMPLING) == {f.name for f in fields(Sampling)}
    assert set(OTHER_REQUEST) == {f.name for f in fields(Request)}
    assert set(MESSAGE) == {f.name for f in fields(Message)}
    assert set(OUTSIDE) < set(OTHER_REQUEST)


@pytest.mark.parametrize("name", OTHER_SAMPLING)
def test_every_sampling_option_changes_the_key(name: str) -> None:
    sampling = replace(PLAIN.sampling, **{name: OTHER_SAMPLING[name]})
    assert key(replace(PLAIN, sampling=sampling)) != key(PLAIN)


@pytest.mark.parametrize("name", sorted(set(OTHER_SAMPLING) - {"temperature", "seed", "top_k", "top_p", "min_p"}))
def test_where_the_likeliest_token_is_taken_only_what_cannot_matter_is_left_out(name: str) -> None:
    """`typical_p` may leave the likeliest token out, so it stays."""
    greedy = replace(PLAIN, sampling=Sampling(temperature=0.0))
    assert key(replace(greedy, sampling=replace(greedy.sampling, **{name: OTHER_SAMPLING[name]}))) != key(greedy)


@pytest.mark.parametrize("name", OTHER_REQUEST)
def test_every_field_of_a_request_changes_the_key_or_says_why_not(name: str) -> None:
    assert (key(replace(PLAIN, **{name: OTHER_REQUEST[name]})) == key(PLAIN)) == (name in OUTSIDE)


@pytest.mark.parametrize("name", MESSAGE)
def test_every_field_of_a_message_changes_the_key(name: str) -> None:
    assert key(replace(PLAIN, messages=(replace(PLAIN.messages[0], **{name: MESSAGE[name]}),))) != key(PLAIN)


@pytest.mark.parametrize("tool", [replace(TOOL, name="g"), replace(TOOL, description=""), replace(TOOL, parameters={})])
def test_every_field_of_a_tool_changes_the_key(tool: Tool) -> None:
    assert key(replace(PLAIN, tools=(tool,))) != key(replace(PLAIN, tools=(TOOL,)))


def test_the_order_of_names_in_a_choice_changes_nothing() -> None:
    asked = replace(PLAIN, tools=(TOOL,))
    names = (frozenset(["a", "b", "c"]), frozenset(["c", "b", "a"]))
    one, other = (key(replace(asked, tool_choice=ToolChoice("auto", found))) for found in names)
    assert one == other
