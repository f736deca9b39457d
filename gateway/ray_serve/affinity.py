"""Which replicas have read which beginnings of prompts, and the order in which they are asked."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from sluicegate.gateway.upstream.transport.choice import KEPT, SPREAD

R = TypeVar("R", bound=Hashable)


class PrefixAffinity(Generic[R]):
    """The rule of `upstream/transport/choice.py` for replicas that come and go."""

    def __init__(self) -> None:
        self._readers: OrderedDict[bytes, set[R]] = OrderedDict()

    def read(self, digests: Sequence[bytes], replica: R) -> None:
        """Note that `replica` reads these beginnings."""
        for digest in digests:
            readers = self._readers.pop(digest, set())
            self._readers[digest] = readers | {replica}
        while len(self._readers) > KEPT:
            self._readers.popitem(last=False)

    def forget(self, replica: R) -> None:
        for readers in self._readers.values():
            readers.discard(replica)

    def keep(self, replicas: Collection[R]) -> None:
        """Forget all but these."""
        for readers in self._readers.values():
            readers.intersection_update(replicas)

    def order(self, loads: Mapping[R, int], digests: Sequence[bytes]) -> list[R]:
        """Return the replicas of `loads`, the one to ask first. `digests`: shortest beginning first."""
        if not loads:
            return []
        bound = math.ceil(SPREAD * (sum(loads.values()) + 1) / len(loads))
        near: set[R] = set()
        for digest in reversed(digests):
            near = {one for one in self._readers.get(digest, ()) if loads.get(one, bound) < bound}
            if near:
                break
        first = digests[0] if digests else b""
        return sorted(loads, key=lambda one: (one not in near, loads[one], _rank(first, one)))


def _rank(digest: bytes, replica: Hashable) -> bytes:
    """Rank a replica by rendezvous hashing, so that ties go to the same replica in every gateway."""
    return hashlib.blake2b(digest + str(replica).encode(), digest_size=8).digest()
