"""Index of API keys by digest, rebuilt as a whole when a key changes."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar

from sluicegate.gateway.accounts.bounds import MAX_NAME, NO_ROUTE, is_name, is_route
from sluicegate.gateway.accounts.health import RETRY_S
from sluicegate.gateway.accounts.records import KeyRecord
from sluicegate.plugins import AuthenticationError, BooksUnavailable, Caller, ConfigurationError

Entry = tuple[bytes, KeyRecord, Caller, float]
"""Digest, record, caller, and the time (Unix seconds) until which this digest belongs to the key."""
_ASKED: ContextVar[tuple[Mapping[bytes, Entry], str, Entry] | None] = ContextVar("asked", default=None)
"""The index, the key and the result of the last look-up in this request's context; ignored for another index."""


class Keyring:
    """Used on the event loop. The index is keyed by a BLAKE2b hash of the digest under a secret of this process, so
    that the time of a look-up tells nothing about any key; a hit is compared in constant time."""

    def __init__(self, fixed: Sequence[KeyRecord], *, required: bool = False) -> None:
        """Build a keyring of `fixed`, the keys of the configuration. `required`: refuse callers without a key even
        where there are no keys."""
        _check_fixed(fixed)
        self._fixed = tuple(fixed)
        self._salt = os.urandom(32)
        self._required = required
        self.good_until_s = float("inf")
        """Until when keys of a store that cannot be read are still accepted."""
        self.replace(())

    @property
    def required(self) -> bool:
        """Return whether callers without a key are refused."""
        return self._required or bool(self._fixed)

    @property
    def records(self) -> Mapping[str, KeyRecord]:
        return self._records

    def replace(self, kept: Iterable[KeyRecord], doubtful: Mapping[str, float] | None = None) -> None:
        """Replace the store's keys; ids that the configuration uses too are left out. `doubtful`: ids that the store
        lost, and until when they are served nevertheless."""
        self._doubtful = dict(doubtful or {})
        self._kept = tuple(kept)
        records = {record.id: record for record in (*self._kept, *self._fixed)}
        index: dict[bytes, Entry] = {}
        for record in records.values():
            caller = record.caller()
            for digest, until in ((record.previous_digest, record.previous_until_s), (record.digest, float("inf"))):
                if digest:
                    raw = bytes.fromhex(digest)
                    index[self._place(raw)] = (raw, record, caller, until)
        self._records, self._index = records, index

    def exchange_fixed(self, fixed: Sequence[KeyRecord]) -> None:
        """Put other keys of the configuration in the place of those known. Raises as `check_fixed`; nothing has changed
        then."""
        self.check_fixed(fixed)
        self._fixed = tuple(fixed)
        self.replace(self._kept, self._doubtful)

    def check_fixed(self, fixed: Sequence[KeyRecord]) -> None:
        """Raise `ConfigurationError` where nobody would need a key any more, or for keys that are none."""
        _check_fixed(fixed)
        if not fixed and self._fixed and not self._required:
            raise ConfigurationError(
                "the last [[keys]] are gone, so that nobody would need a key; that takes a restart"
            )

    def find(self, api_key: str) -> tuple[KeyRecord, Caller]:
        """Return the record of an API key and its caller. Raises `AuthenticationError`, whose message never repeats the
        key, or `BooksUnavailable`."""
        found, now_s = self._entry(api_key), time.time()
        if found is None or found[3] <= now_s:
            raise AuthenticationError("the API key is not known here; ask the operator for a valid one")
        state = found[1].state(now_s)
        if state != "active":
            raise AuthenticationError(f"the API key {found[1].id!r} is {state}; ask the operator for a new one")
        self._check_confirmed(found[1])
        return found[1], found[2]

    def _entry(self, api_key: str) -> Entry | None:
        """Look the key up once for all that ask within one request: the gate does, then `admit`."""
        asked = _ASKED.get()
        if asked is not None and asked[0] is self._index and asked[1] == api_key:
            return asked[2]
        digest = hashlib.sha256(api_key.encode("utf-8", "surrogateescape")).digest()
        found = self._index.get(self._place(digest))
        if found is None or not hmac.compare_digest(found[0], digest):
            return None
        _ASKED.set((self._index, api_key, found))
        return found

    def by_id(self, key_id: str) -> tuple[KeyRecord, Caller]:
        """Look up the key of work that was accepted earlier. Raises `AuthenticationError` if it is gone since."""
        record = self._records.get(key_id)
        state = "gone" if record is None else record.state(time.time())
        if record is None or state != "active":
            raise AuthenticationError(f"the API key {key_id!r} is {state}; ask the operator for a new one")
        self._check_confirmed(record)
        return record, record.caller()

    def identify(self, api_key: str | None) -> tuple[KeyRecord | None, Caller]:
        """Return the key's caller, or the anonymous one where no key is required."""
        if not self.required:
            return None, Caller()
        if not api_key:
            raise AuthenticationError(
                "no API key was sent; send `Authorization: Bearer <key>`", code=AuthenticationError.missing
            )
        return self.find(api_key)

    def _check_confirmed(self, record: KeyRecord) -> None:
        """Raise `BooksUnavailable` where the store has not confirmed this key for too long: it may be revoked since."""
        if record.source == "configuration":
            return
        now_s = time.monotonic()
        if now_s >= self.good_until_s or (self._doubtful and now_s >= self._doubtful.get(record.id, float("inf"))):
            raise BooksUnavailable(
                "the store of keys lost this key or cannot be read, for longer than [accounts] keep_keys_s; try again",
                retry_after_s=RETRY_S,
            )

    def _place(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._salt, digest_size=32).digest()


def check_names(whose: str, **names: str) -> None:
    """Raise `ConfigurationError` for names that the stores cannot keep, or that are empty."""
    for what, name in names.items():
        if not name or not is_name(name) or not name.isprintable():
            raise ConfigurationError(
                f"`{what}` of {whose} is no name: 1 to {MAX_NAME} characters that can be printed, found {name[:80]!r}"
            )


def _check_fixed(records: Sequence[KeyRecord]) -> None:
    """Check that keys of the configuration are unique and well named. Raises `ConfigurationError`."""
    _check_unique(records)
    for one in records:
        check_names(f"key {one.id[:80]!r}", id=one.id, tenant=one.tenant or one.id, team=one.team or "-")
        if wrong := next((route for route in one.routes if not is_route(route)), None):
            raise ConfigurationError(f"`routes` of key {one.id!r}: {NO_ROUTE.format(wrong)}")


def _check_unique(records: Sequence[KeyRecord]) -> None:
    seen: set[str] = set()
    owners: dict[str, str] = {}
    for record in records:
        if record.id in seen:
            raise ConfigurationError(f"[[keys]] names {record.id!r} twice; give each key an id of its own")
        seen.add(record.id)
        if (owner := owners.setdefault(record.digest, record.id)) != record.id:
            raise ConfigurationError(
                f"[[keys]] {owner!r} and {record.id!r} are the same key, so that nobody could say who asks; make a new "
                "one for one of them"
            )
