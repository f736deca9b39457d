"""gRPC is another door to the same pipeline: same answers, same limits, same refusals."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import grpc
import numpy as np
import pytest

from sluicegate.gateway.grpc.errors import CODES, code_of, failure_of
from sluicegate.gateway.grpc.messages import EmbedRequest, GenerateRequest, Message, Tool, ToolCall
from sluicegate.gateway.http.errors import error_status
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job, errors
from tests.gateway.conftest import RunningGateway, running
from tests.gateway.rpc.calling import Client, asking, deltas_of, refused, spoken
from tests.waiting import until

SCHEMA = {
    "type": "object",
    "properties": {"z": {"type": "integer"}, "a": {"type": "string", "maxLength": 8}},
    "required": ["z", "a"],
    "additionalProperties": False,
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[TestApp, Client]]:
    with spoken(script=["He", "llo", " wörld \U0001f600"]) as found:
        yield found


@pytest.fixture(scope="module")
def real() -> Iterator[RunningGateway]:
    with running({"grpc": {"enabled": True, "port": 0}}) as found:
        yield found


@pytest.fixture(scope="module")
def client(real: RunningGateway) -> Iterator[Client]:
    found = Client(real.runtime.progress.grpc)
    yield found
    found.channel.close()


# --- answers ------------------------------------------------------------------------------------------------------


def test_an_answer_is_the_one_that_http_gives(real: RunningGateway, client: Client) -> None:
    """Text, end, usage and model; under a schema too, whose order of properties arrives."""
    for fields in ({}, {"json_schema": json.dumps(SCHEMA)}, {"regex": "[ab]{3}"}, {"n": 2}, {"top_logprobs": 2}):
        asked = asking("Say something.", "bundled", max_tokens=24, temperature=0.0, seed=7, **fields)
        asked.more_json = json.dumps({"sluicegate": {"cache": False}})
        found = client.generate(asked)
        wire = {"json_schema": SCHEMA} if "json_schema" in fields else dict(fields)
        wire |= {"logprobs": True} if "top_logprobs" in fields else {}
        http = real.client().chat.completions.create(
            model="bundled",
            messages=[{"role": "user", "content": "Say something."}],
            max_tokens=24,
            temperature=0.0,
            seed=7,
            extra_body={**wire, "sluicegate": {"cache": False}},
        )
        assert [(c.content, c.finish_reason) for c in found.choices] == [
            (c.message.content, c.finish_reason) for c in http.choices
        ]
        assert (found.model, found.system_fingerprint) == (http.model, http.system_fingerprint)
        assert found.usage.prompt_tokens == http.usage.prompt_tokens
        assert found.usage.completion_tokens == http.usage.completion_tokens
        assert [len(c.logprobs) for c in found.choices] == [
            len((c.logprobs and c.logprobs.content) or ()) for c in http.choices
        ]


def test_the_order_of_a_schema_arrives(client: Client) -> None:
    found = client.generate(asking("Fill it.", "bundled", json_schema=json.dumps(SCHEMA), max_tokens=60))
    assert list(json.loads(found.choices[0].content)) == ["z", "a"]


def test_a_stream_says_piece_by_piece_what_a_whole_answer_says(scripted: Any) -> None:
    app, client = scripted
    events = list(client.stream(asking()))
    assert [event.HasField("opening") for event in events] == [True, *[False] * (len(events) - 1)]
    assert [event.HasField("closing") for event in events] == [*[False] * (len(events) - 1), True]
    text = "".join(delta.content for delta in deltas_of(events))
    assert text == client.generate(asking()).choices[0].content == app.ask().text == "Hello wörld \U0001f600"
    assert deltas_of(events)[-1].finish_reason == "stop"
    assert events[-1].closing.usage == client.generate(asking()).usage


def test_calls_of_tools_arrive_whole_and_in_pieces() -> None:
    def say(job: Job) -> list[str]:
        text = "Sunny." if "<tool_response>" in job.prompt.text else CALL
        return [text[i : i + 5] for i in range(0, len(text), 5)]

    weather = Tool(
        name="get_weather", parameters=json.dumps({"type": "object", "properties": {"city": {"type": "string"}}})
    )
    with spoken(script=say) as (_, client):
        asked = asking("Weather?", tools=[weather], tool_choice="required", allowed_tools=["get_weather"])
        [choice] = client.generate(asked).choices
        [call] = choice.tool_calls
        assert choice.finish_reason == "tool_calls"
        assert not choice.HasField("content")
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
        deltas = [delta.call for delta in deltas_of(client.stream(asked)) if delta.HasField("call")]
        assert (deltas[0].name, bool(deltas[0].id)) == ("get_weather", True)
        assert "".join(delta.arguments for delta in deltas) == call.arguments
        asked.messages.append(Message(role="assistant", tool_calls=[call]))
        asked.messages.append(Message(role="tool", content="sunny", tool_call_id=call.id))
        asked.ClearField("tool_choice")
        assert client.generate(asked).choices[0].content == "Sunny."


def test_a_custom_tool_takes_a_text() -> None:
    script = '<tool_call>\n{"name": "shout", "arguments": {"input": "A\\"B"}}\n</tool_call>'
    with spoken(script=[script[i : i + 3] for i in range(0, len(script), 3)]) as (_, client):
        asked = asking("go", tools=[Tool(name="shout", custom=True)], tool_choice="required")
        [call] = client.generate(asked).choices[0].tool_calls
        assert (call.input, call.arguments) == ('A"B', "")
        deltas = [delta.call for delta in deltas_of(client.stream(asked)) if delta.HasField("call")]
        assert "".join(delta.input for delta in deltas) == 'A"B'
        asked.messages.append(Message(role="assistant", tool_calls=[call]))
        asked.messages.append(Message(role="tool", content="done", tool_call_id=call.id))
        assert client.generate(asked).choices


def test_texts_become_the_vectors_that_http_gives(real: RunningGateway, client: Client) -> None:
    found = client.embed(EmbedRequest(model="bundled", input=["one", "two"]))
    http = real.client().embeddings.create(model="bundled", input=["one", "two"], encoding_format="float")
    assert np.allclose([e.values for e in found.data], [e.embedding for e in http.data])
    assert found.usage.prompt_tokens == http.usage.prompt_tokens
    wrong = refused(lambda: client.embed(EmbedRequest(model="bundled", input=["one"], dimensions=7)))
    assert (wrong.reason, wrong.fields) == (("INVALID_ARGUMENT", "INVALID_REQUEST"), ["dimensions"])


def test_fields_of_http_without_one_of_their_own_go_as_json(scripted: Any) -> None:
    app, client = scripted
    more = {"sluicegate": {"explain": True}, "logit_bias": {"7": -100}, "store": False}
    found = client.generate(asking(more_json=json.dumps(more)))
    assert json.loads(found.sluicegate_json)["stages"]
    assert app.model.jobs[-1].request.sampling.logit_bias == {7: -100}
    events = list(client.stream(asking(more_json=json.dumps(more))))
    assert json.loads(events[-1].closing.sluicegate_json)["stages"]


# --- metadata -----------------------------------------------------------------------------------------------------


def test_metadata_is_what_headers_are(scripted: Any) -> None:
    app, client = scripted
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    sent = [("traceparent", trace), ("x-request-id", "mine-1"), ("x-sluicegate-feature", "search")]
    before = len(app.outcomes)
    _, call = client.method("Generate", lambda raw: raw).with_call(
        asking(more_json='{"prompt_cache_key": "x"}'), metadata=sent
    )
    found = dict(call.initial_metadata())
    assert found["x-request-id"] == "mine-1"
    assert found["traceparent"].split("-")[1] == "ab" * 16
    assert found["x-sluicegate-cache"] == "miss"
    assert app.wait_for_outcomes(before + 1)[-1].error is None


@pytest.mark.parametrize("key", ["", "wrong"])
@pytest.mark.parametrize("method", ["generate", "stream", "embed"])
def test_a_stranger_is_refused_before_anything_is_read_and_recorded(key: str, method: str) -> None:
    """Bytes that are no message are not looked at."""
    with spoken(key, keys=[{"id": "one", "key": "secret-one"}], pipeline={"admit": ["api-keys"]}) as (app, client):
        found = refused(lambda: list(getattr(client, method)(b"\xff" * 100_000)) and None)
        code = "invalid_api_key" if key else "missing_api_key"
        assert found.reason == ("UNAUTHENTICATED", code.upper())
        assert "x-request-id" in found.trailing
        [outcome] = app.wait_for_outcomes()
        assert outcome.error == code


def test_a_key_serves_what_it_may_call_and_no_more() -> None:
    keys = [
        {"id": "chat", "key": "secret-chat", "routes": ["/v1/chat/completions"]},
        {"id": "rpc", "key": "secret-rpc", "routes": ["/sluicegate.v1.Sluicegate/*"], "models": ["other"]},
    ]
    with spoken("secret-chat", keys=keys, pipeline={"admit": ["api-keys"]}, names=["scripted", "other"]) as (
        app,
        client,
    ):
        assert refused(lambda: client.generate(asking())).reason == ("PERMISSION_DENIED", "PERMISSION_DENIED")
        allowed = Client(app.runtime.progress.grpc, "secret-rpc")
        assert refused(lambda: allowed.generate(asking())).code is grpc.StatusCode.NOT_FOUND
        assert allowed.generate(asking(model="other")).choices[0].content
        assert app.outcomes[-1].caller.key_id == "rpc"
        with_header = allowed.method("Generate", lambda raw: raw)
        assert with_header(asking(model="other"), metadata=[("x-api-key", "secret-rpc")])


def test_limits_are_those_of_http_and_say_when_to_come_back() -> None:
    keys = [{"id": "one", "key": "secret-one", "limits": {"requests_per_minute": 2}}]
    with spoken("secret-one", keys=keys, pipeline={"admit": ["api-keys", "limits"]}) as (app, client):
        _, call = client.method("Generate", lambda raw: raw).with_call(asking(), metadata=client.metadata)
        assert dict(call.initial_metadata())["x-ratelimit-remaining-requests"] == "1"
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
        over_http = app.client.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer secret-one"})
        assert over_http.headers["x-ratelimit-remaining-requests"] == "0"
        found = refused(lambda: client.generate(asking()))
        assert found.reason == ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED")
        assert found.retry > 0
        assert int(found.trailing["retry-after"]) >= found.retry
        assert found.trailing["x-ratelimit-remaining-requests"] == "0"


def test_a_run_of_an_agent_is_bounded_here_as_over_http() -> None:
    keys = [{"id": "one", "key": "secret-one", "limits": {"run_calls": 2, "run_depth": 1}}]
    with spoken("secret-one", keys=keys, pipeline={"admit": ["api-keys", "limits"]}) as (app, client):

        def called(run: str, depth: str = "0") -> Any:
            named = [("x-sluicegate-run", run), ("x-sluicegate-depth", depth)]
            return client.generate(asking(), metadata=[*client.metadata, *named])

        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": "Bearer secret-one", "x-sluicegate-run": "a"}
        assert app.client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        called("a", "1")
        assert refused(lambda: called("a")).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        called("b")
        assert "2 agents deep" in refused(lambda: called("c", "2")).message
        for run, depth in (("no run", "0"), ("d", "-1"), ("d", "two")):
            assert refused(lambda r=run, d=depth: called(r, d)).reason == ("INVALID_ARGUMENT", "INVALID_RUN")  # type: ignore[misc]


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        (asking(model="nope"), ("NOT_FOUND", "MODEL_NOT_FOUND"), ["model"]),
        (GenerateRequest(model="scripted"), ("INVALID_ARGUMENT", "INVALID_PARAMETER"), ["messages"]),
        (asking(temperature=float("nan")), ("INVALID_ARGUMENT", "INVALID_PARAMETER"), ["temperature"]),
        (asking(top_p=float("inf")), ("INVALID_ARGUMENT", "INVALID_PARAMETER"), ["top_p"]),
        (asking(n=-1), ("INVALID_ARGUMENT", "INVALID_PARAMETER"), ["n"]),
        (asking(json_schema="{"), ("INVALID_ARGUMENT", "INVALID_REQUEST"), ["json_schema"]),
        (asking(json_schema="[" * 300 + "]" * 300), ("INVALID_ARGUMENT", "NESTED_TOO_DEEPLY"), None),
        (asking(more_json="[]"), ("INVALID_ARGUMENT", "INVALID_JSON"), ["more_json"]),
        (asking(more_json='{"model": "other"}'), ("INVALID_ARGUMENT", "CONTRADICTION"), ["model"]),
        (asking(more_json='{"stream": true}'), ("INVALID_ARGUMENT", "CONTRADICTION"), ["stream"]),
        (asking(more_json='{"temprature": 1}'), ("INVALID_ARGUMENT", "UNKNOWN_PARAMETER"), ["temprature"]),
        (asking(regex="a", stop=["b"]), ("INVALID_ARGUMENT", "UNSUPPORTED_PARAMETER"), ["stop"]),
        (asking(tool_choice="maybe"), ("INVALID_ARGUMENT", "INVALID_PARAMETER"), None),
        (asking(allowed_tools=["x"]), ("INVALID_ARGUMENT", "INVALID_REQUEST"), ["tool_choice"]),
        (asking(tools=[Tool(name="a", parameters="1")]), ("INVALID_ARGUMENT", "INVALID_JSON"), ["tools[0].parameters"]),
        (asking(tools=[Tool(name="a", lark="start: 1")]), ("INVALID_ARGUMENT", "INVALID_REQUEST"), ["tools[0]"]),
        (
            asking(tools=[Tool(name="a", custom=True, parameters="{}")]),
            ("INVALID_ARGUMENT", "INVALID_REQUEST"),
            ["tools[0]"],
        ),
        (
            GenerateRequest(
                model="scripted",
                messages=[
                    Message(role="assistant", tool_calls=[ToolCall(id="1", name="a", arguments="{}", input="x")])
                ],
            ),
            ("INVALID_ARGUMENT", "CONTRADICTION"),
            ["messages"],
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name(scripted: Any, request_: Any, reason: Any, field: Any) -> None:
    """By both methods, with the same words."""
    _, client = scripted
    found = refused(lambda: client.generate(request_))
    streamed = refused(lambda: list(client.stream(request_)))
    assert found.code.name == reason[0]
    assert reason[1] in (None, found.info.reason)
    assert field in (None, found.fields)
    assert (streamed.reason, streamed.message) == (found.reason, found.message)
    assert found.info.domain == "sluicegate"


def test_a_schema_that_cannot_be_enforced_names_its_place(client: Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "nothing"}}}
    found = refused(lambda: client.generate(asking("x", "bundled", json_schema=json.dumps(schema))))
    assert found.reason == ("INVALID_ARGUMENT", "INVALID_SCHEMA")
    assert found.info.metadata["pointer"].startswith("/properties/a")


def test_every_error_of_the_tree_has_a_status_code() -> None:
    """Of ours with an HTTP status: none ends as UNKNOWN, and what may be tried again says so by its code."""
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SluicegateError)]
    assert len(classes) > 20
    for one in classes:
        made = one.__new__(one)
        made.message = "x"
        assert error_status(made) in CODES
        code = code_of(made)
        if issubclass(one, errors.Overloaded):
            assert code is grpc.StatusCode.UNAVAILABLE
        if issubclass(one, errors.GrammarError):
            assert code is grpc.StatusCode.INVALID_ARGUMENT


PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


@pytest.mark.parametrize("letter", ["x", "%", "ü", "😀", "\x01"])
def test_long_messages_are_shortened_to_what_a_head_may_hold(scripted: Any, letter: str) -> None:
    _, client = scripted
    for size, code in ((512, grpc.StatusCode.NOT_FOUND), (50_000, grpc.StatusCode.INVALID_ARGUMENT)):
        found = refused(lambda size=size: client.generate(asking(model=letter * size)))
        assert len(found.message) <= 1000
        assert found.code is code


@pytest.mark.parametrize("letter", ["x", "%", "ü", "😀", "\ud800", "\x01"])
def test_the_head_of_the_longest_error_is_one_that_clients_read(letter: str) -> None:
    """8 KiB with the heads that are not ours: details are sent as base64, the message percent-encoded."""
    for size in (0, 1, 332, 333, 334, 999, 1000, 1001, 100_000):
        text = letter * size
        failure = failure_of(errors.RequestError(text, param=text))
        details = dict(failure.metadata)["grpc-status-details-bin"]
        assert len(quote(failure.message, safe=PRINTABLE)) + len(details) * 4 / 3 < 7_000
        assert size > 100 or failure.message == text.encode("utf-8", "replace").decode()


# --- rails --------------------------------------------------------------------------------------------------------

RAIL = {"phrases": ["forbidden word"], "action": "block"}


def test_a_rail_stops_an_answer_in_mid_stream() -> None:
    """What stands before is released, nothing behind it; the choice says why, whole and streamed."""
    script = ["All is well. ", "A forb", "idden wo", "rd and more"]
    rails: dict[str, Any] = {"pipeline": {"moderate": ["blocklist"]}, "stages": {"moderate": {"blocklist": RAIL}}}
    with spoken(script=script, **rails) as (_, client):
        events = list(client.stream(asking()))
        text = "".join(delta.content for delta in deltas_of(events))
        assert text.startswith("All is well.")
        assert "forb" not in text
        [last] = [delta for delta in deltas_of(events) if delta.finish_reason]
        assert last.finish_reason == "content_filter"
        assert last.refusal
        assert events[-1].HasField("closing")
        [choice] = client.generate(asking()).choices
        assert (choice.finish_reason, "forb" in choice.content) == ("content_filter", False)


def test_a_rail_refuses_a_request() -> None:
    rails: dict[str, Any] = {"pipeline": {"screen": ["blocklist"]}, "stages": {"screen": {"blocklist": RAIL}}}
    with spoken(**rails) as (app, client):
        found = refused(lambda: list(client.stream(asking("the forbidden word"))))
        assert found.reason == ("INVALID_ARGUMENT", "CONTENT_FILTER")
        assert found.info.metadata["request_id"]
        assert refused(lambda: client.embed(EmbedRequest(model="scripted", input=["a forbidden word"]))).reason == (
            "INVALID_ARGUMENT",
            "CONTENT_FILTER",
        )
        assert app.model.jobs == []


# --- time ---------------------------------------------------------------------------------------------------------


def test_the_deadline_of_a_call_is_the_time_limit_of_the_request() -> None:
    """Past it nothing goes on."""
    with spoken(script=["x"] * 100_000, delay_s=0.01) as (app, client):
        found = refused(lambda: list(client.stream(asking(), timeout=0.5)))
        assert found.code is grpc.StatusCode.DEADLINE_EXCEEDED
        [first] = app.wait_for_outcomes()
        assert 0 < first.request.deadline_s <= 0.5
        until(lambda: app.model.generations[0].cancelled)
        found = refused(lambda: client.generate(asking(), timeout=0.3))
        assert found.code is grpc.StatusCode.DEADLINE_EXCEEDED
        until(lambda: all(generation.cancelled for generation in app.model.generations))
        assert len(app.wait_for_outcomes(2)) == 2


def test_a_shorter_limit_in_the_request_counts(client: Client) -> None:
    more = '{"ignore_eos": true, "sluicegate": {"deadline_s": 0.001}}'
    found = refused(lambda: list(client.stream(asking("go", "bundled", max_tokens=2000, more_json=more))))
    assert found.reason == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")


def test_cancelling_a_call_frees_its_sequence(real: RunningGateway, client: Client) -> None:
    """Of the engine: nothing runs any more, and the outcome is recorded."""
    asked = asking("Tell me a story.", "bundled", max_tokens=2000, more_json='{"ignore_eos": true}')
    call = client.stream(asked)
    next(call)
    next(call)
    assert real.metric("sluicegate_requests_running") > 0
    call.cancel()
    until(lambda: real.metric("sluicegate_requests_running") == 0)
    whole = client.method("Generate", lambda raw: raw).future(asked)
    until(lambda: real.metric("sluicegate_requests_running") > 0)
    whole.cancel()
    until(lambda: real.metric("sluicegate_requests_running") == 0)
    assert client.generate(asking("hi", "bundled", max_tokens=4)).choices
