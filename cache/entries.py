"""Cache entries as stores keep and return them, and the labels by which they are withdrawn.

Withdrawal rests on *epochs*: each label of a tenant (a model version, a tag ...) has a counter that a purge raises. An
entry is valid while the counters of its labels equal those seen when its request was looked up, so an answer that was
being generated while a purge ran is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from sluicegate.plugins import Answer, CacheKey, Usage

Vector = npt.NDArray[np.float32]
LabelKind = Literal["model_version", "template_version", "rails", "tag"]
LABEL_KINDS: tuple[LabelKind, ...] = get_args(LabelKind)
MAX_TAGS = 32
NO_USAGE = Usage()
MAX_LABEL_CHARS = 256


def label(kind: LabelKind, value: str) -> str:
    return f"{kind}:{value}"


def labels_of(model_version: str, template_version: str, rails: str, tags: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the labels of an entry. Raises `ValueError` where there are more than `MAX_TAGS` tags or one is too long:
    every label costs a look-up."""
    wanted = sorted(set(tags))
    if len(wanted) > MAX_TAGS or any(len(tag) > MAX_LABEL_CHARS for tag in wanted):
        raise ValueError(f"at most {MAX_TAGS} tags of {MAX_LABEL_CHARS} characters each; send fewer or shorter ones")
    return (
        label("model_version", model_version),
        label("template_version", template_version),
        label("rails", rails),
        *(label("tag", tag) for tag in wanted),
    )


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A cache entry. `stored_at_s`: Unix time; `usage`: tokens that generating the answers cost, which a hit saves."""

    answers: tuple[Answer, ...]
    stored_at_s: float
    labels: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    question: str = ""
    """The question, if a judge may compare it with others; otherwise empty."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexRow:
    """A row of the semantic index: the digest of the entry that it leads to, the facts that the guard compares, and the
    unit vector, float32 [dim]."""

    digest: str
    facts: int
    """Unsigned 64-bit digest of the facts; the text itself is not kept."""
    vector: Vector


@dataclass(frozen=True, slots=True)
class IndexPoll:
    """A request for the rows of `scope` that other gateways added after `cursor`."""

    scope: str
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of a look-up in a store. `epochs`: the tenant's epochs now, to be passed to `put`; None means that the
    store did not answer and nothing should be put."""

    kept: CacheEntry | None = None
    epochs: Mapping[str, str] | None = None
    rows: tuple[IndexRow, ...] = ()
    cursor: str = ""
    more: bool = False
    """Whether rows were left for the next look-up."""


@dataclass(frozen=True, slots=True)
class SimilarEntry:
    """A kept answer to a similar prompt; `score` is the cosine."""

    digest: str
    score: float


@runtime_checkable
class SearchingStore(Protocol):
    """For stores that search the semantic index themselves. Neither call raises into a request."""

    @property
    def searches(self) -> bool:
        """Return whether the store searches. Where its server cannot, it feeds rows to the gateways, as other stores
        do."""

    async def nearest(self, tenant: str, scope: str, probe: IndexRow, floor: float, count: int) -> list[SimilarEntry]:
        """Return at most `count` rows with the facts of `probe` and a cosine of at least `floor`, nearest first."""

    async def forget(self, tenant: str, scope: str, digest: str) -> None:
        """Remove the row of an entry that no longer exists."""


@dataclass(frozen=True, slots=True)
class StoreTotals:
    """How much a store holds of one tenant and model. `bytes` None: unknown; `model` "": all models."""

    tenant: str
    model: str
    entries: int
    bytes: int | None = None


@runtime_checkable
class CountingStore(Protocol):
    """For stores that can count their entries by tenant."""

    async def held(self, tenants: Iterable[str]) -> list[StoreTotals] | None:
        """Return the entries by tenant and model; None where they cannot be counted now. `tenants`: known names, for a
        store that keeps only digests of names; entries of any other tenant are reported under its digest."""


@runtime_checkable
class Store(Protocol):
    """A cache store. `get`, `put` and `drop` never raise into a request: a store that fails returns an empty
    `LookupResult` or False, and counts the failure."""

    async def get(self, key: CacheKey, feed: IndexPoll | None = None) -> LookupResult: ...

    async def put(
        self,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str = "",
        row: IndexRow | None = None,
    ) -> bool:
        """Store an entry and return whether it was stored. `epochs` are those of the look-up; where a label's epoch has
        moved on since, nothing is stored. `row`, if any, is added to the rows of `scope`."""

    async def drop(self, key: CacheKey) -> None: ...

    async def purge(self, tenant: str | None, label: str | None) -> int:
        """Withdraw a tenant's entries (None: everyone's) with `label` (None: all), effective for every look-up that
        begins afterwards. Return how many entries were deleted by then. Raises `Overloaded` where nothing could be
        withdrawn."""

    def stats(self) -> Mapping[str, float]: ...


def same_epochs(labels: Iterable[str], one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one.get(name, "0") == other.get(name, "0") for name in (*labels, GENERATION))


GENERATION = "generation"
"""Label that all entries of a tenant have: purging it withdraws everything."""


@dataclass(slots=True)
class Counts:
    """Counters by name. Any thread may `add`; of two simultaneous additions one may be lost."""

    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1) -> None:
        self.values[name] = self.values.get(name, 0) + amount
