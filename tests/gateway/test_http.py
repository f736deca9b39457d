"""The edge: health, error bodies, keys, limits. Spoken to with a plain HTTP client, as curl would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import RunningGateway, running

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@pytest.fixture(scope="module")
def keyed() -> Iterator[RunningGateway]:
    """Run a gateway that knows two keys, one of them only by its digest, and reads at most 2,000 bytes."""
    digest = hashlib.sha256(b"key-of-blue").hexdigest()
    keys = [{"id": "red", "key": "key-of-red"}, {"id": "blue", "sha256": digest, "tenant": "sea"}]
    with running({"keys": keys, "server": {"max_body_bytes": 2000}}) as found:
        yield found


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of a body, which must have the one shape that OpenAI's clients read."""
    body = answer.json()
    assert set(body) == {"error"}
    assert {"message", "type", "param", "code"} <= set(body["error"])
    return dict(body["error"])


def test_alive_and_ready(gateway: RunningGateway) -> None:
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
    assert httpx.get(f"{gateway.url}/readyz").text == "ready"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/health", "/ping"])
def test_a_probe_may_ask_for_the_head_alone(gateway: RunningGateway, path: str) -> None:
    """As monitors do that read nothing but the status."""
    answer = httpx.head(gateway.url + path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("place", ["path", "name of a tool", "kind of arguments", "unknown field"])
def test_an_error_repeats_no_name_of_any_length(gateway: RunningGateway, place: str) -> None:
    """What was found comes first and what to do last, and the middle is left out."""
    long = "n" * 60_000
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    body: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    if place == "path":
        answer = httpx.get(f"{gateway.url}/v1/models/{long}")
    elif place == "name of a tool":
        choice = {"tool_choice": {"type": "function", "function": {"name": long}}}
        answer = httpx.post(gateway.url + CHAT, json=body | choice)
    elif place == "kind of arguments":
        tool["function"]["parameters"] = {"type": long}  # type: ignore[index]
        answer = httpx.post(gateway.url + CHAT, json=body)
    else:
        answer = httpx.post(gateway.url + CHAT, json=body | {long: 1, "temprature": 1})
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < 3000
    assert all(len(value) < 3000 for value in answer.headers.values())


def test_an_answer_carries_a_request_id_and_keeps_the_clients_own(gateway: RunningGateway) -> None:
    assert httpx.get(f"{gateway.url}/healthz").headers["x-request-id"].startswith("req_")
    sent = httpx.get(f"{gateway.url}/healthz", headers={"x-request-id": "mine-1"})
    assert sent.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/v1/nothing", 404, "unknown_url"), ("GET", CHAT, 405, "method_not_allowed")],
)
def test_wrong_urls_answer_in_the_same_shape(
    gateway: RunningGateway, method: str, path: str, status: int, code: str
) -> None:
    answer = httpx.request(method, gateway.url + path)
    assert answer.status_code == status
    assert error_of(answer)["code"] == code


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/embeddings", "/v1/models"])
def test_a_path_that_is_nearly_right_is_told_the_right_one(gateway: RunningGateway, path: str) -> None:
    """A base URL without `/v1`, with `/v1` twice, in capitals; and a letter left out."""
    for wrong in (path[3:], f"/v1{path}", f"/{path}", path.upper(), path[:-1]):
        answer = httpx.post(gateway.url + wrong)
        assert answer.status_code == 404
        assert f"did you mean {path}?" in error_of(answer)["message"], wrong
    whole = error_of(httpx.post(gateway.url + CHAT + "/chat/completions"))
    assert f"did you mean {CHAT}?" in whole["message"]
    assert "see /docs" in error_of(httpx.get(gateway.url + "/v1/" + "x" * 1000))["message"]


def test_a_method_that_is_not_served_is_told_the_one_that_is(gateway: RunningGateway) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = httpx.request(method, gateway.url + CHAT)
        assert answer.headers["allow"] == "POST"
        assert error_of(answer)["message"].endswith("; send POST")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b" ", "the body is empty"),
        (b"\x1f\x8b\x08\x00", "not UTF-8 (byte 0x8b at position 1)"),
        ('{"model": "é"}'.encode("latin-1"), "not UTF-8 (byte 0xe9 at position 11)"),
        (b"[1]", "found an array"),
        (b"null", "found null"),
        (b"true", "found true"),
        (b'"hi"', 'found "hi"'),
    ],
)
def test_a_body_that_is_no_object_is_told_what_it_is(gateway: RunningGateway, body: bytes, said: str) -> None:
    assert said in error_of(httpx.post(gateway.url + CHAT, content=body))["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"user": "caf\\ud83d"}', "half of a character stands alone there"),
        (b'{"user": "\\ude00"}', "half of a character stands alone there"),
        ('{"user": "é", "temperature": NaN}'.encode(), "NaN is no number of JSON: send null, or leave the field out"),
        (b'{"temperature": -Infinity}', "Infinity is no number of JSON"),
        (b'{"temperature": 1e400}', "no number may be larger than 1.8e308"),
        (b"\xef\xbb\xbf{}", "send it without"),
    ],
)
def test_a_body_that_other_libraries_write_is_told_what_to_do(gateway: RunningGateway, body: bytes, said: str) -> None:
    """Some libraries write what JSON does not have: they cut texts in the middle of a character, and write NaN."""
    assert said in error_of(httpx.post(gateway.url + CHAT, content=body))["message"]


def test_who_speaks_as_anthropic_does_is_told_that_the_request_is_wrong(gateway: RunningGateway) -> None:
    answer = httpx.post(gateway.url + "/v1/messages", content=b"{}", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (415, "invalid_request_error")


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": "bundled"}', b"\xff\xfe"])
def test_malformed_bodies_are_400_never_422(gateway: RunningGateway, body: bytes) -> None:
    answer = httpx.post(gateway.url + CHAT, content=body)
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request_error"


def test_unknown_fields_are_named_in_a_header(gateway: RunningGateway) -> None:
    answer = httpx.post(gateway.url + CHAT, json={**HELLO, "brand_new": 1})
    assert answer.status_code == 200
    assert answer.headers["x-sluicegate-ignored"] == "brand_new"


def test_a_field_with_a_wicked_name_cannot_write_headers(gateway: RunningGateway) -> None:
    answer = httpx.post(gateway.url + CHAT, json={**HELLO, "a\r\nset-cookie: x": 1, "ö" * 3000: 1})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-sluicegate-ignored"].startswith("a??set-cookie: x,?")


def test_a_wrong_parameter_of_a_url_is_named_as_it_is_written(gateway: RunningGateway) -> None:
    for path, name in (("/v1/batches?limit=zz", "limit"), ("/admin/rails/history?last=abc", "last")):
        answer = httpx.get(gateway.url + path)
        assert answer.status_code == 400, answer.text
        assert error_of(answer)["param"] == name
        assert error_of(answer)["message"].startswith(f"`{name}`: ")


def test_a_stream_asks_proxies_to_keep_nothing_back(gateway: RunningGateway) -> None:
    """nginx buffers answers by default."""
    streamed, whole = (httpx.post(gateway.url + CHAT, json={**HELLO, "stream": stream}) for stream in (True, False))
    assert streamed.headers["x-accel-buffering"] == "no"
    assert "x-accel-buffering" not in whole.headers


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_says_which_trace_it_belongs_to(gateway: RunningGateway, stream: bool) -> None:
    """The caller's own trace where it sent one."""
    sent = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    answer = httpx.post(gateway.url + CHAT, json={**HELLO, "stream": stream}, headers=sent)
    _, trace, span, _ = answer.headers["traceparent"].split("-")
    assert (trace, span != "cd" * 8) == ("ab" * 16, True)
    assert httpx.post(gateway.url + CHAT, json=HELLO).headers["traceparent"]


@pytest.mark.parametrize("key", ["key-of-red", "key-of-blue"])
def test_a_known_key_is_served(keyed: RunningGateway, key: str) -> None:
    answer = httpx.post(keyed.url + CHAT, json=HELLO, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_api_key"),
        ({"authorization": "Bearer wrong"}, "invalid_api_key"),
        ({"authorization": "Basic key-of-red"}, "missing_api_key"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/models"])
def test_without_a_known_key_nothing_is_served(
    keyed: RunningGateway, headers: dict[str, str], code: str, path: str
) -> None:
    method = "POST" if path == CHAT else "GET"
    answer = httpx.request(method, keyed.url + path, json=HELLO if method == "POST" else None, headers=headers)
    assert answer.status_code == 401
    assert error_of(answer)["code"] == code
    assert "wrong" not in answer.text


@pytest.mark.parametrize("declared", [True, False])
def test_a_giant_body_is_413(keyed: RunningGateway, declared: bool) -> None:
    """By its declared length, and also when it only turns out to be too long on the way."""
    body = b"x" * 5000
    chunks = iter([body[:2500], body[2500:]])
    answer = httpx.post(keyed.url + CHAT, content=body if declared else chunks)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "request_too_large"


def test_what_is_refused_before_a_route_has_the_form_of_its_path(keyed: RunningGateway) -> None:
    """A client of another dialect reads its own errors, whoever says them."""
    answer = httpx.post(keyed.url + "/v1/messages", content=b"x" * 5000)
    assert answer.status_code == 413
    assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "request_too_large")
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


def test_metrics_have_the_gauges_that_operators_scale_on(gateway: RunningGateway) -> None:
    httpx.post(gateway.url + CHAT, json=HELLO)
    for name in ("requests_running", "requests_waiting", "kv_cache_usage_ratio"):
        assert gateway.metric(f"sluicegate_{name}") >= 0
    assert gateway.metric("sluicegate_requests_total") >= 1
    assert gateway.metric("gen_ai_server_request_duration_seconds_count") >= 1


def test_explain_tells_what_each_stage_decided(gateway: RunningGateway) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {**HELLO, "max_tokens": 50, "response_format": fmt, "sluicegate": {"explain": True, "cache": False}}
    told = httpx.post(gateway.url + CHAT, json=body).json()["sluicegate"]["stages"]
    slots = [line["slot"] for line in told]
    expected = ["admit", "route", "assemble", "constrain", "generate"]
    assert [slot for slot in dict.fromkeys(slots) if slot in expected] == expected
    assert all(line["ms"] >= 0 for line in told)


def test_the_same_request_is_answered_from_the_cache(gateway: RunningGateway) -> None:
    """Byte for byte the same choice, said in a header; without the cache it is generated again."""
    body = {**HELLO, "temperature": 0, "messages": [{"role": "user", "content": "cache me"}], "max_tokens": 40}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b"]}}}
    body["response_format"] = fmt
    first, second = (httpx.post(gateway.url + CHAT, json=body) for _ in range(2))
    assert (first.headers["x-sluicegate-cache"], second.headers["x-sluicegate-cache"]) == ("miss", "hit")
    assert first.json()["choices"] == second.json()["choices"]
    fresh = httpx.post(gateway.url + CHAT, json={**body, "sluicegate": {"cache": False}})
    assert fresh.headers["x-sluicegate-cache"] == "miss"


def test_identical_requests_at_the_same_time_share_one_generation(gateway: RunningGateway) -> None:
    """Of twelve, streamed and whole, one generates; all get the same text."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    messages = [{"role": "user", "content": "The meeting has 42 guests, it is the only one today."}]
    body = {"model": "bundled", "temperature": 0, "messages": messages, "response_format": fmt}

    def ask(i: int) -> tuple[str, str]:
        answer = httpx.post(gateway.url + CHAT, json={**body, "stream": i % 2 == 0}, timeout=60)
        if i % 2:
            return answer.headers["x-sluicegate-cache"], answer.json()["choices"][0]["message"]["content"]
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        text = "".join(c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"])
        return answer.headers["x-sluicegate-cache"], text

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(12)))
    kinds = [kind for kind, _ in answers]
    assert kinds.count("miss") == 1
    assert set(kinds) <= {"miss", "shared", "hit"}
    assert len({text for _, text in answers}) == 1
