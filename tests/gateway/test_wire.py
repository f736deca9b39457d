"""The OpenAI wire format: what clients send becomes a `Request`, and what cannot be honoured is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.plugins import Constraint, Message, RequestError

MINIMAL: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def parse(**fields: Any) -> Any:
    return parse_chat(json.dumps({**MINIMAL, **fields}).encode())


def test_defaults_are_those_of_the_api() -> None:
    request = parse().request
    assert request.messages == (Message("user", "hi"),)
    assert (request.n, request.stream, request.constraint) == (1, False, None)
    assert (request.sampling.top_p, request.sampling.logprobs, request.sampling.stop) == (None, None, ())


def test_text_parts_are_joined() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert parse(messages=[{"role": "user", "content": content}]).request.messages[0].content == "ab"


def test_max_completion_tokens_and_its_old_name_say_the_same_or_are_refused() -> None:
    assert parse(max_completion_tokens=7).request.sampling.max_tokens == 7
    assert parse(max_tokens=7, max_completion_tokens=7).request.sampling.max_tokens == 7
    with pytest.raises(RequestError, match="`max_completion_tokens` and `max_tokens`"):
        parse(max_tokens=5, max_completion_tokens=7)


def test_a_deadline_is_part_of_the_request_and_positive() -> None:
    assert parse(sluicegate={"deadline_s": 2.5}).request.deadline_s == 2.5
    assert parse().request.deadline_s is None
    with pytest.raises(RequestError, match="deadline_s"):
        parse(sluicegate={"deadline_s": 0})


def test_searching_and_narrowing_have_the_names_of_vllm_and_transformers() -> None:
    asked = parse(
        n=2,
        best_of=6,
        use_beam_search=True,
        length_penalty=0.5,
        early_stopping="never",
        num_beam_groups=3,
        diversity_penalty=0.4,
        typical_p=0.9,
        bad_words=["x"],
    ).request.sampling
    assert (asked.best_of, asked.use_beam_search, asked.length_penalty, asked.early_stopping) == (6, True, 0.5, "never")
    assert (asked.beam_groups, asked.diversity_penalty, asked.typical_p, asked.bad_words) == (3, 0.4, 0.9, ("x",))


def test_json_schema_keeps_the_order_of_properties() -> None:
    schema = {"type": "object", "properties": {"z": {}, "a": {}}}
    constraint = parse(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert list(constraint.request.constraint.value["properties"]) == ["z", "a"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"regex": "a+"}, Constraint("regex", "a+")),
        ({"choice": ["a", "b"]}, Constraint("choice", ("a", "b"))),
        ({"grammar": 'start: "a"'}, Constraint("lark", 'start: "a"')),
        ({"json": {"type": "null"}}, Constraint("json_schema", {"type": "null"})),
        ({"json": '{"type": "null"}'}, Constraint("json_schema", {"type": "null"})),
        ({"json_object": True}, Constraint("json_object")),
    ],
)
def test_structured_outputs_of_vllm_clients(sent: dict[str, Any], expected: Constraint) -> None:
    assert parse(structured_outputs=sent).request.constraint == expected


def test_the_old_names_of_vllm_mean_the_same() -> None:
    assert parse(guided_choice=["a", "b"]).request.constraint == Constraint("choice", ("a", "b"))
    assert parse(guided_json={"type": "null"}).request.constraint == Constraint("json_schema", {"type": "null"})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0].content"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 99}, "n"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"rgex": "a"}}, "structured_outputs.rgex"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
        ({"sluicegate": {"explian": True}}, "sluicegate.explian"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(**fields)
    assert (caught.value.param or "").startswith(param)


def test_fields_nobody_knows_are_reported_not_refused() -> None:
    assert parse(brand_new=1, another=2).ignored == ("another", "brand_new")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff{}", b'"x"', b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_typed_error(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse_chat(body)
    assert caught.value.code == "invalid_json"
