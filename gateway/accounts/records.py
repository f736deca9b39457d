"""Facts of the accounts: a key as it is kept, and what was used, added up by day, key, team, feature and model."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from sluicegate.gateway.settings import KeySettings, Limits
from sluicegate.plugins import Caller, ConfigurationError, RequestError, read_settings

NANOS = 1_000_000_000
"""Money is counted in whole billionths of the currency's unit, so that sums are exact."""
KEY_PREFIX = "sg-"
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key. The key itself is never kept: it has 256 random bits, so that its plain SHA-256 cannot be reversed."""

    id: str
    digest: str = field(repr=False)
    """SHA-256 of the key, hexadecimal."""
    tenant: str = ""
    team: str = ""
    scopes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    created_at_s: float = 0.0
    expires_at_s: float | None = None
    revoked_at_s: float | None = None
    previous_digest: str = field(default="", repr=False)
    """Digest of the key before the last rotation; valid until `previous_until_s`."""
    previous_until_s: float = 0.0
    source: str = "store"
    """`configuration` for a key from the configuration file: such a key cannot be changed here."""

    def caller(self) -> Caller:
        return Caller(
            tenant=self.tenant or self.id,
            key_id=self.id,
            scopes=frozenset(self.scopes),
            team=self.team or None,
            models=frozenset(self.models) or None,
            tools=frozenset(self.tools) or None,
            mcp=frozenset(self.mcp) or None,
            rails=frozenset(self.rails),
            routes=frozenset(self.routes) or None,
        )

    def public(self) -> dict[str, Any]:
        """Return the fields that may be shown: all but the digests."""
        shown = dataclasses.asdict(self)
        del shown["digest"], shown["previous_digest"]
        shown["limits"] = {name: value for name, value in shown["limits"].items() if value is not None}
        return shown

    def state(self, now_s: float) -> str:
        if self.revoked_at_s is not None:
            return "revoked"
        return "expired" if self.expires_at_s is not None and self.expires_at_s <= now_s else "active"


def new_secret() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def from_settings(key: KeySettings) -> KeyRecord:
    """Return the record of a key of the configuration file. Raises `ConfigurationError`."""
    if bool(key.key) == bool(key.sha256):
        raise ConfigurationError(f"key {key.id!r} needs exactly one of `sha256` (preferred) and `key`")
    if key.key and not (key.key.isascii() and key.key.isprintable() and key.key == key.key.strip()):
        raise ConfigurationError(
            f"key {key.id!r} has a blank at an end of `key`, or characters beside ASCII, which no header carries; make "
            "another"
        )
    digest = digest_of(key.key) if key.key else key.sha256.lower()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ConfigurationError(f"`sha256` of key {key.id!r} must be 64 hexadecimal digits")
    return KeyRecord(
        id=key.id,
        digest=digest,
        tenant=key.tenant,
        team=key.team,
        scopes=key.scopes,
        models=key.models or (),
        tools=key.tools or (),
        mcp=key.mcp or (),
        routes=key.routes or (),
        rails=key.rails,
        limits=key.limits,
        expires_at_s=moment(key.expires, f"`expires` of key {key.id!r}") if key.expires else None,
        source="configuration",
    )


def moment(text: str, what: str) -> float:
    """Return the seconds since 1970 of an ISO 8601 date or time; UTC where it names no zone. Raises
    `ConfigurationError`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{what} must be a date or time such as 2027-01-31, found {text!r}") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def encode_key(record: KeyRecord) -> bytes:
    """Return the JSON form that `parsing.read_key` reads, without default fields: a gateway of the last release, which
    lacks this one's new fields, can then read every key that does not use them."""
    fields = _non_default_fields(record)
    if "limits" in fields:
        fields["limits"] = _non_default_fields(record.limits)
    return orjson.dumps(fields)


def encode_limits(limits: Limits) -> bytes:
    """Return the JSON form that `parsing.read_limits` reads, without default fields."""
    return orjson.dumps(_non_default_fields(limits))


def _non_default_fields(record: KeyRecord | Limits) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    return {
        one.name: value for one in dataclasses.fields(record) if (value := getattr(record, one.name)) != one.default
    }


class UsageKey(NamedTuple):
    """What usage is added up by. `day` is YYYY-MM-DD in UTC; empty names = none. A tuple, because a request looks it up
    several times: hashed and compared without a call."""

    day: str
    key_id: str
    team: str
    feature: str
    model: str


@dataclass(slots=True)
class UsageSum:
    """Counts that only grow. `interrupted`: requests charged at their reservation, because the gateway was killed."""

    requests: int = 0
    errors: int = 0
    interrupted: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_nanos: int = 0

    def add(self, other: UsageSum) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.interrupted += other.interrupted
        self.cached += other.cached
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.cost_nanos += other.cost_nanos


USAGE_FIELDS = tuple(f.name for f in dataclasses.fields(UsageSum))
usage_values: Callable[[UsageSum], tuple[int, ...]] = attrgetter(*USAGE_FIELDS)
UsageTable = dict[UsageKey, UsageSum]


def add_usage(table: UsageTable, key: UsageKey, usage: UsageSum) -> None:
    try:
        table[key].add(usage)  # one look-up: a key's digest is worked out anew for each
    except KeyError:
        table[key] = dataclasses.replace(usage)


def day_of(now_s: float) -> str:
    return _day_of(int(now_s // DAY_S))


@lru_cache(maxsize=8)
def _day_of(days: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(days * DAY_S))


def known_day(text: str) -> str:
    """Return `text`, a day as the books name it: YYYY-MM-DD, by which days are compared. Raises `RequestError`."""
    try:
        sound = date.fromisoformat(text).isoformat() == text
    except ValueError:
        sound = False
    if not sound:
        raise RequestError(f"{text[:40]!r} is no day such as 2027-01-31", param="day", code="invalid_parameter")
    return text


def limits_of(tree: Mapping[str, Any]) -> Limits:
    """Read limits. Raises `ConfigurationError` for an unknown name or a bad value."""
    return read_settings(Limits, tree, "limits")
