"""Certificates for gRPC: the files of `[server]`, read again when they change."""

from __future__ import annotations

from pathlib import Path

import grpc

from sluicegate.gateway.http.tls import context_of
from sluicegate.gateway.settings import ServerSettings
from sluicegate.plugins import ConfigurationError


class GrpcCertificates:
    """Handshakes that begin after `renew` see what it read."""

    def __init__(self, settings: ServerSettings) -> None:
        """Read the certificate's files. Raises `ConfigurationError`."""
        self._settings = settings
        self._now = self._read()

    @property
    def files(self) -> tuple[Path, ...]:
        wanted = (self._settings.tls_cert, self._settings.tls_key, self._settings.tls_client_ca)
        return tuple(Path(name) for name in wanted if name)

    @property
    def credentials(self) -> grpc.ServerCredentials:
        """Ask for the certificates at each handshake."""
        return grpc.dynamic_ssl_server_credentials(
            self._now, lambda: self._now, require_client_authentication=bool(self._settings.tls_client_ca)
        )

    async def renew(self) -> None:
        """Read the certificate's files again. Raises `ConfigurationError` where they do not fit; the old ones stay
        then."""
        self._now = self._read()

    def _read(self) -> grpc.ServerCertificateConfiguration:
        context_of(self._settings)  # gRPC itself would serve on with a pair that does not fit, and fail each handshake
        try:
            cert, key, *ca = [file.read_bytes() for file in self.files]
        except OSError as error:
            raise ConfigurationError(f"[server] {error.filename}: {error.strerror}") from error
        return grpc.ssl_server_certificate_configuration([(key, cert)], ca[0] if ca else None)


def grpc_certificates(settings: ServerSettings) -> GrpcCertificates | None:
    """Return None where HTTP is spoken without TLS too. Raises `ConfigurationError`."""
    return GrpcCertificates(settings) if settings.tls_cert else None
