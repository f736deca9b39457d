"""Streams of every dialect, over generated answers: text, thoughts, calls, in any cuts, ended in every way."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest

from sluicegate.gateway.grpc.messages import GenerateRequest, Message, Tool
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job, Piece
from sluicegate.plugins.testing.doubles import ScriptedGeneration
from tests.adversary.joining import ASKED, FUNCTION, TOOL, Speaker, behind
from tests.gateway.rpc.calling import Client
from tests.gateway.stream_laws import (
    Joined,
    of_chat,
    of_completions,
    of_grpc,
    of_message,
    of_messages,
    of_response,
    of_responses,
    plain,
)
from tests.waiting import until

WORDS = ("", "a ", "bright ", "halberd ", "\n", "\U0001f600é ", "project ", "nightjar ", '"{ ', "end. ")
BAD = "halberd", "project nightjar"


class Mixed(Speaker):
    """`pieces` may hold an error, which is raised, or None, where it waits until it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[Any] = []
        self.made: list[ScriptedGeneration] = []

    async def generate(self, job: Job) -> ScriptedGeneration:
        self.made.append(_Mixed(job, self.pieces))
        return self.made[-1]


class _Mixed(ScriptedGeneration):
    def __init__(self, job: Job, given: list[Any]) -> None:
        super().__init__(job, (), "stop", 0.0)
        self._given = list(given)
        self._left = asyncio.Event()

    def cancel(self) -> None:
        super().cancel()
        self._left.set()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for one in self._given:
            if isinstance(one, Exception):
                raise one
            if one is None:
                await self._left.wait()
            if self.cancelled:
                return
            yield one


@pytest.fixture(scope="module")
def speaker() -> Mixed:
    return Mixed()


@pytest.fixture(scope="module", params=["redact", "block"])
def app(request: pytest.FixtureRequest, speaker: Mixed) -> Iterator[TestApp]:
    with behind(speaker, request.param, grpc={"enabled": True, "port": 0}) as found:
        yield found


def drawn(seed: int, *, raw: bool) -> list[Any]:
    """Draw an answer with its end: thoughts, text, up to three calls, cut anywhere, some with turns between
    channels."""
    generator = random.Random(seed)
    texts: list[tuple[dict[str, Any], str]] = []
    words = lambda: "".join(generator.choices(WORDS, k=generator.randrange(8)))  # noqa: E731
    if not raw and generator.random() < 0.5:
        texts.append(({"channel": "reasoning"}, words()))
    texts.append(({}, words()))
    for number in range(0 if raw else generator.choice((0, 0, 1, 3))):
        place = {"channel": "tool_arguments", "call": number}
        texts.append((place, json.dumps({"a": words(), "b": [number]}, ensure_ascii=False)))
    pieces: list[Any] = []
    for place, text in texts:
        begun = False
        cuts = sorted(generator.choices(range(len(text) + 1), k=generator.randrange(4)))
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            named = {"tool": "look"} if "call" in place and not begun else {}
            begun = True
            pieces.append(Piece(0, text[start:end], **place, **named))
    reason: Any = "tool_calls" if any("call" in place for place, _ in texts) else "stop"
    how = generator.randrange(4)
    if how == 0:
        kept = pieces[: generator.randrange(len(pieces) + 1)]
        return [*kept, RuntimeError("the model is gone")]
    if how == 1:
        kept = pieces[: generator.randrange(1, len(pieces) + 1)]
        return [*kept, Piece(0, finish_reason="length")]
    return [*pieces, Piece(0, finish_reason=reason)]


def body(path: str, stream: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": "far", "stream": stream}
    named = {"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}
    return fields | {
        "/v1/chat/completions": {"messages": ASKED, "tools": [TOOL]},
        "/v1/completions": {"prompt": "hi"},
        "/v1/responses": {"input": "hi", "tools": [{"type": "function", **FUNCTION}]},
        "/v1/messages": {"messages": ASKED, "max_tokens": 99, "tools": [named]},
    }.get(path, {})


def of_choice(answer: dict[str, Any]) -> Joined:
    [choice] = answer["choices"]
    if "text" in choice:
        return Joined(choice["text"], ended=choice["finish_reason"])
    message = choice["message"]
    calls = [(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls") or ()]
    content, reasoning, refusal = (message.get(name) or "" for name in ("content", "reasoning_content", "refusal"))
    return Joined(content, reasoning, refusal, calls, choice["finish_reason"])


WAYS: dict[str, tuple[Callable[[str], Joined], Callable[[dict[str, Any]], Joined]]] = {
    "/v1/chat/completions": (of_chat, of_choice),
    "/v1/completions": (of_completions, of_choice),
    "/v1/responses": (of_responses, of_response),
    "/v1/messages": (of_messages, of_message),
}


@pytest.mark.parametrize("path", WAYS)
def test_a_stream_keeps_the_laws_of_its_dialect_and_says_what_the_whole_answer_says(
    app: TestApp, speaker: Mixed, path: str
) -> None:
    """Forty answers each: what leaves is redacted or refused, its parts are numbered and add up, and it ends once."""
    streamed, whole = WAYS[path]
    for seed in range(40):
        speaker.pieces = drawn(seed, raw=path == "/v1/completions")
        found = app.client.post(path, json=body(path, stream=True))
        answer = app.client.post(path, json=body(path, stream=False))
        if found.status_code != 200:  # it failed before the first byte
            assert (found.status_code, answer.status_code) == (500, 500)
            continue
        assert not any(bad in found.text or bad in answer.text for bad in BAD)
        joined = streamed(found.text)
        if answer.status_code != 200:
            assert answer.status_code == 500
            message = answer.json()["error"]["message"]
            assert "generator 'speaker' failed; send the request again" in message
            assert "RuntimeError" not in message
            assert joined.ended == "", (seed, answer.text)
            continue
        expected = whole(answer.json())
        if joined.ended == "content_filter":  # a stream cannot take back what it said before
            assert expected.ended == "content_filter"
            continue
        assert (joined.content, joined.reasoning, joined.refusal, joined.ended) == (
            *(expected.content, expected.reasoning, expected.refusal),
            expected.ended,
        ), seed
        assert plain(joined.calls) == plain(expected.calls), seed


def test_a_stream_over_grpc_keeps_them_too(app: TestApp, speaker: Mixed) -> None:
    client = Client(app.runtime.progress.grpc)
    asked = GenerateRequest(
        model="far",
        messages=[Message(role="user", content="hi")],
        tools=[Tool(name="look", parameters=json.dumps(FUNCTION["parameters"]))],
    )
    for seed in range(40):
        speaker.pieces = drawn(seed, raw=False)
        raw = app.client.post("/v1/chat/completions", json=body("/v1/chat/completions", stream=True))
        try:
            events = list(client.stream(asked))
        except grpc.RpcError as error:
            assert {error.code()} == {grpc.StatusCode.INTERNAL}  # noqa: PT017 # not of every seed
            assert raw.status_code == 500 or of_chat(raw.text).ended == ""
            continue
        assert of_grpc(events) == of_chat(raw.text)
    client.channel.close()


@pytest.mark.parametrize("path", WAYS)
def test_a_client_that_leaves_ends_the_generation(app: TestApp, speaker: Mixed, path: str) -> None:
    """Once it has read the first of the text; an answer that waits for ever is then cancelled."""
    speaker.pieces = [Piece(0, "some words that no rail waits for. " * 4), None, Piece(0, finish_reason="stop")]
    before = len(app.outcomes)
    with app.client.stream("POST", path, json=body(path, stream=True)) as answer:
        assert answer.status_code == 200
        assert any("some words" in line for line in answer.iter_lines())
    until(lambda: speaker.made[-1].cancelled)
    until(lambda: len(app.outcomes) > before)
    assert app.outcomes[-1].error == "cancelled"


def test_a_grpc_client_that_cancels_ends_the_generation(app: TestApp, speaker: Mixed) -> None:
    speaker.pieces = [Piece(0, "some words that no rail waits for. " * 4), None, Piece(0, finish_reason="stop")]
    client = Client(app.runtime.progress.grpc)
    call = client.stream(GenerateRequest(model="far", messages=[Message(role="user", content="hi")]))
    next(event for event in call if event.deltas)
    call.cancel()
    until(lambda: speaker.made[-1].cancelled)
    client.channel.close()
