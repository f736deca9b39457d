"""Why a request to another server came to nothing.

OSError
  HttpFailure
    ConnectFailed
      ConnectTimedOut   also a TimeoutError
    HungUp
    BadResponse
"""

from __future__ import annotations


class HttpFailure(OSError):
    """No answer came, or not all of it."""


class ConnectFailed(HttpFailure):
    """No connection was made: no address, nobody who listens, or a certificate that is not believed."""


class ConnectTimedOut(ConnectFailed, TimeoutError):
    """No connection was made in time."""


class HungUp(HttpFailure):
    """The connection was closed before the end of the answer."""


class BadResponse(HttpFailure):
    """What came is no HTTP/1.1, or past a bound of ours."""
