"""The address of a server, as a request's head needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

LEFT = "/%:@!$&'()*+,;=~"
"""Of a path, what needs no quoting."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    host: str
    port: int
    is_tls: bool
    path: str
    """Without a slash at its end."""
    authority: bytes
    """What `host` says in a head."""

    @classmethod
    def of(cls, url: str) -> ServerAddress:
        """Read an address. Raises `ValueError` for a name that is none."""
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        host = parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode("ascii")
        usual = 443 if is_tls else 80
        port = parts.port or usual
        shown = f"[{host}]" if ":" in host else host
        authority = shown if port == usual else f"{shown}:{port}"
        return cls(host, port, is_tls, quote(parts.path.rstrip("/"), safe=LEFT), authority.encode("ascii"))

    def head(self, method: str, path: str) -> bytes:
        """Return the first lines of a request's head; `path` goes behind the address's own."""
        return b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method.encode(), (self.path + path).encode("ascii"), self.authority)


def lines_of(headers: Mapping[str, str]) -> bytes:
    """Return the lines of headers. Raises `ValueError` for one that would not stay in its line."""
    lines = []
    for name, value in headers.items():
        line = f"{name}: {value}"
        if not line.isprintable():
            raise ValueError(f"the header {name} holds characters that a header cannot have")
        lines.append(line.encode())
    return b"".join([line + b"\r\n" for line in lines])
