"""What comes in: HTTP, gRPC, and the threads that read large requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.plugins import Within
from sluicegate.plugins.compiled.compile_mode import CompileKind


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    """Address or name that is listened on; `0.0.0.0` = all."""
    port: Annotated[int, Within(0, 65_535)] = 8000
    """0 = a free one."""
    workers: Annotated[int, Within(1, 64)] = 1
    """Processes that serve the port together; more than one where other servers compute the answers."""
    worker_port: Annotated[int, Within(0, 65_535)] = 0
    """With several workers the first one is also reached alone on this port, the next on the one after it, and so on:
    for scrapers and probes; 0 = none."""
    max_body_bytes: int = 8 * 1024 * 1024
    """Of the body of one request."""
    tenant_bodies_bytes: int = 128 * 1024 * 1024
    """Of all bodies of one tenant (without keys: of one address) that are coming in or being answered."""
    all_bodies_bytes: int = 512 * 1024 * 1024
    """Of those of all tenants."""
    max_values: int = 100_000
    """Of JSON in one body: numbers, texts, lists and objects, however deep."""
    max_messages: int = 4096
    """Of one request; also items of `input` and prompts."""
    max_parts: int = 8192
    """Of content, in all messages of a request."""
    max_tools: int = 1024
    """Of one request."""
    max_moderated_chars: int = 1_000_000
    """Of all texts of one request to `/v1/moderations`."""
    heartbeat_s: float = 15.0
    """A comment line is sent on a stream that was silent for so long, so that proxies keep it open."""
    lame_duck_s: Annotated[float, Within(0, 3600)] = 5.0
    """After SIGTERM, how long everything is still served while `/readyz` says 503, so that balancers stop sending."""
    drain_s: float = 10.0
    """How long open requests may go on after that."""
    min_free_bytes: int = 256 * 1024**2
    """What should stay free on every disk that is written to; below it `/readyz` says `degraded`."""
    deadline_s: Annotated[float, Within(0, 86_400)] = 600.0
    """Of requests that name none, batches aside; 0 = none."""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """The least that is logged."""
    log_form: Literal["text", "json"] = "text"
    """`json`: one object a line."""
    compile: CompileKind = "background"
    """When loops that are not on the disk yet are compiled: `background`, beside a server that answers by slower code
    meanwhile; `first`, before it answers; `never`: what is not there is done without."""
    tls_cert: str = ""
    """PEM file of the certificate and its chain; with `tls_key` the gateway speaks HTTPS."""
    tls_key: str = ""
    """PEM file of the certificate's key."""
    tls_client_ca: str = ""
    """PEM file: only clients with a certificate of this authority are let in."""
    renew_s: Annotated[float, Within(0, 86_400)] = 10.0
    """How often certificates and files of secrets are looked at, and read again where they changed; 0 = never."""
    max_connections: int = 20_000
    """Further connections get a 503."""
    max_head_bytes: int = 65_536
    """Of the head of a request: its line and all its headers."""
    max_headers: int = 128
    """Of one request."""
    head_s: float = 15.0
    """How long the head of a request may take."""
    body_s: float = 120.0
    """How long its body may take."""
    stall_s: float = 60.0
    """How long a client may take nothing of what was sent before its connection is dropped."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, with or without a port, that a gateway without keys answers to besides loopback's."""
    allowed_origins: tuple[str, ...] = ()
    """Origins (`https://NAME`) whose pages may use a gateway without keys, and open a socket to any."""
    shed_s: float = 0.0
    """Interactive requests that would wait longer than this for their first text get a 503 instead; 0 = all wait."""


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """gRPC beside HTTP, with the certificates and bounds of `[server]`; needs the extra `grpc`."""

    enabled: bool = False
    """Serve it."""
    host: str = ""
    """Empty = that of `[server]`."""
    port: Annotated[int, Within(0, 65_535)] = 50051
    """0 = a free one."""
    calls_per_connection: Annotated[int, Within(1, 100_000)] = 256
    """That run at a time on one connection; further ones wait at the client."""
    ping_s: Annotated[float, Within(1, 3600)] = 10.0
    """A client that pings more often than this is disconnected."""
    reflection: bool = True
    """Tell clients which methods and messages there are; where there are keys, those with a key."""


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Reading, tokenising and judging of large requests, in threads beside the event loop."""

    threads: int = 0
    """0 = half of the processors, at least 2 and at most 8."""
    per_tenant: int = 0
    """Threads that one tenant may have; 0 = half of `threads`."""
    inline_bytes: int = 4096
    """What is no larger runs on the event loop at once."""
    tenant_waiting: int = 64
    """Large pieces of one tenant that may wait; further ones get a 429."""
    tenant_bytes: int = 64 * 1024 * 1024
    """Bytes of one tenant that may wait or run."""
    all_bytes: int = 512 * 1024 * 1024
    """Of all tenants; beyond, a 503."""
