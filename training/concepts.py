"""What a document can be about: subjects, each a list of concepts with field names, labels and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training.tables import table


@dataclass(frozen=True, slots=True)
class Concept:
    """One kind of fact. `make` names a value maker, perhaps with arguments (`id:INV`, `int:1:90`).

    `says` holds sentences with `{v}`, `bits` fragments of one; booleans have whole sentences, `yes` and `no`, instead.
    """

    make: str
    keys: tuple[str, ...]
    labels: tuple[str, ...]
    says: tuple[str, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    note: str = ""
    bits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.keys[0]


def concept_of(entry: dict[str, Any], bits: dict[str, list[str]], more: dict[str, list[str]]) -> Concept:
    lists = {name: tuple(entry.get(name, ())) for name in ("keys", "labels", "says", "yes", "no")}
    lists["says"] += tuple(more.get(entry["keys"][0], ()))
    fragments = tuple(bits.get(entry["keys"][0], ()))
    return Concept(make=entry["make"], note=entry.get("note", ""), bits=fragments, **lists)


def _subjects() -> dict[str, tuple[Concept, ...]]:
    entries = dict(table("subjects"))
    bits, more = entries.pop("bits"), table("wordings")
    return {
        name: tuple(concept_of(entry, bits.get(name, {}), more.get(name, {})) for entry in listed)
        for name, listed in entries.items()
    }


SUBJECTS: dict[str, tuple[Concept, ...]] = _subjects()
