"""What a document can be about: subjects, each a list of concepts with field names, labels and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training.tables import table


@dataclass(frozen=True, slots=True)
class Concept:
    """One kind of fact. `make` names a value maker, perhaps with arguments (`id:INV`, `int:1:90`).

    `says` holds sentences with `{v}`; for booleans `yes` and `no` hold whole sentences instead.
    """

    make: str
    keys: tuple[str, ...]
    labels: tuple[str, ...]
    says: tuple[str, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        return self.keys[0]


def concept_of(entry: dict[str, Any]) -> Concept:
    lists = {name: tuple(entry.get(name, ())) for name in ("keys", "labels", "says", "yes", "no")}
    return Concept(make=entry["make"], note=entry.get("note", ""), **lists)


SUBJECTS: dict[str, tuple[Concept, ...]] = {
    name: tuple(concept_of(entry) for entry in entries) for name, entries in table("subjects").items()
}
