"""The table `[stages.screen.remote]`. The address is fixed here, at start-up; nothing of a request can change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpx

from sluicegate.plugins import ConfigurationError

NAMES = ("url", "timeout_s", "token_variable", "roles")
ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    url: str
    timeout_s: float
    roles: frozenset[str]
    token: str | None = field(default=None, repr=False)


def read_settings(table: Mapping[str, Any], environ: Mapping[str, str]) -> RemoteSettings:
    """Raises `ConfigurationError` that says what is expected."""
    for name in table:
        _expect(name in NAMES, f"there is no setting {name!r}; valid names: {', '.join(NAMES)}")
    timeout_s, roles = table.get("timeout_s", 2.0), table.get("roles", list(ROLES))
    _expect(isinstance(timeout_s, int | float) and 0 < timeout_s <= 60, "`timeout_s` must be a number up to 60")
    _expect(isinstance(roles, list) and bool(roles) and set(roles) <= set(ROLES), f"`roles` must be some of {ROLES}")
    return RemoteSettings(_url(table), float(timeout_s), frozenset(roles), _token(table, environ))


def _url(table: Mapping[str, Any]) -> str:
    text = table.get("url", "")
    try:
        url = httpx.URL(text)
    except (TypeError, httpx.InvalidURL):
        url = httpx.URL("")
    safe = url.scheme == "https" or (url.scheme == "http" and _is_this_machine(url.host))
    _expect(bool(url.host) and safe, f"`url` must begin with https:// (or be http:// on this machine), found {text!r}")
    _expect(not url.userinfo, "`url` must not hold a password; name a `token_variable`")
    return str(url)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(table: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    name = table.get("token_variable")
    if name is None:
        return None
    _expect(bool(environ.get(str(name))), f"the environment variable {name!r} of `token_variable` is not set")
    return environ[str(name)]


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(f"remote: {message}")
