"""`/v1/completions` and `/v1/embeddings`: prompts as they are, and texts as vectors, through the same rails."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.waiting import until

URL = "/v1/completions"


def test_a_prompt_reaches_the_model_as_it_is() -> None:
    with TestApp(script=["done"]) as gateway:
        answer = gateway.client.post(URL, json={"model": "scripted", "prompt": "Once upon"}).json()
        assert gateway.model.jobs[0].prompt.text == "Once upon"
        assert gateway.model.jobs[0].sampling.max_tokens == 16
    assert (answer["object"], answer["choices"][0]["text"]) == ("text_completion", "done")


def test_a_prompt_and_a_chat_of_the_same_words_are_not_mixed_up_in_the_cache(gateway: RunningGateway) -> None:
    words = "The same words in a prompt and in a chat."
    chat = {"model": "bundled", "messages": [{"role": "user", "content": words}], "temperature": 0, "max_tokens": 16}
    httpx.post(f"{gateway.url}/v1/chat/completions", json=chat)
    answer = httpx.post(gateway.url + URL, json={"model": "bundled", "prompt": words, "temperature": 0})
    assert answer.headers["x-sluicegate-cache"] == "miss"


def test_the_openai_client_gets_text_streamed_and_whole(gateway: RunningGateway) -> None:
    client = gateway.client()
    asked: Any = {"model": "bundled", "prompt": "Name: ", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**asked, logprobs=2)
    streamed = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    chunks = list(streamed)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text
    used: list[Any] = [chunks[-1].usage, whole.usage]
    assert len({(usage.prompt_tokens, usage.completion_tokens) for usage in used}) == 1
    told = whole.choices[0].logprobs
    assert told is not None
    lists: Any = (told.tokens, told.text_offset, told.top_logprobs)
    assert len({len(found) for found in lists}) == 1
    assert told.tokens


def test_structured_fields_of_vllm_clients_are_enforced(gateway: RunningGateway) -> None:
    answer = gateway.client().completions.create(
        model="bundled", prompt="Yes or no?", extra_body={"structured_outputs": {"choice": ["yes", "no"]}}
    )
    assert answer.choices[0].text in ("yes", "no")


def test_several_prompts_are_answered_in_order(gateway: RunningGateway) -> None:
    choices = [{"structured_outputs": {"regex": "[ab]{3}"}}]
    answer = gateway.client().completions.create(
        model="bundled", prompt=["one", "two", "three"], n=2, temperature=1.0, extra_body=choices[0]
    )
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert all(set(choice.text) <= {"a", "b"} for choice in answer.choices)


def test_one_prompt_that_fails_fails_all_and_leaves_nothing_running(gateway: RunningGateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        gateway.client().completions.create(model="bundled", prompt=["one", "word " * 5000], max_tokens=200)
    assert caught.value.code == "context_length_exceeded"
    until(lambda: gateway.metric("sluicegate_requests_running") == 0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": ["a", "b"], "stream": True}, "prompt"),
        ({"logprobs": 6}, "logprobs"),
    ],
)
def test_what_is_not_served_is_refused_by_name(gateway: RunningGateway, fields: dict[str, Any], param: str) -> None:
    answer = httpx.post(gateway.url + URL, json={"model": "bundled", "prompt": "x", **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith(param)


# --- embeddings ------------------------------------------------------------------------------------------------------


def test_texts_are_unit_vectors_and_near_texts_are_near(gateway: RunningGateway) -> None:
    texts = ["The invoice is from Harbour Tools.", "This invoice comes from Harbour Tools.", "{}[]();"]
    answer = gateway.client().embeddings.create(model="bundled", input=texts, encoding_format="float")
    rows = np.array([item.embedding for item in answer.data])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert answer.usage.prompt_tokens > 0


def test_packed_vectors_are_the_same_numbers(gateway: RunningGateway) -> None:
    asked = {"model": "bundled", "input": "Aarhus"}
    plain = httpx.post(f"{gateway.url}/v1/embeddings", json=asked).json()["data"][0]["embedding"]
    packed = httpx.post(f"{gateway.url}/v1/embeddings", json={**asked, "encoding_format": "base64"}).json()
    assert np.allclose(np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4"), plain)
    assert gateway.client().embeddings.create(model="bundled", input="Aarhus").data[0].embedding == pytest.approx(plain)


def test_what_is_embedded_is_screened_and_counted() -> None:
    """The rails see it, the recorders get it: no way around either."""
    from tests.gateway.conftest import running

    rail = {"phrases": ["project nightingale"], "action": "block"}
    with running({"pipeline": {"screen": ["blocklist"]}, "stages": {"screen": {"blocklist": rail}}}) as strict:
        refused = httpx.post(f"{strict.url}/v1/embeddings", json={"model": "bundled", "input": "Project Nightingale"})
        assert refused.json()["error"]["code"] == "content_filter"
        assert httpx.post(f"{strict.url}/v1/embeddings", json={"model": "bundled", "input": "Hi"}).status_code == 200
        assert strict.metric("sluicegate_requests_total") == 2


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"dimensions": 7}, 400, "dimensions"),
        ({"input": [[1, 2, 10**9]]}, 400, "input"),
        ({"input": ""}, 400, "input"),
        ({"model": "nope"}, 404, "model"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    gateway: RunningGateway, fields: dict[str, Any], status: int, param: str
) -> None:
    answer = httpx.post(f"{gateway.url}/v1/embeddings", json={"model": "bundled", "input": "x", **fields})
    assert answer.status_code == status
    assert answer.json()["error"]["param"].startswith(param)


def test_a_generator_without_vectors_says_so() -> None:
    with TestApp() as gateway:
        answer = gateway.client.post("/v1/embeddings", json={"model": "scripted", "input": "x"})
    assert (answer.status_code, json.loads(answer.text)["error"]["code"]) == (400, "unsupported_model")


def test_the_best_of_several_are_given(gateway: RunningGateway) -> None:
    """All that were generated are paid for."""
    asked = {"model": "bundled", "prompt": "Once", "max_tokens": 6, "ignore_eos": True, "best_of": 4, "seed": 1}
    told = httpx.post(gateway.url + URL, json=asked).json()
    assert len(told["choices"]) == 1
    assert told["usage"]["completion_tokens"] == 24
