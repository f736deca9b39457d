"""The real `openai` client against a real gateway with the bundled model."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, Literal

import jsonschema_rs
import openai
import pytest
from pydantic import BaseModel

from tests.gateway.conftest import RunningGateway
from tests.waiting import until


class Person(BaseModel):
    name: str
    city: str


class Order(BaseModel):
    order_id: str
    placed: date
    status: Literal["open", "shipped", "cancelled"]
    total: float
    gift: bool


PERSON = "My name is Clara Winther and I live in Aarhus."
MESSAGES: Any = [{"role": "user", "content": f"Extract the fields.\n\n{PERSON}"}]


def schema_format(schema: dict[str, Any]) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def test_parse_returns_a_pydantic_model(gateway: RunningGateway) -> None:
    """The bundled model reads the document: the values are right, not only well-formed."""
    answer = gateway.client().chat.completions.parse(model="bundled", messages=MESSAGES, response_format=Person)
    assert answer.choices[0].message.parsed == Person(name="Clara Winther", city="Aarhus")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_stream_gives_the_same_answer_in_pieces(gateway: RunningGateway) -> None:
    """What is streamed adds up to what is answered whole; the last chunk has the usage."""
    client = gateway.client()
    whole = client.chat.completions.parse(model="bundled", messages=MESSAGES, response_format=Person)
    with client.chat.completions.stream(
        model="bundled",
        messages=MESSAGES,
        response_format=Person,
        stream_options={"include_usage": True},
        extra_body={"sluicegate": {"cache": False}},
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert len(pieces) > 3
    assert "".join(pieces) == whole.choices[0].message.content
    assert final.choices[0].message.parsed == whole.choices[0].message.parsed
    assert final.usage is not None


@pytest.mark.parametrize("stream", [False, True])
def test_an_invalid_schema_is_a_clear_400(gateway: RunningGateway, stream: bool) -> None:
    """The pointer names the place; a stream fails before its first byte."""
    schema = {"type": "object", "properties": {"age": {"type": "intger"}}}
    with pytest.raises(openai.BadRequestError) as caught:
        gateway.client().chat.completions.create(
            model="bundled", messages=MESSAGES, response_format=schema_format(schema), stream=stream
        )
    body: Any = caught.value.body
    assert body["type"] == "invalid_request_error"
    assert body["pointer"] == "/properties/age/type"
    assert "intger" in body["message"]


def test_an_unknown_model_is_a_404_that_lists_the_models(gateway: RunningGateway) -> None:
    with pytest.raises(openai.NotFoundError, match="bundled"):
        gateway.client().chat.completions.create(model="gpt-99", messages=MESSAGES)


def test_a_prompt_that_does_not_fit_says_both_numbers(gateway: RunningGateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        gateway.client().chat.completions.create(
            model="bundled", messages=[{"role": "user", "content": "word " * 5000}]
        )
    assert caught.value.code == "context_length_exceeded"


def test_a_client_that_hangs_up_frees_its_blocks(gateway: RunningGateway) -> None:
    """After the hang-up nothing runs and the KV pool is as empty as before, though the answer was far from whole."""
    before = gateway.metric("sluicegate_kv_cache_usage_ratio")
    stream = gateway.client().chat.completions.create(
        model="bundled",
        messages=MESSAGES,
        stream=True,
        max_tokens=800,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    next(iter(stream))
    until(lambda: gateway.metric("sluicegate_requests_running") >= 1)
    assert gateway.metric("sluicegate_kv_cache_usage_ratio") > before
    stream.close()
    until(lambda: gateway.metric("sluicegate_requests_running") == 0)
    assert gateway.metric("sluicegate_kv_cache_usage_ratio") == pytest.approx(before)


SCHEMAS: list[dict[str, Any]] = [
    Person.model_json_schema(),
    Order.model_json_schema(),
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 5}]},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}}, "required": ["when"]},
    {
        "$defs": {
            "tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
        },
        "$ref": "#/$defs/tree",
    },
    {"enum": ["red", 7, None, {"a": 1}]},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
]


def test_32_concurrent_mixed_requests_are_all_valid(gateway: RunningGateway) -> None:
    """Streamed and whole, n of 1 and 2, greedy and sampled, many schemas; judged by an independent validator."""
    client = gateway.client()
    barrier = threading.Barrier(32)

    def ask(i: int) -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
        schema = SCHEMAS[i % len(SCHEMAS)]
        options: Any = {
            "model": "bundled",
            "messages": [{"role": "user", "content": f"Order {i}. {PERSON}"}],
            "response_format": schema_format(schema),
            "temperature": 0.0 if i % 3 else 1.0,
            "seed": i,
            "n": 2 if i % 5 == 0 else 1,
            "max_tokens": 300,
        }
        barrier.wait(30)
        if i % 2 == 0:
            answer = client.chat.completions.create(**options)
            return schema, [(c.message.content or "", c.finish_reason) for c in answer.choices]
        texts: dict[int, str] = {}
        reasons: dict[int, str | None] = {}
        for chunk in client.chat.completions.create(stream=True, **options):
            for choice in chunk.choices:
                texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
                reasons[choice.index] = choice.finish_reason or reasons.get(choice.index)
        return schema, [(texts[k], reasons[k]) for k in texts]

    with ThreadPoolExecutor(32) as pool:
        answered = list(pool.map(ask, range(32)))
    finished = 0
    for schema, choices in answered:
        for text, reason in choices:
            assert reason in ("stop", "length")
            if reason == "stop":
                finished += 1
                assert jsonschema_rs.is_valid(schema, json.loads(text)), (schema, text)
    assert finished >= 28
    assert gateway.metric("sluicegate_invalid_answers_total") == 0


def test_logprobs_name_the_tokens_of_the_text(gateway: RunningGateway) -> None:
    """The bytes of the tokens, joined, are the text; the likeliest alternatives come sorted."""
    answer = gateway.client().chat.completions.create(
        model="bundled", messages=MESSAGES, response_format=schema_format(SCHEMAS[0]), logprobs=True, top_logprobs=3
    )
    choice = answer.choices[0]
    assert choice.logprobs is not None
    content = choice.logprobs.content or []
    assert b"".join(bytes(entry.bytes or []) for entry in content).decode() == choice.message.content
    for entry in content:
        assert entry.logprob <= 0
        ranked = [top.logprob for top in entry.top_logprobs]
        assert ranked == sorted(ranked, reverse=True)
        assert len(ranked) == 3


def test_the_same_seed_gives_the_same_answer(gateway: RunningGateway) -> None:
    def ask(seed: int) -> str | None:
        answer = gateway.client().chat.completions.create(
            model="bundled",
            messages=MESSAGES,
            temperature=2.0,
            seed=seed,
            max_tokens=20,
            extra_body={"sluicegate": {"cache": False}},
        )
        return answer.choices[0].message.content

    assert ask(1) == ask(1)
    assert len({ask(seed) for seed in range(2, 8)}) > 1


def test_stop_strings_end_the_answer_before_them(gateway: RunningGateway) -> None:
    """The stop string itself is not part of the answer; a constrained answer is never cut."""
    client = gateway.client()
    whole = client.chat.completions.create(model="bundled", messages=MESSAGES, max_tokens=30)
    text = whole.choices[0].message.content or ""
    stop = text[5:8]
    answer = client.chat.completions.create(model="bundled", messages=MESSAGES, max_tokens=30, stop=[stop])
    assert answer.choices[0].message.content == text[: text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    with pytest.raises(openai.BadRequestError, match="constrained answer"):
        client.chat.completions.create(
            model="bundled", messages=MESSAGES, response_format=schema_format(SCHEMAS[0]), stop=['"city"']
        )


def test_max_tokens_says_length(gateway: RunningGateway) -> None:
    answer = gateway.client().chat.completions.create(
        model="bundled", messages=MESSAGES, response_format=schema_format(SCHEMAS[0]), max_tokens=3
    )
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ({"choice": ["yes", "no", "maybe"]}, lambda text: text in ("yes", "no", "maybe")),
        ({"regex": "[a-c]{3}-[0-9]{2}"}, lambda text: len(text) == 6 and text[3] == "-"),
        ({"json_object": True}, lambda text: isinstance(json.loads(text), dict)),
        ({"grammar": 'start: "x" NUMBER\nNUMBER: /[0-9]{1,3}/'}, lambda text: text[0] == "x" and text[1:].isdigit()),
    ],
)
def test_structured_outputs_of_every_kind(gateway: RunningGateway, constraint: dict[str, Any], fits: Any) -> None:
    answer = gateway.client().chat.completions.create(
        model="bundled", messages=MESSAGES, max_tokens=200, extra_body={"structured_outputs": constraint}
    )
    choice = answer.choices[0]
    assert choice.finish_reason in ("stop", "length")
    if choice.finish_reason == "stop":
        assert fits(choice.message.content)


def test_models_are_listed(gateway: RunningGateway) -> None:
    assert [model.id for model in gateway.client().models.list()] == ["bundled"]
