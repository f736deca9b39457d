"""The response cache as the gateway uses it: exact first, then by meaning if asked, one generation for equal requests.

recall = await cache.recall(question)        found: serve it, after validation and rails
seat = await cache.flights.join(key)         not found: lead, or get what the leader makes
await cache.remember(question, answers, recall)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sluicegate.cache.entries import (
    CacheEntry,
    CountingStore,
    Counts,
    IndexPoll,
    IndexRow,
    LookupResult,
    SearchingStore,
    SimilarEntry,
    Store,
    StoreTotals,
    label,
)
from sluicegate.cache.lookup import CacheHit, CacheQuestion, Recall, SharedResult, found_in
from sluicegate.cache.semantic.judged.sameness import ServedSameness
from sluicegate.cache.semantic.model_embedders import ServedEmbedder
from sluicegate.cache.semantic.tier import Place, Probe, SemanticTier
from sluicegate.cache.single_flight import SingleFlight
from sluicegate.cache.stores.memory import keepable
from sluicegate.plugins import (
    Answer,
    CacheKey,
    Caller,
    Lifecycle,
    ResponseCache,
    StatsReporter,
    Trouble,
    TroubleReporter,
    Usage,
)
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.errors import NotFound, PermissionDenied

log = logging.getLogger("sluicegate.cache")
ADMIN_SCOPE = "admin"
NAMES = ("exact_hits", "semantic_hits", "misses", "stored", "refused", "embedder_errors", "false_hit_reports")


class TieredCache:
    """A `ResponseCache` with semantic look-up, purges and single flight. Used from one event loop."""

    def __init__(
        self,
        store: Store,
        semantic: SemanticTier | None = None,
        *,
        patience_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.flights: SingleFlight[SharedResult] = SingleFlight(patience_s)
        self._store = store
        self._semantic = semantic
        self._clock = clock
        self._counts = Counts({f"{name}_total": 0.0 for name in (*NAMES, "saved_tokens")})
        self._catching_up: dict[Place, asyncio.Task[None]] = {}

    @property
    def is_semantic(self) -> bool:
        return self._semantic is not None

    def is_semantic_for(self, model: str) -> bool:
        """Return whether requests for `model` use the semantic tier by default."""
        return self._semantic is not None and not self._semantic.models.isdisjoint((model, "*"))

    @property
    def served_embedder(self) -> ServedEmbedder | None:
        """Return the embedder to bind to a model that this gateway serves; None where the cache uses no such model."""
        embedder = None if self._semantic is None else self._semantic.embedder
        return embedder if isinstance(embedder, ServedEmbedder) else None

    @property
    def served_judge(self) -> ServedSameness | None:
        """Return the judge to bind to a model that this gateway serves; None where the cache uses no such model."""
        sameness = None if self._semantic is None else self._semantic.sameness
        judge = None if sameness is None else sameness.judge
        return judge if isinstance(judge, ServedSameness) else None

    async def recall(self, question: CacheQuestion) -> Recall:
        """Look the question up, exactly and then by meaning. Never raises into a request."""
        place = self._place(question)
        look = await self._store.get(question.key, self._feed(place))
        self._absorb(place, look, question.key)
        if look.kept is not None:
            return self._hit(Recall(found_in(look.kept, self._clock(), question.key.digest), look.epochs))
        recalled = Recall(None, look.epochs)
        if place is not None and look.epochs is not None:
            recalled = await self._by_meaning(question, place, recalled)
        return self._hit(recalled)

    async def remember(
        self, question: CacheQuestion, answers: tuple[Answer, ...], recall: Recall, usage: Usage | None = None
    ) -> bool:
        """Store complete answers, and return whether they were stored. Blocked, refused or truncated ones are not, nor
        any that were generated while one of their labels was purged. `usage`: tokens that they cost."""
        if not keepable(answers) or recall.epochs is None or recall.found is not None:
            self._counts.add("refused_total")
            return False
        place, row = self._place(question), None
        agreed = recall.trial is not None and self._semantic is not None and self._semantic.learn(recall.trial, answers)
        if recall.probe is not None and not agreed:
            row = IndexRow(question.key.digest, recall.probe.facts, recall.probe.vector)
        judged = row is not None and self._semantic is not None and self._semantic.sameness is not None
        text = question.text or "" if judged else ""
        kept = CacheEntry(answers, self._clock(), question.labels, usage or Usage(), text)
        stored = await self._store.put(question.key, kept, recall.epochs, place[1] if place else "", row)
        self._counts.add("stored_total" if stored else "refused_total")
        if stored and row is not None and place is not None and self._semantic is not None and self._searcher is None:
            self._semantic.add(place, row)
        return stored

    async def purge(self, by: Caller, *, tenant: str | None, label: str | None = None) -> int:
        """Withdraw entries of `tenant` (None: of all) with `label` (as `cache.label` writes it; None: all of them).
        A tenant may withdraw its own; anything else takes the scope `admin`. Returns how many were deleted at once;
        raises `PermissionDenied`, and `Overloaded` where the store did not take it."""
        _check_may(by, tenant)
        deleted = await self._store.purge(tenant, label)
        if self._semantic is not None and label is None:
            self._semantic.clear(tenant)
        return deleted

    async def report(self, by: Caller, key: CacheKey) -> None:
        """Remove an entry that was a wrong hit, and count it. `key.digest` is the hit's `entry`."""
        _check_may(by, key.tenant)
        self._counts.add("false_hit_reports_total")
        log.warning("a false hit was reported: tenant %s, entry %s", key.tenant, key.digest)
        await self.withdraw(key)

    async def withdraw(self, key: CacheKey) -> None:
        """Delete the entry, from the store and the semantic index."""
        await self._store.drop(key)
        if self._semantic is not None:
            self._semantic.forget(key.tenant, key.digest)

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        found = (await self.recall(CacheQuestion(key))).found
        return None if found is None else found.answers

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        await self._store.put(key, CacheEntry(answers, self._clock()), None)

    def stats(self) -> Mapping[str, float]:
        flights = {f"flights_{name}": value for name, value in self.flights.stats().items()}
        semantic = self._semantic.stats() if self._semantic is not None else {}
        return {
            **{f"store_{name}": value for name, value in self._store.stats().items()},
            **{f"semantic_{name}": value for name, value in semantic.items()},
            **flights,
            **self._counts.values,
        }

    async def held(self, tenants: Iterable[str]) -> list[StoreTotals] | None:
        """Return the entries by tenant and model; None where the store cannot count them."""
        return await self._store.held(tenants) if isinstance(self._store, CountingStore) else None

    def troubles(self) -> Sequence[Trouble]:
        return self._store.troubles() if isinstance(self._store, TroubleReporter) else ()

    async def start(self) -> None:
        if isinstance(self._store, Lifecycle):
            await self._store.start()
        if self._semantic is not None:
            await self._semantic.start()

    async def close(self) -> None:
        if self._semantic is not None:
            await self._semantic.close()
        await end_tasks(self._catching_up.values())
        if isinstance(self._store, Lifecycle):
            await self._store.close()

    # --- by meaning --------------------------------------------------------------------------------------------

    async def _by_meaning(self, question: CacheQuestion, place: Place, recalled: Recall) -> Recall:
        probe = await self._probe(question, place)
        if probe is None or self._semantic is None:
            return recalled
        recalled = replace(recalled, probe=probe)
        floor = self._semantic.threshold if question.threshold is None else question.threshold
        inquiry = self._semantic.inquiry(question.text or "", place[0])
        for near in await self._candidates(place, probe, floor):
            look = await self._store.get(replace(question.key, digest=near.digest))
            if look.kept is not None:
                if inquiry is not None and not await inquiry.same(look.kept.question, near.digest):
                    continue
                trial = self._semantic.trial(near, look.kept.answers)
                if trial is None:
                    return replace(recalled, found=found_in(look.kept, self._clock(), near.digest, near.score))
                return replace(recalled, trial=trial)
            if look.epochs is not None:  # the store answered: the entry is gone
                await self._forget(place, near.digest)
        return recalled

    async def _candidates(self, place: Place, probe: Probe, floor: float) -> Iterable[SimilarEntry]:
        """Return similar kept answers, nearest first."""
        assert self._semantic is not None
        if self._searcher is None:
            return self._semantic.nearest(place, probe, floor)
        row = IndexRow("", probe.facts, probe.vector)
        return await self._searcher.nearest(*place, row, floor, self._semantic.candidates)

    async def _forget(self, place: Place, digest: str) -> None:
        assert self._semantic is not None
        self._semantic.forget(place[0], digest, place[1])
        if self._searcher is not None:
            await self._searcher.forget(*place, digest)

    @property
    def _searcher(self) -> SearchingStore | None:
        return self._store if isinstance(self._store, SearchingStore) and self._store.searches else None

    async def _probe(self, question: CacheQuestion, place: Place) -> Probe | None:
        try:
            assert self._semantic is not None
            return await self._semantic.probe(question.text or "", place)
        except Exception:
            self._counts.add("embedder_errors_total")
            log.exception("the embedder of the semantic cache failed; the request goes on")
            return None

    def _place(self, question: CacheQuestion) -> Place | None:
        if self._semantic is None or question.text is None:
            return None
        return question.key.tenant, self._semantic.scope(question.scope)

    def _feed(self, place: Place | None) -> IndexPoll | None:
        here = place is not None and self._semantic is not None and self._searcher is None
        return self._semantic.feed(place) if here else None  # type: ignore[union-attr,arg-type]

    def _absorb(self, place: Place | None, look: LookupResult, key: CacheKey) -> None:
        """Add the rows of other gateways. A long backlog is read in the background."""
        if place is None or self._semantic is None:
            return
        self._semantic.absorb(place, look)
        if look.more and place not in self._catching_up:
            task = asyncio.create_task(self._catch_up(place, key))
            self._catching_up[place] = task
            task.add_done_callback(lambda _: self._catching_up.pop(place, None))

    async def _catch_up(self, place: Place, key: CacheKey) -> None:
        assert self._semantic is not None
        more = True
        while more:
            look = await self._store.get(key, self._semantic.feed(place))
            self._semantic.absorb(place, look)
            more = look.more
            await asyncio.sleep(0)

    def _hit(self, recalled: Recall) -> Recall:
        if recalled.found is None:
            self._counts.add("misses_total")
        else:
            self._counts.add(f"{recalled.found.kind}_hits_total")
            usage = recalled.found.usage
            self._counts.add("saved_tokens_total", usage.prompt_tokens + usage.completion_tokens)
        return recalled


def front(stage: ResponseCache | Store) -> TieredCache:
    """Return the stage in slot `recall` as a `TieredCache`: ours unchanged; a store, for exact answers only; a third
    party's `ResponseCache`, without ages, labels and purges."""
    if isinstance(stage, TieredCache):
        return stage
    if isinstance(stage, Store):
        return TieredCache(stage)
    return TieredCache(_CacheAsStore(stage))


class _CacheAsStore:
    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache

    async def get(self, key: CacheKey, feed: IndexPoll | None = None) -> LookupResult:
        answers = await self._cache.look_up(key)
        return LookupResult(None if answers is None else CacheEntry(answers, time.time()), {})

    async def put(
        self,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str = "",
        row: IndexRow | None = None,
    ) -> bool:
        await self._cache.store(key, kept.answers)
        return True

    async def drop(self, key: CacheKey) -> None:
        raise NotFound("this cache cannot withdraw single entries; wait for its time to live")

    async def purge(self, tenant: str | None, label: str | None) -> int:
        raise NotFound("this cache cannot withdraw entries; wait for its time to live")

    def stats(self) -> Mapping[str, float]:
        return self._cache.stats() if isinstance(self._cache, StatsReporter) else {}

    async def start(self) -> None:
        if isinstance(self._cache, Lifecycle):
            await self._cache.start()

    async def close(self) -> None:
        if isinstance(self._cache, Lifecycle):
            await self._cache.close()


def _check_may(by: Caller, tenant: str | None) -> None:
    if tenant != by.tenant and ADMIN_SCOPE not in by.scopes:
        whose = "every tenant's" if tenant is None else f"tenant {tenant!r}'s"
        raise PermissionDenied(f"{by.tenant!r} may withdraw its own entries, not {whose}; ask an operator")


__all__ = ["CacheHit", "TieredCache", "front", "label"]
