"""What a head learns from, row by row, and how the rows become a head.

Head `injection` is a mean of two: one of n-grams, and one that reads concepts too and learns from more texts, which
finds more in sources that nothing is known of, and alone finds less in those that are. Beside them the lowest of three
counts: the first, and the second fitted to either half of the harmless sources; and a small network. Its specialists
learn some attacks alone, from the rows of the second and from lines that no other member learns from. Head `harm`
counts each n-gram of a window once, and has a specialist for other languages.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sluicegate.safety.detection.scoring.head import BIAS, Head
from training.detector import data, shares
from training.detector.data import Example
from training.detector.fit import Row, counted_once, fit, mixed, pruned
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
    """Head -> everything it may learn from; `concepts`: what the member of head `injection` that reads them does;
    `special`: head -> what its specialists learn from besides."""

    items: dict[str, list[Item]]
    concepts: list[Item]
    special: dict[str, list[Item]]

    def train(self, head: str, keep: Callable[[Example], bool] = lambda _: True, without: Collection[str] = ()) -> Head:
        """Fit on the examples that `keep` admits and on all generated items but those of the kinds `without`."""

        def kept(items: Iterable[Item]) -> list[Item]:
            wanted = (item for item in items if item.kind not in without)
            return [item for item in wanted if item.example is None or keep(item.example)]

        items = kept(self.items[head])
        found = fit([item.row for item in items], shares.COST[head], capped=head != "document")
        if head == "harm":
            found = pruned(counted_once(found))
        if head == "injection" and self.concepts:
            items = kept(self.concepts)
            found = _joined(found, items)
        found = replace(found, specialists=_specialists(head, [*items, *kept(self.special.get(head, ()))]))
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


def _specialists(head: str, items: Sequence[Item]) -> tuple[Head, ...]:
    """Return a small head for each of the head's `shares.SPECIALS` of which there are attacks among `items`."""
    found = []
    for special in shares.SPECIALS.get(head, ()):
        attacks = [
            replace(item.row, weight=special.weight * item.row.weight)
            for item in items
            if item.row.bad and item.source in special.sources
        ]
        if attacks:
            rows = [*attacks, *(item.row for item in items if not item.row.bad)]
            fitted = pruned(counted_once(fit(rows, shares.SPECIAL_COST[head], capped=True)))
            found.append(replace(fitted, bias=fitted.bias - special.behind / BIAS))
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
