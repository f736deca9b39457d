"""Personal data does not reach the model, and comes back for the caller who may see it, and for no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.testing import make_request
from sluicegate.safety import Restorer, compile_pii, restored
from sluicegate.safety.rails.pseudonyms import PseudonymPolicy, Pseudonyms
from tests.safety.driving import CALLER, cut, cuts

MAIL, PHONE = "ada@example.com", "+44 20 7946 0958"
PLACEHOLDER = re.compile(r"<[A-Z_]+_[A-Z2-7]{5,}>")
KEYS = [
    {"id": name, "key": name, "tenant": "shared", "scopes": scopes}
    for name, scopes in (("sees", ["pii"]), ("blind", []))
] + [{"id": "other", "key": "other", "tenant": "elsewhere", "scopes": ["pii"]}]


def echo(job: Any) -> list[str]:
    """Repeat every placeholder that the model was given, in pieces of two characters."""
    text = "Write to " + " and ".join(PLACEHOLDER.findall(job.prompt.text)) + "."
    return [text[i : i + 2] for i in range(0, len(text), 2)]


def gateway(script: Any = echo, **stage: Any) -> TestApp:
    pipeline = {"admit": ["api-keys"], "screen": ["pseudonyms"], "moderate": ["pii"], "recall": ["memory"]}
    stages = {"screen": {"pseudonyms": {"secret": "ab" * 32, **stage}}}
    return TestApp(pipeline=pipeline, stages=stages, keys=KEYS, script=script)


@pytest.fixture
def app() -> Iterator[TestApp]:
    with gateway() as made:
        yield made


def ask(app: TestApp, key: str = "sees", text: str = f"I am {MAIL}, {PHONE}", **fields: Any) -> httpx.Response:
    body = {"model": "scripted", "temperature": 0, "messages": [{"role": "user", "content": text}], **fields}
    headers = {"authorization": f"Bearer {key}"}
    answer: httpx.Response = app.client.post("/v1/chat/completions", json=body, headers=headers)
    return answer


def content_of(answer: httpx.Response) -> str:
    return str(answer.json()["choices"][0]["message"]["content"])


def streamed(answer: httpx.Response) -> str:
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])


def test_the_model_sees_placeholders_and_the_caller_values(app: TestApp) -> None:
    assert content_of(ask(app)) == f"Write to {MAIL} and {PHONE}."
    assert MAIL not in app.model.jobs[0].prompt.text
    assert PHONE not in app.model.jobs[0].prompt.text


def test_streams_too_whatever_the_pieces(app: TestApp) -> None:
    assert streamed(ask(app, stream=True)) == f"Write to {MAIL} and {PHONE}."


def test_without_the_scope_the_placeholders_stay(app: TestApp) -> None:
    for stream in (False, True):
        answer = ask(app, "blind", stream=stream)
        text = streamed(answer) if stream else content_of(answer)
        assert MAIL not in text
        assert len(PLACEHOLDER.findall(text)) == 2


def test_what_is_cached_and_recorded_holds_no_value(app: TestApp) -> None:
    """The second caller gets the first one's answer from the cache, and sees placeholders."""
    assert MAIL in content_of(ask(app, "sees"))
    again = ask(app, "blind")
    assert again.headers["x-sluicegate-cache"] == "hit"
    assert MAIL not in content_of(again)
    assert MAIL in content_of(ask(app, "sees")), "from the cache as well"
    for outcome in app.outcomes:
        assert MAIL not in outcome.answers[0].text
        assert MAIL not in outcome.request.messages[0].content


def test_a_value_has_one_placeholder_in_all_turns_of_a_tenant_and_another_elsewhere(app: TestApp) -> None:
    turns = [
        {"role": "user", "content": f"first {MAIL}"},
        {"role": "assistant", "content": "noted"},
        {"role": "user", "content": f"again {MAIL}"},
    ]
    ask(app, messages=turns)
    ask(app, text=f"only {MAIL}")
    ask(app, "other", text=f"only {MAIL}")
    first, second, other = (set(PLACEHOLDER.findall(job.prompt.text)) for job in app.model.jobs)
    assert len(first) == 1
    assert first == second
    assert first != other


def test_a_structured_answer_is_restored_as_json() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    def script(job: Any) -> list[str]:
        return ['{"to": "', PLACEHOLDER.findall(job.prompt.text)[0], '"}']

    with gateway(script) as app:
        assert json.loads(content_of(ask(app, response_format=asked))) == {"to": MAIL}
        assert json.loads(streamed(ask(app, response_format=asked, stream=True))) == {"to": MAIL}


def test_a_value_that_would_break_the_schema_is_not_put_back() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "maxLength": 14}}, "required": ["to"]}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    def script(job: Any) -> list[str]:
        return ['{"to": "', PLACEHOLDER.findall(job.prompt.text)[0], '"}']

    with gateway(script) as app:
        body = ask(app, text=f"I am {MAIL}", response_format=asked).json()
        assert PLACEHOLDER.search(body["choices"][0]["message"]["content"])
        assert "not restored" in body["sluicegate"]["not_enforced"][0]


VALUES = {"<EMAIL_AAAAA>": MAIL, "<EMAIL_AAAAAB>": "b@example.com", "<PHONE_CCCCC>": 'x"y'}
texts = st.lists(st.sampled_from([*VALUES, "<EMAIL_", "<", "AAAAA>", "a", "<EMAIL_AAAAA", "<<"])).map("".join)


@given(texts, cuts, st.booleans())
def test_restoring_does_not_depend_on_the_cut(text: str, places: list[int], in_json: bool) -> None:
    restorer = Restorer(VALUES, in_json=in_json)
    pieces = cut(text, places)
    assert "".join(map(restorer.feed, pieces)) + restorer.close() == restored(text, VALUES, in_json=in_json)


async def test_two_values_that_share_a_digest_get_longer_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.safety.rails.pseudonyms.LETTERS", 1)
    rail = Pseudonyms("p", compile_pii(["email"]), PseudonymPolicy(b"k" * 32, frozenset({"user"}), restore="always"))
    mails = [f"user{i}@example.com" for i in range(100)]
    result = await rail.screen(make_request(" ".join(mails)), CALLER)
    assert sorted(result.restore.values()) == sorted(mails)
    assert result.messages is not None
    assert restored(result.messages[0].content, result.restore) == " ".join(mails)
