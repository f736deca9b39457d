"""What comes in: HTTP, gRPC, and the threads that read large requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.plugins import Within
from sluicegate.plugins.compiled.compile_mode import CompileKind
from sluicegate.plugins.contract.disk_paths import ReadFile
from sluicegate.plugins.settings import Count, Positive


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    """Address or name to listen on; `0.0.0.0` = all."""
    port: Annotated[int, Within(0, 65_535)] = 8000
    """0 = a free one."""
    workers: Annotated[int, Within(1, 64)] = 1
    """Processes that serve the port together; more than one only where other servers compute the answers."""
    worker_port: Annotated[int, Within(0, 65_535)] = 0
    """With several workers, the first is also reachable alone on this port, the second on the next one, and so on: for
    scrapers and probes; 0 = not."""
    max_body_bytes: Count = 8 * 1024 * 1024
    """Most bytes of one request's body."""
    tenant_bodies_bytes: int = 128 * 1024 * 1024
    """Most bytes of all bodies of one tenant (without keys: of one address) that are being read or answered."""
    all_bodies_bytes: int = 512 * 1024 * 1024
    """The same for all tenants together."""
    max_values: Count = 100_000
    """Most JSON values in one body: numbers, strings, arrays and objects at any depth."""
    max_messages: Count = 4096
    """Most messages of one request; also items of `input` and prompts."""
    max_parts: Count = 8192
    """Most content parts in all messages of a request."""
    max_tools: int = 1024
    """Most tools of one request."""
    max_moderated_chars: Count = 1_000_000
    """Most characters of all texts of one request to `/v1/moderations`."""
    heartbeat_s: Positive = 15.0
    """A comment line is sent on a stream after this long without data, so that proxies keep it open."""
    lame_duck_s: Annotated[float, Within(0, 3600)] = 5.0
    """How long after SIGTERM everything is still served while `/readyz` answers 503, so that load balancers stop
    sending."""
    drain_s: float = 10.0
    """How long open requests may continue after that."""
    min_free_bytes: int = 256 * 1024**2
    """Space that should stay free on every disk that is written to; below it `/readyz` says `degraded`."""
    deadline_s: Annotated[float, Within(0, 86_400)] = 600.0
    """Deadline of requests that set none, except batches; 0 = none."""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """Lowest level that is logged."""
    log_form: Literal["text", "json"] = "text"
    """`json`: one object per line."""
    compile: CompileKind = "background"
    """When kernels without cached code are compiled: `background`, while the server answers with slower code; `first`,
    before it answers; `never`: do without them."""
    tls_cert: ReadFile = ""
    """PEM file of the certificate and its chain; with `tls_key` the gateway speaks HTTPS."""
    tls_key: ReadFile = ""
    """PEM file of the certificate's key."""
    tls_client_ca: ReadFile = ""
    """PEM file: only clients with a certificate of this authority may connect."""
    renew_s: Annotated[float, Within(0, 86_400)] = 10.0
    """How often certificate and secret files are checked, and read again if they changed; 0 = never."""
    max_connections: Count = 20_000
    """Most connections; further ones get a 503."""
    max_head_bytes: Annotated[int, Within(least=1024)] = 65_536
    """Most bytes of a request's head: its line and all headers."""
    max_headers: Count = 128
    """Most headers of one request."""
    head_s: Positive = 15.0
    """How long the head of a request may take."""
    body_s: Positive = 120.0
    """How long its body may take."""
    stall_s: Positive = 60.0
    """How long a client may read nothing of what was sent before its connection is closed."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, with or without a port, that a gateway without keys accepts besides the loopback names."""
    allowed_origins: tuple[str, ...] = ()
    """Origins (`https://NAME`) whose pages may use a gateway without keys, and open a WebSocket to any gateway."""
    shed_s: float = 0.0
    """Interactive requests that would wait longer than this for their first text get a 503 instead; 0 = all wait."""


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """gRPC beside HTTP, with the certificates and bounds of `[server]`; needs the extra `grpc`."""

    enabled: bool = False
    """Serve gRPC."""
    host: str = ""
    """Empty = that of `[server]`."""
    port: Annotated[int, Within(0, 65_535)] = 50051
    """0 = a free one."""
    calls_per_connection: Annotated[int, Within(1, 100_000)] = 256
    """Most concurrent calls on one connection; further ones wait at the client."""
    ping_s: Annotated[float, Within(1, 3600)] = 10.0
    """A client that pings more often than this is disconnected."""
    reflection: bool = True
    """Let clients list methods and messages; where there are keys, only clients with a key."""


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Reading, tokenising and judging of large requests, in threads beside the event loop."""

    threads: int = 0
    """0 = half of the processors, at least 2 and at most 8."""
    per_tenant: int = 0
    """Most threads of one tenant; 0 = half of `threads`."""
    inline_bytes: int = 4096
    """Work on at most this many bytes runs on the event loop at once."""
    tenant_waiting: int = 64
    """Most large pieces of work of one tenant that may wait; beyond that, a 429."""
    tenant_bytes: int = 64 * 1024 * 1024
    """Most bytes of one tenant's work that may wait or run."""
    all_bytes: int = 512 * 1024 * 1024
    """The same for all tenants together; beyond that, a 503."""
