"""Keys and usage in one Redis that several gateways share. Beside the event loop, like every store.

In a Cluster all names lie in one slot, so that scripts see what belongs together: one node keeps the accounts, and its
replica takes over. A slot is chosen by what stands in braces, which the names of one server do without.

Every script that writes carries an id and changes nothing when it comes again, so that one whose reply was lost is sent
again. What others wrote into our names is set aside (`sluicegate:accounts:set_aside`) and never stops the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sluicegate.cache.stores.redis_client import A_NODE, connect_blocking, why_of
from sluicegate.gateway.accounts.parsing import (
    ImplausibleRow,
    known_key,
    parse_rows,
    read_count,
    read_key,
    read_limits,
    read_usage,
)
from sluicegate.gateway.accounts.records import (
    USAGE_FIELDS,
    KeyRecord,
    UsageKey,
    UsageSum,
    UsageTable,
    encode_key,
    encode_limits,
)
from sluicegate.gateway.accounts.stores.base import ChangeKey, ImplausibleRows, Spent, Version, spent_of
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import ConfigurationError

PREFIX = "sluicegate:accounts"
IN_ONE_SLOT = f"{{{PREFIX}}}"
PATIENCE_S = 2.0
KEEP_S = 400 * 86400
"""How long usage of a day is kept."""
MARK_S = 86400
"""How long the number of the last flush of a gateway without a journal is kept, and the id of a change."""
FOR_ONE_PROCESS = "process:"
"""Prefix of the identity of a gateway without a journal: once it is gone, it leaves nothing that could be added
later."""
_DAY = re.compile(rb":usage:(\d{4}-\d\d-\d\d)\Z")
_ADD = """
local whole, last = ARGV[1] == '', nil
if whole then last = redis.call('GET', KEYS[1]) else last = redis.call('HGET', KEYS[1], ARGV[1]) end
if (tonumber(last or '-1') or -1) >= tonumber(ARGV[2]) then return 0 end
local bad, seen = 0, {}
local function aside(what)
  bad = bad + 1
  redis.call('RPUSH', KEYS[2], what)
  redis.call('LTRIM', KEYS[2], -1000, -1)
end
for i = 5, #ARGV, 3 do
  local name, field, amount = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if not seen[name] then
    seen[name] = true
    local kind = redis.call('TYPE', name).ok
    if kind ~= 'hash' and kind ~= 'none' then
      redis.call('RENAME', name, name .. ':damaged')
      aside(name .. ' was no hash')
    end
  end
  local done = redis.pcall('HINCRBY', name, field, amount)
  if type(done) == 'table' and done.err then
    aside(name .. ' ' .. field .. ' ' .. tostring(redis.call('HGET', name, field)) .. ': ' .. done.err)
    redis.call('HSET', name, field, amount)
  end
  redis.call('EXPIRE', name, ARGV[3])
end
if whole then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[4]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return bad
"""
_PUT = """
local name, value, id, origin, before = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]
if redis.call('EXISTS', KEYS[4]) == 1 then return 1 end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('RENAME', KEYS[1], KEYS[1] .. ':damaged') end
if before and (redis.call('HGET', KEYS[1], name) or '') ~= before then return 0 end
redis.call('SET', KEYS[3], origin, 'NX')
redis.call('HSET', KEYS[1], name, value)
redis.call('SET', KEYS[2], id)
redis.call('SET', KEYS[4], '1', 'EX', ARGV[5])
return 1
"""


def prefix_of(url: str) -> str:
    """Return what the names of accounts begin with there."""
    return IN_ONE_SLOT if url.partition("://")[0].endswith("+cluster") else PREFIX


def _is_node(client: Any) -> bool:
    """Return whether a server is a node of a Cluster; False where its user may not ask."""
    with contextlib.suppress(importlib.import_module("redis.exceptions").NoPermissionError):
        return bool(int(client.info("cluster").get("cluster_enabled", 0)))
    return False


class RedisAccountStore:
    """An `AccountStore`."""

    def __init__(self, url: str) -> None:
        self.set_aside = ImplausibleRows()
        self._url = url
        self._prefix = prefix_of(url)
        self._client: Any = None

    def open(self) -> None:
        """Connect to Redis. Raises `ConfigurationError` where it cannot be reached: a gateway does not start without
        its books."""
        library = importlib.import_module("redis")
        try:
            self._client = connect_blocking(self._url, patience_s=PATIENCE_S, retries=1)  # what is sent may come twice
            self._client.set(f"{self._prefix}:origin", os.urandom(8).hex(), nx=True)
            if self._prefix == PREFIX and _is_node(self._client):
                raise ConfigurationError(f"[accounts] url: Redis cannot be used: {A_NODE}")
        except (library.RedisError, ValueError, OSError) as error:
            raise ConfigurationError(f"[accounts] url: Redis cannot be reached or used: {why_of(error)}") from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def version(self) -> Version:
        with self._client.pipeline(transaction=True) as together:
            together.get(f"{self._prefix}:origin")
            together.get(f"{self._prefix}:version")
            together.hlen(f"{self._prefix}:keys")
            origin, change, count = together.execute()
        return Version(_text(origin), f"{_text(change)}:{count}")

    def keys(self) -> Sequence[KeyRecord]:
        found, strange = parse_rows(self._client.hgetall(f"{self._prefix}:keys").items(), read_key)
        self.set_aside.keys = strange
        return list(found.values())

    def teams(self) -> Mapping[str, Limits]:
        rows = self._client.hgetall(f"{self._prefix}:teams").items()
        found, strange = parse_rows(rows, lambda name, data: read_limits(data))
        self.set_aside.teams = strange
        return found

    def edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        while True:  # each turn beyond the first follows a change that somebody else made
            before = self._row("keys", key_id)
            record = change(known_key(key_id, before or None))
            if self._put("keys", key_id, encode_key(record), before):
                return record

    def put_team(self, name: str, limits: Limits) -> None:
        self._put("teams", name, encode_limits(limits))

    def applied(self, journal: str) -> int:
        return read_count(self._client.hget(f"{self._prefix}:segments", journal) or b"0") or 0

    def add(self, journal: str, segment: int, table: UsageTable) -> int:
        alone = journal.startswith(FOR_ONE_PROCESS)
        mark = f"{self._prefix}:flushed:{journal}" if alone else f"{self._prefix}:segments"
        arguments: list[Any] = ["" if alone else journal, segment, KEEP_S, MARK_S]
        for key, usage in table.items():
            for name in USAGE_FIELDS:
                if amount := getattr(usage, name):
                    arguments += [f"{self._prefix}:usage:{key.day}", _field(key, name), amount]
        return int(self._client.eval(_ADD, 2, mark, f"{self._prefix}:set_aside", *arguments))

    def usage(self, since: str, until: str) -> UsageTable:
        found: UsageTable = {}
        strange = 0
        for name in sorted(set(self._client.scan_iter(match=f"{self._prefix}:usage:*", count=1000, _type="hash"))):
            named = _DAY.search(name)
            if named is not None and since <= named[1].decode() <= until:
                strange += _read(named[1].decode(), self._client.hgetall(name), found)
        self.set_aside.usage = strange
        return found

    def spent(self, day: str) -> Spent:
        return spent_of(self.usage(f"{day[:7]}-01", f"{day[:7]}-31"), day)

    def _row(self, where: str, name: str) -> bytes:
        """Return what the table `where` has under a name; nothing where it is no table, which the next write sets
        aside."""
        table = f"{self._prefix}:{where}"
        found = self._client.hget(table, name) if self._client.type(table) == b"hash" else None
        return found if isinstance(found, bytes) else b""

    def _put(self, where: str, name: str, value: bytes, before: bytes | None = None) -> bool:
        """Write one value, and return whether it is written: not where another than `before` is there; None = any."""
        change = os.urandom(8).hex()
        names = [f"{self._prefix}:{last}" for last in (where, "version", "origin", f"change:{change}")]
        expected = () if before is None else (before,)
        return bool(self._client.eval(_PUT, 4, *names, name, value, change, os.urandom(8).hex(), MARK_S, *expected))


def _text(value: object) -> str:
    return value[:64].decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _field(key: UsageKey, name: str) -> bytes:
    return orjson.dumps([key.key_id, key.team, key.feature, key.model, name])


def _read(day: str, counts: Mapping[bytes, bytes], found: UsageTable) -> int:
    """Put what is plausible into `found`; how many fields were not."""
    strange = 0
    for field, value in counts.items():
        try:
            names, name, count = _row(field, value)
            key, _ = read_usage([day, *names], [0] * len(USAGE_FIELDS))
        except ImplausibleRow:
            strange += 1
            continue
        setattr(found.setdefault(key, UsageSum()), name, count)
    return strange


def _row(field: bytes, value: bytes) -> tuple[list[Any], str, int]:
    """Read a field and its value as (names after the day, which count, how many). Raises `ImplausibleRow`."""
    try:
        names = orjson.loads(field)
    except ValueError as error:
        raise ImplausibleRow("no JSON") from error
    count = read_count(value)
    if not isinstance(names, list) or len(names) != 5 or names[-1] not in USAGE_FIELDS or count is None:
        raise ImplausibleRow("no count of usage")
    return names[:-1], names[-1], count
