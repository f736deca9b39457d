"""Certificates of the gateway, renewed while it serves: what begins after a renewal sees the new ones."""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluicegate.gateway.readiness.certificate_dates import subject_and_end
from sluicegate.gateway.readiness.expiry import expiring
from sluicegate.gateway.settings import ServerSettings
from sluicegate.gateway.telemetry import semconv
from sluicegate.plugins import ConfigurationError, Trouble

log = logging.getLogger("sluicegate")
HELD = {
    "tls_cert": "a certificate of [server] tls_cert",
    "tls_client_ca": "a certificate of [server] tls_client_ca, which judges clients,",
}
"""What operators read of the setting's file."""
_BLOCK = re.compile(f"{ssl.PEM_HEADER}.*?{ssl.PEM_FOOTER}", re.DOTALL)


class Certificates(Collector):
    """`context` is for the listener. It hands each handshake to the context that was read last, which also brings the
    authority that clients' certificates are judged by."""

    def __init__(self, settings: ServerSettings) -> None:
        """Read the certificates. Raises `ConfigurationError` for half a pair, or files that are no certificate."""
        self._settings = settings
        self._now = context_of(settings)
        self._failure = ""
        self._renewed_s = 0.0
        self.context = self._now
        self.context.sni_callback = self._hand_over
        self._ends_s = self._ends()

    @property
    def files(self) -> tuple[Path, ...]:
        wanted = (self._settings.tls_cert, self._settings.tls_key, self._settings.tls_client_ca)
        return tuple(Path(name) for name in wanted if name)

    async def renew(self) -> None:
        """Read the files again. Raises `ConfigurationError` where they do not fit; the old ones stay then."""
        try:
            self._now = context_of(self._settings)
        except ConfigurationError as error:
            self._failure = error.message
            raise
        self._failure = ""
        self._renewed_s = time.time()
        self._ends_s = self._ends()
        left_s = min(self._ends_s.values()) - time.time()
        log.warning("TLS: new certificates are used from now on; the first ends in %.1f days", left_s / 86_400)

    def troubles(self) -> Sequence[Trouble]:
        """Report a certificate that has ended or soon will, and files that could not be read again."""
        found = []
        if self._failure:
            found.append(Trouble("the new certificate cannot be used, the old one stays; the log says why"))
        for name, ends_s in self._ends_s.items():
            found += expiring(HELD[name], ends_s, "put a new one in its place, it is read by itself")
        return found

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            semconv.METRIC_CERTIFICATE_ENDS,
            "When a certificate of the file first ends, in Unix seconds.",
            labels=("file",),
        )
        for name, ends_s in self._ends_s.items():
            family.add_metric((name,), ends_s)
        return (family,)

    def _hand_over(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> int | None:
        """Give the connection the newest context. One that goes on with a session from before a renewal is refused
        where clients need a certificate: nobody would judge it by the new authority."""
        connection.context = self._now
        if self._settings.tls_client_ca and connection.session_reused and self._is_old(connection.session):
            return ssl.ALERT_DESCRIPTION_ACCESS_DENIED
        return None

    def _is_old(self, session: ssl.SSLSession | None) -> bool:
        return session is None or session.time <= self._renewed_s

    def _ends(self) -> dict[str, float]:
        settings = self._settings
        files = {"tls_cert": settings.tls_cert, "tls_client_ca": settings.tls_client_ca}
        return {what: ends_s(Path(name)) for what, name in files.items() if name}


def certificates_of(settings: ServerSettings) -> Certificates | None:
    """Return None where HTTP is spoken. Raises `ConfigurationError`."""
    if not settings.tls_cert and not settings.tls_key and not settings.tls_client_ca:
        return None
    if not (settings.tls_cert and settings.tls_key):
        raise ConfigurationError("[server] tls_cert and tls_key belong together; set both")
    return Certificates(settings)


def context_of(settings: ServerSettings) -> ssl.SSLContext:
    """Make a TLS context of the settings' files. Raises `ConfigurationError` for files that do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        pair = f"tls_cert {settings.tls_cert!r} and tls_key {settings.tls_key!r}"
        raise ConfigurationError(f"[server] {pair} cannot be used: {_why(error)}; both are PEM files") from error
    if settings.tls_client_ca:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (OSError, ssl.SSLError) as error:
            place = f"[server] tls_client_ca {settings.tls_client_ca!r}"
            raise ConfigurationError(f"{place} cannot be used: {_why(error)}; it is a PEM file") from error
        context.verify_mode = ssl.CERT_REQUIRED
        context.options |= ssl.OP_NO_TICKET  # a session that goes on is judged by no authority
        context.num_tickets = 0
    return context


def _why(error: OSError) -> object:
    known = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError)
    return error.strerror if known else error


def ends_s(pem: Path) -> float:
    """Return when the first certificate of a PEM file ends, in Unix seconds: of a chain each counts, since a client
    trusts none of it once one has ended. Of several of one subject, the old and the new of a renewal, the last one to
    end counts. Raises `ConfigurationError`."""
    try:
        text = pem.read_bytes().decode("ascii", "replace")  # comments beside certificates may be in any encoding
        ends: dict[bytes, float] = {}
        for block in _BLOCK.findall(text):
            subject, moment = subject_and_end(ssl.PEM_cert_to_DER_cert(block + "\n"))
            ends[subject] = max(moment, ends.get(subject, moment))
        return min(ends.values())
    except (OSError, ValueError, IndexError) as error:
        raise ConfigurationError(f"{pem} holds no certificate in PEM form: {error}") from error
