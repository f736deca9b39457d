"""What a head learns from, row by row, and how the rows become a head.

Head `injection` is a mean of two: one of n-grams, and one that reads concepts too and learns from more texts, which
finds more in sources that nothing is known of, and alone finds less in those that are. Beside them the lowest of three
counts: the first, and the second fitted to either half of the harmless sources; and a small network. Its specialists
learn some attacks alone, from the rows of the second and from lines that no other member learns from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sluicegate.safety.detection.classifier import Head
from training.detector import data, shares
from training.detector.data import Example
from training.detector.fit import Row, counted_once, fit, mixed
from training.detector.network import fit_network


@dataclass(frozen=True, slots=True)
class Item:
    """A row and the example it was made of (None: generated)."""

    row: Row
    example: Example | None = None
    kind: str = ""
    """Of a generated harmless request: what kind (see `requests`)."""
    package: str = ""
    """That the text was published in, if it was."""

    @property
    def source(self) -> str:
        """Return the name of what shares its authors or its making with this row; empty for texts of no kind."""
        if self.example:
            return self.example.set
        return f"pkg:{self.package}" if self.package else self.kind and f"gen:{self.kind}"


@dataclass(frozen=True, slots=True)
class Material:
    """Head -> everything it may learn from; `concepts`: what the member of head `injection` that reads them does, and
    `special`: what its specialists learn from besides."""

    items: dict[str, list[Item]]
    concepts: list[Item]
    special: list[Item]

    def train(self, head: str, keep: Callable[[Example], bool] = lambda _: True, without: Collection[str] = ()) -> Head:
        """Fit on the examples that `keep` admits and on all generated items but those of the kinds `without`."""

        def kept(items: list[Item]) -> list[Item]:
            wanted = (item for item in items if item.kind not in without)
            return [item for item in wanted if item.example is None or keep(item.example)]

        rows = [item.row for item in kept(self.items[head])]
        found = fit(rows, shares.COST[head], capped=head == "injection")
        if head == "injection" and self.concepts:
            found = _joined(found, kept(self.concepts))
            found = replace(found, specialists=_specialists(kept([*self.concepts, *self.special])))
        return replace(found, part_share=shares.PART_SHARE[head])


def _joined(first: Head, concepts: list[Item]) -> Head:
    """Return head `injection`: the first member with what is fitted to the rows of the second."""

    def fitted(rows: Sequence[Row]) -> Head:
        return counted_once(fit(rows, shares.COST["injection"], capped=True))

    rows = [item.row for item in concepts]
    halves = (fitted(_half(concepts, which)) for which in (0, 1))
    return replace(
        mixed(first, fitted(rows), shares.CONCEPT_SHARE),
        rivals=(first, *halves),
        rival_share=shares.RIVAL_SHARE,
        network=fit_network(rows, shares.NETWORK_SCALE),
        network_share=shares.NETWORK_SHARE,
    )


def _specialists(items: Sequence[Item]) -> tuple[Head, ...]:
    """Return a head for each of `shares.SPECIALS` of which there are attacks among `items`."""
    found = []
    for special in shares.SPECIALS:
        attacks = [
            replace(item.row, weight=special.weight * item.row.weight)
            for item in items
            if item.row.bad and item.source in special.sources
        ]
        if attacks:
            rows = [*attacks, *(item.row for item in items if not item.row.bad)]
            found.append(counted_once(fit(rows, shares.SPECIAL_COST, capped=True)))
    return tuple(found)


def _half(items: Iterable[Item], which: int) -> list[Row]:
    """Return the rows of all attacks, and of half of the harmless sources at more of their weight; the sets that the
    thresholds are made on, and texts of no kind, are in both halves."""
    found = []
    for item in items:
        if item.row.bad or item.source in ("", *data.BENIGN):
            found.append(item.row)
        elif zlib.crc32(item.source.encode()) % 2 == which:
            found.append(replace(item.row, weight=shares.RIVAL_WEIGHT * item.row.weight))
    return found
