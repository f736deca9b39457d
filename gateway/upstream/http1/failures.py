"""Failures of a request to another server.

OSError
  HttpFailure
    ConnectFailed
      ConnectTimedOut   also a TimeoutError
    ConnectionClosed
    BadResponse
"""

from __future__ import annotations


class HttpFailure(OSError):
    """No answer came, or an incomplete one."""


class ConnectFailed(HttpFailure):
    """No connection was made: no address, a refused connection, or an untrusted certificate."""


class ConnectTimedOut(ConnectFailed, TimeoutError):
    """No connection was made in time."""


class ConnectionClosed(HttpFailure):
    """The connection was closed before the end of the answer."""


class BadResponse(HttpFailure):
    """The response is no HTTP/1.1, or exceeds a limit."""
