"""Connect to a server: its name is resolved, its addresses are judged and tried, and TLS begins."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from aiohappyeyeballs import start_connection

from sluicegate.gateway.upstream.http1.address import ServerAddress
from sluicegate.gateway.upstream.http1.connection import HttpConnection
from sluicegate.gateway.upstream.http1.failures import ConnectFailed, ConnectTimedOut
from sluicegate.gateway.upstream.settings import is_public

RESOLVED_S = 10.0
"""How long addresses of a name are believed."""
NEXT_S = 0.25
"""After which the next address is tried beside the first (RFC 8305)."""


class Connector:
    """Connects to one server. The connection goes to an address that was judged, so that a name cannot change between
    the check and the call."""

    def __init__(
        self, address: ServerAddress, *, connect_s: float, only_public: bool, tls: ssl.SSLContext | None
    ) -> None:
        """Store the target. `only_public`: refuse loopback, private and link-local addresses. `tls`: the context for
        https."""
        self._address = address
        self._connect_s = connect_s
        self._only_public = only_public
        self._tls = tls if address.is_tls else None
        self._resolved: list[Any] = []
        self._resolved_s = 0.0
        self.certificate_ends_s: float | None = None
        """When the certificate of the newest connection ends, in Unix seconds; None without TLS, or without one."""

    async def connect(self, make: Callable[[], HttpConnection]) -> HttpConnection:
        """Return a connection. Raises `ConnectFailed`."""
        try:
            async with asyncio.timeout(self._connect_s):
                return await self._connected(make)
        except TimeoutError as error:
            self._resolved = []
            raise ConnectTimedOut(f"no connection to {self._address.host} in {self._connect_s:g} s") from error
        except (OSError, ValueError) as error:
            self._resolved = []
            raise ConnectFailed(f"no connection to {self._address.host}: {error}") from error

    async def _connected(self, make: Callable[[], HttpConnection]) -> HttpConnection:
        loop = asyncio.get_running_loop()
        found = await start_connection(await self._addresses(loop), happy_eyeballs_delay=NEXT_S)
        name = self._address.host.rstrip(".") if self._tls is not None else None
        try:
            transport, connection = await loop.create_connection(make, sock=found, ssl=self._tls, server_hostname=name)
        except BaseException:
            found.close()
            raise
        if certificate := transport.get_extra_info("peercert"):
            self.certificate_ends_s = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
        return connection

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> list[Any]:
        if not self._resolved or loop.time() >= self._resolved_s:
            host, port = self._address.host, self._address.port
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            self._resolved = [info for info in found if not self._only_public or is_public(str(info[4][0]))]
            self._resolved_s = loop.time() + RESOLVED_S
        if not self._resolved:
            raise OSError(f"{self._address.host} leads to no public address; set allow_private = true if meant")
        return self._resolved


def tls_terms() -> ssl.SSLContext:
    """Return the TLS context that verifies servers' certificates: the system's authorities, or those of
    `SSL_CERT_FILE`."""
    found = ssl.create_default_context()
    found.set_alpn_protocols(["http/1.1"])
    return found
