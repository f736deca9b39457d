"""Encryption at rest: AES-256-GCM under a key of each tenant's own, derived from one secret of the operator's.

An entry sealed for one tenant or key opens as no other's, and a forged one does not open at all. Not covered: sizes,
times and how often something is asked, which whoever reads the store still sees; and rotation, except that a new secret
makes all old entries misses.
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache

from sluicegate.cache.stores.entry_check import CorruptEntry
from sluicegate.plugins.errors import ConfigurationError

NONCE_BYTES = 12
MIN_SECRET_BYTES = 32


class TenantSealer:
    """`secret`: at least 32 bytes from a random source, the same for all gateways that share a store."""

    def __init__(self, secret: bytes, named: str = "the secret") -> None:
        """Prepare to seal. `named`: what the operator calls the secret. Raises `ConfigurationError` for one that is too
        short, or without the package cryptography."""
        try:
            ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
            invalid: type[Exception] = importlib.import_module("cryptography.exceptions").InvalidTag
        except ImportError as error:
            raise ConfigurationError(
                "encryption needs the package cryptography; pip install 'sluicegate[encryption]'"
            ) from error
        if len(secret) < MIN_SECRET_BYTES:
            raise ConfigurationError(
                f"{named} has {len(secret)} bytes, at least {MIN_SECRET_BYTES} are needed; "
                "make one with `openssl rand -hex 32`"
            )
        self._invalid = invalid
        self._cipher = lru_cache(maxsize=1024)(lambda tenant: ciphers.AESGCM(_derive(secret, tenant)))

    def seal(self, tenant: str, data: bytes, bound: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._cipher(tenant).encrypt(nonce, data, bound)
        return nonce + sealed

    def open(self, tenant: str, data: bytes, bound: bytes) -> bytes:
        """Open what was sealed. Raises `CorruptEntry`."""
        try:
            opened: bytes = self._cipher(tenant).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
        except (self._invalid, ValueError) as error:
            raise CorruptEntry("an entry that was not sealed with this secret for this tenant") from error
        return opened


def _derive(secret: bytes, tenant: str) -> bytes:
    hashes = importlib.import_module("cryptography.hazmat.primitives.hashes")
    hkdf = importlib.import_module("cryptography.hazmat.primitives.kdf.hkdf")
    info = b"sluicegate cache v1\0" + tenant.encode()
    return bytes(hkdf.HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(secret))
