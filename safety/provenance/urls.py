"""Read web addresses as a client does: what is the host, and which path is asked for.

Not covered: addresses that only a particular client accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

_SCHEME = re.compile(r"^(?:https?|wss?|ftp|mailto|tel|data|javascript):/*|^[a-z][a-z0-9+.-]*://+|^//+")
_ENDS_HOST = re.compile(r"[/?#]")
_USUAL_PORT = re.compile(r":(?:80|443)$")
_SPECIAL = re.compile(r"\b(https?|wss?|ftp):[/\\]*(?=[^\s/\\])", re.I)
_BACKSLASHES = re.compile(r"^(?:/\\|\\/|\\\\)[/\\]*(?=\w)")
_WRAPS = re.compile(r"[\t\r\n]+(?![a-z][a-z0-9+.-]{0,20}:)", re.I)


def as_browsers_read(text: str) -> str:
    """Return an argument with the marks behind the scheme of its web addresses as they are usually written (browsers
    take any number of slashes and backslashes), and without the line breaks and tabs that they ignore in one."""
    if not _SPECIAL.match(text):
        return _BACKSLASHES.sub("//", _SPECIAL.sub(r"\1://", text))
    return _SPECIAL.sub(r"\1://", _WRAPS.sub("", text)).replace("\\", "/")


def bare_url(url: str) -> str:
    """Return a spelled URL without scheme, user, `www.`, usual port, query and the last slash, its dots resolved."""
    rest = _SCHEME.sub("", url, count=1)
    end = found.start() if (found := _ENDS_HOST.search(rest)) else len(rest)
    host = _USUAL_PORT.sub("", rest[:end].rpartition("@")[2]).removeprefix("www.").rstrip(".")
    path = re.split(r"[?#]", rest[end:])[0]
    return (host + resolved(path)).rstrip("/")


def host_of(url: str) -> str:
    """Return the host of a spelled URL, without its port."""
    host = bare_url(url).partition("/")[0]
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def parents(host: str) -> Iterator[str]:
    """Yield the domains above `host` that somebody may own: of two labels or more, the last but one longer than those
    of `co.uk`."""
    labels = host.split(".")
    if labels[-1].isdigit():
        return
    for n in range(1, len(labels) - 1):
        if len(labels) - n > 2 or len(labels[-2]) > 3:
            yield ".".join(labels[n:])


def resolved(path: str) -> str:
    """Return `path` with percent signs decoded, and `.` and `..` resolved."""
    found: list[str] = []
    for part in unquote(path).split("/"):
        if part == "..":
            found = found[:-1] or [""]
        elif part != ".":
            found.append(part)
    return "/".join(found)
