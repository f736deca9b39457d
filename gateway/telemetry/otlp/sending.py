"""POSTs to an OTLP collector, with every wait bounded: the standard variables say where, how long and with what."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sluicegate.gateway.telemetry.tracing import number_of
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.addresses import check_address
from sluicegate.plugins.concurrency.retry_after import retry_after

if TYPE_CHECKING:  # a fifth of a second to import: only those who ask others need it
    import httpx

DEFAULT_ENDPOINT = "http://localhost:4318"
RETRIED = frozenset((429, 502, 503, 504))
TRIES = 3
BACKOFF_S = 0.5
PATIENCE_S = 30.0
"""Longest wait that a collector may ask for: what comes meanwhile fills the queue."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~]*")


class ExportRefused(Exception):
    """The collector did not take a batch; the message says why."""


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """Where a signal goes. `timeout_s` bounds one try, from the name of the host to the head of the answer."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    gzipped: bool = False
    tls: ssl.SSLContext | None = None
    """Where the variables name certificates; None: by the authorities that the HTTP client brings."""

    @classmethod
    def of(cls, environ: Mapping[str, str], signal: str) -> ExportTarget:
        """Read where a signal goes. `signal`: "TRACES" or "METRICS". Raises `ConfigurationError` for a protocol or
        value that is not supported."""

        def read(name: str) -> str | None:
            return environ.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}")

        protocol = read("PROTOCOL") or "http/protobuf"
        if protocol != "http/protobuf":
            raise ConfigurationError(
                f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; only http/protobuf is spoken: unset it, and name the "
                "collector's HTTP port (usually 4318)"
            )
        own = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", DEFAULT_ENDPOINT)
        try:
            check_address(
                f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" if own else "OTEL_EXPORTER_OTLP_ENDPOINT", own or base
            )
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        return cls(
            cls.url_of(environ, signal),
            _headers(read("HEADERS") or ""),
            number_of(environ, (f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"), 10_000) / 1000,
            _is_gzip(read("COMPRESSION") or "none"),
            _tls(read("CERTIFICATE"), read("CLIENT_CERTIFICATE"), read("CLIENT_KEY")),
        )

    @staticmethod
    def url_of(environ: Mapping[str, str], signal: str) -> str:
        """Return the address of a signal alone, as it is written."""
        own = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", DEFAULT_ENDPOINT)
        return own or f"{base.rstrip('/')}/v1/{signal.lower()}"


def _headers(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, percent-encoded. Raises `ConfigurationError`, which quotes none of it: it may hold
    a key."""
    found: dict[str, str] = {}
    for number, part in enumerate(text.split(","), 1):
        name, has_value, value = (unquote(one).strip() for one in part.partition("="))
        if not name and not has_value:
            continue
        if not has_value or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"OTEL_EXPORTER_OTLP_HEADERS: header {number} is not written as name=value in printable ASCII, with "
                "other characters, and commas within a value, as %XX"
            )
        found[name.lower()] = value
    return found


def _is_gzip(name: str) -> bool:
    if name not in ("gzip", "none"):
        raise ConfigurationError(f"OTEL_EXPORTER_OTLP_COMPRESSION is {name!r}; it must be gzip or none")
    return name == "gzip"


def _tls(authorities: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the terms of TLS that the variables name; None where they name none. Raises `ConfigurationError`."""
    if not authorities and not certificate and not key:
        return None
    if bool(certificate) != bool(key):
        raise ConfigurationError(
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY belong together; set both"
        )
    try:
        found = ssl.create_default_context(cafile=authorities)
        if certificate:
            found.load_cert_chain(certificate, key)
    except OSError as error:  # of `ssl`, too
        names = ", ".join(name for name in (authorities, certificate, key) if name)
        reason = error.strerror if error.errno is not None else error
        raise ConfigurationError(
            f"the PEM files that OTEL_EXPORTER_OTLP_CERTIFICATE and the like name ({names}) cannot be used: {reason}"
        ) from error
    return found


class Sender:
    """One connection, kept open; used by one thread, but for `hurry`. That thread runs an event loop of its own: only
    there can a try be ended whatever the collector drips."""

    def __init__(self, target: ExportTarget) -> None:
        self.target = target
        self._hurried = threading.Event()
        self._deadline = float("inf")
        self._runner = asyncio.Runner()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limit: asyncio.Timeout | None = None
        """Timeout of the current attempt."""
        self._client: httpx.AsyncClient | None = None

    def send(self, body: bytes) -> None:
        """Send a batch. Raises `ExportRefused` when it was refused, or could not be delivered in a few tries."""
        packed = gzip.compress(body, 1) if self.target.gzipped else body
        reason, asked_s = "", None
        for attempt in range(TRIES):
            if attempt:
                self._hurried.wait(
                    BACKOFF_S * 2**attempt if asked_s is None else min(max(asked_s, BACKOFF_S), PATIENCE_S)
                )
            if self._deadline <= time.monotonic():
                raise ExportRefused(f"no time is left; {reason or self.target.url}")
            reason, asked_s = self._try(packed)
            if not reason:
                return
        raise ExportRefused(f"{reason} after {TRIES} tries")

    def hurry(self, limit_s: float) -> None:
        """Limit all further waiting to `limit_s` seconds in total, including the send under way."""
        self._deadline = time.monotonic() + limit_s
        self._hurried.set()
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._shorten)

    def close(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.aclose())
        self._runner.close()

    def _try(self, body: bytes) -> tuple[str, float | None]:
        """Try to send once. Return "" when the body was accepted, else the reason, where a retry may help, and the
        seconds until then, where the collector tells them. The response's body is not read."""
        import httpx

        try:
            self._loop = self._runner.get_loop()
            status, asked_s = self._runner.run(self._post(body))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return f"{self.target.url}: {type(error).__name__}", None
        if status < 300:
            return "", None
        if status in RETRIED:
            return f"{self.target.url} answered {status}", asked_s
        raise ExportRefused(f"{self.target.url} answered {status}")

    async def _post(self, body: bytes) -> tuple[int, float | None]:
        """Post `body`; return the status, and the seconds of `Retry-After`. Raises `TimeoutError`."""
        ends = min(time.monotonic() + self.target.timeout_s, self._deadline)
        async with asyncio.timeout(ends - time.monotonic()) as self._limit:
            asked = self._connected().stream("POST", self.target.url, content=body, headers=self._heads())
            async with asked as answer:
                heads = answer.headers
                return answer.status_code, retry_after(heads.get("retry-after", ""), heads.get("date", ""))

    def _shorten(self) -> None:
        limit, left_s = self._limit, self._deadline - time.monotonic()
        if limit is not None and (when := limit.when()) is not None:
            with contextlib.suppress(RuntimeError):  # that try is over
                limit.reschedule(min(when, asyncio.get_running_loop().time() + left_s))

    def _heads(self) -> dict[str, str]:
        packing = {"content-encoding": "gzip"} if self.target.gzipped else {}
        return {**self.target.headers, "content-type": "application/x-protobuf", **packing}

    def _connected(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(verify=self.target.tls or True, timeout=None)
        return self._client
