"""An upstream that misbehaves, through HTTP: its answer ends as a typed error or is cut, the books keep our own count,
and the next request is served as if nothing had been."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Outcome
from tests.gateway.upstream.servers import (
    END,
    USAGE,
    Act,
    ScriptedServer,
    Send,
    answers,
    chunk,
    event,
    hangs,
    running,
    says,
    streams,
)
from tests.waiting import LIMIT_S, until

PROMPT = "Tell me of the sea, of ships and of sailors. " * 40
HEADS = {"authorization": "Bearer secret-alice"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
LOOK = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
PRICE = 1000.0
"""Of a million tokens: a thousandth each."""


@dataclass
class Place:
    """A gateway with keys, prices and books before one scripted server."""

    app: TestApp
    server: ScriptedServer

    def ask(self, *acts: Act, stream: bool = False, **fields: Any) -> httpx.Response:
        """Ask while the server does `acts`: one a request, the last again and again."""
        self.server._acts[:] = acts
        messages = [{"role": "user", "content": fields.pop("prompt", PROMPT)}]
        body = {"model": "far", "messages": messages, "stream": stream, "max_tokens": 64, **fields}
        answer: httpx.Response = self.app.client.post("/v1/chat/completions", json=body, headers=HEADS)
        return answer

    def outcome(self, ask: Callable[[], object]) -> Outcome:
        """Return the outcome of the one request that `ask` makes."""
        before = len(self.app.outcomes)
        ask()
        return self.app.wait_for_outcomes(before + 1)[before]

    def booked(self) -> dict[str, int]:
        """Return what the books say of all requests so far."""
        table = self.app.runtime.accounts.since_start.values()
        return {
            name: sum(getattr(usage, name) for usage in table)
            for name in ("prompt_tokens", "completion_tokens", "cost_nanos")
        }

    def metric(self, name: str) -> float:
        lines = self.app.client.get("/metrics").text.splitlines()
        return next(float(line.split(" ")[1]) for line in lines if line.startswith(name + " "))

    def serves(self) -> None:
        """Assert that the gateway lives and answers the next request."""
        answer = self.ask(says("Hello"))
        assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "Hello")


def place(url: str, server: ScriptedServer, *, limits: Mapping[str, Any] | None = None, **settings: Any) -> TestApp:
    model = {"url": url, "allow_private": True, "retries": 0, "attempts": 1, "failures_to_open": 1000, **settings}
    digest = hashlib.sha256(b"secret-alice").hexdigest()
    return TestApp(
        pipeline={
            "admit": ["api-keys", "limits"],
            "record": ["ledger"],
            "generate": ["upstream"],
            "constrain": ["grammar"],
        },
        stages={"generate": {"upstream": {"models": {"far": model}}}},
        keys=[{"id": "alice", "sha256": digest, "limits": dict(limits or {})}],
        accounts={"prices": {"far": {"input": PRICE, "output": PRICE}}},
    )


@pytest.fixture(scope="module")
def far() -> Iterator[Place]:
    server = ScriptedServer(says("Hello"))
    with running(server) as url, place(url, server) as app:
        yield Place(app, server)


def read(answer: httpx.Response) -> tuple[str, str | None, str | None]:
    """Return the text, how it ended, and the code of an error, whatever form the answer has."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        body = answer.json()
        if "error" in body:
            return "", None, body["error"]["code"]
        [choice] = body["choices"]
        return choice["message"].get("content") or "", choice["finish_reason"], None
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    choices = [choice for one in events for choice in one.get("choices", ())]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    ended = next((choice["finish_reason"] for choice in choices if choice["finish_reason"]), None)
    return text, ended, next((one["error"]["code"] for one in events if "error" in one), None)


def both(delta: Mapping[str, Any], *, reason: str = "stop", usage: Any = None, **choice: Any) -> Act:
    """Answer with one choice, streamed or not, as it was asked for."""
    last = [event({"choices": [], "usage": usage})] if usage is not None else []
    made = {"index": 0, **choice}
    streamed = streams(
        event({"choices": [{**made, "delta": delta, "finish_reason": None}]}), chunk(reason=reason), *last, END
    )
    told = {"usage": usage} if usage is not None else {}
    whole = answers(200, {"choices": [{**made, "message": delta, "finish_reason": reason}], **told})

    async def act(server: ScriptedServer, send: Send) -> None:
        await (streamed if server.streaming else whole)(server, send)

    return act


def token(text: str = "ok", **more: Any) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": [], **more}


# --- fields past their bounds -----------------------------------------------------------------------------------

BEYOND: dict[str, tuple[Act, dict[str, Any]]] = {
    "bytes of a token as a number": (
        both({"content": "ok"}, logprobs={"content": [token(bytes=300_000_000)]}),
        {"logprobs": True},
    ),
    "bytes past 255": (both({"content": "ok"}, logprobs={"content": [token(bytes=[256])]}), {"logprobs": True}),
    "bytes that are truth values": (
        both({"content": "ok"}, logprobs={"content": [token(bytes=[True])]}),
        {"logprobs": True},
    ),
    "a logprob above 0": (both({"content": "ok"}, logprobs={"content": [token(logprob=5)]}), {"logprobs": True}),
    "a logprob as text": (both({"content": "ok"}, logprobs={"content": [token(logprob="0")]}), {"logprobs": True}),
    "a token as a number": (
        both({"content": "ok"}, logprobs={"content": [token() | {"token": 7}]}),
        {"logprobs": True},
    ),
    "more tokens than bytes": (both({"content": "ok"}, logprobs={"content": [token()] * 40}), {"logprobs": True}),
    "logprobs as a list": (both({"content": "ok"}, logprobs=[1]), {"logprobs": True}),
    "usage of 12 million millions": (
        both({"content": "ok"}, usage={"prompt_tokens": 10, "completion_tokens": 12_000_000_000_000}),
        {},
    ),
    "usage past 64 bits": (both({"content": "ok"}, usage={"prompt_tokens": 10**30, "completion_tokens": 1}), {}),
    "usage below 0": (both({"content": "ok"}, usage={"prompt_tokens": 10, "completion_tokens": -5}), {}),
    "usage as a fraction": (both({"content": "ok"}, usage={"prompt_tokens": 1.5, "completion_tokens": 1}), {}),
    "usage as a truth value": (both({"content": "ok"}, usage={"prompt_tokens": True, "completion_tokens": 1}), {}),
    "usage as text": (both({"content": "ok"}, usage={"prompt_tokens": "10", "completion_tokens": 1}), {}),
    "usage as a list": (both({"content": "ok"}, usage=[1, 2]), {}),
    "details as a number": (
        both({"content": "ok"}, usage={"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": 7}),
        {},
    ),
    "hidden thoughts below 0": (
        both({"content": "ok"}, usage={"completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": -1}}),
        {},
    ),
    "content as a list": (both({"content": ["ok"]}), {}),
    "content as a number": (both({"content": 7}), {}),
    "thoughts as an object": (both({"reasoning_content": {"a": 1}}), {}),
    "an index that is a truth value": (both({"content": "ok"}, index=False), {}),
    "an index that is text": (both({"content": "ok"}, index="0"), {}),
    "an index past the choices": (both({"content": "ok"}, index=1), {}),
    "an index below 0": (both({"content": "ok"}, index=-1), {}),
    "an end that is a number": (both({"content": "ok"}, reason=7), {}),  # type: ignore[arg-type]
    "a long end": (both({"content": "ok"}, reason="x" * 5000), {}),
    "more choices than asked": (
        answers(200, {"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}] * 2}),
        {},
    ),
    "text after the end": (streams(chunk("ok", reason="stop"), chunk("more"), END), {}),
    "two ends": (streams(chunk("ok", reason="stop"), chunk(reason="stop"), END), {}),
    "half a surrogate pair": (streams(b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n', END), {}),
    "a number that is none": (streams(b'data: {"choices":[],"usage":{"prompt_tokens":NaN}}\n\n', END), {}),
    "an infinite number": (streams(b'data: {"choices":[],"usage":{"prompt_tokens":1e999}}\n\n', END), {}),
    "a byte order mark": (streams(b'data: \xef\xbb\xbf{"choices":[]}\n\n', END), {}),
    "broken UTF-8": (streams(b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n', END), {}),
    "depth": (streams(b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n", END), {}),
    "depth in a field": (streams(b'data: {"choices":' + b"[" * 900 + b"]" * 900 + b"}\n\n", END), {}),
    "a stream that is called JSON": (
        answers(200, "data: {}"),
        {},
    ),
    "JSON that is called a stream": (streams(b'{"choices": [{"message": {"content": "ok"}}]}'), {}),
    "a call without an offer": (both({"tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}), {}),
    "a call of a tool that was not offered": (
        both({"tool_calls": [{"index": 0, "function": {"name": "halberd", "arguments": '{"a": 1}'}}]}),
        {"tools": [LOOK]},
    ),
    "a call where none may be made": (
        both({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": '{"a": 1}'}}]}),
        {"tools": [LOOK], "tool_choice": "none"},
    ),
    "no call where one must be made": (both({"content": "no"}), {"tools": [LOOK], "tool_choice": "required"}),
    "two calls where one may be made": (
        both({"tool_calls": [{"index": i, "function": {"name": "look", "arguments": '{"a": 1}'}} for i in (0, 1)]}),
        {"tools": [LOOK], "parallel_tool_calls": False},
    ),
    "a name of a megabyte": (
        both({"tool_calls": [{"index": 0, "function": {"name": "x" * 1_000_000, "arguments": "{}"}}]}),
        {"tools": [LOOK]},
    ),
    "a call's index past its bound": (
        both({"tool_calls": [{"index": 10**9, "function": {"name": "look", "arguments": '{"a": 1}'}}]}),
        {"tools": [LOOK]},
    ),
    "arguments as an object": (
        both({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": {"a": 1}}}]}),
        {"tools": [LOOK]},
    ),
    "calls that are a number": (both({"tool_calls": 7}), {"tools": [LOOK]}),
    "a thousand calls": (
        both(
            {"tool_calls": [{"index": i, "function": {"name": "look", "arguments": '{"a": 1}'}} for i in range(1000)]}
        ),
        {"tools": [LOOK]},
    ),
    "an endless line": (streams(b"data: " + b"x" * 9_000_000), {}),
    "a flood of lists": (streams(b'data: {"choices":[],"x":[' + b"[]," * 300_000 + b"[]]}\n\n", END), {}),
    "a flood of keys": (
        streams(b'data: {"choices":[],' + b",".join(b'"%d":1' % i for i in range(90_000)) + b"}\n\n", END),
        {},
    ),
    "endless comments": (streams(*[b": x\n" * 100_000] * 30), {}),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", BEYOND)
def test_past_a_bound_an_answer_ends_as_upstream_failed_and_nobody_else_notices(
    far: Place, name: str, stream: bool
) -> None:
    act, fields = BEYOND[name]
    outcome = far.outcome(lambda: far_answers(far.ask(act, stream=stream, **fields)))
    assert outcome.error == "upstream_failed"
    assert outcome.usage.completion_tokens <= 64
    assert 0 < outcome.usage.prompt_tokens <= len(PROMPT)
    far.serves()


def far_answers(answer: httpx.Response) -> None:
    assert answer.status_code in (200, 502)
    assert read(answer)[2] == "upstream_failed"
    for forbidden in ("halberd", "300000000", "xxxxx"):
        assert forbidden not in answer.text


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_log_probabilities_that_were_not_asked_for_are_not_even_read(far: Place, stream: bool) -> None:
    act = both({"content": "ok"}, logprobs={"content": [token("project nightjar", bytes=300_000_000)]})
    answer = far.ask(act, stream=stream)
    assert read(answer)[:2] == ("ok", "stop")
    assert "nightjar" not in answer.text


def test_log_probabilities_are_as_many_as_were_asked_for_and_their_bytes_spell_their_tokens(far: Place) -> None:
    others = [{"token": f"t{i}", "logprob": -1.0 - i, "bytes": list(b"halberd")} for i in range(20)]
    split = {"token": "\\xe2\\x9c", "logprob": -0.1, "bytes": [0xE2, 0x9C], "top_logprobs": []}
    act = both({"content": "ok ✓"}, logprobs={"content": [token("ok ", top_logprobs=others), split]})
    [first, second] = far.ask(act, logprobs=True, top_logprobs=2).json()["choices"][0]["logprobs"]["content"]
    assert [(other["token"], bytes(other["bytes"])) for other in first["top_logprobs"]] == [
        ("t0", b"t0"),
        ("t1", b"t1"),
    ]
    assert bytes(second["bytes"]) == b"\xe2\x9c"


# --- max_tokens and the books -----------------------------------------------------------------------------------

FLOODS: dict[str, tuple[bytes, int]] = {
    "words": (chunk("word "), 5 * 80),
    "letters": (chunk("x"), 64 * 16 + 64),
    "blocks": (chunk("y" * 10_000), 64 * 16 + 64),
    "thoughts": (chunk(reasoning_content="word "), 5 * 80),
    "another script": (chunk("漢字かな交じり文"), 64 * 16 + 64),
}


@pytest.mark.parametrize("name", FLOODS)
def test_max_tokens_ends_an_answer_that_goes_on(far: Place, name: str) -> None:
    """With `length`, where the text must be longer; nothing more is read, and no more is charged."""
    frame, most = FLOODS[name]
    act = streams(*[frame] * 3000, chunk(reason="stop"), USAGE, END)
    answers_: list[httpx.Response] = []
    outcome = far.outcome(lambda: answers_.append(far.ask(act, stream=True)))
    text, ended, error = read(answers_[0])
    assert (ended, error) == ("length", None)
    assert len(text) <= most
    assert outcome.usage.completion_tokens == 64
    far.serves()


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "json_object"}}], ids=["free", "constrained"])
def test_max_tokens_ends_a_whole_answer_that_is_too_long(far: Place, fields: dict[str, Any]) -> None:
    text = json.dumps({"a": "word and word " * 30_000})
    answer = far.ask(both({"content": text}, usage={"prompt_tokens": 500, "completion_tokens": 5}), **fields)
    said, ended, _ = read(answer)
    assert (ended, text.startswith(said)) == ("length", True)
    assert len(said.split()) <= 72
    assert answer.json()["usage"]["completion_tokens"] <= 64


def test_max_tokens_ends_arguments_that_go_on(far: Place) -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    begin = chunk(tool_calls=[{"index": 0, "id": "1", "function": {"name": "look", "arguments": '{"s": "'}}])
    more = chunk(tool_calls=[{"index": 0, "function": {"arguments": "on and "}}])
    answer = far.ask(streams(begin, *[more] * 3000, END), stream=True, tools=[tool])
    assert read(answer)[1:] == ("length", None)
    assert answer.text.count("on and") <= 64


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("usage", "prompt", "completion"),
    [
        ({"prompt_tokens": 450, "completion_tokens": 14}, 450, 14),
        ({"prompt_tokens": 0, "completion_tokens": 0}, len(PROMPT) // 4, 12),
        (None, len(PROMPT) // 4, 12),
        ({"prompt_tokens": 450, "completion_tokens": 2_000_000_000}, 450, 61),
        ({"prompt_tokens": 2_000_000_000, "completion_tokens": 14}, None, 14),
        (
            {"prompt_tokens": 450, "completion_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 50}},
            450,
            60,
        ),
    ],
    ids=["true", "nothing", "silent", "much written", "much read", "hidden thoughts"],
)
def test_a_claim_counts_as_far_as_it_can_be_true(
    far: Place, usage: Any, prompt: int | None, completion: int, stream: bool
) -> None:
    """The answer has 45 bytes, and 16 tokens that no text shows; what cannot be true is replaced by our own count or
    cut, and counted."""
    before, doubted = far.booked(), far.metric("sluicegate_disbelieved_total")
    answer = far.ask(both({"content": "The sea is wide and deep, and the ships sail."}, usage=usage), stream=stream)
    assert read(answer)[1] == "stop"
    until(lambda: far.booked() != before)
    after = far.booked()
    assert after["completion_tokens"] - before["completion_tokens"] == completion
    read_tokens = after["prompt_tokens"] - before["prompt_tokens"]
    assert read_tokens == prompt if prompt is not None else len(PROMPT) <= read_tokens <= len(PROMPT) + 300
    cost = after["cost_nanos"] - before["cost_nanos"]
    assert cost == 1000 * PRICE * (read_tokens + after["completion_tokens"] - before["completion_tokens"])
    honest = usage is None or (usage["prompt_tokens"] == 450 and usage["completion_tokens"] <= 64)
    assert far.metric("sluicegate_disbelieved_total") - doubted == (0 if honest else 1)


def test_more_reused_tokens_than_tokens_are_not_believed(far: Place) -> None:
    usage = {"prompt_tokens": 450, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1_000_000}}
    before = far.booked()
    told = far.ask(both({"content": "ok"}, usage=usage)).json()["usage"]
    assert told["prompt_tokens_details"]["cached_tokens"] == 450
    until(lambda: far.booked() != before)
    assert far.booked()["cost_nanos"] > before["cost_nanos"]


def test_a_budget_is_never_overrun_however_often_an_answer_is_asked_for() -> None:
    """Three answers that are no good are charged as one at most: so much was reserved."""
    server = ScriptedServer(both({"content": "no " * 60}, usage={"prompt_tokens": 40, "completion_tokens": 60}))
    limits = {"budget_day": 1.0}
    with running(server) as url, place(url, server, limits=limits, attempts=3) as app:
        there = Place(app, server)
        act = server._acts[0]
        fields = {"response_format": {"type": "json_object"}, "prompt": "short", "max_tokens": 64}
        outcome = there.outcome(lambda: there.ask(act, **fields))
        assert (outcome.error, len(server.bodies)) == ("upstream_failed", 3)
        assert outcome.usage.completion_tokens == 64
        held = 1000 * PRICE * (64 + 5 + 256 + 16)
        assert 0 < there.booked()["cost_nanos"] <= held


# --- hanging up -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_hanging_up_before_the_head_comes_is_charged_for_the_prompt(far: Place, stream: bool) -> None:
    far.server._acts[:] = [hangs]
    asked = len(far.server.bodies)
    body = {"model": "far", "messages": [{"role": "user", "content": PROMPT}], "stream": stream, "max_tokens": 64}

    def leave() -> None:
        async def ask() -> None:
            async with httpx.AsyncClient(base_url=far.app.url, headers=HEADS, timeout=30) as client:
                task = asyncio.create_task(client.post("/v1/chat/completions", json=body))
                await asyncio.to_thread(until, lambda: len(far.server.bodies) > asked)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(ask())

    outcome = far.outcome(leave)
    assert (outcome.usage.prompt_tokens, outcome.usage.completion_tokens) == (len(PROMPT) // 4, 0)
    far.serves()


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_web_socket_that_is_cancelled_before_the_head_comes_is_charged_for_the_prompt(far: Place, end: str) -> None:
    far.server._acts[:] = [hangs]
    asked = len(far.server.bodies)
    body = {"model": "far", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64}

    def leave() -> None:
        address = far.app.url.replace("http", "ws", 1) + "/v1/chat/completions/ws"
        with connect(address, additional_headers=HEADS, proxy=None) as socket:
            socket.send(json.dumps(body))
            until(lambda: len(far.server.bodies) > asked)
            if end == "cancel":
                socket.send('{"type": "cancel"}')
                while socket.recv(timeout=LIMIT_S) != "[DONE]":
                    pass

    assert far.outcome(leave).usage.prompt_tokens == len(PROMPT) // 4


def test_a_prompt_that_one_server_took_and_another_answered_is_charged_for_both_as_far_as_was_reserved() -> None:
    slow, quick = ScriptedServer(hangs), ScriptedServer(says("Hello"))
    with running(slow) as first, running(quick) as second:
        settings = {"allow_private": True, "retries": 0, "first_s": 0.3, "whole_s": 0.3}
        models = {"far": {"url": first, **settings}, "near": {"url": second, **settings, "whole_s": 20.0}}
        app = TestApp(
            pipeline={"generate": ["upstream"], "record": ["ledger"]},
            stages={"generate": {"upstream": {"models": models}}},
            settings={"routing": {"models": {"far": {"fallback": ["near"]}}}},
        )
        with app:
            body = {"model": "far", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64}
            assert app.client.post("/v1/chat/completions", json=body).status_code == 200
            [outcome] = app.wait_for_outcomes(1)
    assert outcome.usage.prompt_tokens == len(PROMPT) // 4 * 2
    assert outcome.usage.completion_tokens == 7


def test_hanging_up_in_the_middle_is_charged_for_what_came(far: Place) -> None:
    far.server._acts[:] = [streams(*[chunk("word ")] * 40, pause_s=0.05)]
    body = {"model": "far", "messages": [{"role": "user", "content": PROMPT}], "stream": True, "max_tokens": 64}

    def leave() -> None:
        with far.app.client.stream("POST", "/v1/chat/completions", json=body, headers=HEADS) as answer:
            next(line for line in answer.iter_lines() if "word" in line)

    outcome = far.outcome(leave)
    assert outcome.usage.prompt_tokens == len(PROMPT) // 4
    assert 0 < outcome.usage.completion_tokens <= 64


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("act", [hangs, streams(*[chunk("a ")] * 40, pause_s=0.2)], ids=["head", "middle"])
def test_a_deadline_ends_an_answer_and_charges_what_was_sent(far: Place, act: Act, stream: bool) -> None:
    answers_: list[httpx.Response] = []
    fields = {"sluicegate": {"deadline_s": 0.7}}
    outcome = far.outcome(lambda: answers_.append(far.ask(act, stream=stream, **fields)))
    assert read(answers_[0])[2] == "deadline_exceeded"
    assert outcome.usage.prompt_tokens == len(PROMPT) // 4


def test_what_a_server_refuses_is_not_charged_and_what_it_left_open_is(far: Place) -> None:
    refused = far.outcome(lambda: far.ask(answers(400)))
    busy = far.outcome(lambda: far.ask(answers(429)))
    failed = far.outcome(lambda: far.ask(answers(500)))
    assert [outcome.usage.prompt_tokens for outcome in (refused, busy, failed)] == [0, 0, len(PROMPT) // 4]


# --- refusals ---------------------------------------------------------------------------------------------------

SECRET = "halberd AKIAIOSFODNN7EXAMPLE\n\x1b[31m"


@pytest.mark.parametrize("status", [400, 413, 422, 401, 404, 500, 503, 302])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_words_of_a_refusal_never_reach_a_caller_or_a_log(
    far: Place, status: int, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told = {"message": SECRET, "code": SECRET, "param": SECRET, "type": SECRET}
    answer = far.ask(answers(status, {"error": told}), stream=stream)
    assert answer.status_code >= 400
    for part in ("halberd", "AKIA"):
        assert part not in answer.text + caplog.text
    far.serves()


def test_known_codes_and_names_of_a_refusal_are_passed_on(far: Place) -> None:
    told = {"message": SECRET, "code": "unsupported_value", "param": "messages[0].content"}
    error = far.ask(answers(400, {"error": told})).json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_value", "messages")
    assert error["message"] == "the server behind model 'far' refused the request with status 400 (unsupported value)"


@pytest.mark.parametrize("header", ["inf", "nan", "-5", "1e400", "9" * 400, "soon"])
def test_a_wait_that_is_no_number_of_seconds_is_not_passed_on(far: Place, header: str) -> None:
    answer = far.ask(answers(429, headers={"retry-after": header}))
    assert answer.status_code == 503
    assert 1 <= int(answer.headers["retry-after"]) <= 3600


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b'{"error": {"code": ["x"], "message": 7}}', b"\xff" * 200_000, b"null"]
)
def test_a_refusal_of_any_body_is_one_of_ours(far: Place, body: bytes) -> None:
    async def act(server: ScriptedServer, send: Send) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": body})

    assert read(far.ask(act))[2] == "invalid_request"


# --- time, heads and packing ------------------------------------------------------------------------------------


def drips(piece: bytes, *first: bytes) -> Act:
    return streams(*first, *[piece] * 400, pause_s=0.05)


@pytest.fixture(scope="module")
def hurried() -> Iterator[Place]:
    """Run a gateway whose limits are all short, before a server that never ends by itself."""
    server = ScriptedServer(says("Hello"))
    with running(server) as url, place(url, server, first_s=1.0, idle_s=0.4, whole_s=2.0) as app:
        yield Place(app, server)


@pytest.mark.parametrize(
    "act",
    [
        drips(b": still here\n\n"),
        drips(b"\n"),
        drips(b"data: {}\n\n"),
        drips(b'data: {"choices":[]}\n\n', chunk("Hel")),
        drips(b": still here\n\n", chunk("Hel")),
        drips(b"d"),
        drips(chunk("a ")),
        hangs,
    ],
    ids=[
        "comments",
        "blank lines",
        "empty events",
        "empty choices",
        "comments after text",
        "letters",
        "slowly",
        "no head",
    ],
)
def test_no_way_of_going_on_outlasts_the_limits_of_a_stream(hurried: Place, act: Act) -> None:
    """The act goes on for 20 s; that the server sees it hung up says that it was not waited for."""
    left = hurried.server.left
    answer = hurried.ask(act, stream=True, max_tokens=4096)
    assert read(answer)[2] == "upstream_failed"
    until(lambda: hurried.server.left == left + 1)


def test_an_answer_that_is_not_streamed_has_as_much_time_as_whole_s(hurried: Place) -> None:
    async def blanks(server: ScriptedServer, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.05)

    left = hurried.server.left
    assert read(hurried.ask(blanks))[2] == "upstream_failed"
    until(lambda: hurried.server.left == left + 1)
    hurried.serves()


def test_a_head_that_comes_letter_by_letter_is_not_waited_for(far: Place) -> None:
    async def main() -> str:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for letter in b"HTTP/1.1 200 OK\r\nx-filler: " + b"x" * 4000:
                writer.write(bytes([letter]))
                await asyncio.sleep(0.05)

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with place(url, far.server, first_s=0.5, whole_s=0.5) as app:
            body = {"model": "far", "messages": [{"role": "user", "content": "hi"}]}
            answer = await app.client.post("/v1/chat/completions", json=body, headers=HEADS)
        server.close()
        return str(answer.json()["error"]["code"])

    assert asyncio.run(main()) == "upstream_failed"


def test_heads_that_begin_nothing_end_the_connection(far: Place) -> None:
    """Meanwhile others are served; a few of them are no harm."""
    few = [b"HTTP/1.1 100 Continue\r\n\r\n"] * 3
    body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async def ask(*pieces: bytes) -> httpx.Response:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}]")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with place(url, far.server) as app:
            asked = {"model": "far", "messages": [{"role": "user", "content": "hi"}]}
            answer: httpx.Response = await app.client.post("/v1/chat/completions", json=asked, headers=HEADS)
        server.close()
        return answer

    assert read(asyncio.run(ask(*few, whole)))[0] == "Hello"
    assert read(asyncio.run(ask(*few * 10, whole)))[2] == "upstream_failed"


@pytest.mark.parametrize("packing", ["gzip", "deflate", "br", "gzip, gzip", "nonsense"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_packed_answers_are_refused_unread(far: Place, packing: str, stream: bool) -> None:
    """50 kB of them would be 50 MB."""
    bomb = gzip.compress(b" " * 50_000_000)

    async def act(server: ScriptedServer, send: Send) -> None:
        kind = b"text/event-stream" if server.streaming else b"application/json"
        head = [(b"content-type", kind), (b"content-encoding", packing.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": bomb})

    assert read(far.ask(act, stream=stream))[2] == "upstream_failed"
    assert far.server.headers[-1]["accept-encoding"] == "identity"


@pytest.mark.parametrize("head", [(b"x" * 9000, b"1"), (b"x", b"y" * 100_000)], ids=["name", "value"])
def test_heads_past_their_bound_are_no_answer(far: Place, head: tuple[bytes, bytes]) -> None:
    async def act(server: ScriptedServer, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [head]})
        await send({"type": "http.response.body", "body": b"{}"})

    assert read(far.ask(act))[2] == "upstream_failed"
    far.serves()


# --- calls of tools ---------------------------------------------------------------------------------------------


def part(index: int = 0, name: str | None = None, arguments: str | None = None) -> bytes:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk(tool_calls=[{"index": index, "function": function}])


@pytest.mark.parametrize(
    "frames",
    [
        [part(name="halberd"), part(arguments="{}")],
        [part(name="loo"), part(name="kout"), part(arguments="{}")],
        [part(name="look", arguments='{"b"')],
        [part(name="look", arguments='{"a": "halberd"')],
        [part(name="look", arguments='{"a": 1}'), part(arguments="halberd")],
        [part(name="look", arguments='{"a": 1}'), part(name="halberd")],
        [part(name="look", arguments='{"a": 1}'), part(1, "look", '{"a": 2}'), part(0, None, "halberd")],
        [part(arguments="halberd")],
        [part(0, "", "halberd")],
    ],
    ids=[
        "name",
        "name in parts",
        "key",
        "value",
        "after the end",
        "second name",
        "going back",
        "no name",
        "empty name",
    ],
)
def test_nothing_of_a_call_streams_out_before_it_is_judged(far: Place, frames: list[bytes]) -> None:
    answer = far.ask(streams(*frames, chunk(reason="tool_calls"), END), stream=True, tools=[LOOK])
    assert read(answer)[2] == "upstream_failed"
    for word in ("halberd", "lookout", '"finish_reason":"tool_calls"'):
        assert word not in answer.text


@pytest.mark.parametrize(
    "frames",
    [
        [part(name="look", arguments=""), part(arguments='{"a"'), part(arguments=": 1}")],
        [part(name="lo"), part(name="ok"), part(arguments='{"a": 1}')],
        [part(name="look", arguments='{"a":'), part(name="look", arguments=" 1}")],
        [part(3, "look", '{"a": 1}')],
    ],
    ids=["usual", "name in parts", "name again", "numbered otherwise"],
)
def test_calls_as_servers_write_them_pass(far: Place, frames: list[bytes]) -> None:
    answer = far.ask(streams(*frames, chunk(reason="tool_calls"), END), stream=True, tools=[LOOK])
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    calls = [call for one in events for c in one["choices"] for call in c["delta"].get("tool_calls", ())]
    assert "".join(call["function"].get("name", "") for call in calls) == "look"
    assert json.loads("".join(call["function"].get("arguments", "") for call in calls)) == {"a": 1}
    assert {call["index"] for call in calls} == {0}


def test_arguments_that_no_grammar_judges_are_held_until_they_are_whole(far: Place) -> None:
    """A reference to itself in a place that is not compiled: the independent validator has the last word."""
    pattern = {"type": "object", "properties": {"s": {"type": "string", "pattern": r"^(a+)\1$"}}, "required": ["s"]}
    tool = {"type": "function", "function": {"name": "look", "parameters": pattern}}
    bad = streams(part(name="look", arguments='{"s": '), part(arguments='"halberd"}'), chunk(reason="tool_calls"), END)
    answer = far.ask(bad, stream=True, tools=[tool])
    assert "halberd" not in answer.text
    assert read(answer)[2] in ("upstream_failed", "unsupported_schema", "invalid_schema")


def test_two_calls_of_a_whole_answer_are_two(far: Place) -> None:
    """Servers do not number them there."""
    calls = [
        {"id": str(i), "type": "function", "function": {"name": "look", "arguments": f'{{"a": {i}}}'}} for i in (1, 2)
    ]
    act = answers(200, {"choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]})
    message = far.ask(act, tools=[LOOK]).json()["choices"][0]["message"]
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"a": 1}', '{"a": 2}']
