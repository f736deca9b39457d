"""Compatibility with clients that offer a protocol upgrade, or speak HTTP/1.0 without chunked encoding."""

from __future__ import annotations

from collections.abc import Iterable

_OFFER = frozenset((b"upgrade", b"http2-settings"))


def head_without_offer(method: bytes, target: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a request without its `Upgrade` offer. `headers`: names in lower case.

    A server that does not accept an offer answers as if there were none. Java's HTTP client makes one (`Upgrade: h2c`)
    with its first request to every server without TLS.
    """
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in headers:
        if name == b"connection":
            value = b", ".join(token for token in map(bytes.strip, value.split(b",")) if token.lower() not in _OFFER)
        if value and name not in _OFFER:
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])


class UnboundedLength(int):
    """A `content-length` for an answer that ends with its connection: compares as enough for any number of bytes.

    uvicorn counts what is sent against `content-length`, and cuts an answer without one into chunks, which HTTP/1.0
    lacks.
    """

    __slots__ = ()

    def __lt__(self, sent: int) -> bool:
        return False

    def __sub__(self, sent: int) -> UnboundedLength:
        return self

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__
