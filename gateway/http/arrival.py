"""The arrival time of a request: under load it waits in the kernel until the event loop reads it, which no clock of the
gateway sees.

Linux reports how long ago a connection's last bytes came (`tcp_info`, in steps of its clock tick, some milliseconds).
For a request in several packets that is the last one present: it waited at least so long.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from starlette.types import Scope

ARRIVED, WAITED = "sluicegate.arrived", "sluicegate.waited"
LAST_DATA_RECEIVED = struct.Struct("=52xI")
"""The field of Linux' `struct tcp_info` (milliseconds since the last data); the beginning of that struct never
changes."""
KNOWN = sys.platform == "linux"


def unread_s(connection: socket.socket | None) -> float:
    """Return the seconds since the connection's last bytes came; 0 where the system does not report them."""
    if connection is None or not KNOWN or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_DATA_RECEIVED.size)
    except OSError:
        return 0.0
    return LAST_DATA_RECEIVED.unpack(told)[0] / 1e3 if len(told) == LAST_DATA_RECEIVED.size else 0.0


def note_arrival(scope: Scope, connection: socket.socket | None) -> None:
    """Store in `scope` when its request arrived, now that its head is read."""
    scope["extensions"][ARRIVED] = time.perf_counter() - unread_s(connection)


def note_reading(scope: Scope) -> float:
    """Store, and return, the seconds that the request of `scope` waited before it was read. The time that its client
    takes to send the rest is not included."""
    extensions = scope.get("extensions", {})
    arrived = extensions.get(ARRIVED)
    if arrived is None:
        return 0.0
    waited: float = time.perf_counter() - arrived
    extensions[WAITED] = waited
    return waited


def is_noted(scope: Scope) -> bool:
    """Return whether `note_reading` was called for the request."""
    return WAITED in scope.get("extensions", {})


def waited_s(scope: Scope) -> float:
    """Return the seconds that `note_reading` stored; 0 where it was not called."""
    waited: float = scope.get("extensions", {}).get(WAITED, 0.0)
    return waited
