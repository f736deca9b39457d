"""List the servers that a configuration reaches over TLS: of accounts, the database, stages, MCP and collectors.

Not covered: models of other servers, whose client keeps what they show (`gateway/upstream`); servers that a Sentinel or
a node of a Cluster names; and stages of plug-ins whose setting is not called `url`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs

from sluicegate.gateway.settings import Settings
from sluicegate.gateway.telemetry.otlp.sending import ExportTarget
from sluicegate.gateway.telemetry.tracing import exports
from sluicegate.plugins import SLOTS
from sluicegate.plugins.addresses import POSTGRES, hosts_of

_PORTS = {"https": 443, "rediss": 6379, "rediss+sentinel": 6379, "rediss+cluster": 6379} | dict.fromkeys(POSTGRES, 5432)
_NAMES = ("url", "urls", "embedder", "judge")
"""Settings of stages that are addresses, or may be."""


@dataclass(frozen=True, slots=True)
class TlsServer:
    """`named`: the setting, with the server's place. `opening`: what is said before TLS begins."""

    named: str
    host: str
    port: int
    opening: Literal["", "postgres"] = ""


def tls_servers(settings: Settings, environ: Mapping[str, str]) -> list[TlsServer]:
    """Return each server once."""
    found: dict[tuple[str, int], TlsServer] = {}
    for where, url in _addresses(settings, environ):
        for server in _servers(where, url):
            found.setdefault((server.host, server.port), server)
    return list(found.values())


def _addresses(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "[accounts] url", settings.accounts.url
    yield "[database] url", settings.database.url
    yield "[retrieval] rerank", settings.retrieval.rerank
    for name, server in settings.mcp.servers.items():
        yield f"[mcp.servers.{name}] url", server.url
    for slot in SLOTS:
        for name in getattr(settings.pipeline, slot):
            if (slot, name) != ("generate", "upstream"):
                yield from _of_table(f"stages.{slot}.{name}", settings.of_stage(slot, name))
    for signal in ("TRACES", "METRICS"):
        if exports(environ, signal):
            yield f"the collector of {signal.lower()}", ExportTarget.url_of(environ, signal)


def _of_table(where: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _of_table(f"{where}.{name}", value)
        elif name in _NAMES:
            listed = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
            yield from ((f"[{where}] {name}", one) for one in listed if isinstance(one, str))


def _servers(where: str, url: str) -> Iterator[TlsServer]:
    """Yield the hosts of an address that is reached over TLS. libpq begins TLS wherever a server offers it, unless it
    is forbidden."""
    scheme = url.partition("://")[0]
    if scheme not in _PORTS or parse_qs(url.partition("?")[2]).get("sslmode") == ["disable"]:
        return
    for host, port in hosts_of(url):
        if host and (port is None or port.isdigit()):
            number = int(port) if port else _PORTS[scheme]
            yield TlsServer(f"{where} ({host}:{number})", host, number, "postgres" if scheme in POSTGRES else "")
