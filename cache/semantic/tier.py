"""The semantic tier: partitions by hard scope, the guard, the threshold and, where asked for, verified mode."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluicegate.cache.entries import Counts, IndexPoll, IndexRow, LookupResult, SimilarEntry, Vector
from sluicegate.cache.semantic.embedder import Embedder
from sluicegate.cache.semantic.fact_guard import Guard, facts_digest, signature
from sluicegate.cache.semantic.index import Partition, warm_up
from sluicegate.cache.semantic.judged.protected import judged_digest
from sluicegate.cache.semantic.judged.sameness import Inquiry, Sameness
from sluicegate.cache.semantic.verified import Judge, VerifiedMode, same_answers
from sluicegate.plugins import Answer, Lifecycle

DECIDED_THRESHOLD = 0.0
"""Least cosine where the guard decides by equal wording: questions in other words may have no n-gram in common."""
JUDGED_THRESHOLD = 0.1
"""Least cosine of hashed n-grams for asking a judge: most questions in other words share a word or a sense."""
CANDIDATES = 3
"""Most similar rows tried in one look-up; a row may outlive its entry."""
JUDGED_CANDIDATES = 12
"""The same with a judge: most rows that are near are near misses, which rules refuse before it is asked."""
Place = tuple[str, str]
"""(tenant, scope)."""


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A prompt as this tier compares it: its unit vector, float32 [dim], and the unsigned 64-bit digest of its
    facts."""

    vector: Vector
    facts: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A near answer that was not served, to be compared with the fresh one."""

    near: SimilarEntry
    answers: tuple[Answer, ...]
    chance: float
    """With which it would have been served."""


class SemanticTier:
    """Used from one event loop; a search blocks it for well under the 8 ms that 100,000 rows may take."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        threshold: float | None = None,
        guard: Guard = "words",
        verified: VerifiedMode | None = None,
        judge: Judge = same_answers,
        sameness: Sameness | None = None,
        max_rows_a_scope: int = 100_000,
        max_rows: int = 400_000,
        models: Iterable[str] = (),
    ) -> None:
        """Make an empty tier. `sameness`: judge of questions whose wordings `guard` finds unequal. `models`: those
        whose requests use this tier unless they decline; "*" = all."""
        self.models = frozenset(models)
        by_words = guard == "words" or sameness is not None
        decided = DECIDED_THRESHOLD if sameness is None else JUDGED_THRESHOLD
        usual = min(embedder.threshold, decided) if by_words else embedder.threshold
        self.threshold = usual if threshold is None else threshold
        self.sameness = sameness
        self._embedder = embedder
        self._guard = guard
        self._verified = verified
        self._judge = judge
        self._max_rows_a_scope = max_rows_a_scope
        self._max_rows = max_rows
        self._partitions: OrderedDict[Place, Partition] = OrderedDict()
        self._cursors: dict[Place, str] = {}
        self._counts = Counts(dict.fromkeys(("not_comparable_total", "trials_total", "trials_agreed_total"), 0.0))

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    async def start(self) -> None:
        await asyncio.to_thread(signature, "How do I begin?")  # compiles its patterns, reads its synonyms
        if isinstance(self._embedder, Lifecycle):
            await self._embedder.start()
        if self._embedder.dim:
            await asyncio.to_thread(warm_up, self._embedder.dim)

    async def close(self) -> None:
        if self.sameness is not None:
            await self.sameness.close()
        if isinstance(self._embedder, Lifecycle):
            await self._embedder.close()

    def scope(self, scope: str) -> str:
        """Return the scope for stores; it differs by embedder and guard, so that their rows never mix."""
        return scope_key(scope, self._embedder.name, self._guard if self.sameness is None else "judged")

    async def probe(self, text: str, place: Place) -> Probe | None:
        """Return the probe for a text; None where the text cannot be compared by meaning. Raises what the embedder
        raises."""
        facts = facts_digest(text, place[1], self._guard) if self.sameness is None else judged_digest(text, place[1])
        if facts is None:
            self._counts.add("not_comparable_total")
            return None
        return Probe(await self._embedder.embed(text), facts)

    def feed(self, place: Place) -> IndexPoll:
        return IndexPoll(place[1], self._cursors.get(place, ""))

    def absorb(self, place: Place, look: LookupResult) -> None:
        """Add rows from other gateways and advance the cursor."""
        for row in look.rows:
            self.add(place, row)
        if look.cursor and place in self._partitions:
            self._cursors[place] = look.cursor

    def add(self, place: Place, row: IndexRow) -> None:
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = Partition(len(row.vector), self._max_rows_a_scope)
        partition.add(row)
        self._partitions.move_to_end(place)
        while sum(map(len, self._partitions.values())) > self._max_rows and len(self._partitions) > 1:
            gone, _ = self._partitions.popitem(last=False)
            self._cursors.pop(gone, None)

    def nearest(self, place: Place, probe: Probe, floor: float) -> Iterator[SimilarEntry]:
        """Yield the nearest rows, `candidates` at most, nearest first. With a judge one search finds them all; without
        one the first row nearly always serves, so that each is searched for when it is wanted."""
        partition = self._partitions.get(place)
        if partition is None:
            return
        self._partitions.move_to_end(place)
        if self.sameness is not None:
            yield from partition.nearest_few(probe.vector, probe.facts, floor, self.candidates)
            return
        tried: list[str] = []
        while len(tried) < self.candidates:
            found = partition.nearest(probe.vector, probe.facts, floor, tried)
            if found is None:
                return
            tried.append(found.digest)
            yield found

    @property
    def candidates(self) -> int:
        return CANDIDATES if self.sameness is None else JUDGED_CANDIDATES

    def inquiry(self, asked: str, tenant: str) -> Inquiry | None:
        """Return what judges kept questions beside the one asked; None without a judge, where equal digests
        suffice."""
        return None if self.sameness is None else self.sameness.inquiry(asked, tenant)

    def trial(self, near: SimilarEntry, answers: tuple[Answer, ...]) -> Trial | None:
        """Return the trial that a near answer has to stand; None where it is served."""
        chance = None if self._verified is None else self._verified.decide(near.digest, near.score)
        if chance is None:
            return None
        self._counts.add("trials_total")
        return Trial(near, answers, chance)

    def learn(self, trial: Trial, fresh: tuple[Answer, ...]) -> bool:
        """Record whether the fresh answer equals the kept one, and return it."""
        right = self._judge(trial.answers, fresh)
        self._counts.add("trials_agreed_total", right)
        if self._verified is not None:
            self._verified.learn(trial.near.digest, trial.near.score, right, trial.chance)
        return right

    def forget(self, tenant: str, digest: str, scope: str | None = None) -> None:
        """Remove the row of one entry, in one scope or (None) in all of the tenant's."""
        for place, partition in self._partitions.items():
            if place[0] == tenant and scope in (None, place[1]):
                partition.remove(digest)
        if self._verified is not None:
            self._verified.forget(digest)

    def clear(self, tenant: str | None) -> None:
        for place in [place for place in self._partitions if tenant in (None, place[0])]:
            del self._partitions[place]
            self._cursors.pop(place, None)

    def stats(self) -> Mapping[str, float]:
        rows = sum(map(len, self._partitions.values()))
        size = sum(partition.nbytes for partition in self._partitions.values())
        judged = {} if self.sameness is None else self.sameness.stats()
        return {**self._counts.values, **judged, "rows": rows, "scopes": len(self._partitions), "row_bytes": size}


def scope_key(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()
