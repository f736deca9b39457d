"""Models of other servers: what is asked of them, what is believed, and what happens when they misbehave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest

from sluicegate.gateway.testing import AppReply, TestApp
from sluicegate.plugins.concurrency import retry_after as retrying
from sluicegate.plugins.concurrency.retry_after import retry_after
from tests.gateway.upstream.servers import (
    END,
    Act,
    ScriptedServer,
    answers,
    chunk,
    event,
    gateway,
    hangs,
    running,
    says,
    streams,
)
from tests.waiting import until

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
AS_JSON: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
ASKED_BY: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 20},
    "/v1/responses": {"input": "hi"},
}
BAD, GOOD = '{"a": "one"}', '{"a": 1}'


def asked(app: TestApp, *, stream: bool, **fields: Any) -> AppReply:
    return app.ask("hi", stream=stream, model="far", **fields)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_passes_with_its_usage(stream: bool) -> None:
    server = ScriptedServer(says("Hel", "lo"))
    with running(server) as url, gateway(url) as app:
        reply = asked(app, stream=stream)
        assert (reply.status, reply.text, reply.finish_reason) == (200, "Hello", "stop")
        [outcome] = app.wait_for_outcomes(1)
        assert (outcome.usage.prompt_tokens, outcome.usage.completion_tokens) == (11, 7)
        assert outcome.model == "far"


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("frames", [(BOM + chunk("Hel"),), (BOM[:1], BOM[1:] + chunk("Hel")), (BOM, chunk("Hel"))])
def test_a_mark_before_a_stream_hides_nothing_of_it(frames: tuple[bytes, ...]) -> None:
    """Its first event would be a field of another name, which is passed over: an answer without its beginning."""
    server = ScriptedServer(streams(*frames, chunk("lo", "stop"), END))
    with running(server) as url, gateway(url) as app:
        for stream in (True, False):
            reply = asked(app, stream=stream)
            assert (reply.status, reply.text) == (200, "Hello")


def test_what_was_asked_is_passed_on() -> None:
    server = ScriptedServer(says(GOOD))
    sampling = {"temperature": 0.5, "max_tokens": 9, "top_k": 4, "seed": 3, "user": "u"}
    with running(server) as url, gateway(url, model="there") as app:
        asked(app, stream=False, **sampling, **AS_JSON)
    [body] = server.bodies
    assert {name: body[name] for name in ("model", "temperature", "max_tokens", "top_k", "seed")} == {
        "model": "there",
        "temperature": 0.5,
        "max_tokens": 9,
        "top_k": 4,
        "seed": 3,
    }
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("constraint", "forwarded"),
    [({"regex": "[ab]{2}"}, {"regex": "[ab]{2}"}), ({"choice": ["ab", "c"]}, {"choice": ["ab", "c"]})],
)
def test_every_constraint_is_passed_on_and_judged(constraint: dict[str, Any], forwarded: dict[str, Any]) -> None:
    server = ScriptedServer(says("xx"), says("ab"))
    with running(server) as url, gateway(url) as app:
        assert asked(app, stream=False, structured_outputs=constraint).text == "ab"
    assert server.bodies[0]["structured_outputs"] == forwarded


@pytest.mark.parametrize("length", [10, 70_000, 1_500_000])
def test_a_prompt_of_any_length_reaches_the_server_whole(length: int) -> None:
    """Short ones are written together with the head, longer ones as the socket takes them."""
    server = ScriptedServer(says("ab"))
    with running(server) as url, gateway(url, context_length=4_000_000) as app:
        assert app.ask("x" * length, stream=False, model="far", max_tokens=9).status == 200
    [body] = server.bodies
    assert body["messages"][-1]["content"] == "x" * length


def test_a_server_that_knows_schemas_only_is_not_asked_for_more() -> None:
    server = ScriptedServer(says("ab"))
    with running(server) as url, gateway(url, dialect="openai") as app:
        refused = asked(app, stream=False, structured_outputs={"regex": "ab"})
        assert (refused.status, error(refused)["code"]) == (400, "unsupported_schema")
        assert asked(app, stream=False, top_k=3).status == 400
    assert not server.bodies


def test_what_asks_for_nothing_goes_to_servers_that_know_it_and_is_refused_by_none() -> None:
    """The server's own model may have defaults of its own, which a 0 switches off."""
    nothing = {"top_k": 0, "min_p": 0, "top_p": 1.0}
    for dialect, expected in ("vllm", nothing), ("openai", {"top_p": 1.0}):
        server = ScriptedServer(says("ab"))
        with running(server) as url, gateway(url, dialect=dialect) as app:
            assert asked(app, stream=False, **nothing).status == 200
        assert {name: server.bodies[0][name] for name in nothing if name in server.bodies[0]} == expected


def error(reply: AppReply) -> Mapping[str, Any]:
    assert reply.error is not None
    return reply.error


def test_a_broken_answer_is_asked_for_again_with_what_was_wrong() -> None:
    server = ScriptedServer(says(BAD), says(GOOD))
    with running(server) as url, gateway(url) as app:
        reply = asked(app, stream=False, **AS_JSON)
        assert (reply.status, reply.text) == (200, GOOD)
        [outcome] = app.wait_for_outcomes(1)
        assert outcome.usage.completion_tokens > 7  # the broken one is paid for as well
        until(lambda: app.runtime.trace_sink.seen == 1)
        assert [one.outcome for one in next(app.runtime.trace_sink.recent()).tries] == ["invalid", "answered"]
    again = server.bodies[1]["messages"]
    assert again[-2] == {"role": "assistant", "content": BAD}
    assert "does not follow the schema" in again[-1]["content"]


def test_an_answer_that_stays_broken_is_an_error() -> None:
    server = ScriptedServer(says(BAD))
    with running(server) as url, gateway(url, attempts=2) as app:
        reply = asked(app, stream=False, **AS_JSON)
        assert (reply.status, error(reply)["code"]) == (502, "upstream_failed")
    assert len(server.bodies) == 2


def test_a_broken_stream_ends_as_an_error_at_the_byte_that_breaks_it() -> None:
    server = ScriptedServer(says('{"a": ', '"one"}'))
    with running(server) as url, gateway(url) as app:
        reply = asked(app, stream=True, **AS_JSON)
        assert reply.text == '{"a": '
        assert error(reply)["code"] == "upstream_failed"
        assert reply.finish_reason is None


def test_any_layout_of_valid_json_is_believed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array"}}, "required": ["a"]}
    text = json.dumps({"b": [1, {"c": 2}], "a": 1}, indent=3)
    fmt = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    with running(ScriptedServer(says(text))) as url, gateway(url) as app:
        assert asked(app, stream=True, **fmt).text == text


@pytest.mark.parametrize(
    "act",
    [
        streams(chunk("Hel"), cut=True),
        streams(chunk("Hel")),
        streams(chunk("Hel"), END),
        streams(chunk("Hel"), b"data: {nonsense\n\n"),
        streams(chunk("Hel"), event({"error": {"message": "secret detail"}})),
        streams(chunk("Hel"), event({"choices": [{"index": 7, "delta": {"content": "x"}}]})),
        streams(chunk("Hel"), event({"choices": "nonsense"})),
        streams(chunk("Hel"), pause_s=5),
    ],
    ids=["cut", "no end", "not finished", "no JSON", "error", "strange choice", "no choices", "silence"],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_stream_that_fails_never_looks_like_an_answer(act: Act, stream: bool) -> None:
    with running(ScriptedServer(act)) as url, gateway(url, idle_s=0.2) as app:
        reply = asked(app, stream=stream)
        assert error(reply)["code"] == "upstream_failed"
        assert "secret detail" not in str(reply)


@pytest.mark.parametrize(
    "reason", ["abort", "error", "cancelled", "insufficient_system_resource", "STOP", "secret detail"]
)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", ["Hello", ""])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_an_answer_that_ends_for_another_reason_is_a_failure(reason: str, stream: bool, text: str, path: str) -> None:
    """The server stopped in the middle. No dialect has a word for that: `end_turn` and `completed` would lie."""
    body = {"model": "far", "stream": stream, **ASKED_BY[path]}
    with running(ScriptedServer(says(text, reason=reason))) as url, gateway(url) as app:
        reply = app.client.post(path, json=body)
        assert "upstream_failed" in reply.text
        assert reply.status_code == (200 if stream else 502)
        assert "secret detail" not in reply.text
        assert not any(word in reply.text for word in ("end_turn", "response.completed", '"finish_reason":"'))


def test_half_a_structured_answer_of_a_server_that_gave_up_is_none() -> None:
    """Half an object under a schema would leave with a 200; instead it is asked for again."""
    server = ScriptedServer(says('{"a": ', reason="abort"), says(GOOD))
    with running(server) as url, gateway(url) as app:
        assert asked(app, stream=False, **AS_JSON).text == GOOD
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("eos_token", "stop"), ("repetition", "length"), ("model_length", "length"), ("content_filter", "content_filter")],
)
@pytest.mark.parametrize("stream", [True, False])
def test_ends_have_one_name_whatever_a_server_calls_them(reason: str, shown: str, stream: bool) -> None:
    with running(ScriptedServer(says("Hello", reason=reason))) as url, gateway(url) as app:
        assert asked(app, stream=stream).finish_reason == shown


@pytest.mark.parametrize(
    ("path", "more"), [("/v1/embeddings", {"input": "a"}), ("/v1/score", {"text_1": "a", "text_2": "b"})]
)
def test_a_model_that_cannot_is_named_and_not_said_to_stand_for_all(path: str, more: dict[str, Any]) -> None:
    """Another model of the same gateway may embed: that none does would be untrue."""
    stages = {"generate": ["upstream", "scripted"], "constrain": ["unconstrained"]}
    with running(ScriptedServer(says("x"))) as url, gateway(url, pipeline=stages) as app:
        answer = app.client.post(path, json={"model": "far", **more})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unsupported_model"
    assert "'far'" in answer.json()["error"]["message"]


def test_a_cut_stream_is_asked_for_again_while_nothing_has_left() -> None:
    server = ScriptedServer(streams(cut=True), says("Hello"))
    with running(server) as url, gateway(url) as app:
        assert asked(app, stream=True).text == "Hello"


@pytest.mark.parametrize(
    ("act", "status", "code"),
    [
        (answers(400, {"error": {"message": "no such field"}}), 400, "invalid_request"),
        (answers(400, {"error": {"code": "context_length_exceeded"}}), 400, "context_length_exceeded"),
        (answers(401, {"error": {"message": "key sk-operator"}}), 502, "upstream_failed"),
        (answers(404), 404, "model_not_found"),
        (answers(429, headers={"retry-after": "17"}), 503, "overloaded"),
        (answers(500), 502, "upstream_failed"),
        (answers(302, headers={"location": "http://169.254.169.254/"}), 502, "upstream_failed"),
        (answers(200, {"choices": []}), 502, "upstream_failed"),
        (hangs, 502, "upstream_failed"),
    ],
    ids=["400", "context", "401", "404", "429", "500", "redirect", "no stream", "hangs"],
)
def test_a_refusal_becomes_the_right_status(act: Act, status: int, code: str) -> None:
    with running(ScriptedServer(act)) as url, gateway(url, first_s=0.3, whole_s=0.3) as app:
        body = {"model": "far", "messages": [{"role": "user", "content": "hi"}]}
        answer = app.client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert "sk-operator" not in answer.text
        if code == "overloaded":
            assert answer.headers["retry-after"] == "17"


SENT, LATER = "Sun, 29 Nov 2026 10:00:00 GMT", "Sun, 29 Nov 2026 10:00:17 GMT"


@pytest.mark.parametrize(
    ("header", "sent", "seconds"),
    [
        ("17", "", 17.0),
        (LATER, SENT, 17.0),
        (SENT, LATER, 0.0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", "", 3600.0),
        (LATER, "nonsense", 3600.0),
        ("1e308", "", 3600.0),
        ("-5", SENT, 0.0),
        *(
            (text, SENT, None)
            for text in ("", "nan", "soon", "Fri, 99 Dec 2026 10:00:00 GMT", ",", "31 Dec 99999999999 1:1:1")
        ),
    ],
)
def test_when_to_come_back_may_be_a_date_by_the_clock_of_the_server(
    header: str, sent: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date was passed over, and the server asked again at once."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Earlier:
            return cls(2026, 11, 1, tzinfo=UTC)

    monkeypatch.setattr(retrying, "datetime", Earlier)
    assert retry_after(header, sent) == seconds


def test_a_server_that_names_a_date_is_left_alone_until_then() -> None:
    server = ScriptedServer(answers(429, headers={"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}), says("Hello"))
    with running(server) as url, gateway(url, retries=2) as app:
        reply = app.client.post("/v1/chat/completions", json={"model": "far", **ASKED_BY["/v1/chat/completions"]})
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "3600")
    assert len(server.bodies) == 1


def test_a_busy_server_is_tried_again() -> None:
    server = ScriptedServer(answers(503, headers={"retry-after": "0"}), answers(502), says("Hello"))
    with running(server) as url, gateway(url, retries=2) as app:
        assert asked(app, stream=False).text == "Hello"


def test_a_server_that_keeps_failing_is_left_alone() -> None:
    server = ScriptedServer(answers(500))
    with running(server) as url, gateway(url, failures_to_open=2, pause_s=30) as app:
        statuses = [asked(app, stream=False).status for _ in range(4)]
        assert statuses == [502, 502, 503, 503]
        assert len(server.bodies) == 2
        found = app.client.get("/metrics").text
        for name in ("sluicegate_breakers_open", "sluicegate_generate_upstream_breakers_open"):
            assert f"\n{name} 1.0" in found, "as the only generator, too, it is called what alerts call it"


def test_a_client_that_leaves_ends_the_call_to_the_other_server() -> None:
    server = ScriptedServer(streams(*[chunk("word ")] * 500, pause_s=0.02))
    with running(server) as url, gateway(url) as app:
        body = {"model": "far", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        with app.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            pieces = answer.iter_bytes()
            next(pieces)
        until(lambda: server.left == 1)
        app.wait_for_outcomes(1)
        assert "sluicegate_requests_running 0.0" in app.client.get("/metrics").text


def test_rails_see_the_stream_of_the_other_server() -> None:
    stages = {"blocklist": {"phrases": ["project nightingale"], "action": "block"}}
    server = ScriptedServer(says("about pro", "ject night", "ingale and more"))
    with running(server) as url:
        model = {"url": url, "allow_private": True}
        app = TestApp(
            pipeline={"generate": ["upstream"], "moderate": ["blocklist"]},
            stages={"generate": {"upstream": {"models": {"far": model}}}, "moderate": stages},
        )
        with app:
            reply = asked(app, stream=True)
            assert "night" not in reply.text
            assert reply.finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"typical_p": 0.5}, "typical_p"),
        ({"bad_words": ["x"]}, "bad_words"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"best_of": 3}, "best_of"),
        ({"reasoning_effort": "high"}, "sluicegate.reasoning"),
        ({**AS_JSON, "sluicegate": {"on_length": "close"}}, "sluicegate.on_length"),
    ],
)
def test_what_the_other_server_does_not_know_is_refused(fields: dict[str, Any], param: str) -> None:
    server = ScriptedServer(says(GOOD))
    with running(server) as url, gateway(url, dialect="openai") as app:
        refused = asked(app, stream=False, **fields)
        assert (refused.status, error(refused)["param"]) == (400, param)
    assert not server.bodies


def test_it_serves_beside_another_generator() -> None:
    with running(ScriptedServer(says("from far"))) as url:
        stages = {"generate": {"upstream": {"models": {"far": {"url": url, "allow_private": True}}}}}
        with TestApp(pipeline={"generate": ["scripted", "upstream"]}, stages=stages) as app:
            assert app.ask().text == "Hello back"
            assert asked(app, stream=True).text == "from far"
            listed = [card["id"] for card in app.client.get("/v1/models").json()["data"]]
            assert listed == ["scripted", "far"]
            missing = app.ask(model="none", stream=False)
            assert (missing.status, error(missing)["code"]) == (404, "model_not_found")


def test_a_second_gateway_is_a_server_like_any_other(random_checkpoint: Any) -> None:
    """Ours in front of ours, with a model of random weights: constrained there, judged here."""
    from tests.gateway.conftest import running as gateway_running

    engine = {"models": [{"path": str(random_checkpoint), "name": "far"}]}
    with gateway_running({"stages": {"generate": {"engine": engine}}}) as second, gateway(f"{second.url}/v1") as app:
        for seed in range(3):
            reply = asked(app, stream=seed % 2 == 0, temperature=1.0, seed=seed, max_tokens=60, **AS_JSON)
            assert reply.status == 200, reply
            assert isinstance(json.loads(reply.text)["a"], int)
        reply = asked(app, stream=False, structured_outputs={"regex": "(ab|cd){3}"}, max_tokens=20)
        assert len(reply.text) == 6


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", "sk-planted")
    server = ScriptedServer(says("Hello"))
    with running(server) as url, gateway(url, api_key_env="FAR_KEY") as app:
        asked(app, stream=False)
        assert "sk-planted" not in app.client.get("/metrics").text
        assert "sk-planted" not in repr(app.runtime.settings)
    assert server.headers[0]["authorization"] == "Bearer sk-planted"


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (hangs, "no head comes"),
        (answers(503, headers={"retry-after": "2"}), "the server asks for a pause that is longer"),
        (streams(chunk("Hel"), pause_s=2.0), "the stream pauses"),
    ],
)
def test_the_time_of_a_request_ends_whatever_the_server_is_waited_for(act: Act, what: str) -> None:
    """That is said of the request, and is no failure of the server."""
    server = ScriptedServer(act, act)
    with running(server) as url, gateway(url, retries=1) as app:
        reply = asked(app, stream=False, **{"sluicegate": {"deadline_s": 0.3}})
        assert (reply.status, (reply.error or {}).get("code")) == (504, "deadline_exceeded"), (what, reply)
        assert app.runtime.pipeline.stages.generate[1].stats()["failures_total"] == 0
