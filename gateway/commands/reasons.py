"""Why a gateway that a command asks did not answer, in words that its caller can act on."""

from __future__ import annotations

import os

import httpx

FAULTS: tuple[type[Exception], ...] = (
    httpx.HTTPError,
    httpx.InvalidURL,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OSError,
)
"""Exceptions raised by sending a request and reading the answer."""
LONGEST = 400
"""Most characters quoted from a server."""
NOBODY, NO_ADDRESS = "nobody answers there", "that is no address of a gateway"
KINDS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectError, NOBODY),
    (ConnectionRefusedError, NOBODY),
    (httpx.UnsupportedProtocol, NO_ADDRESS),
    (httpx.InvalidURL, NO_ADDRESS),
    (httpx.DecodingError, "its answer cannot be read"),
    (httpx.TooManyRedirects, "it sends on to other addresses without end"),
    (httpx.HTTPError, "the connection broke"),
    (OSError, "the connection broke"),
)
"""Exception types and what to say of them; the first that matches counts."""


def words_of(answer: httpx.Response) -> str:
    """Return the status of `answer`, whose body is read, and what the server said."""
    try:
        said = answer.json()["error"]["message"]
    except (LookupError, ValueError, TypeError):
        said = answer.text
    return f"{answer.status_code} {' '.join(str(said).split())[:LONGEST] or answer.reason_phrase}".rstrip()


def reason(error: Exception, key: str = "") -> str:
    """Say what `error` means, which a call or the reading of its answer raised. `key`: how the command is given an API
    key, for an answer that asks for one."""
    if isinstance(error, httpx.HTTPStatusError):
        asks = f"; set {key} to a key of this gateway" if key and error.response.status_code == 401 else ""
        return words_of(error.response) + asks
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "no answer came in time"
    kind = next((said for kind, said in KINDS if isinstance(error, kind)), None)
    if kind is None:
        return "its answer is not that of a gateway"
    words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"{kind} ({' '.join(words.split()).rstrip('.')})" if words and kind != NO_ADDRESS else kind
