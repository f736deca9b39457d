"""Keys and usage in one Redis that several gateways share. Beside the event loop, like every store."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.accounts.records import (
    USAGE_FIELDS,
    KeyRecord,
    Usage,
    UsageKey,
    UsageTable,
    decode_key,
    encode_key,
    limits_of,
)
from gateway.accounts.store import Spent, spent_of
from gateway.settings import Limits
from plugins import ConfigurationError

PREFIX = "sluicegate:accounts"
PATIENCE_S = 2.0
KEEP_S = 400 * 86400
"""How long usage of a day is kept."""
_ADD = """
if ARGV[1] ~= '' then
  if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '-1') >= tonumber(ARGV[2]) then return 0 end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
for i = 3, #ARGV, 3 do
  redis.call('HINCRBY', ARGV[i], ARGV[i + 1], ARGV[i + 2])
  redis.call('EXPIRE', ARGV[i], %d)
end
return 1
"""


class RedisStore:
    """A `Store`. One server; the names of usage are made in the script, so no Cluster."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None

    def open(self) -> None:
        """Raises `ConfigurationError` where it cannot be reached: a gateway does not start without its books."""
        try:
            library = importlib.import_module("redis")
        except ImportError as error:
            raise ConfigurationError(
                "[accounts] url needs the package redis; pip install 'sluicegate[redis]'"
            ) from error
        try:
            self._client = library.from_url(
                self._url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S, protocol=2
            )
            self._client.ping()
        except (library.RedisError, ValueError, OSError) as error:
            raise ConfigurationError(f"[accounts] url cannot be reached: {type(error).__name__}") from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def version(self) -> str:
        return str(int(self._client.get(f"{PREFIX}:version") or 0))

    def keys(self) -> Sequence[KeyRecord]:
        return [decode_key(record) for record in self._client.hgetall(f"{PREFIX}:keys").values()]

    def teams(self) -> Mapping[str, Limits]:
        found = self._client.hgetall(f"{PREFIX}:teams")
        return {name.decode(): limits_of(orjson.loads(limits)) for name, limits in found.items()}

    def put_key(self, record: KeyRecord) -> None:
        self._put("keys", record.id, encode_key(record))

    def put_team(self, name: str, limits: Limits) -> None:
        self._put("teams", name, orjson.dumps(limits))

    def applied(self, journal: str) -> int:
        return int(self._client.hget(f"{PREFIX}:segments", journal) or 0)

    def add(self, journal: str, segment: int, table: UsageTable) -> None:
        arguments: list[Any] = [journal, segment]
        for key, usage in table.items():
            for name in USAGE_FIELDS:
                if amount := getattr(usage, name):
                    arguments += [f"{PREFIX}:usage:{key.day}", _field(key, name), amount]
        self._client.eval(_ADD % KEEP_S, 1, f"{PREFIX}:segments", *arguments)

    def usage(self, since: str, until: str) -> UsageTable:
        found: UsageTable = {}
        for name in sorted(self._client.scan_iter(match=f"{PREFIX}:usage:*", count=1000)):
            day = name.decode().rpartition(":")[2]
            if since <= day <= until:
                _read(day, self._client.hgetall(name), found)
        return found

    def spent(self, day: str) -> Spent:
        return spent_of(self.usage(f"{day[:7]}-01", f"{day[:7]}-31"), day)

    def _put(self, where: str, name: str, value: bytes) -> None:
        with self._client.pipeline(transaction=True) as together:
            together.hset(f"{PREFIX}:{where}", name, value)
            together.incr(f"{PREFIX}:version")
            together.execute()


def _field(key: UsageKey, name: str) -> bytes:
    return orjson.dumps([key.key_id, key.team, key.feature, key.model, name])


def _read(day: str, counts: Mapping[bytes, bytes], found: UsageTable) -> None:
    for field, count in counts.items():
        *names, name = orjson.loads(field)
        usage = found.setdefault(UsageKey(day, *names), Usage())
        setattr(usage, name, int(count))
