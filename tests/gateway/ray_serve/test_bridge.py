"""Between a gateway and engines: the bytes of each, as they come; what dies in between is an error, never an end.

Ray is the only part that is not here: a gateway, its stage `upstream`, the bridge and an engine's application are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from sluicegate.gateway.ray_serve.bridge import Bridge
from sluicegate.gateway.ray_serve.inside import answers
from sluicegate.gateway.ray_serve.messages import AnswerHead, EngineRequest
from sluicegate.gateway.testing import AppReply, TestApp
from sluicegate.gateway.upstream.model import upstream_model
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from tests.waiting import soon

KEY_ENV = "BRIDGE_KEY"


class LocalAnswer:
    """What an engine in this process sends; `dies_after`: pieces after which its process is gone."""

    def __init__(self, parts: AsyncIterator[AnswerHead | bytes], dies_after: int | None) -> None:
        self._parts = parts
        self._left = dies_after
        self.cancelled = 0

    async def __aiter__(self) -> AsyncIterator[AnswerHead | bytes]:
        async for part in self._parts:
            if self._left == 0:
                raise ConnectionError("the actor died")
            self._left = None if self._left is None else self._left - 1
            yield part

    def cancel(self) -> None:
        self.cancelled += 1


class LocalEngines:
    def __init__(self, app: Any) -> None:
        self._app = app
        self.dies_after: list[int | None] = []
        self.asked: list[EngineRequest] = []
        self.given: list[LocalAnswer] = []

    def ask(self, request: EngineRequest) -> LocalAnswer:
        self.asked.append(request)
        answer = LocalAnswer(answers(self._app, request), self.dies_after.pop(0) if self.dies_after else None)
        self.given.append(answer)
        return answer


@asynccontextmanager
async def bridged(monkeypatch: pytest.MonkeyPatch, engine: TestApp) -> AsyncIterator[tuple[LocalEngines, TestApp]]:
    engines = LocalEngines(engine.app)
    bridge = Bridge(engines)
    await bridge.open()
    monkeypatch.setenv(KEY_ENV, bridge.key)
    model = {"url": bridge.address, "allow_private": True, "dialect": "vllm", "api_key_env": KEY_ENV, "version": "v7"}
    stages = {"generate": {"upstream": {"models": {"scripted": model}}}}
    async with engine, TestApp(pipeline={"generate": ["upstream"], "constrain": ["grammar"]}, stages=stages) as gateway:
        yield engines, gateway
    await bridge.close()


def asked(gateway: TestApp, **fields: Any) -> Any:
    return gateway.ask_async("Hello", model="scripted", **fields)


async def test_an_answer_is_the_engines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bridged(monkeypatch, TestApp(script=["one ", "two ", "three"])) as (engines, gateway):
        for stream in (True, False):
            found: AppReply = await asked(gateway, stream=stream)
            assert (found.status, found.text, found.finish_reason) == (200, "one two three", "stop")
        assert engines.asked[0].beginnings
        assert {name for one in engines.asked for name, _ in one.headers} <= {"content-type", "accept", "traceparent"}


@pytest.mark.parametrize("parts", [1, 2, 3])
async def test_an_engine_that_dies_before_any_text_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    async with bridged(monkeypatch, TestApp(script=["one ", "two"])) as (engines, gateway):
        engines.dies_after = [parts - 1 if parts < 3 else 0, None]
        found = await asked(gateway, stream=False)
        assert (found.status, found.text) == (200, "one two")
        assert len(engines.asked) == 2


async def test_a_stream_whose_engine_dies_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TestApp(script=["one " * 20, *(["more "] * 50)], delay_s=0.01)
    async with bridged(monkeypatch, app) as (engines, gateway):
        engines.dies_after = [4]
        found = await asked(gateway, stream=True)
        assert found.text.startswith("one one")
        assert found.error is not None
        assert found.error["code"] == "upstream_failed"
        assert found.finish_reason is None
        assert (await asked(gateway, stream=True)).finish_reason == "stop"


def test_every_gateway_calls_the_model_alike_and_a_new_model_otherwise() -> None:
    """Or kept answers of one gateway would be of no use to another, and those of an old model would be given on."""

    def version(port: int, name: str) -> str:
        return upstream_model("m", UpstreamModelSettings(f"http://example.com:{port}/v1", version=name)).version

    assert version(1, "a") == version(2, "a")
    assert len({version(1, "a"), version(1, "b"), version(1, ""), version(2, "")}) == 4


async def test_nobody_without_the_key_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = LocalEngines(None)
    bridge = Bridge(engines)
    await bridge.open()
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {bridge.key}x"}):
            async with session.post(bridge.address + "/chat/completions", data=b"{}", headers=headers) as answer:
                assert answer.status == 401
    await bridge.close()
    assert not engines.asked


async def test_who_hangs_up_stops_the_engine() -> None:
    """However far the application is ahead of its reader."""
    for delay_s in (0.0, 0.01):
        async with TestApp(script=["more "] * 2000, delay_s=delay_s) as engine:
            body = b'{"model": "scripted", "stream": true, "messages": [{"role": "user", "content": "x"}]}'
            parts = answers(engine.app, EngineRequest(body, [("content-type", "application/json")]))
            read = [await anext(parts) for _ in range(3)]
            assert isinstance(read[0], AnswerHead)
            await parts.aclose()  # type: ignore[attr-defined]
            await soon(lambda engine=engine: len(engine.outcomes) == 1)
            assert engine.outcomes[0].error is not None or engine.outcomes[0].answers[0].finish_reason != "stop"


async def test_what_an_application_raises_is_raised() -> None:
    async def app(scope: Any, receive: Any, send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        _ = [part async for part in answers(app, EngineRequest(b"", []))]
