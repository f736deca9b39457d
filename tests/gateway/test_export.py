"""Export never blocks and never loses the process: collectors that are down, slow, refusing or lying, all real."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sluicegate.gateway.telemetry.otlp.export import BATCH, Exporter, exporter_of
from sluicegate.gateway.telemetry.otlp.sending import ExportRefused, ExportTarget, Sender
from sluicegate.gateway.telemetry.push import pusher_of
from sluicegate.plugins import ConfigurationError
from tests.gateway.test_otlp import a_finished
from tests.waiting import until

Answer = Callable[[BaseHTTPRequestHandler, int], None]


@contextmanager
def a_collector(answer: Answer) -> Iterator[ThreadingHTTPServer]:
    """Run a collector in which `answer(handler, n)` replies to the n-th POST; bodies are kept in `bodies`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))  # type: ignore[attr-defined]
            self.server.heads.append(dict(self.headers))  # type: ignore[attr-defined]
            answer(self, len(self.server.bodies))  # type: ignore[attr-defined]

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.bodies, server.heads, server.daemon_threads = [], [], True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()


def status(code: int) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        handler.send_response(code)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def sending_to(port: int, **environ: str) -> Exporter:
    found = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "500",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        **environ,
    }
    exporter = exporter_of(found, {})
    exporter.start()
    return exporter


def test_traces_arrive_with_headers_and_compressed_where_asked() -> None:
    with a_collector(status(200)) as collector:
        exporter = sending_to(
            collector.server_port,
            OTEL_EXPORTER_OTLP_HEADERS="x-team=blue%20one,authorization=Bearer k",
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
        )
        exporter.take(a_finished())
        until(lambda: exporter.counts.sent == 1)
        exporter.close()
        heads: Any = collector.heads[0]  # type: ignore[attr-defined]
        assert b"chat bundled" in gzip.decompress(collector.bodies[0])  # type: ignore[attr-defined]
    assert heads["x-team"] == "blue one"
    assert heads["authorization"] == "Bearer k"


def test_a_collector_that_is_busy_for_a_moment_is_tried_again() -> None:
    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        status(503 if n == 1 else 200)(handler, n)

    with a_collector(answer) as collector:
        exporter = sending_to(collector.server_port)
        exporter.take(a_finished())
        until(lambda: exporter.counts.sent == 1)
        exporter.close()
        assert len(collector.bodies) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "told", "waited_s"),
    [(503, "7", 7.0), (429, "0", 0.5), (429, "3600", 30.0), (503, "soon", 1.0), (503, None, 1.0)],
)
def test_a_collector_says_when_it_is_to_be_asked_again(
    code: int, told: str | None, waited_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Retry-After`, up to half a minute; three tries within three seconds cost its batch what a busy one had asked
    for."""

    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        handler.send_response(code if n == 1 else 200)
        if told is not None:
            handler.send_header("retry-after", told)
        handler.send_header("content-length", "0")
        handler.end_headers()

    with a_collector(answer) as collector:
        sender = Sender(ExportTarget(f"http://127.0.0.1:{collector.server_port}/v1/traces"))
        waits: list[float] = []
        monkeypatch.setattr(sender._hurried, "wait", waits.append)
        sender.send(b"x")
        sender.close()
    assert waits == [waited_s]


def test_a_shutdown_does_not_wait_until_a_collector_is_to_be_asked_again() -> None:
    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        handler.send_response(503)
        handler.send_header("retry-after", "3600")
        handler.send_header("content-length", "0")
        handler.end_headers()

    with a_collector(answer) as collector:
        exporter = sending_to(collector.server_port)
        exporter.take(a_finished())
        until(lambda: len(collector.bodies) == 1)  # type: ignore[attr-defined]
        exporter.close(limit_s=0.3)
        assert exporter._thread is not None
        until(lambda: not exporter._thread.is_alive(), 10)  # type: ignore[union-attr]
        assert exporter.counts.dropped == 1


def test_a_collector_that_refuses_is_not_asked_again() -> None:
    with a_collector(status(400)) as collector:
        exporter = sending_to(collector.server_port)
        exporter.take(a_finished())
        until(lambda: exporter.counts.dropped == 1)
        exporter.close()
        assert len(collector.bodies) == 1  # type: ignore[attr-defined]


def hang(handler: BaseHTTPRequestHandler, n: int) -> None:
    time.sleep(5)


def hang_up(handler: BaseHTTPRequestHandler, n: int) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def endless(handler: BaseHTTPRequestHandler, n: int) -> None:
    handler.send_response(500)
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def drip(handler: BaseHTTPRequestHandler, n: int) -> None:
    """Send each letter long before a time limit of one read is over. The head never ends."""
    for letter in b"HTTP/1.1 200 OK\r\nx-filler: " + b"x" * 1000:
        handler.wfile.write(bytes([letter]))
        time.sleep(0.02)


def nonsense(handler: BaseHTTPRequestHandler, n: int) -> None:
    handler.wfile.write(b"\x00\xff no http at all \r\n\r\n")


@pytest.mark.parametrize("answer", [hang, hang_up, endless, drip, nonsense, status(500), status(302)])
def test_a_collector_that_misbehaves_costs_its_batch_only(answer: Answer) -> None:
    """The thread goes on, the loss is counted, and a shutdown is over in a bounded time."""
    with a_collector(answer) as collector:
        exporter = sending_to(collector.server_port)
        exporter.take(a_finished())
        exporter.take(a_finished())
        until(lambda: len(collector.bodies) > 0)  # type: ignore[attr-defined]
        exporter.take(a_finished())
        exporter.close(limit_s=0.3)
        assert exporter._thread is not None
        until(lambda: not exporter._thread.is_alive())  # type: ignore[union-attr]
        assert exporter.counts.sent == 0
        assert exporter.counts.dropped == 3


def test_a_collector_that_drips_costs_one_try_its_time_limit() -> None:
    with a_collector(drip) as collector:
        sender = Sender(ExportTarget(f"http://127.0.0.1:{collector.server_port}/v1/traces", timeout_s=0.2))
        with pytest.raises(ExportRefused, match="TimeoutError after 3 tries"):
            sender.send(b"x")
        sender.close()
        assert len(collector.bodies) == 3  # type: ignore[attr-defined]


def test_while_a_collector_is_down_memory_is_bounded_and_nobody_waits() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)  # accepts nobody
    exporter = sending_to(listener.getsockname()[1], OTEL_BSP_MAX_QUEUE_SIZE="50")
    done = a_finished()
    for _ in range(BATCH + 500):
        exporter.take(done)
    assert len(exporter._queue) <= 50
    assert exporter.stats()["traces_dropped_total"] >= 500 - 50
    exporter.close(limit_s=0.2)
    listener.close()


def test_what_is_queued_is_sent_before_the_process_ends() -> None:
    with a_collector(status(200)) as collector:
        exporter = sending_to(collector.server_port, OTEL_BSP_SCHEDULE_DELAY="60000")
        exporter.take(a_finished())
        exporter.close()
        assert len(collector.bodies) == 1  # type: ignore[attr-defined]


def test_a_protocol_that_is_not_spoken_is_refused_at_start() -> None:
    with pytest.raises(ConfigurationError, match="http/protobuf"):
        ExportTarget.of({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "TRACES")


@pytest.mark.parametrize(
    "name",
    [
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    ],
)
@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "inf", "1e10"])
def test_a_variable_that_is_no_number_or_would_wait_for_nothing_is_named_at_start(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must be a number from 1 to 1000000000, found '{text}'$"):
        exporter_of({name: text}, {})


def test_an_interval_of_no_time_between_pushes_of_metrics_is_refused() -> None:
    to = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}
    with pytest.raises(ConfigurationError, match="OTEL_METRIC_EXPORT_INTERVAL must be a number from 1"):
        pusher_of(CollectorRegistry(), {**to, "OTEL_METRIC_EXPORT_INTERVAL": "0"})


def test_a_timeout_is_in_milliseconds_as_the_specification_has_it() -> None:
    assert ExportTarget.of({"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}, "TRACES").timeout_s == 2.5
    assert ExportTarget.of({}, "TRACES").timeout_s == 10.0


@pytest.mark.parametrize(
    "text", ["Bearer s3kr1t", "a=1,Bearer s3kr1t", "x y=s3kr1t", "=s3kr1t", "a=s3kr1t\u00fc", "a=1%0ds3kr1t"]
)
def test_headers_that_cannot_be_sent_are_refused_at_start_and_not_quoted(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^OTEL_EXPORTER_OTLP_HEADERS: header \d") as caught:
        ExportTarget.of({"OTEL_EXPORTER_OTLP_HEADERS": text}, "TRACES")
    assert "s3kr1t" not in str(caught.value)


def test_headers_may_have_blanks_around_them_and_a_comma_at_the_end() -> None:
    target = ExportTarget.of({"OTEL_EXPORTER_OTLP_HEADERS": " X-Team = blue%2C one , b=, "}, "TRACES")
    assert target.headers == {"x-team": "blue, one", "b": ""}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"CERTIFICATE": "/no/such.pem"}, "/no/such.pem.*No such file"),
        ({"CERTIFICATE": __file__}, "cannot be used"),
        ({"CLIENT_CERTIFICATE": "/a.pem"}, "belong together"),
        ({"CLIENT_CERTIFICATE": "/a.pem", "CLIENT_KEY": "/b.pem"}, "/a.pem, /b.pem.*No such file"),
        ({"COMPRESSION": "zstd"}, "must be gzip or none"),
    ],
)
def test_certificates_and_compression_that_cannot_be_used_are_refused_at_start(
    environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ExportTarget.of({f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()}, "TRACES")


def test_a_collector_may_ask_for_a_certificate(certificate: tuple[str, str]) -> None:
    """Its own is judged by the file that is named, ours is the one of the client's variables."""
    cert, key = certificate
    with a_collector(status(200)) as collector:
        terms = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=cert)
        terms.load_cert_chain(cert, key)
        terms.verify_mode = ssl.CERT_REQUIRED
        collector.socket = terms.wrap_socket(collector.socket, server_side=True)
        exporter = sending_to(
            collector.server_port,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"https://localhost:{collector.server_port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=cert,
            OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=cert,
            OTEL_EXPORTER_OTLP_CLIENT_KEY=key,
            OTEL_EXPORTER_OTLP_TIMEOUT="30000",
        )
        exporter.take(a_finished())
        exporter.close(30.0)
        assert exporter.counts.sent == 1


def test_a_signal_may_have_an_endpoint_of_its_own() -> None:
    own = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b:2/in"}
    assert ExportTarget.of(own, "TRACES").url == "http://b:2/in"
    assert ExportTarget.of(own, "METRICS").url == "http://a:1/v1/metrics"
    assert Sender(ExportTarget("http://x")).target.timeout_s == 10.0
