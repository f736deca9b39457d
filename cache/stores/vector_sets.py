"""Redis' vector sets (VADD, VSIM; Redis 8): the server searches, so a scope may be larger than a gateway's memory.

One set a scope, one element a kept answer: its digest, its vector, and its facts as an attribute that the search
filters by. An element may outlive its entry; whoever meets one removes it.

Not covered: exactness. The server's HNSW graph over 8-bit vectors may miss a near row (a miss, never a wrong hit: the
cosine is that of the element found, and the facts are equal). Vectors cannot be sealed, or nothing could be compared.
Source of the graph: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search" (2016).
"""

from __future__ import annotations

import logging
from typing import Any

import orjson

from sluicegate.cache.entries import IndexRow, SimilarEntry, Vector

log = logging.getLogger("sluicegate.cache")


class VectorSets:
    """Commands on a client of `cache.stores.redis_client`; deadlines are the caller's."""

    def __init__(self, client: Any, max_rows: int) -> None:
        self.available = True
        """False once the server has rejected the commands."""
        self._client = client
        self._max_rows = max_rows

    async def detect(self) -> None:
        found = await self._client.execute_command("COMMAND", "INFO", "VSIM")
        if not any(found.values() if isinstance(found, dict) else found):
            self._give_up()

    async def add(self, name: str, row: IndexRow, ttl_ms: int) -> None:
        """Add a row. A full set takes no more: its oldest element cannot be determined."""
        facts = orjson.dumps({"f": f"{row.facts:016x}"}).decode()
        blob = row.vector.astype("<f4").tobytes()
        pipe = self._client.pipeline(transaction=False)
        pipe.execute_command("VCARD", name)
        pipe.execute_command("PEXPIRE", name, ttl_ms)
        count, _ = await pipe.execute(raise_on_error=False)
        if self._is_unknown(count) or (isinstance(count, int) and count >= self._max_rows):
            return
        added = await self._try("VADD", name, "FP32", blob, row.digest, "SETATTR", facts)
        if count == 0 and added is not None:
            await self._client.pexpire(name, ttl_ms)

    async def nearest(self, name: str, vector: Vector, facts: int, floor: float, count: int) -> list[SimilarEntry]:
        """Return at most `count` rows, nearest first, of equal facts and a cosine of at least `floor`."""
        blob = vector.astype("<f4").tobytes()
        equal = f'.f == "{facts:016x}"'
        found = await self._try("VSIM", name, "FP32", blob, "WITHSCORES", "COUNT", count, "FILTER", equal)
        pairs = zip(found[::2], found[1::2], strict=True) if found else ()
        near = [
            SimilarEntry(digest.decode("ascii", "replace"), min(1.0, 2 * float(score) - 1)) for digest, score in pairs
        ]
        return [one for one in near if one.score >= floor]

    async def remove(self, name: str, digest: str) -> None:
        await self._try("VREM", name, digest)

    async def _try(self, *command: Any) -> Any:
        """Send a command. Return None where the server does not know it; raise its other errors."""
        import redis.exceptions

        try:
            return await self._client.execute_command(*command)
        except redis.exceptions.ResponseError as error:
            if self._is_unknown(error):
                return None
            raise

    def _is_unknown(self, reply: Any) -> bool:
        unknown = isinstance(reply, Exception) and "unknown command" in str(reply).lower()
        if unknown:
            self._give_up()
        return unknown

    def _give_up(self) -> None:
        if self.available:
            log.warning("this Redis has no vector sets (they came with Redis 8); answers by meaning are searched here")
        self.available = False
