"""Answers in Redis (6.2 or newer, or Valkey), shared by all gateways that name the same server and prefix.

Keys, all of one tenant in one slot of a Cluster (`T` is a digest of the tenant's name):

    prefix:{T}:e:<digest>   string   an entry, with a time to live
    prefix:{T}:s            hash     the tenant's epochs, and `generation`, a random token
    prefix:{T}:r:<scope>    stream   rows of the semantic index; others read on from where they were
    prefix:{T}:v:<scope>    vector   the same rows where the server searches (`cache.stores.vector_sets`)
    prefix:tenants          set      every T

An entry carries the epochs that it was made under and is good only while the server's are the same. Should the server
lose the hash (eviction, restart without persistence), its token is gone and every entry of the tenant is a miss, never
a stale hit. Only plain commands are used: no module, no script.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sluicegate.cache.entries import (
    GENERATION,
    CacheEntry,
    Counts,
    IndexPoll,
    IndexRow,
    LookupResult,
    SimilarEntry,
    StoreTotals,
)
from sluicegate.cache.stores.codec import HEAD_BYTES, EntrySealer, decode_row, encode, encode_row, has_label, mark, read
from sluicegate.cache.stores.entry_check import MAX_ENTRY_BYTES, CorruptEntry
from sluicegate.cache.stores.memory import keepable
from sluicegate.cache.stores.redis_client import Tls, connect, why_of
from sluicegate.cache.stores.resilient_calls import ResilientCalls
from sluicegate.cache.stores.vector_sets import VectorSets
from sluicegate.plugins import Answer, CacheKey, Trouble
from sluicegate.plugins.errors import ConfigurationError, Overloaded

ROWS_A_LOOK = 200
MAX_EPOCHS = 500
"""A tenant that purged this many different labels starts afresh: its epochs travel with every look-up."""
PURGE_DEADLINE_S = 2.0
SKEW_S = 60.0
"""By how much clocks may differ. The server ends what is too old by its own, which may have been ahead, and set back
since: it keeps an answer for as long."""
SWEEP_DEADLINE_S = 30.0


class RedisStore:
    """One pipeline, one round trip a look-up. Used from one event loop."""

    def __init__(
        self,
        url: str,
        ttl_s: float,
        *,
        prefix: str = "sluicegate",
        tls: Tls | None = None,
        sealer: EntrySealer | None = None,
        deadline_s: float = 0.02,
        max_rows: int = 100_000,
        vector_sets: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a store; nothing is connected yet. `vector_sets`: let the server search, where it can; raises
        `ConfigurationError` together with a sealer."""
        if vector_sets and sealer is not None:
            raise ConfigurationError("recall.redis: search 'server' needs vectors in clear; leave secret_env out")
        self._client = connect(url, tls or Tls())
        self._ttl_ms = int(ttl_s * 1000)
        self._clock = clock
        self._prefix = prefix
        self._sealer = sealer
        self._max_rows = max_rows
        self._sets = VectorSets(self._client, max_rows) if vector_sets else None
        names = (
            "hits",
            "misses",
            "stored",
            "refused",
            "damaged",
            "withdrawn",
            "purged",
            "errors",
            "timeouts",
            "skipped",
        )
        self._counts = Counts({f"{name}_total": 0.0 for name in (*names, "opened")})
        self._calls = ResilientCalls(
            "Redis", self._client.ping, self._counts, deadline_s=deadline_s, explain=_explained
        )

    # --- what a request needs ----------------------------------------------------------------------------------

    async def get(self, key: CacheKey, feed: IndexPoll | None = None) -> LookupResult:
        look = await self._calls.call(lambda: self._get(key, feed), LookupResult(cursor=feed.cursor if feed else ""))
        self._counts.add("misses_total" if look.kept is None else "hits_total")
        return look

    async def put(
        self,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str = "",
        row: IndexRow | None = None,
    ) -> bool:
        if not keepable(kept.answers):
            self._counts.add("refused_total")
            return False
        stored = await self._calls.call(lambda: self._put(key, kept, epochs, scope, row), False)
        self._counts.add("stored_total" if stored else "refused_total")
        return stored

    async def drop(self, key: CacheKey) -> None:
        await self._calls.call(lambda: self._client.unlink(self._entry(key)), 0)

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        kept = (await self.get(key)).kept
        return None if kept is None else kept.answers

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        await self.put(key, CacheEntry(answers, self._clock()), None)

    @property
    def searches(self) -> bool:
        return self._sets is not None and self._sets.available

    async def nearest(self, tenant: str, scope: str, probe: IndexRow, floor: float, count: int) -> list[SimilarEntry]:
        sets = self._sets
        assert sets is not None
        name = self._set(tenant, scope)
        return await self._calls.call(lambda: sets.nearest(name, probe.vector, probe.facts, floor, count), [])

    async def forget(self, tenant: str, scope: str, digest: str) -> None:
        sets = self._sets
        assert sets is not None
        await self._calls.call(lambda: sets.remove(self._set(tenant, scope), digest), None)

    # --- what an operator needs --------------------------------------------------------------------------------

    async def purge(self, tenant: str | None, label: str | None) -> int:
        """Withdraw entries and return how many were deleted. Raises `Overloaded` where the server did not take the
        purge: nothing was withdrawn then, and it must be asked for again. Deleting what was withdrawn goes on for
        `SWEEP_DEADLINE_S` at most; the rest dies of age."""
        tags = [_tag(tenant)] if tenant is not None else None
        withdrawn = await self._calls.call(lambda: self._withdraw(tags, label), None, PURGE_DEADLINE_S)
        if withdrawn is None:
            raise Overloaded("Redis did not take the purge, nothing was withdrawn; ask again", retry_after_s=1)
        sweeps = [await self._calls.call(partial(self._sweep, tag, label), 0, SWEEP_DEADLINE_S) for tag in withdrawn]
        self._counts.add("purged_total", sum(sweeps))
        return sum(sweeps)

    async def held(self, tenants: Iterable[str]) -> list[StoreTotals] | None:
        """Return the entries by tenant alone: the names of entries hold nothing else. Return None where the server did
        not answer in time."""
        names = {_tag(name): name for name in tenants}
        return await self._calls.call(lambda: self._held(names), None, SWEEP_DEADLINE_S)

    def stats(self) -> Mapping[str, float]:
        state = {"open": float(self._calls.is_open), "vector_sets": float(self.searches)}
        return {**self._counts.values, **state}

    def troubles(self) -> Sequence[Trouble]:
        """Report a server that is not called after failures in a row."""
        if not self._calls.is_open:
            return ()
        return (Trouble("Redis fails again and again; answers are made anew until it is back"),)

    async def start(self) -> None:
        """Connect ahead of the first request. An unreachable server does not prevent the start."""
        await self._calls.call(self._client.ping, None, 1.0)
        if self._sets is not None:
            await self._calls.call(self._sets.detect, None, 1.0)

    async def close(self) -> None:
        await self._calls.close()
        await self._client.aclose()

    # --- the calls ---------------------------------------------------------------------------------------------

    async def _get(self, key: CacheKey, feed: IndexPoll | None) -> LookupResult:
        pipe = self._client.pipeline(transaction=False)
        pipe.getrange(self._entry(key), 0, MAX_ENTRY_BYTES)
        pipe.hgetall(self._state(_tag(key.tenant)))
        if feed is not None:
            after = f"({feed.cursor}" if feed.cursor else "-"
            pipe.xrange(self._rows(key.tenant, feed.scope), min=after, count=ROWS_A_LOOK)
        body, state, *streams = await pipe.execute(raise_on_error=False)
        epochs = await self._epochs(_tag(key.tenant), state)
        rows, cursor, more = self._read_rows(key.tenant, feed, streams)
        kept = self._read_entry(key, body, epochs) if epochs else None
        return LookupResult(kept, epochs or None, rows, cursor, more)

    async def _put(
        self, key: CacheKey, kept: CacheEntry, epochs: Mapping[str, str] | None, scope: str, row: IndexRow | None
    ) -> bool:
        if epochs is None:
            epochs = await self._epochs(_tag(key.tenant), await self._client.hgetall(self._state(_tag(key.tenant))))
        if not epochs:
            return False
        rows, body = self._rows(key.tenant, scope), encode(key, kept, epochs, self._sealer)
        if len(body) > MAX_ENTRY_BYTES:
            return False
        pipe = self._client.pipeline(transaction=False)
        pipe.set(self._entry(key), body, px=self._ttl_ms)
        if row is not None and not self.searches:
            data = encode_row(key.tenant, scope, row, self._sealer)
            pipe.xadd(rows, {"r": data}, maxlen=self._max_rows, approximate=True)
            pipe.pexpire(rows, self._ttl_ms)
        stored, *added = await pipe.execute(raise_on_error=False)
        if added and isinstance(added[0], Exception) and _is_wrong_type(added[0]):
            await self._client.unlink(rows)
        if row is not None and self._sets is not None and self._sets.available:
            await self._sets.add(self._set(key.tenant, scope), row, self._ttl_ms)
        return not isinstance(stored, Exception) and bool(stored)

    async def _epochs(self, tag: str, state: Any) -> dict[str, str]:
        """Return the epochs of a tenant. A tenant without a generation gets one, so that a purge during its first
        request is noticed too. Empty where the server is too full to keep it: nothing can be put then."""
        epochs = _texts(state)
        if GENERATION in epochs:
            return epochs
        if _is_wrong_type(state):
            self._counts.add("damaged_total")
            await self._client.unlink(self._state(tag))
        elif isinstance(state, Exception):
            raise state
        pipe = self._client.pipeline(transaction=False)
        pipe.sadd(f"{self._prefix}:tenants", tag)
        pipe.hsetnx(self._state(tag), GENERATION, os.urandom(8).hex())
        pipe.hgetall(self._state(tag))
        return _texts((await pipe.execute(raise_on_error=False))[2])

    async def _withdraw(self, tags: list[str] | None, label: str | None) -> list[str]:
        if tags is None:
            members = await self._client.smembers(f"{self._prefix}:tenants")
            tags = [member.decode("ascii", "replace") for member in members]
        for tag in tags:
            if label is None or await self._client.hlen(self._state(tag)) >= MAX_EPOCHS:
                await self._client.hset(self._state(tag), GENERATION, os.urandom(8).hex())
            else:
                await self._client.hincrby(self._state(tag), label, 1)
        return tags

    async def _sweep(self, tag: str, label: str | None) -> int:
        deleted, batch = 0, []
        async for name in self._client.scan_iter(match=f"{self._prefix}:{{{tag}}}:e:*", count=500):
            batch.append(name)
            if len(batch) >= 200:
                deleted += await self._delete(batch, label)
                batch = []
                await asyncio.sleep(0)
        if label is None:
            for kind in ("r", "v"):
                async for name in self._client.scan_iter(match=f"{self._prefix}:{{{tag}}}:{kind}:*", count=500):
                    await self._client.unlink(name)
        return deleted + await self._delete(batch, label)

    async def _delete(self, names: list[bytes], label: str | None) -> int:
        doomed = names
        if label is not None and names:
            pipe = self._client.pipeline(transaction=False)
            for name in names:
                pipe.getrange(name, 0, HEAD_BYTES)
            heads = await pipe.execute(raise_on_error=False)
            marked = mark(label)
            doomed = [
                n for n, head in zip(names, heads, strict=True) if isinstance(head, bytes) and has_label(head, marked)
            ]
        return int(await self._client.unlink(*doomed)) if doomed else 0

    async def _held(self, names: Mapping[str, str]) -> list[StoreTotals] | None:
        found: dict[str, int] = {}
        async for name in self._client.scan_iter(match=f"{self._prefix}:{{*}}:e:*", count=1000):
            tag = name.decode("ascii", "replace").removeprefix(f"{self._prefix}:{{").partition("}")[0]
            found[tag] = found.get(tag, 0) + 1
        return sorted(
            (StoreTotals(names.get(tag, f"digest {tag}"), "", count) for tag, count in found.items()),
            key=lambda held: held.tenant,
        )

    # --- reading replies ---------------------------------------------------------------------------------------

    def _read_entry(self, key: CacheKey, body: Any, epochs: Mapping[str, str]) -> CacheEntry | None:
        found = None if body == b"" else read(key, body, epochs, self._sealer, self._counts)
        if found is None or not -SKEW_S <= self._clock() - found.stored_at_s <= self._ttl_ms / 1000 + SKEW_S:
            return None
        return found

    def _read_rows(
        self, tenant: str, feed: IndexPoll | None, streams: list[Any]
    ) -> tuple[tuple[IndexRow, ...], str, bool]:
        if feed is None:
            return (), "", False
        if not isinstance(streams[0], list) or not streams[0]:
            return (), feed.cursor, False
        rows = []
        for _, fields in streams[0]:
            try:
                rows.append(decode_row(tenant, feed.scope, fields.get(b"r"), self._sealer))
            except CorruptEntry:
                self._counts.add("damaged_total")
        return tuple(rows), streams[0][-1][0].decode(), len(streams[0]) == ROWS_A_LOOK

    # --- names -------------------------------------------------------------------------------------------------

    def _entry(self, key: CacheKey) -> str:
        return f"{self._prefix}:{{{_tag(key.tenant)}}}:e:{key.digest}"

    def _state(self, tag: str) -> str:
        return f"{self._prefix}:{{{tag}}}:s"

    def _rows(self, tenant: str, scope: str) -> str:
        return f"{self._prefix}:{{{_tag(tenant)}}}:r:{scope}"

    def _set(self, tenant: str, scope: str) -> str:
        return f"{self._prefix}:{{{_tag(tenant)}}}:v:{scope}"


def _tag(tenant: str) -> str:
    return hashlib.blake2b(tenant.encode(), digest_size=16).hexdigest()


def _texts(state: Any) -> dict[str, str]:
    if not isinstance(state, dict):
        return {}
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in state.items()}


def _is_wrong_type(reply: Any) -> bool:
    return isinstance(reply, Exception) and str(reply).startswith("WRONGTYPE")


def _explained(error: BaseException) -> str:
    return f"{why_of(error)} [{error}]"
