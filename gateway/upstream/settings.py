"""What an operator says about a model that another server runs."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from sluicegate.gateway.upstream.dialects import Dialect
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.addresses import key_in, without_login
from sluicegate.plugins.contract.disk_paths import ReadFile
from sluicegate.plugins.settings import Count, Positive, Share

TAIL = "/chat/completions"
STAGE = "stages.generate.upstream"
Choice = Literal["prefix", "load"]


@dataclass(frozen=True, slots=True)
class UpstreamModelSettings:
    """`url` ends before `/chat/completions`; `model` is the model's name there."""

    url: str = ""
    """Address of the server, up to what stands before `/chat/completions`."""
    urls: tuple[str, ...] = ()
    """Or several servers of one model, all alike."""
    model: str = ""
    """Empty = as it is called here."""
    version: str = ""
    """What tells this model from another of the same name, in cache keys and answers; empty = made of addresses and
    `model`."""
    api_key_env: str = ""
    """Name of the environment variable with the key for that server."""
    api_key_file: ReadFile = ""
    """Or a file that holds it, read again when it changes."""
    dialect: Dialect = "openai"
    """What that server is. `vllm` is Sluicegate's own too."""
    context_length: int = 131_072
    """Tokens of prompt and answer together that the model there takes."""
    allow_private: bool = False
    """Also addresses that are not public: loopback, private networks, link-local."""
    connect_s: float = 5.0
    """How long connecting may take."""
    first_s: float = 60.0
    """How long a stream may take to begin."""
    whole_s: float = 600.0
    """How long an answer that is not streamed may take."""
    idle_s: float = 30.0
    """How long a stream may be silent."""
    retries: int = 2
    """Further tries where the server cannot be reached, or says that it is busy."""
    attempts: Count = 3
    """Answers asked for where one breaks its schema or its stream is cut, as long as nothing of it has left here."""
    failures_to_open: int = 5
    """Failures in a row after which the server is left alone for a while."""
    pause_s: float = 5.0
    """How long; doubles with every failure after it, up to a minute."""
    max_connections: Count = 100
    """To each server."""
    choice: Choice = "prefix"
    """Which of several servers: the one that has read the prompt's beginning before, or the one with the least load."""
    probe_s: Positive = 2.0
    """How often each of several servers is asked how it is, and how long it may take to say so."""
    health: str = ""
    """Path that says so, behind the address without `/v1`; empty = the dialect's."""
    metrics: str = ""
    """Path of its metrics; empty = the dialect's, "none" = none."""
    eject_share: Share = 0.5
    """The most of several servers that are left alone while they answer, however badly; of those that do not answer,
    all are."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.urls):
            raise ValueError("needs url, or urls for several servers of one model, and not both")
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError("urls names one server twice")
        for url in self.addresses:
            _check_address(url, self.allow_private)
        if self.api_key_env and self.api_key_file:
            raise ValueError("api_key_env and api_key_file are both set; the key stands in one place")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses of all servers, without a slash at the end."""
        return tuple(url.rstrip("/") for url in self.urls or (self.url,))

    def api_key(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """Return the API key. Raises `ConfigurationError` where the variable is named and not set."""
        if self.api_key_file:
            return read_key(Path(self.api_key_file))
        return key_in(self.api_key_env, "stages.generate.upstream.models", "api_key_env", environ)


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    models: Mapping[str, UpstreamModelSettings] = field(default_factory=dict)
    """By the name that requests call them."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("needs models, a table by name: [stages.generate.upstream.models.NAME]")


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"url is no address ({error}): {without_login(url)!r}") from error
    return parts


def _check_address(url: str, allow_private: bool) -> None:
    parts = _parts(url)
    if parts.path.rstrip("/").endswith(TAIL):
        raise ValueError(f"url must end before {TAIL}, which is added; found {without_login(url)!r}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"url must be http:// or https:// without query, found {without_login(url)!r}")
    if parts.username or parts.password:
        raise ValueError("url must not hold a password; use api_key_env")
    if not allow_private and not is_public_literal(parts.hostname):
        raise ValueError(
            f"url names {parts.hostname}, which is not a public address; set allow_private = true if that server "
            "is meant"
        )


def read_key(path: Path) -> str:
    """Read an API key from a file. Raises `ConfigurationError` for a file that holds no key."""
    try:
        found = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise ConfigurationError(f"api_key_file {str(path)!r} cannot be read: {reason}") from error
    if not found or not found.isprintable():
        raise ConfigurationError(f"api_key_file {str(path)!r} holds no line of text")
    return found


def is_public_literal(host: str) -> bool:
    """Return False only for an address, or `localhost`, that is not public. Names are judged when they are resolved."""
    try:
        return is_public(host)
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")


def is_public(address: str) -> bool:
    """Return whether `address` is public. Raises `ValueError` for what is not an address. An IPv4 address inside an
    IPv6 one is judged as itself."""
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return (inner or found).is_global and not (inner or found).is_multicast
