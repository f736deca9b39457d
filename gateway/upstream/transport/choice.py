"""Choose among several servers of one model: by the prompt's beginning, within a bound on load, else the least loaded.

A server that read the same beginning before has its keys and values in its prefix cache. The bound is that of
consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2018): nobody gets more than `SPREAD` times the
mean, however many prompts begin alike. Ties go by rendezvous hashing of the beginning, so that several gateways agree.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from sluicegate.gateway.upstream.transport.server import UpstreamServer

BLOCK = 512
"""Characters of a prompt that are remembered together."""
MOST_BLOCKS = 64
KEPT = 65_536
"""Beginnings that are remembered; the ones that were not met for longest are forgotten."""
SPREAD = 1.25


def beginnings(messages: Iterable[Mapping[str, object]]) -> list[bytes]:
    """Return a digest for each beginning of the prompt, shortest first; each stands for all before it."""
    text = "\1".join(f"{message.get('role')}\0{message.get('content')}" for message in messages)
    found: list[bytes] = []
    digest = b""
    for at in range(0, min(len(text), BLOCK * MOST_BLOCKS), BLOCK):
        block = text[at : at + BLOCK]
        if len(block) < BLOCK and found:
            break  # the last messages of a conversation grow: only whole blocks come again
        digest = hashlib.blake2b(digest + block.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found.append(digest)
    return found


class PrefixIndex:
    """Which servers have read which beginnings: a bit for each server."""

    def __init__(self) -> None:
        self._readers: OrderedDict[bytes, int] = OrderedDict()

    def read(self, digests: Sequence[bytes], server: int) -> None:
        for digest in digests:
            self._readers[digest] = self._readers.pop(digest, 0) | 1 << server
        while len(self._readers) > KEPT:
            self._readers.popitem(last=False)

    def forget(self, server: int) -> None:
        """Forget a server: it failed, and may come back with an empty cache."""
        for digest in self._readers:
            self._readers[digest] &= ~(1 << server)

    def readers(self, digest: bytes) -> int:
        return self._readers.get(digest, 0)


def choose(
    servers: Sequence[UpstreamServer], digests: Sequence[bytes], known: PrefixIndex | None
) -> tuple[UpstreamServer, str]:
    """Return one of `servers` and what decided, `prefix` or `load`. `known`: None = by load alone."""
    bound = math.ceil(SPREAD * (sum(server.load for server in servers) + 1) / len(servers))
    for digest in reversed(digests if known is not None else ()):
        readers = known.readers(digest) if known is not None else 0
        near = [s for s in servers if readers >> s.number & 1 and s.load < bound and not s.is_full]
        if near:
            return min(near, key=lambda server: server.load), "prefix"
    first = digests[0] if digests else random.randbytes(8)
    return min(servers, key=lambda server: (server.is_full, server.load, _rank(first, server))), "load"


def _rank(digest: bytes, server: UpstreamServer) -> bytes:
    return hashlib.blake2b(digest + server.address.encode(), digest_size=8).digest()
