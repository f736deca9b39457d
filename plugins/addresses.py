"""Check addresses of other services, and their keys, when settings are read: what is wrong is named at once, and not at
the first request."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from sluicegate.plugins.errors import ConfigurationError

WEB = ("http", "https")
REDIS = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
POSTGRES = ("postgresql", "postgres")
_LONGEST = 200


def check_address(name: str, url: str, schemes: Iterable[str] = WEB) -> None:
    """Check the setting `name`: a scheme of `schemes`, hosts, ports from 1 to 65535. User and password are never shown.
    Raises `ValueError`."""
    scheme, _, rest = url.partition("://")
    known = tuple(schemes)
    if scheme not in known or not rest:
        raise ValueError(f"{name} must begin with {_either(known)}, found {without_login(url)!r}")
    if any(char.isspace() or not char.isprintable() for char in url):
        raise ValueError(f"{name} must not hold blanks or control characters, found {without_login(url)!r}")
    for host, port in hosts_of(url):
        if not host and scheme in WEB:
            raise ValueError(f"{name} must name a host behind {scheme}://, found {without_login(url)!r}")
        if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{name} must have a port from 1 to 65535, found {port[:20]!r} in {without_login(url)!r}")


def hosts_of(url: str) -> list[tuple[str, str | None]]:
    """Return the hosts that an address names, each with its port; None where it has none."""
    rest = url.partition("://")[2]
    hosts = re.split(r"[/#]", rest.partition("?")[0].rpartition("@")[2], maxsplit=1)[0]
    return [_parts(place) for place in hosts.split(",")]


def check_redis_address(name: str, url: str) -> None:
    """Check the address of a Redis, a Sentinel set or a Cluster. Raises `ValueError`, also for a database that is no
    number, which the client would take for 0."""
    check_address(name, url, REDIS)
    scheme, _, rest = url.partition("://")
    database = without_login(rest).partition("?")[0].partition("/")[2]
    if scheme.endswith("+sentinel") and not database:
        raise ValueError(
            f"{name} must name the service, as in {scheme}://host:port/service, found {without_login(url)!r}"
        )
    if scheme in ("redis", "rediss") and database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"{name} must end in the number of a database, found {without_login(url)!r}")


def without_login(url: str) -> str:
    """Return the address without user and password, no longer than a message may repeat."""
    scheme, separator, rest = url.rpartition("://")
    return (scheme + separator + rest.rpartition("@")[2])[:_LONGEST]


def _parts(place: str) -> tuple[str, str | None]:
    """Split a host from its port; None where it has none. An IPv6 address stands in brackets."""
    if place.startswith("["):
        host, _, behind = place.partition("]")
        return host[1:], behind[1:] if behind else None
    host, colon, port = place.partition(":")
    return host, port if colon else None


def _either(schemes: tuple[str, ...]) -> str:
    *first, last = [f"{scheme}://" for scheme in schemes]
    return f"{', '.join(first)} or {last}" if first else last


def key_in(variable: str, where: str, name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the key in an environment variable; None where `variable` is empty. `where` and `name` are the table and
    the setting that name the variable. Raises `ConfigurationError` where it is not set, and for what no header carries:
    a service would be asked without a key, or fail at every question."""
    if not variable:
        return None
    found = (os.environ if environ is None else environ).get(variable, "")
    named = f"[{where}] {name} names the environment variable {variable}"
    if not found.strip():
        raise ConfigurationError(f"{named}, which is not set; set it, or leave {name} out")
    if not (found.isascii() and found.isprintable()) or found != found.strip():
        raise ConfigurationError(
            f"{named}, whose value cannot be sent as a key: only printable ASCII without space around it can"
        )
    return found
