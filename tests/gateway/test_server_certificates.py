"""Certificates of every server that is asked over TLS are watched until they end, whatever library asks it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.readiness import server_certificates
from sluicegate.gateway.readiness.server_certificates import ServerCertificates
from sluicegate.gateway.readiness.tls_servers import TlsServer, tls_servers
from sluicegate.gateway.testing import TestApp
from tests.cache.redis_server import RedisServer, free_port, needs_redis
from tests.gateway.certificates import self_signed
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import soon

DAY_S = 86_400.0


def written(folder: Path, days: float, since_days: float = 1) -> tuple[Path, Path]:
    """Write a certificate for so many more days, and its key."""
    cert, key = folder / "server.crt", folder / "server.key"
    for path, pem in zip((cert, key), self_signed(days=days, since_days=since_days), strict=True):
        path.write_bytes(pem)
        path.chmod(0o600)
    return cert, key


class Secure:
    """Shakes hands over TLS and closes; `days`: until its certificate ends. Each start shows the newest one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._server: asyncio.Server | None = None

    async def show(self, days: float, *, wants_client: bool = False) -> None:
        await self.close()
        cert, key = written(self.folder, days, since_days=30)
        terms = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        terms.load_cert_chain(cert, key)
        if wants_client:
            terms.load_verify_locations(cert)
            terms.verify_mode = ssl.CERT_REQUIRED
        self._server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", self.port, ssl=terms)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()


def watched(*servers: TlsServer) -> ServerCertificates:
    return ServerCertificates(lambda: servers)


def shown(found: ServerCertificates) -> dict[str, float]:
    """Return the days until each certificate ends."""
    [family] = found.collect()
    return {one.labels["server"]: (one.value - time.time()) / DAY_S for one in family.samples}


def test_servers_of_every_kind_are_found_where_they_are_reached_over_tls() -> None:
    settings = load(
        overrides={
            "accounts": {"url": "rediss+sentinel://user:secret@s1:26379,s2/service/0"},
            "retrieval": {"rerank": "https://rerank.example/v1#model"},
            "mcp": {"servers": {"tools": {"url": "https://tools.example/mcp"}, "here": {"command": ["x"]}}},
            "pipeline": {"recall": ["redis"], "moderate": ["guard-service"], "generate": ["upstream"]},
            "stages": {
                "recall": {
                    "redis": {
                        "url": "rediss://:secret@[::1]:6390/0",
                        "semantic": {"embedder": "https://embed.example:8443/v1", "judge": "served:m"},
                    },
                    "memory": {"semantic": {"judge": "https://not-enabled.example"}},
                },
                "moderate": {"guard-service": {"url": "https://guard.example/v1", "form": "moderations"}},
                "screen": {"blocklist": {"phrases": ["https://no-server.example"]}},
                "generate": {"upstream": {"models": {"m": {"url": "https://watched-by-its-client.example/v1"}}}},
            },
        }
    )
    collectors = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://traces.example:4318/v1/traces",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://plain.example/v1/metrics",
    }
    assert [(one.named, one.host, one.port) for one in tls_servers(settings, collectors)] == [
        ("[accounts] url (s1:26379)", "s1", 26379),
        ("[accounts] url (s2:6379)", "s2", 6379),
        ("[retrieval] rerank (rerank.example:443)", "rerank.example", 443),
        ("[mcp.servers.tools] url (tools.example:443)", "tools.example", 443),
        ("[stages.recall.redis] url (::1:6390)", "::1", 6390),
        ("[stages.recall.redis.semantic] embedder (embed.example:8443)", "embed.example", 8443),
        ("[stages.moderate.guard-service] url (guard.example:443)", "guard.example", 443),
        ("the collector of traces (traces.example:4318)", "traces.example", 4318),
    ]


def test_a_database_is_watched_unless_tls_is_forbidden() -> None:
    def found(url: str) -> list[str]:
        return [one.named for one in tls_servers(load(overrides={"database": {"url": url}}), {})]

    assert found("postgresql://u:p@a:5433,b/name") == ["[database] url (a:5433)", "[database] url (b:5432)"]
    assert found("postgres://a/name?sslmode=disable") == []
    assert found("postgresql:///name?host=/run/postgresql") == []


@pytest.mark.parametrize("wants_client", [False, True])
async def test_a_certificate_is_reported_before_it_ends_and_until_a_new_one_is_shown(
    tmp_path: Path, wants_client: bool
) -> None:
    server = Secure(tmp_path)
    found = watched(TlsServer("it", "127.0.0.1", server.port))
    for days, said in ((30.0, ""), (3.0, "ends in 3.0 days"), (-1.0, "has ended"), (30.0, "")):
        await server.show(days, wants_client=wants_client)
        await found.look()
        assert shown(found)["it"] == pytest.approx(days, abs=0.01)
        assert [said in one.reason for one in found.troubles()] == ([True] if said else [])
    await server.close()


async def test_a_server_that_is_away_keeps_its_date_and_one_that_is_not_configured_loses_it(tmp_path: Path) -> None:
    server = Secure(tmp_path)
    await server.show(3)
    servers = [TlsServer("it", "127.0.0.1", server.port), TlsServer("never there", "127.0.0.1", free_port())]
    found = ServerCertificates(lambda: servers)
    await found.look()
    await server.close()
    await found.look()
    assert list(shown(found)) == ["it"]
    servers.clear()
    await found.look()
    assert shown(found) == {}


async def test_what_speaks_no_tls_or_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_certificates, "LIMIT_S", 0.2)

    def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR no\r\n")
        writer.close()

    rude = await asyncio.start_server(refuse, "127.0.0.1", 0)
    silent = await asyncio.start_server(lambda _, w: None, "127.0.0.1", 0)
    ports = [one.sockets[0].getsockname()[1] for one in (rude, silent)]
    found = watched(*(TlsServer(str(port), "127.0.0.1", port) for port in ports))
    await found.look()
    assert shown(found) == {}
    assert found.troubles() == []
    rude.close()
    silent.close()


@needs_redis
async def test_the_certificate_of_redis_is_read(tmp_path: Path) -> None:
    cert, key = written(tmp_path, 3)
    files = ("--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-ca-cert-file", str(cert))
    server = RedisServer(tmp_path, *files, tls=True)  # it wants a client's certificate, too
    server.start()
    try:
        found = watched(*tls_servers(load(overrides={"accounts": {"url": f"rediss://127.0.0.1:{server.port}"}}), {}))
        await found.look()
        assert list(shown(found).values()) == [pytest.approx(3, abs=0.01)]
    finally:
        server.kill()


@contextmanager
def postgres(*settings: str, folder: Path | None = None) -> Iterator[PostgresServer]:
    server = PostgresServer(*settings)
    if folder is not None:
        for path in written(folder, 3):
            (server.folder / "data" / path.name).write_bytes(path.read_bytes())
            (server.folder / "data" / path.name).chmod(0o600)
            server_owner(server, server.folder / "data" / path.name)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        server.remove()


def server_owner(server: PostgresServer, path: Path) -> None:
    """Give the file to the user that the server runs as."""
    import os

    found = server.folder.stat()
    os.chown(path, found.st_uid, found.st_gid)


@needs_postgres
async def test_the_certificate_of_postgresql_is_read_where_it_speaks_tls(tmp_path: Path) -> None:
    def look(server: PostgresServer) -> ServerCertificates:
        return watched(*tls_servers(load(overrides={"database": {"url": server.url()}}), {}))

    with postgres("ssl=on", folder=tmp_path) as server:
        found = look(server)
        await found.look()
        assert list(shown(found).values()) == [pytest.approx(3, abs=0.01)]
    with postgres() as server:
        found = look(server)
        await found.look()
        assert shown(found) == {}


async def test_a_gateway_names_the_setting_in_its_readiness_and_metrics(tmp_path: Path) -> None:
    server = Secure(tmp_path)
    await server.show(3)
    url = f"https://127.0.0.1:{server.port}/v1"
    stages: Any = {"moderate": {"guard-service": {"url": url, "form": "moderations"}}}
    async with TestApp(pipeline={"moderate": ["guard-service"]}, stages=stages) as app:
        await soon(lambda: bool(shown(app.runtime.server_certificates)))
        ready = await app.client.get("/readyz")
        metrics = await app.client.get("/metrics")
    named = f"[stages.moderate.guard-service] url (127.0.0.1:{server.port})"
    assert ready.status_code == 200
    assert ready.text.splitlines()[0] == "degraded"
    assert f"server certificates: the certificate of {named} ends in 3.0 days" in ready.text
    assert f'sluicegate_server_certificate_ends_seconds{{server="{named}"}}' in metrics.text
    await server.close()
