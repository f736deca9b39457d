"""What a document can be about: subjects, each a list of concepts with field names, labels and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.tables import lines, table


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


def _short_form(line: str, least: int) -> Concept:
    """Read `maker | field names | labels | sentences`; those of any subject join fewer than `least` sentences."""
    make, keys, labels, says = (part.strip() for part in line.split("|"))
    listed = tuple(key.strip() for key in keys.split(","))
    shown = tuple(label.strip() for label in labels.split(","))
    sentences = tuple(said.strip() for said in says.split(";") if said.strip())
    told = sentences + _plain_sentences(shown) if len(sentences) < least else sentences
    return Concept(make.strip(), listed, shown, told, bits=_fragments(shown))


def _plain_sentences(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(said for label in labels for said in (f"{label}: {{v}}.", f"The {label.lower()}: {{v}}."))


def _fragments(labels: Sequence[str]) -> tuple[str, ...]:
    shapes = ("{} {{v}}", "the {} is {{v}}", "{}: {{v}}", "with {{v}} as {}", "{{v}} ({})")
    return tuple(shape.format(label.lower()) for label in labels[:2] for shape in shapes)


def short_subjects(file: str, least: int = 1) -> dict[str, tuple[Concept, ...]]:
    """Return the subjects of a file in short form (see `training/data/more_subjects.txt`), no fact with fewer sentences
    than `least`."""
    found: dict[str, list[Concept]] = {}
    for line in lines(file):
        if line.startswith("["):
            listed = found[line.strip("[]")] = []
        else:
            listed.append(_short_form(line, least))
    return {name: tuple(concepts) for name, concepts in found.items()}


FIRST_SUBJECTS: dict[str, tuple[Concept, ...]] = _subjects() | short_subjects("more_subjects")
"""Those that documents in held-out layouts tell of too, so that an evaluation stays the same while training grows."""
FURTHER_SUBJECTS: dict[str, tuple[Concept, ...]] = short_subjects("further_subjects")
BROAD_SUBJECTS: dict[str, tuple[Concept, ...]] = short_subjects("broad_subjects", least=2)
SUBJECTS: dict[str, tuple[Concept, ...]] = FIRST_SUBJECTS | FURTHER_SUBJECTS | BROAD_SUBJECTS
