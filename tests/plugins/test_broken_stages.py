"""A stage of any other slot that breaks: what decides fails closed, what only keeps is done without."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import RegistryLike, ScreenResult
from sluicegate.plugins.testing import Unconstrained
from tests.plugins.test_broken import Moody, raises, register


class Broken:
    """Every method of every slot, and each one raises; `stats` and `close` too."""

    unconstrained = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("models", "warm", "properties", "assembled"):
            raise AttributeError(name)

        async def method(*given: Any) -> Any:
            raise KeyError(f"{name} is broken")

        return method

    def stats(self) -> Any:
        raise KeyError("stats are broken")

    async def start(self) -> None:
        return

    async def close(self) -> None:
        raise KeyError("close is broken")


class Empty(Broken):
    """Answers None to everything."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)

        async def method(*given: Any) -> Any:
            return None

        return method if found else found


def in_slot(slot: Any, stage: Any) -> Any:
    def door(registry: RegistryLike) -> None:
        registry.add(slot, "broken", lambda settings: stage)

    return door


@pytest.mark.parametrize("stage", [Broken(), Empty()], ids=["raises", "answers None"])
@pytest.mark.parametrize("slot", ["admit", "screen", "route", "assemble"])
def test_a_stage_that_decides_fails_closed_by_name(slot: str, stage: Any) -> None:
    """Nothing is generated, the caller gets a typed error without the inner message, and the request is recorded."""
    with TestApp(in_slot(slot, stage), pipeline={slot: ["broken"]}) as gateway:
        reply = gateway.ask(stream=False)
        assert (reply.status, reply.error["code"]) == (500, "stage_failed")
        assert slot in reply.error["message"]
        assert "is broken" not in reply.error["message"]
        assert gateway.model.jobs == []
        assert gateway.wait_for_outcomes()[0].error == "stage_failed"


def test_a_constrainer_without_a_grammar_never_means_unconstrained() -> None:
    """None from a broken stage must not be taken for "no constraint"."""
    form = {"structured_outputs": {"regex": "[a-z]+"}}
    with TestApp(in_slot("constrain", Empty()), pipeline={"constrain": ["broken"]}) as gateway:
        assert gateway.ask(stream=False, **form).error["code"] == "stage_failed"
        assert gateway.ask(stream=False).text == "Hello back"


@pytest.mark.parametrize("stage", [Broken(), Empty()], ids=["raises", "answers None"])
@pytest.mark.parametrize("slot", ["recall", "record"])
def test_a_stage_that_only_keeps_never_fails_a_request(slot: str, stage: Any) -> None:
    """A cache that is down is a miss; a recorder that is down is a line in the log."""
    with TestApp(in_slot(slot, stage), pipeline={slot: ["broken"]}) as gateway:
        for stream in (True, False):
            reply = gateway.ask(stream=stream, temperature=0)
            assert (reply.text, reply.error) == ("Hello back", None)
        assert gateway.client.get("/metrics").status_code == 200
        assert [outcome.error for outcome in gateway.wait_for_outcomes(2)] == [None, None]


class Closing(Unconstrained):
    closed = False

    async def start(self) -> None:
        return

    async def close(self) -> None:
        self.closed = True


async def test_a_stage_that_does_not_close_keeps_no_other_from_closing() -> None:
    """Shutting down goes through all of them."""
    closing = Closing()
    pipeline = {"constrain": ["closing"], "moderate": ["moody"]}

    def door(registry: RegistryLike) -> None:
        rail: Any = Moody(raises)
        rail.start, rail.close = Broken().start, Broken().close
        registry.add("moderate", "moody", lambda settings: rail)
        registry.add("constrain", "closing", lambda settings: closing)

    async with TestApp(door, pipeline=pipeline) as gateway:
        assert (await gateway.ask_async("good")).text == "Hello back"
    assert closing.closed


async def test_an_input_rail_that_never_answers_holds_up_its_own_request_alone() -> None:
    """It waits in the event loop, so everyone else is served; when its client leaves, it is cancelled."""
    ended: list[str] = []

    class Waiting:
        async def screen(self, request: Any, caller: Any) -> ScreenResult:
            if "bad" in request.messages[0].content:
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append("cancelled")
            return ScreenResult()

    async with TestApp(in_slot("screen", Waiting()), pipeline={"screen": ["broken"]}) as gateway:
        stuck = asyncio.ensure_future(gateway.ask_async("a bad one"))
        replies = await asyncio.gather(*(gateway.ask_async("a good one") for _ in range(4)))
        assert [reply.text for reply in replies] == ["Hello back"] * 4
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
    assert ended == ["cancelled"]


def test_a_stage_that_does_not_start_keeps_the_gateway_from_becoming_ready() -> None:
    """Its state says which stage it was; a rail that was asked for and is not there must not be missed."""

    class Unstartable(Moody):
        async def start(self) -> None:
            raise OSError("no rules on this disk")

        async def close(self) -> None:
            return

    gateway = TestApp(register(Unstartable(raises)), pipeline={"moderate": ["moody"]})
    said = "failed while starting moderate moody: OSError: no rules on this disk"
    with pytest.raises(RuntimeError, match=said), gateway:
        pytest.fail("it must not become ready")
