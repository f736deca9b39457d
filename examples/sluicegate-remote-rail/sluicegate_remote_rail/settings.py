"""The table `[stages.screen.remote]`. The address is fixed here, at start-up; nothing of a request can change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

import httpx

from sluicegate.plugins import ConfigurationError, Role, Within


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    url: str
    timeout_s: Annotated[float, Within(above=0, most=60)] = 2.0
    roles: tuple[Role, ...] = ("system", "developer", "user", "assistant", "tool")
    token_variable: str = ""
    """Name of the environment variable with the token; empty = none is sent."""

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.userinfo:
            raise ValueError("url must not hold a password; name a token_variable")
        if not url.host or not (url.scheme == "https" or (url.scheme == "http" and _is_this_machine(url.host))):
            raise ValueError(f"url must begin with https:// (or be http:// on this machine), found {self.url!r}")
        if not self.roles:
            raise ValueError("roles must name at least one")

    def token(self, environ: Mapping[str, str]) -> str:
        """Return the token; empty = none. Raises `ConfigurationError`."""
        if self.token_variable and not environ.get(self.token_variable):
            raise ConfigurationError(f"remote: the environment variable {self.token_variable!r} is not set")
        return environ[self.token_variable] if self.token_variable else ""


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
