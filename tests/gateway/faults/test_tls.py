"""HTTPS, and clients with certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.server import _uvicorn_config
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.gateway.faults.driving import BODY, CHAT, served


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Self-signed, for localhost."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, none))
    return str(cert), str(secret)


def test_https_with_a_certificate(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    trust = ssl.create_default_context(cafile=cert)
    with served({"tls_cert": cert, "tls_key": key}) as gateway:
        url = f"https://localhost:{gateway.port}{CHAT}"
        with httpx.Client(
            verify=trust, transport=httpx.HTTPTransport(verify=trust, local_address="127.0.0.1")
        ) as client:
            assert client.post(url, content=BODY).status_code == 200
        with pytest.raises((httpx.HTTPError, ssl.SSLError)):
            httpx.get(f"http://127.0.0.1:{gateway.port}/healthz")


def test_clients_without_a_certificate_are_not_let_in_where_one_is_asked_for(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    with served({"tls_cert": cert, "tls_key": key, "tls_client_ca": cert}) as gateway:
        url = f"https://localhost:{gateway.port}/healthz"
        without = ssl.create_default_context(cafile=cert)
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=without)
        with_one = ssl.create_default_context(cafile=cert)
        with_one.load_cert_chain(cert, key)
        assert httpx.get(url, verify=with_one).status_code == 200


@pytest.mark.parametrize("server", [{"tls_cert": "x"}, {"tls_key": "x"}, {"tls_cert": "/none", "tls_key": "/none"}])
def test_half_a_certificate_is_refused(server: dict[str, str], tmp_path: Path) -> None:
    app = TestApp(settings={"server": server})
    with pytest.raises(ConfigurationError, match="tls_cert"):
        _uvicorn_config(app.runtime.settings, app.runtime)
    assert load().server.tls_cert == ""
