"""What is written in one turn of the event loop leaves with few system calls, in order, and nothing waits for more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import sluicegate.gateway.http.connection.coalescing
from sluicegate.gateway.http.connection.coalescing import MOST, PATIENCE_S, CoalescedTransport


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, a turn of the test is short."""
    monkeypatch.setattr(sluicegate.gateway.http.connection.coalescing, "PATIENCE_S", 60.0)


class Wire:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return f"the transport's own {name}"


def sent_within(do: Callable[[CoalescedTransport], Any], turns: int = 2) -> list[bytes]:
    async def run() -> list[bytes]:
        wire = Wire()
        do(CoalescedTransport(wire, asyncio.get_running_loop()))  # type: ignore[arg-type]
        for _ in range(turns):
            await asyncio.sleep(0)
        return list(wire.sent)  # what is sent after this is not of these turns

    return asyncio.run(run())


def write(*parts: bytes) -> Callable[[CoalescedTransport], None]:
    def do(corked: CoalescedTransport) -> None:
        for part in parts:
            corked.write(part)

    return do


def test_a_head_leaves_together_with_what_follows_it() -> None:
    assert sent_within(write(b"HTTP/1.1 200 OK\r\n\r\n", b"{}"), turns=0) == [b"HTTP/1.1 200 OK\r\n\r\n{}"]


def test_a_head_alone_leaves_with_the_turn() -> None:
    assert sent_within(write(b"HTTP/1.1 200 OK\r\n\r\n"), turns=0) == []
    assert sent_within(write(b"HTTP/1.1 200 OK\r\n\r\n")) == [b"HTTP/1.1 200 OK\r\n\r\n"]


def test_the_first_bytes_of_a_turn_leave_at_once() -> None:
    assert sent_within(write(b"a"), turns=0) == [b"a"]


@pytest.mark.usefixtures("patient")
def test_what_follows_in_the_same_turn_leaves_together() -> None:
    assert sent_within(write(b"a", b"b", b"c", b"d")) == [b"a", b"bcd"]
    assert sent_within(write(b"HTTP/1.1 200 OK\r\n\r\n", b"a", b"b", b"c")) == [b"HTTP/1.1 200 OK\r\n\r\na", b"bc"]


def test_a_later_turn_begins_anew() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        corked = CoalescedTransport(wire, asyncio.get_running_loop())  # type: ignore[arg-type]
        for part in (b"a", b"b", b"c"):
            corked.write(part)
            await asyncio.sleep(0.001)
        return wire.sent

    assert asyncio.run(run()) == [b"a", b"b", b"c"]


@pytest.mark.usefixtures("patient")
def test_no_more_waits_than_flow_control_may_not_see() -> None:
    sent = sent_within(write(b"a", *[b"x" * 10_000] * 20), turns=0)
    assert sent[0] == b"a"
    assert all(len(part) <= 70_000 for part in sent)
    assert 200_000 - sum(map(len, sent[1:])) < MOST


def test_a_turn_that_lasts_does_not_keep_what_waits() -> None:
    def slowly(corked: CoalescedTransport) -> None:
        for part in (b"a", b"b", b"c"):
            corked.write(part)
            time.sleep(2 * PATIENCE_S)

    assert sent_within(slowly, turns=0) == [b"a", b"bc"]


def test_closing_sends_what_waits() -> None:
    def close(corked: CoalescedTransport) -> None:
        write(b"HTTP/1.1 400 Bad Request\r\n\r\n")(corked)
        corked.close()

    assert sent_within(close, turns=0) == [b"HTTP/1.1 400 Bad Request\r\n\r\n"]


def test_everything_else_is_the_transports_own() -> None:
    found: list[str] = []
    sent_within(lambda corked: found.append(corked.get_extra_info("peername")))
    assert found == ["the transport's own peername"]
