"""What strangers do to a gRPC port: nothing of it is answered by a trace, and the gateway serves on."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.gateway.grpc.messages import EmbedRequest, GenerateRequest, Message, Tool
from sluicegate.gateway.grpc.wire import check_entries
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import RequestError, RequestTooLarge
from tests.gateway.rpc.calling import Client, asking, ended_with, refused, spoken
from tests.waiting import until

FULL = GenerateRequest(
    model="scripted",
    messages=[Message(role="user", content="hé"), Message(role="assistant", content="x")],
    json_schema='{"type": "object"}',
    tools=[Tool(name="a", parameters='{"type": "object"}')],
    temperature=0.5,
    stop=["a", "b"],
    metadata={"k": "v"},
    more_json="{}",
)


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[TestApp, Client]]:
    with spoken() as found:
        yield found


# --- messages -----------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_are_no_message_are_refused_as_such(scripted: Any, data: st.DataObject) -> None:
    """Cut, turned over, or made up: an answer or INVALID_ARGUMENT, whatever they are."""
    _, client = scripted
    body = bytearray(FULL.SerializeToString())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    sent = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    code = ended_with(lambda: client.generate(sent))
    assert code in (None, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


@given(st.binary(max_size=200))
def test_the_look_at_entries_agrees_with_the_library(body: bytes) -> None:
    """What passes is read, or refused for what it holds; it raises nothing but our own errors."""
    try:
        check_entries(body, GenerateRequest.DESCRIPTOR, 1000)
    except RequestError:
        return
    with contextlib.suppress(DecodeError):  # text that is no UTF-8
        assert len(UnknownFieldSet(GenerateRequest.FromString(body))) == 0


def test_what_the_library_writes_passes(scripted: Any) -> None:
    check_entries(FULL.SerializeToString(), GenerateRequest.DESCRIPTOR, 100)
    with pytest.raises(RequestTooLarge):
        check_entries(FULL.SerializeToString(), GenerateRequest.DESCRIPTOR, 10)


@pytest.mark.parametrize(
    "body",
    [
        b"\x12\x00" * 200_000,  # messages
        b"\x92\x01\x00" * 200_000,  # stop strings
        b"\x12" + b"\x80\xb5\x18" + b"\x22\x00" * 200_000,  # calls of one message
        b"\x32" + b"\x80\xb5\x18" + b"\x0a\x00" * 200_000,  # choices
        b"\xaa\x01\x00" * 200_000,  # metadata
    ],
    ids=["messages", "stops", "calls", "choices", "metadata"],
)
def test_a_message_of_tiny_entries_is_refused_before_it_is_made(scripted: Any, body: bytes) -> None:
    _, client = scripted
    assert refused(lambda: client.generate(body)).reason == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")


def test_json_inside_a_message_is_bounded_with_all_of_it(scripted: Any) -> None:
    """Also where it is spread over many texts, none of which has too many values."""
    _, client = scripted
    part = json.dumps({"type": "object", "enum": [[1] * 20_000]})
    tools = [Tool(name=f"t{i}", parameters=part) for i in range(8)]
    assert refused(lambda: client.generate(asking(tools=tools))).reason == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")
    whole = json.dumps({"logit_bias": {str(i): 1 for i in range(150_000)}})
    found = refused(lambda: client.generate(asking(more_json=whole)))
    assert found.reason == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")


def test_a_field_that_is_not_known_is_refused_and_not_dropped(scripted: Any) -> None:
    _, client = scripted
    for body in (
        b"\x9a\x3f\x01x",
        b"\x08\x01",
        GenerateRequest(messages=[Message()]).SerializeToString() + b"\x12\x03\x9a\x3f\x00",
    ):
        found = refused(lambda body=body: client.generate(body))
        assert found.reason == ("INVALID_ARGUMENT", "UNKNOWN_FIELD")
    assert refused(lambda: client.embed(EmbedRequest(model="m").SerializeToString() + b"\x9a\x3f\x00")).code


def test_a_message_past_the_limit_is_refused() -> None:
    with spoken(server={"max_body_bytes": 10_000}) as (_, client):
        assert refused(lambda: client.generate(asking("x" * 20_000))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert client.generate(asking("x" * 1_000)).choices


def test_large_bodies_count_for_who_sent_them_and_are_given_back() -> None:
    server = {"tenant_bodies_bytes": 400_000, "max_body_bytes": 300_000}
    with spoken(server=server, script=["x"] * 10_000, delay_s=0.05) as (app, client):
        large = asking(metadata={"note": "x" * 250_000})
        first = client.stream(large)
        next(first)
        found = refused(lambda: client.generate(large))
        assert found.reason == ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED")
        first.cancel()
        until(lambda: app.runtime.bodies.stats()["bodies_bytes"] == 0)


# --- connections --------------------------------------------------------------------------------------------------


def test_a_message_that_never_comes_is_not_waited_for() -> None:
    with spoken(server={"body_s": 0.2}) as (app, client):
        silent = client.channel.stream_unary("/sluicegate.v1.Sluicegate/Generate", lambda raw: raw, lambda raw: raw)
        sending = threading.Event()
        call = silent.future(iter(lambda: sending.wait(60) and None, None), timeout=60)
        found = refused(lambda: call.result())
        sending.set()
        assert found.reason == ("DEADLINE_EXCEEDED", "REQUEST_TIMEOUT")
        until(lambda: client.generate(asking()).choices)
        empty = client.channel.stream_unary("/sluicegate.v1.Sluicegate/Generate", lambda raw: raw, lambda raw: raw)
        assert refused(lambda: empty(iter(()), timeout=60)).reason == ("INVALID_ARGUMENT", "INVALID_MESSAGE")
        assert app.runtime.metrics.exposition()[0].count(b"\nsluicegate_grpc_calls 0.0") == 1


def test_a_client_that_takes_nothing_is_given_up() -> None:
    """What it asked for ends, and is recorded."""
    with spoken(server={"stall_s": 0.3}, script=["x" * 250_000] * 400) as (app, client):
        call = client.stream(asking())
        next(call)
        [outcome] = app.wait_for_outcomes()
        assert outcome.error is not None
        assert app.model.generations[0].cancelled
        call.cancel()
        other = client.stream(asking())
        assert next(other).HasField("opening")
        other.cancel()


def test_calls_past_the_limit_are_refused_and_others_go_on() -> None:
    with spoken(server={"max_connections": 2}, script=["x"] * 10_000, delay_s=0.05) as (_, client):
        open_calls = [client.stream(asking()) for _ in range(2)]
        for call in open_calls:
            next(call)
        found = refused(lambda: client.generate(asking()))
        assert found.reason == ("UNAVAILABLE", "OVERLOADED")
        assert found.retry
        open_calls[0].cancel()

        def has_room() -> bool:
            call = client.stream(asking())
            found = ended_with(lambda: next(call)) is None
            call.cancel()
            return found

        until(has_room)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4)
GOAWAY, ENHANCE_YOUR_CALM = 7, 11


def until_closed(connection: socket.socket) -> bytes:
    found = b""
    connection.settimeout(60)
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionError:
        pass
    return found


def frames(raw: bytes) -> Iterator[tuple[int, bytes]]:
    while len(raw) >= 9:
        length = int.from_bytes(raw[:3], "big")
        yield raw[3], raw[9 : 9 + length]
        raw = raw[9 + length :]


def test_a_client_that_pings_without_end_is_disconnected(scripted: Any) -> None:
    app, client = scripted
    host, port = app.runtime.progress.grpc.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(PREFACE + frame(6, payload=b"12345678") * 20)
        said = list(frames(until_closed(connection)))
    [last] = [payload for kind, payload in said if kind == GOAWAY]
    assert int.from_bytes(last[4:8], "big") == ENHANCE_YOUR_CALM
    assert client.generate(asking()).choices


@pytest.mark.parametrize("seed", range(8))
def test_bytes_of_no_protocol_harm_nobody(scripted: Any, seed: int) -> None:
    app, client = scripted
    host, port = app.runtime.progress.grpc.split(":")
    noise = random.Random(seed)
    kinds = [
        noise.randbytes(2000),
        PREFACE + noise.randbytes(2000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        PREFACE + frame(1, 4, 1, noise.randbytes(300)),
        PREFACE + b"".join(frame(noise.randrange(10), noise.randrange(256), noise.randrange(9)) for _ in range(50)),
        b"\x16\x03\x01\x00\x05hello",
    ]
    for raw in kinds:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(raw)
    assert client.generate(asking()).choices


def test_heads_past_the_limit_are_refused() -> None:
    with spoken(server={"max_head_bytes": 2048}) as (_, client):
        big = [("x-request-id", "a" * 10_000)]
        assert refused(lambda: client.generate(asking(), metadata=big)).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert client.generate(asking()).choices


def test_a_method_that_is_not_there_is_unimplemented(scripted: Any) -> None:
    _, client = scripted
    assert refused(lambda: client.method("Delete", lambda raw: raw)(b"")).code is grpc.StatusCode.UNIMPLEMENTED


def test_what_breaks_inside_says_nothing_of_itself() -> None:
    """A trace is for the log."""

    def broken(job: Any) -> list[str]:
        raise ZeroDivisionError("secret detail")

    with spoken(script=broken) as (_, client):
        for work in (lambda: client.generate(asking()), lambda: list(client.stream(asking()))):
            found = refused(work)
            assert found.code is grpc.StatusCode.INTERNAL
            assert "secret detail" not in found.message + str(found.info)
