"""Watch the certificates of servers that the gateway asks over TLS, whatever library asks them.

A connection of its own is opened to each now and then, for the handshake alone: libraries do not show the certificate,
or show it once. It is not verified here and nothing is sent; who asks the server verifies it. Not covered: the chain
above the certificate, and servers that demand a client's certificate and speak TLS 1.2 at most.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluicegate.gateway.readiness.certificate_dates import subject_and_end
from sluicegate.gateway.readiness.expiry import expiring
from sluicegate.gateway.readiness.tls_servers import TlsServer
from sluicegate.gateway.telemetry import semconv
from sluicegate.plugins import Trouble
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate")
EVERY_S = 600.0
LIMIT_S = 5.0
"""Of one connection and its handshake."""
RENEWED = "it is renewed at that server; a new one is noticed within ten minutes"
_SSL_REQUEST = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")
"""PostgreSQL's question whether it speaks TLS; it answers with `S` or `N`."""


class ServerCertificates(Collector):
    """Used on the event loop. A server that does not answer keeps its last date: whoever needs it reports it."""

    def __init__(self, servers: Callable[[], Iterable[TlsServer]]) -> None:
        """Prepare to watch what `servers` returns, asked anew at each round: a reload may change it."""
        self._servers = servers
        self._ends_s: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch())]

    async def close(self) -> None:
        await end_tasks(self._tasks)

    def troubles(self) -> Sequence[Trouble]:
        """Report certificates that have ended, or soon will."""
        return [
            one
            for named, ends_s in self._ends_s.items()
            for one in expiring(f"the certificate of {named}", ends_s, RENEWED)
        ]

    def collect(self) -> Iterable[Metric]:
        help_text = "When the certificate that a server shows ends, in Unix seconds."
        family = GaugeMetricFamily(semconv.METRIC_SERVER_CERTIFICATE_ENDS, help_text, labels=("server",))
        for named, ends_s in list(self._ends_s.items()):
            family.add_metric((named,), ends_s)
        return (family,)

    async def look(self) -> None:
        """Ask all servers once, together."""
        servers = list(self._servers())
        await asyncio.gather(*(self._ask(server) for server in servers))
        for gone in self._ends_s.keys() - {server.named for server in servers}:
            del self._ends_s[gone]

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def _ask(self, server: TlsServer) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                shown = await _shown(server)
            if shown is not None:
                self._ends_s[server.named] = subject_and_end(shown)[1]
        except (OSError, EOFError, ValueError, IndexError) as error:  # TLS's errors and timeouts are the first
            log.debug("the certificate of %s cannot be read: %s", server.named, error)


async def _shown(server: TlsServer) -> bytes | None:
    """Return the certificate that the server shows, in DER form; None where it speaks no TLS. Raises `OSError`,
    `EOFError`."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        if server.opening == "postgres":
            writer.write(_SSL_REQUEST)
            if await reader.readexactly(1) != b"S":
                return None
        await writer.start_tls(_reading(), server_hostname=server.host)
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
        return shown
    finally:
        writer.transport.abort()  # a server that is silent would have to answer a farewell


def _reading() -> ssl.SSLContext:
    """Return terms that verify nothing: a certificate that has ended is to be read, too."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found
