"""Certificates of other servers are watched until they end, as those of the gateway itself are."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.gateway.certificates import self_signed
from tests.gateway.upstream.servers import ScriptedServer, gateway, running, says

ENDS = re.compile(r"^sluicegate_generate_upstream_certificate_ends_seconds (.+)$", re.MULTILINE)
DAY_S = 86_400.0


@pytest.mark.parametrize(("days", "state"), [(3, "degraded"), (30, "ready")])
def test_a_certificate_of_another_server_is_reported_before_it_ends(
    days: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for path, pem in zip((cert, key), self_signed(days=days), strict=True):
        path.write_bytes(pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with running(ScriptedServer(says("Hello")), (str(cert), str(key))) as url, gateway(url) as app:
        assert ENDS.search(app.client.get("/metrics").text) is None, "no certificate was shown yet"
        asked = app.client.post(
            "/v1/chat/completions", json={"model": "far", "messages": [{"role": "user", "content": "Hi"}]}
        )
        assert asked.status_code == 200
        ready = app.client.get("/readyz")
        found = ENDS.search(app.client.get("/metrics").text)
    assert ready.status_code == 200
    assert ready.text.splitlines()[0] == state
    assert ("the certificate of the server of model 'far' ends in" in ready.text) is (state == "degraded")
    assert found is not None
    assert float(found[1]) == pytest.approx(time.time() + days * DAY_S, abs=600)
