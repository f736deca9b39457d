"""Addresses of other servers: nothing inside is reached unless the operator says so."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from sluicegate.gateway.upstream.settings import UpstreamModelSettings, UpstreamSettings, is_public
from sluicegate.plugins import ConfigurationError, read_settings


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://127.0.0.1:1/v1", "not a public address"),
        ("http://localhost/v1", "not a public address"),
        ("http://[::ffff:10.0.0.1]/v1", "not a public address"),
        ("http://169.254.169.254/latest", "not a public address"),
        ("ftp://example.com", "http:// or https://"),
        ("https://user:pass@example.com/v1", "password"),
        ("https://example.com/v1?x=1", "without query"),
    ],
)
def test_addresses_inside_are_refused_at_the_start(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        read_settings(UpstreamSettings, {"models": {"far": {"url": url}}}, "stages.generate.upstream")


async def test_a_name_that_leads_inside_is_refused_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.gateway.upstream.transport.client import Client
    from sluicegate.gateway.upstream.transport.server import TryCounter
    from sluicegate.plugins import UpstreamFailed

    asked: list[Any] = []
    reached: list[Any] = []

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()

    async def inside(*arguments: Any, **flags: Any) -> list[Any]:
        asked.append(arguments)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", inside)
    client = Client("far", UpstreamModelSettings("http://rebound.example/v1", retries=0))
    await client.start()
    with pytest.raises(UpstreamFailed, match="cannot be reached"):
        await client.ask({}, TryCounter())
    assert asked
    assert not reached
    await client.close()
    inner = Client("far", UpstreamModelSettings("http://rebound.example/v1", retries=0, allow_private=True))
    await inner.start()
    with pytest.raises(UpstreamFailed, match="cannot be reached"):  # this server hangs up
        await inner.ask({}, TryCounter())
    assert reached
    await inner.close()
    server.close()


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "::1", "fe80::1%eth0", "::ffff:192.168.0.1", "224.0.0.1"])
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public("93.184.216.34")


async def test_a_key_that_is_no_header_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.gateway.upstream.transport.client import Client

    monkeypatch.setenv("FAR_KEY", "secret\r\nx-injected: 1")
    client = Client("far", UpstreamModelSettings("http://far.example/v1", api_key_env="FAR_KEY"))
    with pytest.raises(ConfigurationError, match="cannot be sent as a key") as refused:
        await client.start()
    assert "secret" not in str(refused.value)
