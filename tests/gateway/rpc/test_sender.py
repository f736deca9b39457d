"""What is sent while something is on its way is joined, and nothing of it is lost, doubled or moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.gateway.grpc.messages import Closing, Delta, Opening, StreamEvent
from sluicegate.gateway.grpc.sender import MOST_BYTES, StreamSender
from sluicegate.plugins import GenerationFailed


class Wire:
    """Takes each message after so many turns of the loop."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.sent: list[bytes] = []
        self.busy = False

    async def write(self, message: bytes) -> None:
        assert not self.busy, "two writes at a time"
        self.busy = True
        for _ in range(self.turns):
            await asyncio.sleep(0)
        self.sent.append(message)
        self.busy = False


async def parts(pauses: list[int], size: int, error: Exception | None = None) -> AsyncIterator[bytes]:
    yield StreamEvent(opening=Opening(id="o")).SerializeToString()
    for number, pause in enumerate(pauses):
        for _ in range(pause):
            await asyncio.sleep(0)
        yield StreamEvent(deltas=[Delta(index=number, content="x" * size)]).SerializeToString()
    if error is not None:
        raise error
    yield StreamEvent(closing=Closing()).SerializeToString()


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 5), st.sampled_from([1, 40_000]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_whatever_the_pace_all_arrives_in_order(pauses: list[int], turns: int, size: int, fails: bool) -> None:
    """Before an error too."""
    wire = Wire(turns)

    async def run() -> None:
        work = StreamSender(wire.write).send_all(parts(pauses, size, GenerationFailed("broke") if fails else None))
        if fails:
            with pytest.raises(GenerationFailed):
                await work
        else:
            await work

    asyncio.run(run())
    events = [StreamEvent.FromString(message) for message in wire.sent]
    assert [delta.index for event in events for delta in event.deltas] == list(range(len(pauses)))
    assert all(len(delta.content) == size for event in events for delta in event.deltas)
    assert [event.HasField("opening") for event in events] == [True, *[False] * (len(events) - 1)]
    assert sum(event.HasField("closing") for event in events) == (not fails)
    assert fails or events[-1].HasField("closing")
    assert all(len(message) <= MOST_BYTES + size + 100 for message in wire.sent)


def test_a_write_that_breaks_ends_the_stream_with_its_error() -> None:
    async def broken(message: bytes) -> None:
        raise ConnectionError("gone")

    async def run() -> None:
        with pytest.raises(ConnectionError):
            await StreamSender(broken).send_all(parts([1] * 1000, 1))

    asyncio.run(run())


def test_whoever_is_cancelled_leaves_no_write_behind() -> None:
    async def run() -> None:
        async def never(message: bytes) -> None:
            await asyncio.sleep(3600)

        task = asyncio.ensure_future(StreamSender(never).send_all(parts([1] * 10, MOST_BYTES)))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
