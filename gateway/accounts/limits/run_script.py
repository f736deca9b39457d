"""Runs that several gateways count together in Redis, by two scripts and Redis' own clock; both are safe to send twice.

    PREFIX:run:OWNER:RUN   hash     calls, tokens, nanos, began (ms); @TICKET "tokens nanos" of a request that runs, or
                                    "gone" of one that was given back
    PREFIX:runs:OWNER      sorted   runs by when they were last heard of, in ms

What is there and cannot be read is not believed: the run is refused until it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sluicegate.cache.stores.redis_client import Tls, connect, evaluate
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.presence import PATIENCE_S
from sluicegate.gateway.accounts.limits.run_store import (
    IDLE_S,
    MOST_RUNS,
    RunBounds,
    RunSettlement,
    RunShare,
    RunStanding,
    answering,
    read_standing,
)
from sluicegate.gateway.accounts.stores.redis import prefix_of

T = TypeVar("T")
_TAKE = """
local run, runs, member, ticket = KEYS[1], KEYS[2], ARGV[1], '@' .. ARGV[2]
local more = {calls = 1, tokens = tonumber(ARGV[3]), nanos = tonumber(ARGV[4])}
local most = {calls = tonumber(ARGV[5]), tokens = tonumber(ARGV[6]), nanos = tonumber(ARGV[7])}
local longest, idle, most_runs = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local function is(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end
if not is(run, 'hash') or not is(runs, 'zset') then return {'damaged', 0, 0, 0, 0} end
local used, began = {}, redis.call('HGET', run, 'began') or tostring(now)
for _, what in ipairs({'calls', 'tokens', 'nanos'}) do
  local text = redis.call('HGET', run, what) or '0'
  used[what] = string.match(text, '^-?%d+$') and tonumber(text)
  if not used[what] then return {'damaged', 0, 0, 0, 0} end
end
began = string.match(began, '^%d+$') and tonumber(began)
if not began then return {'damaged', 0, 0, 0, 0} end
local function answer(said)
  return {said, string.format('%.0f', used.calls), string.format('%.0f', used.tokens),
          string.format('%.0f', used.nanos), string.format('%.0f', now - began)}
end
local before = redis.call('HGET', run, ticket)
if before then return answer(before == 'gone' and 'late' or 'taken') end
redis.call('ZREMRANGEBYSCORE', runs, '-inf', now - idle)
if not redis.call('ZSCORE', runs, member) and redis.call('ZCARD', runs) >= most_runs then return answer('runs') end
if longest >= 0 and now - began > longest then return answer('time') end
for _, what in ipairs({'calls', 'tokens', 'nanos'}) do
  if most[what] >= 0 and used[what] + more[what] > most[what] then return answer(what) end
end
redis.call('HSETNX', run, 'began', string.format('%.0f', now))
for what, amount in pairs(more) do redis.call('HINCRBY', run, what, string.format('%.0f', amount)) end
redis.call('HSET', run, ticket, ARGV[3] .. ' ' .. ARGV[4])
redis.call('PEXPIRE', run, idle)
redis.call('ZADD', runs, now, member)
redis.call('PEXPIRE', runs, idle)
return answer('taken')
"""
_SETTLE = """
local run, ticket = KEYS[1], '@' .. ARGV[1]
local found = redis.call('TYPE', run).ok
if found ~= 'hash' and found ~= 'none' then return 0 end
local tokens, nanos = string.match(redis.call('HGET', run, ticket) or '', '^(%d+) (%d+)$')
local dropped = ARGV[4] == '1'
if tokens then
  redis.pcall('HINCRBY', run, 'tokens', string.format('%.0f', tonumber(ARGV[2]) - tonumber(tokens)))
  redis.pcall('HINCRBY', run, 'nanos', string.format('%.0f', tonumber(ARGV[3]) - tonumber(nanos)))
  if dropped then redis.pcall('HINCRBY', run, 'calls', -1) end
end
if ARGV[5] == '1' then
  redis.call('HSET', run, ticket, 'gone')
  if redis.call('PTTL', run) < 0 then redis.call('PEXPIRE', run, ARGV[6]) end
else redis.call('HDEL', run, ticket) end
return 1
"""


class RedisRuns:
    """A `RunStore`."""

    def __init__(self, url: str, health: Health) -> None:
        """Keep the address; nothing is connected yet."""
        self._url = url
        self._prefix = prefix_of(url)
        self._health = health
        self._client: Any = None

    async def take(self, share: RunShare, bounds: RunBounds) -> RunStanding:
        keys = (self._key(share), f"{self._prefix}:runs:{share.owner}")
        most = (bounds.calls, bounds.tokens, bounds.nanos, bounds.ms, int(IDLE_S * 1000), MOST_RUNS)
        parts = (_TAKE, 2, *keys, share.run, share.ticket, share.tokens, share.nanos, *most)
        return await self._asked(parts, read_standing)

    async def settle(self, settlement: RunSettlement) -> None:
        share = settlement.share
        used = (settlement.tokens, settlement.nanos, int(settlement.dropped), int(settlement.lost), int(IDLE_S * 1000))
        await self._asked((_SETTLE, 1, self._key(share), share.ticket, *used), int)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _asked(self, parts: tuple[Any, ...], read: Callable[[Any], T]) -> T:
        if self._client is None:
            self._client = connect(self._url, Tls(), retries=0)
        with answering(self._health):
            return read(await evaluate(self._client, parts, PATIENCE_S))

    def _key(self, share: RunShare) -> str:
        return f"{self._prefix}:run:{share.owner}:{share.run}"
