"""The one script by which gateways share limits. It runs inside Redis, by Redis' own clock, and is safe to send twice.

KEYS[1] is a hash for one limit of one key or team:

    label/gateway   what that gateway has of the slot, day or month `label` (of seats: the label is empty)
    @gateway        the last question of that gateway, and its answer

A question has a number. One that comes again gets the answer that it got; one that is older than the last changes
nothing. So a gateway that had no answer asks the same again until it has one, and nothing stays taken that nobody knows
of. A gateway that is not known here says what it has (`totals`): a Redis that lost everything learns it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SLOT_S = 5
ALIVE_S = 15.0
MOST = 10**12
"""Largest value of a field of requests, tokens or seats; no limit is higher."""
MOST_MONEY = 10**22
_LEASE = """
local me, seq, mode, label = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local want, least, limit = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local alive, oldest_label, returns = ARGV[8], ARGV[10], tonumber(ARGV[11])
local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local slot, bad = math.floor(tonumber(clock[1]) / <slot>), 0
redis.call('SET', alive .. me, '1', 'PX', ARGV[9])
local function count(text)
  local found = text and string.match(text, '^%d+$') and tonumber(text)
  if found and found <= (mode == 'money' and <most money> or <most>) then return found end
end
local function lasts(of) return (tonumber(of) + 2) * <slot>000 - now_ms end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('RENAME', KEYS[1], KEYS[1] .. ':damaged')
  bad = 1
end
if mode == 'rate' then label = string.format('%d', slot) end
local function put(of, amount)
  if amount > 0 then redis.call('HSET', KEYS[1], of .. '/' .. me, string.format('%.0f', amount))
  else redis.call('HDEL', KEYS[1], of .. '/' .. me) end
end
local function have(of) return count(redis.call('HGET', KEYS[1], of .. '/' .. me)) or 0 end
local known = false
local last = redis.call('HGET', KEYS[1], '@' .. me)
if last then
  local s, grant, left, oldest, of = string.match(last, '^(%d+) (%d+) (-?%d+) (%d+) (%S*)$')
  if s then
    known = true
    if tonumber(s) >= seq then
      if tonumber(s) > seq then grant, left = '0', '0' end
      return {grant, left, oldest, of, mode == 'rate' and lasts(of) or 0, bad}
    end
  end
end
for i = 12, #ARGV, 2 do
  local of, amount = ARGV[i], tonumber(ARGV[i + 1])
  local returned = i < 12 + 2 * returns
  if known and returned then put(of, have(of) - amount)
  elseif not known and not returned then put(of, amount) end
end
local sum, oldest = 0, slot
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local field, amount = flat[i], count(flat[i + 1])
  local of, who = string.match(field, '^([^/@]*)/(%x+)$')
  local asker = string.match(field, '^@(%x+)$')
  local gone = false
  if asker then gone = asker ~= me and redis.call('EXISTS', alive .. asker) == 0
  elseif not who or not amount then gone, bad = true, bad + 1
  elseif mode == 'rate' then
    local s = tonumber(of)
    if not s or s > slot + 1 then gone, bad = true, bad + 1
    elseif s < slot - 13 then gone = true
    else
      sum = sum + amount
      if s < oldest then oldest = s end
    end
  elseif mode == 'seats' then
    if who ~= me and redis.call('EXISTS', alive .. who) == 0 then gone = true else sum = sum + amount end
  elseif of == label then sum = sum + amount
  elseif of < oldest_label then gone = true end
  if gone then redis.call('HDEL', KEYS[1], field) end
end
local grant = math.max(0, math.min(want, limit - sum))
if grant < least then grant = 0 end
if grant > 0 then put(label, have(label) + grant) end
local left = limit - sum - grant
local answer = string.format('%.0f %.0f %.0f %.0f %s', seq, grant, left, oldest, label)
redis.call('HSET', KEYS[1], '@' .. me, answer)
redis.call('EXPIRE', KEYS[1], mode == 'money' and 3456000 or mode == 'seats' and 86400 or 90)
return {string.format('%.0f', grant), string.format('%.0f', left), string.format('%.0f', oldest), label,
        mode == 'rate' and lasts(label) or 0, bad}
"""
LEASE = _LEASE.replace("<slot>", str(SLOT_S)).replace("<most money>", f"{MOST_MONEY:.0f}").replace("<most>", str(MOST))
KNOWN_S = 86_400
RENEW = f"""
local known = redis.call('SET', KEYS[2], '1', 'EX', {KNOWN_S}, 'NX')
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return known and 1 or 0
"""
"""Renews the presence of a gateway, and returns 1 where it is not known here, not even as one that was gone for a
while: this Redis is new, or has lost everything."""
COUNT_SPENT = """
local label, spent, base, others = ARGV[1], tonumber(ARGV[2]), 0, 0
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then return end
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local of, who = string.match(flat[i], '^([^/@]*)/(%x+)$')
  if of == label and who == '0' then base = tonumber(flat[i + 1]) or 0
  elseif of == label then others = others + (tonumber(flat[i + 1]) or 0) end
end
if spent - others > base then redis.call('HSET', KEYS[1], label .. '/0', string.format('%.0f', spent - others)) end
redis.call('EXPIRE', KEYS[1], 3456000)
"""
"""Counts what was spent before there was a budget as the holding of a gateway `0`, so that all holdings together are
never less than what the books know. Safe to send twice."""


@dataclass(frozen=True, slots=True)
class LeaseQuestion:
    """Sent as it is until it is answered. `returns` is what is given back, by label; `totals` what the gateway has by
    label, with that taken off."""

    seq: int
    mode: str
    label: str
    want: int
    least: int
    limit: int
    oldest_label: str
    returns: Sequence[tuple[str, int]]
    totals: Mapping[str, int]

    def arguments(self, me: str, alive_prefix: str) -> list[object]:
        pairs = [*self.returns, *self.totals.items()]
        head: list[object] = [me, self.seq, self.mode, self.label, self.want, self.least, self.limit]
        tail: list[object] = [alive_prefix, int(ALIVE_S * 1000), self.oldest_label, len(self.returns)]
        return [*head, *tail, *(part for pair in pairs for part in pair)]


@dataclass(frozen=True, slots=True)
class LeaseReply:
    """`rest` is left of the whole limit, `oldest` the oldest slot that counts, `lasts_s` how long a slot's grant is
    good, `strange` how many fields were none of ours."""

    grant: int
    rest: int
    oldest: int
    label: str
    lasts_s: float
    strange: int


def read_reply(parts: object, question: LeaseQuestion) -> LeaseReply:
    """Read what the script replied to `question`. Raises `ValueError` for what the script cannot have said."""
    if not isinstance(parts, list) or len(parts) != 6:
        raise ValueError("a reply of another shape")
    grant, rest, oldest, _, lasts_ms, strange = [int(part) if at != 3 else 0 for at, part in enumerate(parts)]
    label = parts[3].decode("ascii") if isinstance(parts[3], bytes) else str(parts[3])
    if not 0 <= grant <= question.want:
        raise ValueError("a grant that nobody asked for")
    if question.mode == "rate" and not label.isdigit():
        raise ValueError("a slot that is none")
    return LeaseReply(grant, rest, oldest, label, lasts_ms / 1000, strange)
