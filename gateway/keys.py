"""Slot `admit`, stage `api-keys`: who asks.

Not covered: scopes, limits and budgets. Without keys everyone is the anonymous tenant, and the server refuses to bind
anything but loopback.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from gateway.config import KeySettings
from plugins import AuthenticationError, Caller, ConfigurationError, Request


class ApiKeys:
    """Only SHA-256 digests are kept. Each look-up compares with every key in constant time."""

    def __init__(self, keys: Iterable[KeySettings]) -> None:
        self._callers = [(_digest(key), _caller(key)) for key in keys]

    async def admit(self, request: Request, caller: Caller) -> Caller:
        return self.identify(request.api_key) if self._callers else caller

    def identify(self, api_key: str | None) -> Caller:
        """Raises `AuthenticationError`; the message never repeats the key."""
        if not self._callers:
            return Caller()
        if not api_key:
            raise AuthenticationError("no API key was sent; send `Authorization: Bearer <key>`", code="missing_api_key")
        digest = hashlib.sha256(api_key.encode()).digest()
        found = [caller for known, caller in self._callers if hmac.compare_digest(known, digest)]
        if not found:
            raise AuthenticationError("the API key is not known here; ask the operator for a valid one")
        return found[0]


def _caller(key: KeySettings) -> Caller:
    return Caller(
        tenant=key.tenant or key.id,
        key_id=key.id,
        scopes=frozenset(key.scopes),
        team=key.team or None,
        models=frozenset(key.models) if key.models else None,
        tools=frozenset(key.tools) if key.tools else None,
    )


def _digest(key: KeySettings) -> bytes:
    if bool(key.key) == bool(key.sha256):
        raise ConfigurationError(f"key {key.id!r} needs exactly one of `sha256` (preferred) and `key`")
    if key.key:
        return hashlib.sha256(key.key.encode()).digest()
    try:
        digest = bytes.fromhex(key.sha256)
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise ConfigurationError(f"`sha256` of key {key.id!r} must be 64 hexadecimal digits")
    return digest
