"""Create, revoke and rotate keys: pure functions from records to records."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.bounds import NO_ROUTE, is_name, is_route
from sluicegate.gateway.accounts.records import KeyRecord, digest_of, new_secret
from sluicegate.gateway.accounts.stores.base import KeyExists
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import RequestError
from sluicegate.plugins.errors import plain

MAX_GRACE_S = 10 * 366 * 86400.0
TOLD = ("tenant", "team", "scopes", "models", "tools", "mcp", "routes", "rails", "expires_at_s", "limits")
_ID = re.compile(r"[A-Za-z0-9._@-]{1,64}")


def create(
    accounts: Accounts,
    key_id: str,
    *,
    limits: Limits,
    expires: float | None = None,
    tenant: str = "",
    team: str = "",
    **lists: Sequence[str],
) -> tuple[KeyRecord, str]:
    """Return the record to keep and the secret, which is not kept anywhere. Raises `RequestError`."""
    if not _ID.fullmatch(key_id):
        raise RequestError(f"{key_id!r} is no id: 1 to 64 letters, digits, `.`, `_`, `@` and `-`", param="id")
    for what, name in (("tenant", tenant), ("team", team)):
        if not is_name(name):
            raise RequestError(f"`{what}` is no name: at most 256 characters, none of them NUL", param=what)
    if wrong := next((route for route in lists.get("routes", ()) if not is_route(route)), None):
        raise RequestError(NO_ROUTE.format(wrong), param="routes")
    if expires is not None and expires <= time.time():
        raise RequestError("`expires` is past: the key would be refused from the start", param="expires")
    if key_id in accounts.keyring.records:
        raise KeyExists(key_id)
    secret = new_secret()
    fields: dict[str, Any] = {name: tuple(values) for name, values in lists.items()}
    record = KeyRecord(
        key_id,
        digest_of(secret),
        tenant=tenant,
        team=team,
        limits=limits,
        created_at_s=round(time.time(), 3),
        expires_at_s=expires,
        **fields,
    )
    return record, secret


def audit_facts(record: KeyRecord) -> dict[str, Any]:
    """Return the audit log's facts on a new key: its permissions and limits, without its secret."""
    return {name: value for name, value in record.public().items() if name in TOLD and value}


def revoke(record: KeyRecord) -> KeyRecord:
    return record if record.revoked_at_s is not None else replace(record, revoked_at_s=round(time.time(), 3))


def rotate(record: KeyRecord, secret: str, grace_s: float) -> KeyRecord:
    """Replace the secret; the old one stays valid for `grace_s`. Raises `KeyRevoked`, or `RequestError` for a time that
    is none."""
    if record.revoked_at_s is not None:
        raise KeyRevoked(record.id)
    if not 0 <= grace_s <= MAX_GRACE_S:
        raise RequestError(
            f"`grace_s` must be from 0 to {MAX_GRACE_S:.0f} seconds, found {plain(grace_s)}", param="grace_s"
        )
    until = time.time() + grace_s
    return replace(record, digest=digest_of(secret), previous_digest=record.digest, previous_until_s=until)


class KeyRevoked(RequestError):
    """A revoked key gets no new secret."""

    code = "key_revoked"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id!r} is revoked, and stays so; create another", param="id")
