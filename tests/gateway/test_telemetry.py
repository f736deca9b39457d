"""Traces: exported over real OTLP to a collector that this test runs; one trace a request, joined to the caller's."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway, running
from tests.waiting import until

SECRET = "the walrus is in the kitchen"
BODY = {
    "model": "bundled",
    "messages": [{"role": "user", "content": SECRET}],
    "max_tokens": 30,
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b"]}}},
}


class Collector(ThreadingHTTPServer):
    """Keeps the OTLP bodies that were POSTed to it."""

    bodies: list[bytes]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            self.server.bodies.append(body)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector(("127.0.0.1", 0), Handler)
    server.bodies = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()


def spans_of(collector: Collector) -> list[Any]:
    found = []
    for body in collector.bodies:
        request = ExportTraceServiceRequest.FromString(body)
        found += [span for r in request.resource_spans for s in r.scope_spans for span in s.spans]
    return found


def attributes(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_a_request_is_one_trace_with_a_span_for_every_stage(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root joins the caller's trace, has the GenAI attributes, and no content is in any span."""
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY, headers=headers).status_code == 200
    spans = spans_of(collector)
    assert {span.trace_id.hex() for span in spans} == {trace_id}
    root = next(span for span in spans if span.name == "chat bundled")
    assert root.parent_span_id.hex() == "b7ad6b7169203331"
    told = attributes(root)
    assert told[semconv.OPERATION_NAME] == "chat"
    assert told[semconv.PROVIDER_NAME] == "sluicegate"
    assert told[semconv.OUTPUT_TYPE] == "json"
    assert told[semconv.USAGE_INPUT_TOKENS] > 0
    slots = {attributes(span).get(semconv.STAGE_SLOT) for span in spans if span is not root}
    assert {"admit", "route", "assemble", "constrain", "generate"} <= slots
    assert all(SECRET.encode() not in body for body in collector.bodies)


def test_a_collector_that_is_down_harms_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = "http://127.0.0.1:9"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200


def test_the_engine_s_part_of_a_request_is_in_its_trace(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queue wait, prefill and decode, one after the other, below the delivery."""
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200
    spans = {span.name: span for span in spans_of(collector)}
    queue, prefill, decode = (spans[name] for name in ("queue", "prefill", "decode"))
    assert queue.end_time_unix_nano <= prefill.end_time_unix_nano <= decode.end_time_unix_nano
    assert queue.parent_span_id == spans["generate deliver"].span_id
    assert decode.events[0].name == semconv.FIRST_TOKEN_EVENT


def test_content_is_in_a_trace_only_where_asked_for_and_only_after_the_rails(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An e-mail address that the output rail redacts is in no span, though the prompt held it."""
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    overrides = {"telemetry": {"content": True}, "pipeline": {"moderate": ["pii"]}}
    body = {**BODY, "messages": [{"role": "user", "content": f"{SECRET}: write to ada@lovelace.example"}]}
    with running(overrides, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=body).status_code == 200
    root = next(span for span in spans_of(collector) if span.name == "chat bundled")
    told = attributes(root)
    assert SECRET in told[semconv.INPUT_MESSAGES]
    assert '"finish_reason": "stop"' in told[semconv.OUTPUT_MESSAGES]
    assert all(b"ada@lovelace" not in sent for sent in collector.bodies)


def test_a_trace_says_which_versions_made_the_answer(collector: Collector) -> None:
    """Template, model and rails: another text of the template, or another setting of a rail, is another version."""
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    body = {**BODY, "sluicegate": {"template": "t@2", "cache": False}}
    for system, phrase in (("Be brief.", "one"), ("Be kind.", "one"), ("Be kind.", "two")):
        overrides = {
            "prompts": {"templates": {"t@2": {"system": system}}},
            "pipeline": {"screen": ["secrets"], "moderate": ["blocklist"]},
            "stages": {"moderate": {"blocklist": {"phrases": [phrase], "action": "block"}}},
        }
        with running(overrides, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
            assert httpx.post(f"{gateway.url}/v1/chat/completions", json=body).status_code == 200
            version = gateway.runtime.models["bundled"].version
    told = [attributes(span) for span in spans_of(collector) if span.name == "chat bundled"]
    assert [one[semconv.MODEL_VERSION] for one in told] == [version] * 3
    assert [value.string_value for value in told[0][semconv.RAILS].values] == ["screen secrets", "moderate blocklist"]
    first, second, third = ((one[semconv.TEMPLATE_VERSION], one[semconv.RAILS_VERSION]) for one in told)
    assert first[0].startswith("t@2")
    assert first[0] != second[0] == third[0]
    assert first[1] == second[1] != third[1]


def test_a_sampler_that_never_samples_exports_nothing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0",
    }
    with running(environ=environ) as gateway:
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200
        assert gateway.runtime.trace_sink.seen == 1
    assert collector.bodies == []


def test_explain_tells_where_the_time_went_and_how_each_token_came_about(gateway: RunningGateway) -> None:
    body = {**BODY, "sluicegate": {"explain": True, "cache": False}}
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body).json()
    told = answer["sluicegate"]
    assert told["engine"]["prefill_ms"] > 0
    assert told["engine"]["tokens"] == answer["usage"]["completion_tokens"]
    spelled = "".join(token["token"] for token in told["tokens"])
    assert spelled.startswith(answer["choices"][0]["message"]["content"])
    drawn = [token for token in told["tokens"] if not token["forced"]]
    assert drawn
    assert all(0 < token["masked"] < 1 for token in drawn if token["masked"] is not None)
    assert all(token["logprob"] <= 0 for token in drawn)


def test_explain_withholds_the_tokens_of_an_answer_that_a_rail_changed() -> None:
    overrides = {
        "pipeline": {"moderate": ["blocklist"]},
        "stages": {"moderate": {"blocklist": {"phrases": ["a", "b"]}}},
    }
    with running(overrides) as gateway:
        answer = httpx.post(f"{gateway.url}/v1/chat/completions", json={**BODY, "sluicegate": {"explain": True}}).json()
    assert "tokens" not in answer["sluicegate"]
    assert "rail" in answer["sluicegate"]["tokens_withheld"]


@pytest.mark.parametrize("stream", [False, True])
def test_values_that_only_the_caller_may_see_are_placeholders_in_what_is_captured(stream: bool) -> None:
    """The caller gets the address back; the operator's view has what the model saw."""

    def script(job: Any) -> list[str]:
        return ["Write to " + " ".join(re.findall(r"<[A-Z_]+_[A-Z2-7]{5,}>", job.prompt.text))]

    app = TestApp(
        pipeline={"admit": ["api-keys"], "screen": ["pseudonyms"]},
        stages={"screen": {"pseudonyms": {"secret": "ab" * 32}}},
        keys=[{"id": "sees", "key": "sees", "scopes": ["pii"]}],
        settings={"telemetry": {"content": True}},
        script=script,
    )
    with app:
        body = {
            "model": "scripted",
            "stream": stream,
            "messages": [{"role": "user", "content": "I am ada@example.com"}],
        }
        heads = {"authorization": "Bearer sees"}
        answer = app.client.post("/v1/chat/completions", json=body, headers=heads)
        app.wait_for_outcomes()
        [done] = app.runtime.trace_sink.recent()
    assert "ada@example.com" in answer.text
    assert done.content is not None
    assert "ada@example.com" not in str(done.content)
    assert "<EMAIL" in done.content.answers[0][0]


PARTIAL_WAYS: list[tuple[str, str, dict[str, Any]]] = [
    ("embeddings bundled", "/v1/embeddings", {"model": "bundled", "input": "text"}),
    ("moderation bundled", "/v1/moderations", {"model": "bundled", "input": "text"}),
    ("count_tokens bundled", "/tokenize", {"model": "bundled", "prompt": "text"}),
]


def test_what_generates_nothing_is_no_chat_and_has_no_settings_of_an_answer(collector: Collector) -> None:
    """No span says what nobody asked for; /v1/completions is a completion of text."""
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        for _, path, body in PARTIAL_WAYS:
            assert httpx.post(gateway.url + path, json=body).status_code == 200
        whole = {"model": "bundled", "prompt": "text", "max_tokens": 3}
        assert httpx.post(f"{gateway.url}/v1/completions", json=whole).status_code == 200
    roots = {span.name: attributes(span) for span in spans_of(collector) if not span.parent_span_id}
    assert set(roots) == {*[name for name, _, _ in PARTIAL_WAYS], "text_completion bundled"}
    assert roots["text_completion bundled"][semconv.REQUEST_MAX_TOKENS] == 3
    for name, _, _ in PARTIAL_WAYS:
        told = roots[name]
        assert told[semconv.OPERATION_NAME] == name.split()[0]
        answered = (semconv.REQUEST_MAX_TOKENS, semconv.REQUEST_STREAM, semconv.OUTPUT_TYPE)
        assert not [key for key in (*answered, semconv.USAGE_OUTPUT_TOKENS) if key in told]
    assert roots["embeddings bundled"][semconv.USAGE_INPUT_TOKENS] > 0


def test_neither_a_caller_who_hangs_up_nor_a_wrong_request_is_an_error_of_the_gateway(collector: Collector) -> None:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    long = {"model": "bundled", "messages": BODY["messages"], "max_tokens": 900, "ignore_eos": True, "stream": True}
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=long) as answer:
            next(answer.iter_lines())
        until(lambda: gateway.metric("sluicegate_requests_running") == 0)
        nowhere = {**BODY, "model": "nowhere"}
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=nowhere).status_code == 404
    left, wrong = sorted((s for s in spans_of(collector) if not s.parent_span_id), key=lambda span: span.name)
    assert (left.status.code, wrong.status.code) == (0, 0)
    assert semconv.ERROR_TYPE not in attributes(left)
    assert [v.string_value for v in attributes(left)[semconv.RESPONSE_FINISH_REASONS].values] == ["cancelled"]
    assert attributes(wrong)[semconv.ERROR_TYPE] == "model_not_found"
    assert semconv.RESPONSE_FINISH_REASONS not in attributes(wrong)  # nothing was answered


def test_a_moderation_that_names_no_model_has_none_in_its_span(collector: Collector) -> None:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    with running(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as gateway:
        assert httpx.post(f"{gateway.url}/v1/moderations", json={"input": "hi"}).status_code == 200
    [root] = [span for span in spans_of(collector) if not span.parent_span_id]
    assert root.name == "moderation"
    assert semconv.REQUEST_MODEL not in attributes(root)
