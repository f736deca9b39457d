"""An answer with a number of as many digits as are allowed says so: the model may have meant more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from sluicegate.gateway.answer.long_numbers import at_most_digits
from sluicegate.plugins import Answer, Constraint, ToolCall
from sluicegate.plugins.testing import make_request
from tests.gateway.conftest import RunningGateway, running

SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a":' + "7" * 80 + "}", True),
        ('{"a":[-' + "7" * 79 + ", 0]}", False),
        ('{"a":0.' + "0" * 40 + "}", True),
        ('{"a":12.' + "0" * 39 + "e12}", True),
        ('{"a":12.' + "0" * 38 + "1e12}", False),
        ('{"' + "7" * 90 + '":"0.' + "0" * 50 + '","b":1}', False),
        ('{"a\\\\":"\\"' + "7" * 90 + '","b":3.' + "1" * 41 + "}", True),
        ('{"a":"cut ' + "7" * 99, False),
    ],
)
def test_numbers_are_counted_and_strings_are_not(text: str, told: bool) -> None:
    for constraint in (Constraint("json_object"), Constraint("json_schema", {})):
        assert at_most_digits(make_request(constraint=constraint), Answer(0, text, "stop")) is told
    call = Answer(0, "", "tool_calls", tool_calls=(ToolCall("1", "look", text),))
    assert at_most_digits(make_request(), call) is told
    assert not at_most_digits(make_request(), Answer(0, text, "stop")), "no grammar bounds a free text"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"integer_digits": 6}, True),
        ({"integer_digits": 7}, False),
        ({"fraction_digits": 3}, True),
        ({"integer_digits": 0, "fraction_digits": 0}, False),
        ({"integer_digits": 0, "fraction_digits": 3}, True),
    ],
)
def test_the_bound_is_that_of_the_request(options: dict[str, int], told: bool) -> None:
    request = make_request(constraint=Constraint("json_object", options=options))
    assert at_most_digits(request, Answer(0, '{"a":123456,"b":1.250}', "stop")) is told


@pytest.fixture(scope="module")
def noise(random_checkpoint: Path) -> Any:
    models = [{"name": "noise", "path": str(random_checkpoint)}]
    with running({"stages": {"generate": {"engine": {"models": models}}}}) as found:
        yield found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("digit", ["0", "7"])
def test_a_model_that_cannot_stop_writing_digits_is_told_of(
    noise: RunningGateway, random_checkpoint: Path, digit: str, stream: bool
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(random_checkpoint)
    texts = {token: tokenizer.decode([token]) for token in range(len(tokenizer))}
    bias = {str(token): 50.0 for token, text in texts.items() if text in (digit, ".")}
    body = {"model": "noise", "messages": [{"role": "user", "content": "go"}], "max_tokens": 300, "temperature": 0}
    body |= {"response_format": FORMAT, "logit_bias": bias, "sluicegate": {"cache": False}, "stream": stream}
    answer = httpx.post(f"{noise.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    if stream:
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert chunks[-1]["sluicegate"]["numbers_at_bound"] == [0]
    else:
        assert answer.json()["sluicegate"]["numbers_at_bound"] == [0]
