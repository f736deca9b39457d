"""Bodies that come slowly, many at a time or full of mistakes: what they hold is bounded and given back."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from sluicegate.gateway.api.body.nearest import Nearest
from sluicegate.gateway.api.body.parsing import checked
from sluicegate.gateway.api.dialects.chat_request import ChatRequest
from sluicegate.gateway.api.dialects.messages_request import MessagesRequest
from sluicegate.gateway.api.dialects.responses_request import ResponsesRequest
from sluicegate.gateway.request.guarding import screening
from sluicegate.plugins import RequestError, texts_of
from tests.gateway.conftest import RunningGateway
from tests.waiting import until

CHAT = "/v1/chat/completions"
PATIENCE_S = 60.0
PART = 140_000
"""Bytes of a body that are sent before its sender pauses."""
SERVER = {"max_body_bytes": 200_000, "tenant_bodies_bytes": 300_000, "all_bodies_bytes": 600_000}
KEYS = [{"id": name, "key": name} for name in ("good", "bad", "worse")]


@pytest.fixture(scope="module")
def keyed(run_gateway: Callable[..., Any]) -> Iterator[RunningGateway]:
    with run_gateway({"keys": KEYS, "server": SERVER}) as gateway:
        yield gateway


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def trickle(gateway: RunningGateway, stack: ExitStack, key: str, nbytes: int = PART) -> socket.socket:
    """Open a connection whose body stops before its end."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    found = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
    head = f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\ncontent-length: 150000\r\n\r\n"
    found.sendall(head.encode() + b"x" * nbytes)
    return found


def held(gateway: RunningGateway) -> int:
    return int(gateway.runtime.bodies.stats()["bodies_bytes"])


def ask(gateway: RunningGateway, key: str, **more: Any) -> httpx.Response:
    body = {"model": "bundled", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, **more}
    return httpx.post(gateway.url + CHAT, json=body, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_S)


def refused(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    answer = b""
    while b'"error"' not in answer:
        answer += connection.recv(65_536)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


LARGE = {"user": "u" * 50_000}
"""Makes a request that is answered and whose body is counted."""


def test_bodies_of_one_tenant_that_never_end_are_bounded_together(keyed: RunningGateway, opened: ExitStack) -> None:
    """The third gets a 429; another tenant's large body is answered meanwhile, and all is given back at the end."""
    for _ in range(2):
        trickle(keyed, opened, "bad")
    until(lambda: held(keyed) > 2 * PART, PATIENCE_S)
    status, error = refused(trickle(keyed, opened, "bad"))
    assert (status, error["code"]) == (429, "rate_limit_exceeded")
    assert "tenant_bodies_bytes" in error["message"]
    assert ask(keyed, "bad", **LARGE).status_code == 429
    assert ask(keyed, "bad").status_code == 200  # small ones are not counted
    assert ask(keyed, "good", **LARGE).status_code == 200
    opened.close()
    until(lambda: held(keyed) == 0, PATIENCE_S)
    assert ask(keyed, "bad", **LARGE).status_code == 200
    until(lambda: held(keyed) == 0, PATIENCE_S)


def test_bodies_of_all_tenants_together_are_a_503(keyed: RunningGateway, opened: ExitStack) -> None:
    for key in ("bad", "bad", "worse", "worse"):
        trickle(keyed, opened, key)
    until(lambda: held(keyed) > 4 * PART, PATIENCE_S)
    answer = ask(keyed, "good", **LARGE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert ask(keyed, "good").status_code == 200
    opened.close()
    until(lambda: held(keyed) == 0, PATIENCE_S)


def test_whoever_has_no_known_key_shares_one_account(keyed: RunningGateway, opened: ExitStack) -> None:
    """So that many made-up keys take no more than one tenant may."""
    for number in range(2):
        trickle(keyed, opened, f"made up {number}")
    until(lambda: held(keyed) > 2 * PART, PATIENCE_S)
    status, error = refused(trickle(keyed, opened, "made up 3"))
    assert (status, error["code"]) == (429, "rate_limit_exceeded")
    assert ask(keyed, "good", **LARGE).status_code == 200
    opened.close()
    until(lambda: held(keyed) == 0, PATIENCE_S)


def test_a_body_of_small_pieces_counts_more_than_its_bytes(keyed: RunningGateway, opened: ExitStack) -> None:
    """Each piece is an object of its own."""
    connection = trickle(keyed, opened, "bad", nbytes=1)
    until(lambda: held(keyed) > 0, PATIENCE_S)
    for sent in range(2, 10):
        before = held(keyed)
        connection.sendall(b"x")
        until(lambda before=before: held(keyed) > before, PATIENCE_S)  # type: ignore[misc]
        assert held(keyed) > 32 * sent
    opened.close()
    until(lambda: held(keyed) == 0, PATIENCE_S)


WRONG_PART = {"type": "nothing", "text": 5}
WRONG = [
    (ChatRequest, {"messages": [{"role": "user", "content": [WRONG_PART] * 5000}]}),
    (ChatRequest, {"messages": [{"role": "nobody", "content": 5}] * 4000}),
    (ChatRequest, {"messages": [{"role": "assistant", "tool_calls": [{"id": 5}] * 5000}]}),
    (ChatRequest, {"messages": [{"role": "user", "content": "x"}], "tools": [5] * 5000}),
    (ChatRequest, {"messages": [{"role": "user", "content": "x"}], "guided_choice": [5] * 5000}),
    (MessagesRequest, {"max_tokens": 2, "messages": [{"role": "user", "content": [WRONG_PART] * 5000}]}),
    (MessagesRequest, {"max_tokens": 2, "messages": [5] * 4000}),
    (ResponsesRequest, {"input": [{"role": "user", "content": [WRONG_PART] * 5000}]}),
    (ResponsesRequest, {"input": [{"type": "nothing"}] * 4000}),
]


@pytest.mark.parametrize(("kind", "body"), WRONG, ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_a_list_is_read_up_to_its_first_wrong_entry(kind: Any, body: dict[str, Any]) -> None:
    """A complaint for each of thousands was made with the interpreter held."""
    with pytest.raises(RequestError) as raised:
        checked(kind, {"model": "bundled", **body})
    cause: Any = raised.value.__cause__
    assert 1 <= cause.error_count() < 200


def test_an_unknown_name_that_all_messages_have_is_looked_up_once(
    keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    plain = Nearest.find

    def counted(near: Nearest, name: str) -> str | None:
        looked.append(name)
        return plain(near, name)

    monkeypatch.setattr(Nearest, "find", counted)
    said = {"role": "user", "content": "a", "whatever_else": 1, "and_another": 2}
    answer = ask(keyed, "bad", messages=[said] * 60)
    assert answer.status_code == 200, answer.text[:300]
    assert set(answer.json()["sluicegate"]["ignored"]) == {"messages[].whatever_else", "messages[].and_another"}
    assert len(looked) == 2


FULL = '["\\\\",' + "[]," * 60_000 + "1]"
"""JSON of 120,000 values as a string, with an escape in it."""
CALLED = {"id": "a", "type": "function", "function": {"name": "f", "arguments": FULL}}
INSIDE = [
    (
        CHAT,
        {"messages": [{"role": "assistant", "tool_calls": [CALLED]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "guided_json": FULL}, "guided_json"),
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "json_schema": FULL}, "json_schema"),
    (
        "/v1/responses",
        {"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": FULL}]},
        "input[0].function_call.arguments",
    ),
]


@pytest.mark.parametrize(("path", "body", "param"), INSIDE, ids=["chat", "guided_json", "json_schema", "responses"])
def test_values_of_json_inside_a_string_are_counted_too(
    gateway: RunningGateway, path: str, body: dict[str, Any], param: str
) -> None:
    """`max_values` counts commas outside strings: a parser of the string inside would hold the interpreter as long."""
    answer = httpx.post(gateway.url + path, json={"model": "bundled", **body}, timeout=PATIENCE_S)
    assert answer.status_code == 400, answer.text[:300]
    error = answer.json()["error"]
    assert "at most 100000 values" in error["message"]
    assert error["param"].split(".")[0] == param.split(".")[0]


@pytest.mark.parametrize(("padding", "thread"), [(0, False), (100_000, True)], ids=["short", "long"])
def test_the_texts_of_a_long_body_are_listed_off_the_loop(
    keyed: RunningGateway, monkeypatch: pytest.MonkeyPatch, padding: int, thread: bool
) -> None:
    seen: set[str] = set()

    def noted(request: Any) -> Any:
        seen.add(threading.current_thread().name)
        return texts_of(request)

    monkeypatch.setattr(screening, "texts_of", noted)
    assert ask(keyed, "good", user="u" * padding).status_code == 200
    assert seen
    assert all(name.startswith("offloop") for name in seen) is thread
