"""Texts of callers, sealed for each of them under one secret of the operator's."""

from __future__ import annotations

from sluicegate.cache.stores.sealing import TenantSealer
from sluicegate.plugins import ConfigurationError


class TextSealer:
    """`purpose` keeps what is sealed for one use from being opened as another's."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        """Build a sealer for texts of one purpose. Raises `ConfigurationError` for a secret that is too short, or
        without the package cryptography."""
        self._sealer = TenantSealer(secret, f"[{purpose}] secret")
        self._purpose = purpose

    def seal(self, owner: str, text: str, place: str) -> bytes:
        return self._sealer.seal(owner, text.encode("utf-8", "surrogatepass"), self._bound(place))

    def open(self, owner: str, data: bytes, place: str) -> str:
        """Open a sealed text. Raises `Damaged` for what was not sealed for this owner and place."""
        return self._sealer.open(owner, data, self._bound(place)).decode("utf-8", "surrogatepass")

    def _bound(self, place: str) -> bytes:
        return f"{self._purpose}\0{place}".encode("utf-8", "surrogatepass")


def sealer_of(secret: str, purpose: str) -> TextSealer | None:
    """Return a sealer, or None without a secret. Raises `ConfigurationError`."""
    return TextSealer(secret_bytes(secret, purpose), purpose) if secret else None


def secret_bytes(secret: str, table: str) -> bytes:
    """Return the bytes of a hexadecimal secret. Raises `ConfigurationError`."""
    try:
        return bytes.fromhex(secret)
    except ValueError as error:
        raise ConfigurationError(f"[{table}] secret must be hexadecimal; `openssl rand -hex 32` makes one") from error
