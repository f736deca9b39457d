"""What a hostile or broken client gets: a clear answer or a closed connection, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from gateway.config import load
from gateway.server import _uvicorn_config
from gateway.testing import TestApp
from plugins import ConfigurationError
from tests.waiting import until

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}).encode()
LIMITS = {"head_s": 0.3, "body_s": 0.4, "stall_s": 0.4, "max_head_bytes": 8192, "max_headers": 50}


@dataclass(frozen=True)
class Served:
    port: int
    app: TestApp

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def raw(self, *pieces: bytes, pause_s: float = 0.0, limit_s: float = 30.0) -> bytes:
        """Everything that comes back until the gateway closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit_s) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)
            return _all(connection)

    def still_serves(self) -> bool:
        return httpx.post(self.url + CHAT, content=BODY, timeout=60).status_code == 200


def _all(connection: socket.socket) -> bytes:
    found = b""
    connection.settimeout(30)
    try:
        while data := connection.recv(65536):
            found += data
            if found.startswith(b"HTTP/1.1 2") and found.endswith(b"}"):
                break
    except (TimeoutError, ConnectionError):
        pass
    return found


@contextmanager
def served(server: dict[str, Any] | None = None, **more: Any) -> Iterator[Served]:
    """A gateway with a scripted model, under the very configuration of uvicorn that `sluicegate serve` uses."""
    app = TestApp(settings={"server": {**LIMITS, **(server or {})}}, **more)
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(_uvicorn_config(app.house.settings, app.house))
    thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])), daemon=True)
    thread.start()
    until(lambda: app.house.ready)
    try:
        yield Served(listener.getsockname()[1], app)
    finally:
        running.should_exit = True
        thread.join(15)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as found:
        yield found


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"POST /v1/chat/completions HTTP/1.1", b"host: x", *lines]) + b"\r\n\r\n"


LENGTH = b"content-length: %d" % len(BODY)


@pytest.mark.parametrize(
    "request_bytes",
    [
        head(LENGTH, b"transfer-encoding: chunked") + b"0\r\n\r\n" + BODY,
        head(b"content-length: 5", LENGTH) + BODY,
        head(b"transfer-encoding: chunked, identity") + b"0\r\n\r\n",
        head(b"transfer-encoding : chunked") + b"0\r\n\r\n",
        head(b"content-length: -1") + BODY,
        head(b"content-length: +5") + BODY,
        head(b"transfer-encoding: chunked") + b"zz\r\n",
        head(b"x: a\x00b", LENGTH) + BODY,
        b"GET / HTTP/1.1\nhost: x\n bad\n\n",
        head(b"content-length: 0\r\n folded: 1", LENGTH) + BODY,
        head(b"transfer-encoding: x\r\n chunked") + b"0\r\n\r\n",
        head(b"transfer-encoding: chunked", b"transfer-encoding: identity") + b"0\r\n\r\n" + BODY,
        head(b"transfer-encoding: chunked") + b"1;a=\nb\r\n{\r\n0\r\n\r\n",
        head(b"content-length: 0x10") + BODY,
        head(b"x\xe9y: 1\r\nhost : evil", LENGTH) + BODY,
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"NONSENSE\r\n\r\n",
    ],
    ids=[
        "both",
        "two lengths",
        "te identity",
        "blank",
        "negative",
        "plus",
        "chunk",
        "nul",
        "bare lf",
        "tls",
        "noise",
        "folded length",
        "folded te",
        "two te",
        "chunk extension",
        "hex",
        "blank host",
    ],
)
def test_ambiguous_requests_are_refused_and_the_connection_closed(gateway: Served, request_bytes: bytes) -> None:
    """Whoever stands in front might read them otherwise: nothing of the kind is ever served."""
    answer = gateway.raw(request_bytes)
    assert b"HTTP/1.1 200" not in answer
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert gateway.still_serves()


def test_a_header_of_the_client_cannot_add_headers_to_the_answer(gateway: Served) -> None:
    sent = head(b"x-request-id: a%0d%0aset-cookie: x=1", b"x-sluicegate-feature: b\tset-cookie: y", LENGTH) + BODY
    answer = gateway.raw(sent)
    assert b"HTTP/1.1 200" in answer
    assert b"set-cookie" not in answer.lower()


@pytest.mark.parametrize("piece", [b"x-%d: y\r\n", b"x-%d: " + b"y" * 500 + b"\r\n"])
def test_a_flood_of_headers_is_cut_off(gateway: Served, piece: bytes) -> None:
    flood = b"POST / HTTP/1.1\r\n" + b"".join(piece % n for n in range(20_000))
    try:
        answer = gateway.raw(flood)
    except ConnectionError:  # closed while it was still sending
        answer = b""
    assert b"200" not in answer[:20]
    assert gateway.still_serves()


def test_one_endless_header_is_cut_off(gateway: Served) -> None:
    answer = gateway.raw(b"POST / HTTP/1.1\r\nx: ", *[b"y" * 4000] * 3)
    assert b"larger than 8192 bytes" in answer


@pytest.mark.parametrize("started", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_that_never_ends_is_given_up(gateway: Served, started: bytes) -> None:
    answer = gateway.raw(*([started] if started else []))
    assert b"did not come within 0.3 s" in answer


def test_a_body_that_never_ends_is_given_up(gateway: Served) -> None:
    answer = gateway.raw(head(b"content-length: 500") + b"{", pause_s=0.7)
    assert b"408" in answer[:20]
    assert b"request_timeout" in answer


@pytest.mark.parametrize(
    ("started", "drop"),
    [
        (head(b"content-length: 5000") + b"{", b"x"),
        (head(b"transfer-encoding: chunked") + b"1\r\n{\r\n", b"1\r\nx\r\n"),
    ],
    ids=["length", "chunks"],
)
def test_drops_of_a_body_that_was_given_up_keep_no_connection_open(
    gateway: Served, started: bytes, drop: bytes
) -> None:
    """The answer came, and whoever goes on sending is closed after as long as a whole body may take."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(started)
        assert connection.recv(12) == b"HTTP/1.1 408"

        def closed() -> bool:
            try:
                connection.sendall(drop)
            except ConnectionError:
                return True
            return False

        until(closed)
    assert gateway.still_serves()


def test_a_giant_body_is_not_read(gateway: Served) -> None:
    answer = gateway.raw(head(b"content-length: 99999999999") + b"x" * 1000)
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe{}",
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        b'{"a":' * 100_000,
        b"[" * 1_000_000,
        b'{"model": 1e999}',
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
    ids=["bom", "surrogate bytes", "deep objects", "deep arrays", "infinity", "lone surrogate"],
)
def test_malformed_json_is_a_400(gateway: Served, body: bytes) -> None:
    answer = httpx.post(gateway.url + CHAT, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_body_that_grows_past_the_limit_is_cut_off_and_not_kept() -> None:
    """Sent in chunks, so that nothing says how much is coming: 413, and memory is of the limit, not of the body."""
    limit, chunk = 1 << 20, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with served({"max_body_bytes": limit}) as gateway:
        before = rss_bytes()
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
            connection.sendall(head(b"transfer-encoding: chunked"))
            with contextlib.suppress(ConnectionError, TimeoutError):  # closed while it was still sending
                for _ in range(2000):
                    connection.sendall(chunk)
            with contextlib.suppress(ConnectionError):
                answer = _all(connection)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
        assert rss_bytes() - before < 30 * limit
        assert gateway.still_serves()


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def test_half_open_connections_hold_nobody_up() -> None:
    """Two hundred that said their piece and shut their side down, and two hundred that said half of it: each is
    answered or dropped, long before any deadline, and others are served meanwhile."""
    with served({"head_s": 300, "body_s": 300}) as gateway:
        whole, half = head(LENGTH) + BODY, head(LENGTH) + BODY[:10]
        connections = [socket.create_connection(("127.0.0.1", gateway.port), timeout=60) for _ in range(400)]
        for i, connection in enumerate(connections):
            connection.sendall(whole if i % 2 else half)
            connection.shutdown(socket.SHUT_WR)
        assert gateway.still_serves()
        ends = [_end(connection) for connection in connections]
        assert set(ends[::2]) <= {b"", b"HTTP/1.1 400", b"HTTP/1.1 408"}
        assert set(ends[1::2]) <= {b"", b"HTTP/1.1 200"}
        for connection in connections:
            connection.close()
        assert gateway.still_serves()


def _end(connection: socket.socket) -> bytes:
    """How its answer begins; empty where it was dropped."""
    try:
        return connection.recv(12)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/messages", b"/v1/moderations"])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure_of_ours(
    gateway: Served, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log, and no traceback: whoever hangs up cannot fill the log with them."""
    caplog.set_level(logging.INFO)
    started = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{" % path
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(started)
    until(lambda: "the client left before its body had come" in caplog.text)
    assert gateway.still_serves()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_deep_schema_is_a_400(gateway: Served) -> None:
    schema: dict[str, Any] = {}
    for _ in range(150):
        schema = {"type": "array", "items": schema}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "response_format": fmt}
    assert httpx.post(gateway.url + CHAT, json=body).status_code < 500


def test_a_reader_that_stops_is_dropped_and_its_generation_ends() -> None:
    with served(script=["x" * 10_000] * 2000, pipeline={"constrain": ["unconstrained"]}) as gateway:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        connection.sendall(head(b"content-length: %d" % len(body)) + body)
        [outcome] = gateway.app.wait_for_outcomes(1, limit_s=60)
        assert outcome.error == "cancelled"
        assert gateway.app.model.generations[0].cancelled
        connection.close()
        assert gateway.still_serves()


def test_a_client_that_vanishes_ends_its_generation() -> None:
    with served(script=["word "] * 5000, delay_s=0.01) as gateway:
        connection = socket.create_connection(("127.0.0.1", gateway.port))
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        connection.sendall(head(b"content-length: %d" % len(body)) + body)
        connection.recv(1000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # RST
        connection.close()
        gateway.app.wait_for_outcomes(1, limit_s=60)
        assert gateway.app.model.generations[0].cancelled


def test_many_idle_streams_stay_open_and_cost_little() -> None:
    """Four hundred at once, none of which says anything; others are served meanwhile, and all of it is given back."""
    with served({"stall_s": 60}, script=["x"], delay_s=30) as gateway:
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        request = head(b"content-length: %d" % len(body)) + body
        connections = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(400)]
        for connection in connections:
            connection.sendall(request)
        until(lambda: len(gateway.app.model.generations) == 400)
        assert httpx.get(gateway.url + "/healthz").status_code == 200
        for connection in connections:
            connection.close()
        assert len(gateway.app.wait_for_outcomes(400, limit_s=60)) == 400


def test_connections_beyond_the_limit_are_told_so() -> None:
    with served({"max_connections": 5, "head_s": 30}) as gateway:
        held = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(6)]
        until(lambda: httpx.get(gateway.url + "/healthz").status_code == 503)
        for connection in held:
            connection.close()
        until(lambda: httpx.get(gateway.url + "/healthz").status_code == 200)


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
        _uvicorn_config(app.house.settings, app.house)
    assert load().server.tls_cert == ""
