"""When a request arrived: under load it waits in the kernel until the event loop reads it, which no clock of the
gateway sees.

Linux says how long ago a connection's last bytes came (`tcp_info`, in steps of its clock tick, some milliseconds). Of a
request in several packets that is the last of those that were there: it waited at least so long.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from starlette.types import Scope

ARRIVED, WAITED = "sluicegate.arrived", "sluicegate.waited"
LAST_DATA_RECEIVED = struct.Struct("=52xI")
"""Where `struct tcp_info` of Linux has it, in milliseconds; its beginning never changes."""
KNOWN = sys.platform == "linux"


def unread_s(connection: socket.socket | None) -> float:
    """Return how long ago the last bytes came; 0 where nobody says."""
    if connection is None or not KNOWN or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_DATA_RECEIVED.size)
    except OSError:
        return 0.0
    return LAST_DATA_RECEIVED.unpack(told)[0] / 1e3 if len(told) == LAST_DATA_RECEIVED.size else 0.0


def note_arrival(scope: Scope, connection: socket.socket | None) -> None:
    """Note in `scope` when its request arrived, now that its head is read."""
    scope["extensions"][ARRIVED] = time.perf_counter() - unread_s(connection)


def note_reading(scope: Scope) -> float:
    """Note how long the request of `scope` has waited until somebody turns to it, and return that. What its client
    takes to send the rest is no part of it."""
    extensions = scope.get("extensions", {})
    arrived = extensions.get(ARRIVED)
    if arrived is None:
        return 0.0
    waited: float = time.perf_counter() - arrived
    extensions[WAITED] = waited
    return waited


def is_noted(scope: Scope) -> bool:
    """Return whether somebody has turned to the request."""
    return WAITED in scope.get("extensions", {})


def waited_s(scope: Scope) -> float:
    """Return what was noted; 0 where nothing was."""
    waited: float = scope.get("extensions", {}).get(WAITED, 0.0)
    return waited
