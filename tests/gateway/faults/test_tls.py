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
