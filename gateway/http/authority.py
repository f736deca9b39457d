"""Names on the wire: the authority of a `Host` header, and an `Origin`, read strictly or not at all.

Whatever is not plainly a name, an IPv4 address or a bracketed IPv6 address, with or without a port, is refused: two
readers that disagree about a name are how one of them gets deceived.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

TARGET = "sluicegate.target"
"""Key in a scope: the request target as sent, if it does not begin with a path."""
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{0,5}")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Authority:
    """`host` in lower case, without brackets and without the dot of the root; `port` None where none is written."""

    host: str
    port: int | None = None

    @property
    def is_loopback(self) -> bool:
        """Return whether it can only mean this machine."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return self.host == "localhost"
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    authority: Authority

    @property
    def port(self) -> int | None:
        return self.authority.port or _DEFAULT_PORTS.get(self.scheme)

    def same_port(self, host: Authority) -> bool:
        """Return whether `host` is asked at the port that this origin was loaded from."""
        return self.port == (host.port or _DEFAULT_PORTS.get(self.scheme))


def authority_of(text: str) -> Authority:
    """Read a host and a port. Raises `ValueError` that says what is wrong."""
    if not text or len(text) > _LONGEST:
        raise ValueError("is empty" if not text else f"is longer than {_LONGEST} characters")
    if text.startswith("["):
        inside, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError("has a bracket that is not closed, or something behind it")
        return Authority(_ipv6(inside), _port(rest[1:]))
    host, _, port = text.partition(":")
    return Authority(_name(host.lower()), _port(port))


def origin_of(text: str) -> Origin | None:
    """Read an origin. Return None for `null`, which stands for an origin that a browser does not tell. Raises
    `ValueError`."""
    if text == "null":
        return None
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise ValueError("is not a scheme, `://` and a host")
    return Origin(found[1].lower(), authority_of(found[2]))


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError("names a zone")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError as error:
        raise ValueError("has brackets around what is no IPv6 address") from error


def _name(host: str) -> str:
    labels = host.removesuffix(".").split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(".".join(labels)))
        except ValueError as error:
            raise ValueError("ends in a number and is no IPv4 address") from error
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is no name, no IPv4 address and no bracketed IPv6 address")
    return ".".join(labels)


def _port(text: str) -> int | None:
    if not _PORT.fullmatch(text) or (text and not 0 < int(text) < 65536):
        raise ValueError("has a port that is no number from 1 to 65535")
    return int(text) if text else None
