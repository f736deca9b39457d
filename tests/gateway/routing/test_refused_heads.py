"""Refusals over sockets, written as soon as a head is parsed: what the application would say, and no byte astray."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Load, RegistryLike
from sluicegate.plugins.testing import ScriptedModel

PATH = "/v1/chat/completions"
PATHS = [dialect.path for dialect in DIALECTS if isinstance(dialect, TextDialect)]
MOST_BYTES = 8 * 1024 * 1024
ONE_READ = 256 * 1024
LIMITS = {"requests_per_minute": 1000, "tokens_per_minute": 10_000}
KEYS: list[dict[str, Any]] = [
    {"id": "a", "key": "sk-a"},
    {"id": "limited", "key": "sk-limited", "limits": LIMITS},
    {"id": "routed", "key": "sk-routed", "routes": ["/v1/models"]},
]
NUMBER = re.compile(r"\d+(\.\d+)?")
Heads = list[tuple[str, str]]


class Busy(ScriptedModel):
    """Has no place for long."""

    def load(self, model: str) -> Load:
        return Load(0, 0, 0, 0, 9.0)


def register(registry: RegistryLike) -> None:
    registry.add("generate", "busy", lambda settings: Busy(()))


def busy_gateway() -> TestApp:
    pipeline = {"admit": ["api-keys", "limits"], "generate": ["busy"]}
    return TestApp(register, settings={"server": {"shed_s": 1.0}}, keys=KEYS, pipeline=pipeline)


@pytest.fixture(scope="module")
def gateway() -> Iterator[TestApp]:
    with busy_gateway() as app:
        yield app


@pytest.fixture(scope="module")
def without_door() -> Iterator[TestApp]:
    """Refuses in the application alone, as under another server than ours."""
    app = busy_gateway()
    app.app.state.door.at_head = lambda target, scope: None
    with app:
        yield app


@contextlib.contextmanager
def connected(app: TestApp) -> Iterator[socket.socket]:
    url = httpx.URL(app.url)
    with socket.create_connection((url.host, url.port or 80), timeout=60) as client:
        yield client


def head(*more: tuple[str, str], path: str = PATH, key: str = "sk-a", version: str = "1.1") -> bytes:
    named = [("host", "127.0.0.1"), ("content-type", "application/json"), ("authorization", f"Bearer {key}"), *more]
    lines = [f"POST {path} HTTP/{version}", *(f"{name}: {value}" for name, value in named), "", ""]
    return "\r\n".join(lines).encode()


class Answers:
    """Reads one answer after the other."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._read = b""

    def next(self) -> tuple[int, dict[str, str], Any]:
        while b"\r\n\r\n" not in self._read:
            self._more()
        top, _, self._read = self._read.partition(b"\r\n\r\n")
        status, *lines = top.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert len(headers) == len(lines), "no header comes twice"
        size = int(headers["content-length"])
        while len(self._read) < size:
            self._more()
        body, self._read = self._read[:size], self._read[size:]
        return int(status.split(" ")[1]), headers, json.loads(body)

    def end(self) -> None:
        """Assert that the server closes, and has said nothing else."""
        assert not self._read
        assert not self._client.recv(1)

    def _more(self) -> None:
        data = self._client.recv(65536)
        assert data, f"closed after {self._read!r}"
        self._read += data


def turned_away(app: TestApp) -> float:
    return app.runtime.queues.stats()["turned_away_total"]


def asked(app: TestApp, path: str, named: Heads) -> tuple[int, dict[str, str], str]:
    """Status, headers and body, without what differs from one moment to the next."""
    request = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named) + "\r\n"
    with connected(app) as client:
        client.sendall(request.encode() + b"{" * 9)
        status, headers, body = Answers(client).next()
    varying = {"date", "retry-after", "content-length"}
    if headers["x-request-id"] != "mine-1":
        varying |= {"x-request-id", "request-id"}
    told = {name: "" if name in varying else value for name, value in headers.items()}
    return status, told, NUMBER.sub("0", json.dumps(body))


KEYED = st.sampled_from(
    [
        ("Authorization", "Bearer sk-a"),
        ("authorization", "bearer  sk-limited "),
        ("x-api-key", "sk-limited"),
        ("authorization", "Bearer sk-routed"),
        ("authorization", "Bearer sk-wrong"),
        ("authorization", "Basic sk-a"),
        ("x-nothing", "at all"),
    ]
)
OTHERS = st.sampled_from(
    [
        ("x-request-id", "mine-1"),
        ("x-request-id", "not harmless: <>"),
        ("x-sluicegate-run", "r1"),
        ("x-sluicegate-depth", "deep"),
        ("origin", "https://elsewhere.example"),
        ("authorization", "Bearer sk-a"),
        ("x-api-key", "sk-a"),
        ("host", "elsewhere.example"),
        ("accept", "text/event-stream"),
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([*PATHS, PATH + "?a=b"]),
    key=KEYED,
    others=st.lists(OTHERS, max_size=3),
)
def test_a_refusal_at_the_head_says_what_the_application_says(
    gateway: TestApp, without_door: TestApp, path: str, key: tuple[str, str], others: Heads
) -> None:
    named = [("host", "127.0.0.1"), ("content-type", "application/json"), ("content-length", "9"), key, *others]
    assert asked(gateway, path, named) == asked(without_door, path, named)


@pytest.mark.parametrize("close", [False, True], ids=["kept", "closed"])
@pytest.mark.parametrize("size", [0, 9, 100_000, MOST_BYTES])
@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
def test_a_body_that_nobody_reads_is_passed_over(gateway: TestApp, size: int, chunked: bool, close: bool) -> None:
    """The answer comes although its client still sends, and the next request on the connection is one of its own."""
    body = b"x" * size
    if chunked:
        parts = [b"%x\r\n" % len(part) + part + b"\r\n" for part in (body[: size // 2], body[size // 2 :]) if part]
        body, told = b"".join([*parts, b"0\r\n\r\n"]), ("transfer-encoding", "chunked")
    else:
        told = ("content-length", str(size))
    before = turned_away(gateway)
    more = [("connection", "close")] if close else []
    with connected(gateway) as client:
        answers = Answers(client)
        for _ in range(1 if close else 3):
            client.sendall(head(told, *more))
            early = answers.next() if size > 9 else None
            client.sendall(body)
            status, headers, _ = early or answers.next()
            assert (status, headers.get("connection")) == (503, "close" if close else None)
        if close:
            answers.end()
    assert turned_away(gateway) - before == (1 if close else 3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(1, 5000), max_size=6), kinds=st.lists(st.sampled_from("rcmew"), min_size=1, max_size=20)
)
def test_pipelined_requests_have_their_answers_in_order(gateway: TestApp, cuts: list[int], kinds: str) -> None:
    """Refusals at the head among requests for the application, however the bytes are cut."""
    body = b'{"input": "hi"}'
    told = ("content-length", str(len(body)))
    asked = {
        "r": (head(told) + body, 503),
        "c": (head(("transfer-encoding", "chunked")) + b"3\r\nabc\r\n0\r\n\r\n", 503),
        "m": (head(told, path="/v1/moderations") + body, 200),
        "e": (head(told, ("expect", "100-continue")) + body, 503),
        "w": (head(told, key="sk-wrong") + body, 401),
    }
    sent = b"".join(asked[kind][0] for kind in kinds)
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    with connected(gateway) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in pairwise(places):
            client.sendall(sent[start:end])
        answers = Answers(client)
        assert [answers.next()[0] for _ in kinds] == [asked[kind][1] for kind in kinds]


def test_nothing_behind_a_last_request_is_answered(gateway: TestApp) -> None:
    before = turned_away(gateway)
    told = ("content-length", "2")
    with connected(gateway) as client:
        client.sendall(head(told, ("connection", "close")) + b"{}" + (head(told) + b"{}") * 3)
        answers = Answers(client)
        assert answers.next()[0] == 503
        with contextlib.suppress(ConnectionResetError):  # what nobody reads makes the kernel say so
            answers.end()
    assert turned_away(gateway) - before == 1


def test_a_client_of_http_1_0_is_answered_and_left(gateway: TestApp) -> None:
    with connected(gateway) as client:
        client.sendall(head(("content-length", "2"), version="1.0") + b"{}")
        answers = Answers(client)
        assert answers.next()[0] == 503
        answers.end()


@pytest.mark.parametrize("path", [PATH, "/v1/moderations"])
def test_who_sends_on_and_reads_nothing_is_not_read(gateway: TestApp, path: str) -> None:
    """Neither answers nor requests pile up for a client that takes no answer."""
    request = head(("content-length", "15"), path=path) + b'{"input": "hi"}'
    stream, sent, most = request * 500, 0, 256 * 1024 * 1024
    with connected(gateway) as client:
        client.settimeout(2)
        with contextlib.suppress(TimeoutError):
            while sent < most:
                sent += client.send(stream[sent % len(stream) :])
        assert gateway._server is not None
        kept = [len(one.pipeline) for one in list(gateway._server.server_state.connections)]  # type: ignore[union-attr]
        assert sum(kept) <= 2 * ONE_READ / len(request)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it leaves without a word
    assert sent < most
    with connected(gateway) as client:
        client.sendall(request)
        assert Answers(client).next()[0] in (200, 503), "others are served"


@pytest.mark.parametrize("path", [PATH, "/v1/moderations"])
def test_a_head_behind_a_large_body_is_not_a_large_head(gateway: TestApp, path: str) -> None:
    body = json.dumps({"input": "x" * 200_000}).encode()
    request = head(("content-length", str(len(body))), path=path) + body
    with connected(gateway) as client:
        client.sendall(request + request[:100])
        answers = Answers(client)
        first = answers.next()[0]
        client.sendall(request[100:])
        assert [first, answers.next()[0]] == [503 if path == PATH else 200] * 2


def test_a_body_that_is_too_large_is_refused_for_that(gateway: TestApp) -> None:
    with connected(gateway) as client:
        client.sendall(head(("content-length", str(MOST_BYTES + 1))))
        assert Answers(client).next()[0] == 413


def test_a_gateway_that_is_about_to_stop_ends_the_connection(gateway: TestApp) -> None:
    server = gateway._server
    assert server is not None
    last = (b"connection", b"close")
    kept = server.server_state.default_headers
    server.server_state.default_headers = [*kept, last]
    server.config.encoded_headers.append(last)
    try:
        with connected(gateway) as client:
            client.sendall(head(("content-length", "2")) + b"{}")
            answers = Answers(client)
            status, headers, _ = answers.next()
            assert (status, headers["connection"]) == (503, "close")
            answers.end()
    finally:
        server.config.encoded_headers.remove(last)
        server.server_state.default_headers = kept
