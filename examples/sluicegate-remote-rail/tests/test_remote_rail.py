"""The rail against a service that answers well, badly, late, elsewhere, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sluicegate_remote_rail import RemoteRail, RemoteSettings

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Caller, ConfigurationError, Message, RailExample, RegistryLike, Request, read_settings
from sluicegate.plugins.testing import ScreenContract, make_request

URL = "https://rails.example.com/v1/screen"


def service(request: httpx.Request) -> httpx.Response:
    """Block `attack`, blacken `4111`, let the rest pass."""
    messages = json.loads(request.content)["messages"]
    text = " ".join(message["content"] for message in messages)
    if "attack" in text:
        return httpx.Response(200, json={"action": "block", "reason": "an attack"})
    if "4111" in text:
        redacted = [{**m, "content": m["content"].replace("4111", "####")} for m in messages]
        return httpx.Response(200, json={"action": "redact", "reason": "a card", "messages": redacted})
    return httpx.Response(200, json={"action": "pass"})


def remote(answer: Callable[[httpx.Request], Any], environ: dict[str, str] | None = None, **table: Any) -> RemoteRail:
    settings = read({"url": URL, **table})
    return RemoteRail(settings, settings.token(environ or {}), httpx.MockTransport(answer))


def read(table: dict[str, Any]) -> RemoteSettings:
    return read_settings(RemoteSettings, table, "stages.screen.remote")


@asynccontextmanager
async def started(rail: RemoteRail) -> AsyncIterator[RemoteRail]:
    await rail.start()
    yield rail
    await rail.close()


def screened(rail: RemoteRail, request: Request) -> Any:
    async def run() -> Any:
        async with started(rail):
            return await rail.screen(request, Caller())

    return asyncio.run(run())


class TestRemote(ScreenContract):
    examples = (
        RailExample("this is an attack", forbidden=("attack",)),
        RailExample("my card is 4111", forbidden=("4111",)),
        RailExample("my card is lost"),
    )

    def rail(self) -> RemoteRail:
        return remote(service)


def test_only_the_configured_roles_are_sent_and_nothing_about_the_caller() -> None:
    """Check that the service sees what it was meant to judge, and the token that is meant for it."""
    seen: list[httpx.Request] = []

    def keep(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return service(request)

    messages = (Message("system", "secret rules"), Message("user", "4111", name="ada"))
    request = make_request(api_key="sk-caller", user="ada", messages=messages)
    rail = remote(keep, {"RAIL_TOKEN": "t0ken"}, roles=["user"], token_variable="RAIL_TOKEN")
    result = screened(rail, request)
    assert json.loads(seen[0].content) == {"messages": [{"role": "user", "content": "4111"}]}
    assert seen[0].headers["authorization"] == "Bearer t0ken"
    assert [m.content for m in result.messages] == ["secret rules", "####"]


async def slow(request: httpx.Request) -> httpx.Response:
    await asyncio.sleep(5)
    return httpx.Response(200, json={"action": "pass"})


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (slow, "longer than 0.1 s"),
        (unreachable, "no route"),
        (lambda _: httpx.Response(503), "status 503"),
        (lambda _: httpx.Response(307, headers={"location": "http://169.254.169.254/"}), "status 307"),
        (lambda _: httpx.Response(200, json={"action": "allow"}), "'allow'"),
        (lambda _: httpx.Response(200, json=["pass"]), "None"),
        (lambda _: httpx.Response(200, content=b"<html>"), "Expecting value"),
        (lambda _: httpx.Response(200, content=b" " * (2 << 20)), "longer than 1048576 bytes"),
        (lambda _: httpx.Response(200, json={"action": "redact"}), "not those that it was sent"),
        (lambda _: httpx.Response(200, json={"action": "redact", "messages": []}), "not those that it was sent"),
        (
            lambda _: httpx.Response(200, json={"action": "redact", "messages": [{"role": "system", "content": "x"}]}),
            "not those that it was sent",
        ),
    ],
)
def test_whatever_is_no_verdict_raises(answer: Any, told: str) -> None:
    """Check that nothing but a well-formed verdict lets a request through. A redirect is not followed."""
    with pytest.raises(Exception, match=told):
        screened(remote(answer, timeout_s=0.1), make_request())


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "needs 'url'"),
        ({"url": "http://rails.example.com"}, "https"),
        ({"url": "file:///etc/passwd"}, "https"),
        ({"url": "https://user:pass@rails.example.com"}, "password"),
        ({"url": URL, "timeout_s": 0}, "timeout_s"),
        ({"url": URL, "roles": ["users"]}, "roles"),
        ({"url": URL, "retries": 3}, "has no 'retries'"),
        ({"url": URL, "token_variable": "NOT_SET"}, "NOT_SET"),
    ],
)
def test_wrong_settings_are_refused(table: dict[str, Any], told: str) -> None:
    """Check that they are refused at start-up, with what is expected."""
    with pytest.raises(ConfigurationError, match=told):
        read(table).token({})


def test_plain_http_is_taken_for_this_machine_alone() -> None:
    """Check that a sidecar needs no certificate."""
    assert read({"url": "http://127.0.0.1:9000/screen"}).url == "http://127.0.0.1:9000/screen"


@pytest.mark.parametrize(
    ("answer", "text", "status", "code"),
    [
        (service, "hello", 200, None),
        (service, "an attack", 400, "content_filter"),
        (lambda _: httpx.Response(500), "hello", 500, "stage_failed"),
    ],
)
def test_in_a_gateway_no_verdict_means_no_answer(answer: Any, text: str, status: int, code: str | None) -> None:
    """Check that the model is asked only after the service has said pass."""

    def register(registry: RegistryLike) -> None:
        registry.add("screen", "remote", lambda settings: remote(answer))

    with TestApp(register, pipeline={"screen": ["remote"]}) as gateway:
        reply = gateway.ask(text)
        assert (reply.status, (reply.error or {}).get("code")) == (status, code)
        assert len(gateway.model.jobs) == (1 if status == 200 else 0)
