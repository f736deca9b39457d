"""A client that leaves ends what runs for it, under our own server and under any other; what has ended is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from sluicegate.gateway.http.disconnects import EXTENSION, ClientDisconnected, Disconnect, unless_disconnected
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Overloaded
from tests.waiting import LIMIT_S


async def silent() -> Any:
    await asyncio.sleep(3600)


def under_our_server(disconnect: Disconnect) -> dict[str, Any]:
    return {"type": "http", "extensions": {EXTENSION: disconnect}}


class Work:
    def __init__(self) -> None:
        self.ended = ""

    async def __call__(self, seconds: float = 0.0, *, deaf: bool = False) -> str:
        try:
            await asyncio.sleep(seconds)
            self.ended = "done"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            if not deaf:
                raise
        return "answer"


def test_work_of_a_client_that_stays_is_answered() -> None:
    async def run() -> None:
        assert await unless_disconnected(under_our_server(Disconnect()), silent, Work()()) == "answer"
        assert await unless_disconnected({"type": "http"}, silent, Work()()) == "answer"

    asyncio.run(run())


def test_work_is_cancelled_when_the_connection_says_that_it_closed() -> None:
    async def run() -> None:
        disconnect, work = Disconnect(), Work()
        asyncio.get_running_loop().call_later(0.01, disconnect.left)
        with pytest.raises(ClientDisconnected):
            await unless_disconnected(under_our_server(disconnect), silent, work(60))
        assert work.ended == "cancelled"
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        await asyncio.sleep(0)  # the task goes on unharmed

    asyncio.run(run())


def test_work_that_outlasts_the_patience_of_a_stopping_gateway_is_refused() -> None:
    """Also what was about to begin."""

    async def run() -> None:
        disconnect, work, late = Disconnect(), Work(), Work()
        asyncio.get_running_loop().call_later(0.01, disconnect.end)
        with pytest.raises(Overloaded, match="shutting down"):
            await unless_disconnected(under_our_server(disconnect), silent, work(60))
        assert work.ended == "cancelled"
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        with pytest.raises(Overloaded, match="shutting down"):
            await unless_disconnected(under_our_server(disconnect), silent, late())
        assert late.ended == ""

    asyncio.run(run())


def test_work_is_cancelled_when_another_server_says_disconnect() -> None:
    async def left() -> Any:
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def run() -> None:
        work = Work()
        with pytest.raises(ClientDisconnected):
            await unless_disconnected({"type": "http"}, left, work(60))
        assert work.ended == "cancelled"

    asyncio.run(run())


def test_a_deadline_inside_keeps_its_own_cancellation_apart() -> None:
    async def late() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await unless_disconnected(under_our_server(Disconnect()), silent, late())

    asyncio.run(run())


def test_a_server_that_stops_is_no_client_that_left() -> None:
    async def run() -> None:
        work = Work()
        task = asyncio.ensure_future(unless_disconnected(under_our_server(Disconnect()), silent, work(60)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.ended == "cancelled"

    asyncio.run(run())


def test_nothing_is_begun_for_a_client_that_is_gone_already() -> None:
    async def run() -> None:
        disconnect, work = Disconnect(), Work()
        disconnect.left()
        with pytest.raises(ClientDisconnected):
            await unless_disconnected(under_our_server(disconnect), silent, work())
        assert work.ended == ""

    asyncio.run(run())


def test_work_that_does_not_heed_its_cancellation_hands_over_what_it_made() -> None:
    """Whoever has it can end it: an exchange that was opened must be closed."""

    async def run() -> None:
        disconnect = Disconnect()
        asyncio.get_running_loop().call_later(0.01, disconnect.left)
        assert await unless_disconnected(under_our_server(disconnect), silent, Work()(60, deaf=True)) == "answer"
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_recorded_as_one_and_its_generation_is_stopped(stream: bool) -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    with TestApp(script=["word "] * 400, delay_s=0.02) as gateway:
        with pytest.raises(httpx.ReadTimeout):
            _hung_up(gateway, body)
        outcome = gateway.wait_for_outcomes(limit_s=LIMIT_S)[0]
        assert gateway.model.generations[0].cancelled
    assert outcome.error == "cancelled"


def _hung_up(gateway: TestApp, body: dict[str, Any]) -> None:
    """Ask, and close the connection after 0.3 s, or after the first line of a stream."""
    with gateway.client.stream("POST", "/v1/chat/completions", json=body, timeout=0.3) as answer:
        next(answer.iter_lines())
        raise httpx.ReadTimeout("had enough")
