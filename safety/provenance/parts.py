"""Take a target apart as its client does: into the parts that an untrusted text may supply alone."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator

from sluicegate.safety.provenance.spelling import spelled
from sluicegate.safety.provenance.targets import CallTarget
from sluicegate.safety.provenance.urls import host_of, parents, resolved

HOME = re.compile(r"(?:~|\$\{?home\}?|%userprofile%|/(?:home|users)/[^/]+|[a-z]:[/\\]users[/\\][^/\\]+|/root)[/\\]")
"""The folder of a user."""
_V4_IN_V6 = frozenset((0, 0xFFFF, 0x64FF9B << 64))
"""The first 96 bits of an address of IPv6 that stands for one of IPv4."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # names to compare, no address to listen on
_ROUTED = re.compile(r"(?:[\w-]{1,63}\.)+[\w-]{2,63}(?=!)|(?<=%)(?:[\w-]{1,63}\.)+[\w-]{2,63}")
"""A host on the way to a mailbox."""
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_HOST_NUMBER = re.compile(r"0x[0-9a-f]{7,8}|[1-9]\d{7,9}")


def parts_of(target: CallTarget) -> Iterator[CallTarget]:
    """Yield the parts of a target that an untrusted text may supply alone: the domain of an address, the host of a URL,
    the domains above it, an address within an address (`evil%attacker.example@relay.example`), those of a path."""
    host = ""
    if target.kind == "address":
        mailbox, _, host = target.value.rpartition("@")
        yield from (CallTarget("host", part) for part in _ROUTED.findall(mailbox))
    elif target.kind in ("url", "host"):
        host = host_of(spelled(target.value))
    elif target.kind == "path":
        yield from _of_path(target.value)
    if address := _as_ipv4(target, host):
        yield CallTarget("host", address)
    if target.kind in ("url", "host") and _IPV4.fullmatch(host):
        with contextlib.suppress(ValueError):
            yield CallTarget("number", str(int(ipaddress.IPv4Address(host))))
    if host := host.strip("[]"):
        yield from (CallTarget("host", name) for name in (host, *parents(host)))
    if host in LOOPBACK:
        yield from (CallTarget("host", name) for name in LOOPBACK)


def _of_path(path: str) -> Iterator[CallTarget]:
    """Yield a path from a user's own folder on, without `..`, and its ends of two steps or more."""
    if home := HOME.match(path):
        yield from (CallTarget("path", f"{start}{path[home.end() :]}") for start in ("~/", "/"))
    if ".." in path:
        yield CallTarget("path", resolved(spelled(path)))
        return
    steps = spelled(path).split("/")
    yield from (CallTarget("path", "/".join(steps[n:])) for n in range(1, len(steps) - 1) if steps[n])
    if path.startswith("./"):
        yield CallTarget("path", path[2:])


def _as_ipv4(target: CallTarget, host: str) -> str:
    """Return the address that a host of IPv6 stands for, or that a number without a scheme may be; else ""."""
    value = target.value
    with contextlib.suppress(ValueError):
        if host.startswith("["):
            address = ipaddress.IPv6Address(host.strip("[]"))
            if address.sixtofour:
                return str(address.sixtofour)
            return str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)) if int(address) >> 32 in _V4_IN_V6 else ""
        if target.kind in ("number", "name") and _HOST_NUMBER.fullmatch(value):
            return str(ipaddress.IPv4Address(int(value, 0)))
    return ""
