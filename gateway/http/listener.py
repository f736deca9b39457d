"""Bind a listening address, or explain why that fails."""

from __future__ import annotations

import errno
import socket

from sluicegate.plugins import ConfigurationError


def bind(
    host: str, port: int, options: tuple[str, str] = ("--host", "--port"), *, shared: bool = False
) -> socket.socket:
    """Bind a socket to listen on. `options`: what the operator calls the two; `shared`: with other processes of this
    user that say so too. Raises `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        raise no_listening(host, port, error, options) from error
    return listener


def no_listening(
    host: str, port: int, error: OSError, options: tuple[str, str] = ("--host", "--port")
) -> ConfigurationError:
    """Return the error for an address that cannot be bound, with what to do instead."""
    place = place_of(host, port)
    host_option, port_option = options
    advice = {
        errno.EADDRINUSE: f"stop what uses it, or choose another {port_option} (0 takes a free one)",
        errno.EACCES: f"ports below 1024 are for root; choose another {port_option} (0 takes a free one)",
        errno.EADDRNOTAVAIL: f"this machine has no such address; choose another {host_option}",
        socket.EAI_NONAME: f"no such host is known; choose another {host_option}",
    }
    other = f"choose another {host_option} or {port_option} (port 0 takes a free one)"
    said = f"cannot listen on {place}: {error.strerror or error}; {advice.get(error.errno or 0, other)}"
    return ConfigurationError(said)


def place_of(host: str, port: int) -> str:
    """Return `HOST:PORT`, as URLs write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
