"""Certificates and secrets are renewed while the gateway serves; what cannot be used leaves the old in force."""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sluicegate.gateway.config import load, secret_files
from sluicegate.gateway.file_watcher import FileWatcher
from sluicegate.gateway.http.tls import ends_s
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.gateway.certificates import self_signed
from tests.gateway.faults.driving import served
from tests.gateway.upstream.servers import ScriptedServer, running, says
from tests.waiting import until

CHAT = "/v1/chat/completions"
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}


@dataclass
class Pair:
    """A self-signed certificate for localhost and its key, at the same paths however often it is made."""

    folder: Path
    name: str = "server"

    @property
    def cert(self) -> str:
        return str(self.folder / f"{self.name}.pem")

    @property
    def key(self) -> str:
        return str(self.folder / f"{self.name}.key")

    def make(self, serial: int, days: float = 90) -> None:
        cert, key = self_signed(serial, since_days=400, days=days)
        put(self.cert, cert)
        put(self.key, key)


def put(path: str, content: bytes) -> None:
    """Put a file as a renewer does: beside, then in place."""
    Path(path + ".new").write_bytes(content)
    os.replace(path + ".new", path)


def serial_of(port: int) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_new_certificate_is_shown_to_new_connections_and_open_ones_go_on(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.make(1)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with (
        served({"tls_cert": pair.cert, "tls_key": pair.key, "renew_s": 0.05}) as gateway,
        httpx.Client(verify=trust, base_url=f"https://127.0.0.1:{gateway.port}") as kept,
    ):
        assert kept.get("/healthz").status_code == 200
        assert serial_of(gateway.port) == 1
        pair.make(2)
        until(lambda: serial_of(gateway.port) == 2)
        assert kept.get("/healthz").status_code == 200


def test_a_half_written_pair_changes_nothing_until_it_is_whole(tmp_path: Path) -> None:
    """`/readyz` says so meanwhile."""
    pair, other = Pair(tmp_path), Pair(tmp_path, "other")
    pair.make(1)
    other.make(2)
    with served({"tls_cert": pair.cert, "tls_key": pair.key, "renew_s": 0.05}) as gateway:
        runtime = gateway.app.runtime
        put(pair.cert, Path(other.cert).read_bytes())
        until(lambda: "certificate" in runtime.readiness.troubles)
        assert runtime.readiness.serves
        assert serial_of(gateway.port) == 1
        put(pair.key, Path(other.key).read_bytes())
        until(lambda: serial_of(gateway.port) == 2)
        until(lambda: "certificate" not in runtime.readiness.troubles)


def test_a_new_authority_shuts_clients_of_the_old_one_out(tmp_path: Path) -> None:
    pair, first, second = Pair(tmp_path), Pair(tmp_path, "first"), Pair(tmp_path, "second")
    for at, one in enumerate((pair, first, second)):
        one.make(at + 1)
    authority = str(tmp_path / "authority.pem")
    put(authority, Path(first.cert).read_bytes())

    def let_in(client: Pair) -> bool:
        trust = ssl.create_default_context(cafile=pair.cert)
        trust.load_cert_chain(client.cert, client.key)
        try:
            return httpx.get(f"https://localhost:{gateway.port}/healthz", verify=trust).status_code == 200
        except (httpx.HTTPError, ssl.SSLError):
            return False

    table = {"tls_cert": pair.cert, "tls_key": pair.key, "tls_client_ca": authority, "renew_s": 0.05}
    with served(table) as gateway:
        assert (let_in(first), let_in(second)) == (True, False)
        put(authority, Path(second.cert).read_bytes())
        until(lambda: let_in(second))
        assert not let_in(first)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_of_before_lets_clients_of_the_old_authority_in(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """A session that goes on is not judged by any authority."""
    pair, first, second = Pair(tmp_path), Pair(tmp_path, "first"), Pair(tmp_path, "second")
    for at, one in enumerate((pair, first, second)):
        one.make(at + 1)
    authority = str(tmp_path / "authority.pem")
    put(authority, Path(first.cert).read_bytes())
    trust = ssl.create_default_context(cafile=pair.cert)
    trust.load_cert_chain(first.cert, first.key)
    trust.maximum_version = version

    def session_of(port: int, before: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
        """Return the session of one request, with a clean end: others cannot go on."""
        with socket.create_connection(("127.0.0.1", port)) as plain:
            secured = trust.wrap_socket(plain, server_hostname="localhost", session=before)
            secured.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            if not secured.recv(65_536).startswith(b"HTTP/1.1 200"):
                raise ssl.SSLError("refused")
            found = secured.session
            secured.unwrap().close()
            return found

    table = {"tls_cert": pair.cert, "tls_key": pair.key, "tls_client_ca": authority, "renew_s": 0.05}
    with served(table) as gateway:
        session = session_of(gateway.port)
        put(authority, Path(second.cert).read_bytes())
        until(lambda: refused(lambda: session_of(gateway.port)))
        assert refused(lambda: session_of(gateway.port, session))


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except OSError:
        return True
    return False


@pytest.mark.parametrize(("days", "trouble"), [(90, ""), (3, "ends in"), (-1, "has ended")])
def test_the_age_of_a_certificate_is_watched(tmp_path: Path, days: float, trouble: str) -> None:
    pair = Pair(tmp_path)
    pair.make(1, days)
    with served({"tls_cert": pair.cert, "tls_key": pair.key}) as gateway:
        runtime = gateway.app.runtime
        found = runtime.readiness.troubles.get("certificate", ())
        assert [trouble in one.reason for one in found] == [True] * bool(trouble)
        assert runtime.readiness.serves
        [line] = [one for one in runtime.metrics.exposition()[0].splitlines() if b"certificate_ends_seconds{" in one]
        assert float(line.split()[-1]) == pytest.approx(time.time() + days * 86_400, abs=60)


@pytest.mark.parametrize("year", [1961, 1999, 2026, 2049, 2050, 2199])
@pytest.mark.parametrize("serial", [1, 2**159 - 1])
def test_when_a_certificate_ends_is_read_as_cryptography_reads_it(tmp_path: Path, year: int, serial: int) -> None:
    """Short and long forms of the date, of lengths and of serial numbers."""
    key = ec.generate_private_key(ec.SECP256R1())
    long = x509.NameAttribute(NameOID.LOCALITY_NAME, "y" * 120)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 60), long])
    ends = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), serial, datetime(1955, 1, 1, tzinfo=UTC), ends)
    path = tmp_path / "c.pem"
    path.write_bytes(b"# a line before\n" + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    assert ends_s(path) == ends.timestamp()


@pytest.mark.parametrize("broken", ["tls_cert", "tls_client_ca"])
def test_operators_read_which_file_holds_a_certificate_that_ended(tmp_path: Path, broken: str) -> None:
    """Only the first certificate of a file was looked at: an intermediate that had ended broke every client in
    silence, and a trouble did not say which file."""
    pair = Pair(tmp_path)
    pair.make(1, 90)
    ended, _ = self_signed(2, name="an authority", since_days=9, days=-1)
    leaf = Path(pair.cert).read_bytes()
    Path(pair.cert).write_bytes(leaf + ended if broken == "tls_cert" else leaf)
    authority = tmp_path / "authority.pem"
    authority.write_bytes("Autorit\u00e9\n".encode() + leaf + (ended if broken == "tls_client_ca" else b""))
    with served({"tls_cert": pair.cert, "tls_key": pair.key, "tls_client_ca": str(authority)}) as gateway:
        [found] = gateway.app.runtime.readiness.troubles["certificate"]
        assert f"a certificate of [server] {broken}" in found.reason
        assert "has ended" in found.reason


def test_an_old_certificate_beside_its_successor_is_no_trouble(tmp_path: Path) -> None:
    old, new = self_signed(1, since_days=9, days=-1)[0], self_signed(2, days=90)[0]
    for content in (old + new, new + old):
        (tmp_path / "c.pem").write_bytes(content)
        assert ends_s(tmp_path / "c.pem") == pytest.approx(time.time() + 90 * 86_400, abs=60)


@pytest.mark.parametrize("content", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.pem").write_bytes(content)
    with pytest.raises(ConfigurationError, match="no certificate"):
        ends_s(tmp_path / "c.pem")


@pytest.mark.asyncio
async def test_what_cannot_be_used_is_tried_again_and_said_once(tmp_path: Path, caplog: Any) -> None:
    file, seen = tmp_path / "secret", []
    file.write_text("one")

    async def renew() -> None:
        if file.read_text() == "bad":
            raise ConfigurationError("no good")
        seen.append(file.read_text())

    renewal = FileWatcher(0)
    renewal.watch("secrets", lambda: [file], renew)
    assert await renewal.look() == []
    put(str(file), b"bad")
    for _ in range(3):
        assert await renewal.look() == []
    assert len([r for r in caplog.records if "no good" in r.getMessage()]) == 1
    put(str(file), b"two")
    assert await renewal.look() == ["secrets"]
    file.unlink()
    put(str(file), b"three")
    assert await renewal.look() == ["secrets"]
    assert seen == ["two", "three"]


# --- values from files ------------------------------------------------------------------------------------------------


def test_any_value_can_come_from_a_file_as_text(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://:p%40ss@host/0\n")
    (tmp_path / "key").write_text("12345\n")
    environ = {
        "SLUICEGATE_ACCOUNTS__URL__FILE": str(tmp_path / "url"),
        "SLUICEGATE_API_KEY_FILE": str(tmp_path / "key"),
    }
    found = load(environ=environ)
    assert found.accounts.url == "redis://:p%40ss@host/0"
    assert found.keys[0].key == "12345"
    assert set(secret_files(environ)) == {tmp_path / "url", tmp_path / "key"}


@pytest.mark.parametrize("name", ["SLUICEGATE_ACCOUNTS__URL__FILE", "SLUICEGATE_API_KEY_FILE"])
@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_file_that_holds_no_value_is_a_mistake_that_is_named(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    """And no part of it is repeated."""
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigurationError, match=name):
        load(environ={name: str(tmp_path / "secret")})


def asked_with(app: TestApp, key: str) -> int:
    head = {"authorization": f"Bearer {key}"}
    return int(app.client.post(CHAT, json=BODY, headers=head).status_code)


@contextmanager
def keyed(tables: dict[str, Any]) -> Iterator[TestApp]:
    with TestApp(pipeline={"admit": ["api-keys", "limits"]}, keys=tables["keys"]) as app:
        base = app.runtime.settings
        app.runtime.reloader.source = lambda: load(
            overrides={"pipeline": {"admit": ["api-keys", "limits"], "screen": [], "moderate": []}, **tables}
        )
        assert base.keys
        yield app


def test_a_reload_takes_other_keys_of_the_configuration() -> None:
    """The old one is refused from then on, the new one served, and its limits hold."""
    tables: dict[str, Any] = {"keys": [{"id": "a", "key": "old", "scopes": ["admin"]}]}
    with keyed(tables) as app:
        assert (asked_with(app, "old"), asked_with(app, "new")) == (200, 401)
        tables["keys"] = [
            {"id": "a", "key": "new", "scopes": ["admin"], "limits": {"requests_per_minute": 1}},
        ]
        answer = app.client.post("/admin/reload", headers={"authorization": "Bearer old"})
        assert answer.status_code == 200
        assert "[[keys]]" not in answer.json()["restart_needed_for"]
        assert asked_with(app, "old") == 401
        assert sorted(asked_with(app, "new") for _ in range(3)) == [200, 429, 429]


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [{"id": "a", "key": "x"}, {"id": "a", "key": "y"}],
        [{"id": "a"}],
        [{"id": "a", "sha256": "zz"}],
        [{"id": "", "key": "x"}],
    ],
)
def test_keys_that_are_none_or_no_keys_at_all_leave_the_old_in_force(keys: list[dict[str, Any]]) -> None:
    """A gateway that asks for keys never stops to by a reload."""
    tables: dict[str, Any] = {"keys": [{"id": "a", "key": "old", "scopes": ["admin"]}]}
    with keyed(tables) as app:
        tables["keys"] = keys
        refused = app.client.post("/admin/reload", headers={"authorization": "Bearer old"})
        assert refused.status_code == 400
        assert "the old stays" in refused.json()["error"]["message"]
        assert (asked_with(app, "old"), asked_with(app, "x")) == (200, 401)


def test_the_key_of_another_server_is_read_again_when_its_file_changes(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "far-key"
    file.write_text("first\n")
    monkeypatch.setattr("sluicegate.gateway.upstream.generator.KEYS_EVERY_S", 0.05)
    server = ScriptedServer(says("Hi"))
    with running(server) as url:
        far = {"url": url, "allow_private": True, "api_key_file": str(file)}
        stages = {"generate": {"upstream": {"models": {"far": far}}}}
        with TestApp(pipeline={"generate": ["upstream"]}, stages=stages) as app:

            def sent() -> str:
                assert app.client.post(CHAT, json={**BODY, "model": "far"}).status_code == 200
                return server.headers[-1]["authorization"]

            assert sent() == "Bearer first"
            put(str(file), b"")
            assert sent() == "Bearer first"
            put(str(file), b"second")
            until(lambda: sent() == "Bearer second")


# --- the default limit of time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "asked", "given"),
    [({}, None, 600.0), ({"deadline_s": 7}, None, 7.0), ({"deadline_s": 7}, 30, 30.0), ({"deadline_s": 0}, None, None)],
)
def test_a_request_that_names_no_limit_of_time_gets_the_operators(
    server: dict[str, float], asked: float | None, given: float | None
) -> None:
    body = {**BODY, "sluicegate": {"deadline_s": asked} if asked else {}}
    with TestApp(settings={"server": server}) as app:
        assert app.client.post(CHAT, json=body).status_code == 200
        assert app.model.jobs[-1].deadline_s == given


def test_a_line_of_a_batch_may_wait_for_as_long_as_it_takes(tmp_path: Path) -> None:
    row = json.dumps({"custom_id": "1", "method": "POST", "url": CHAT, "body": BODY}).encode()
    settings = {"server": {"deadline_s": 7}, "batches": {"path": str(tmp_path)}}
    with TestApp(settings=settings) as app:
        sent = {"files": {"file": ("in.jsonl", row)}, "data": {"purpose": "batch"}}
        file = app.client.post("/v1/files", **sent).json()["id"]
        asked = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
        assert app.client.post("/v1/batches", json=asked).status_code == 200
        until(lambda: app.model.jobs)
        assert app.model.jobs[-1].deadline_s is None
