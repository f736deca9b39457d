"""What a store keeps and hands back, and what an entry can be withdrawn by.

Withdrawal rests on *epochs*: each label of a tenant (a model version, a tag ...) has a counter that a purge raises. An
entry is good while the counters of its labels are those that its request saw when it was looked up, so that an answer
which was being generated while a purge ran is not kept past it.
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
class Kept:
    """An entry. `stored_at_s` is Unix time; `usage` what making the answers cost, which is what a hit saves."""

    answers: tuple[Answer, ...]
    stored_at_s: float
    labels: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    question: str = ""
    """What was asked, where a model judges whether another question is the same; else nothing is kept of it."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexRow:
    """A point of the semantic index: whose answer it leads to, what the fact guard compares, and the unit vector."""

    digest: str
    facts: int
    """Unsigned 64-bit digest of the facts; the text itself is not kept."""
    vector: Vector


@dataclass(frozen=True, slots=True)
class Feed:
    """Asks a store that others write to as well for the rows of a scope that came after `cursor`."""

    scope: str
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What a store answered. `epochs` is the tenant's state as of now, to be given to `put`; None means that the store
    did not answer and nothing should be put."""

    kept: Kept | None = None
    epochs: Mapping[str, str] | None = None
    rows: tuple[IndexRow, ...] = ()
    cursor: str = ""
    more: bool = False
    """Rows were left for the next look-up."""


@dataclass(frozen=True, slots=True)
class Near:
    """A kept answer whose prompt is near; `score` is the cosine."""

    digest: str
    score: float


@runtime_checkable
class Searching(Protocol):
    """Optional for stores: one that searches its rows itself. Neither call raises into a request."""

    @property
    def searches(self) -> bool:
        """Return whether the store searches. Where it turns out that it cannot, rows are fed to the gateways, as every
        other store does."""

    async def nearest(self, tenant: str, scope: str, probe: IndexRow, floor: float, count: int) -> list[Near]:
        """Return at most `count` rows with the facts of `probe` and a cosine of at least `floor`, nearest first."""

    async def forget(self, tenant: str, scope: str, digest: str) -> None:
        """Forget the row of an entry that is gone."""


@dataclass(frozen=True, slots=True)
class HeldEntries:
    """How much a store keeps for one tenant and model; `bytes` None where it does not know. `model` "" = all models."""

    tenant: str
    model: str
    entries: int
    bytes: int | None = None


@runtime_checkable
class CountingStore(Protocol):
    """Optional for stores: one that can say whose entries it holds."""

    async def held(self, tenants: Iterable[str]) -> list[HeldEntries] | None:
        """Return the entries by tenant and model; None where they cannot be counted now. `tenants`: the names that are
        known here, for a store that keeps digests of names only. What belongs to none of them is reported under its
        digest."""


@runtime_checkable
class Store(Protocol):
    """Where answers lie. `get`, `put` and `drop` never raise into a request: a store that fails answers an empty
    `Look` or False, and counts it."""

    async def get(self, key: CacheKey, feed: Feed | None = None) -> Look: ...

    async def put(
        self, key: CacheKey, kept: Kept, epochs: Mapping[str, str] | None, scope: str = "", row: IndexRow | None = None
    ) -> bool:
        """Keep an entry and return whether it was kept. `epochs` are as of the look-up; where a label's epoch has moved
        on since, nothing is kept. `row`, if any, joins the rows of `scope`."""

    async def drop(self, key: CacheKey) -> None: ...

    async def purge(self, tenant: str | None, label: str | None) -> int:
        """Withdraw a tenant's entries (None: everyone's) with `label` (None: all). At once for every look-up that
        begins afterwards; returns how many entries were deleted by then. Raises `Overloaded` where nothing could be
        withdrawn: a purge is never lost in silence."""

    def stats(self) -> Mapping[str, float]: ...


def same_epochs(labels: Iterable[str], one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one.get(name, "0") == other.get(name, "0") for name in (*labels, GENERATION))


GENERATION = "generation"
"""The label that all entries of a tenant share: purging it withdraws everything."""


@dataclass(slots=True)
class Counts:
    """Counters by name. Any thread may `add`; when two do so in the same instant one of the counts may be lost."""

    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1) -> None:
        self.values[name] = self.values.get(name, 0) + amount
