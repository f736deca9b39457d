"""Single properties: the schema that asks for a slot, and the JSON literals of its values under that schema."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from training.everyday.book import Book, Slot
from training.everyday.makers import Row
from training.everyday.renaming import renamed
from training.values import Kind, Value, quoted

_CASES: tuple[Callable[[str], str], ...] = (str, str, str, str.upper, str.capitalize, str.lower)
_MOST_OPTIONS = 9
_AS_LISTED, _FEW, _USUAL = 0.5, 0.7, 0.75
"""Shares of what trains: labels in their own case, with few others, all by their usual names."""
Leaf = tuple[dict[str, Any], list[str], Kind]


def leaf(slot: Slot, values: Sequence[Value], rng: random.Random, book: Book) -> Leaf:
    """Return schema, one literal for each of the values, and the kind of field."""
    kind = values[0].kind
    if slot.make[0] == "label":
        return _label(slot, [value.text for value in values], rng, book)
    raws = [value.raw for value in values]
    if kind == "strings":
        return {"type": "array", "items": {"type": "string"}}, raws, kind
    if kind == "string":
        formats = {value.format for value in values}
        format_ = {"format": values[0].format} if formats != {None} and rng.random() < 0.4 else {}
        return {"type": "string", **format_}, raws, kind
    as_written = [quoted(value.text) for value in values]
    if kind == "date":
        if rng.random() < 0.4:
            return {"type": "string"}, as_written, "string"
        return {"type": "string", "format": "date"}, raws, kind
    if kind == "number" and slot.make[0] in ("amount", "decimal", "cost") and rng.random() < 0.25:
        return {"type": "string"}, as_written, "string"
    if kind == "integer" and rng.random() < 0.15:
        return {"type": "number"}, raws, "number"
    return {"type": kind}, raws, kind


def rows_leaf(slot: Slot, rows: Sequence[Row], parts: dict[str, Slot], rng: random.Random, book: Book) -> Leaf:
    """Make an array of objects over some parts of the rows; of strings where one part was drawn that is a string."""
    named = [name for name in rows[0] if name in parts]
    chosen = rng.sample(named, rng.randint(min(2, len(named)), len(named)))
    chosen.sort(key=named.index if rng.random() < 0.6 else str)
    strings = [name for name in named if rows[0][name].kind == "string"]
    if strings and rng.random() < 0.2:
        return {"type": "array", "items": {"type": "string"}}, [_array([r[strings[0]].raw for r in rows])], "strings"
    leaves = {rng.choice(parts[n].keys): leaf(parts[n], [r[n] for r in rows], rng, book) for n in chosen}
    schema = {
        "type": "object",
        "properties": {key: made[0] for key, made in leaves.items()},
        "required": list(leaves),
    }
    literals = [
        "{" + ",".join(f"{quoted(key)}:{made[1][row]}" for key, made in leaves.items()) + "}"
        for row in range(len(rows))
    ]
    return {"type": "array", "items": schema}, [_array(literals)], "objects"


def _array(literals: Sequence[str]) -> str:
    return f"[{','.join(literals)}]"


def _label(slot: Slot, classes: list[str], rng: random.Random, book: Book) -> Leaf:
    labels = _labels(slot.make[1], classes, rng, book)
    case = str if book.trains and rng.random() < _AS_LISTED else rng.choice(_CASES)
    labels = {name: case(label) for name, label in labels.items()}
    labels, note = renamed(labels, rng) if book.trains else (labels, "")
    options = list(labels.values())
    rng.shuffle(options)
    schema: dict[str, Any] = {"enum": options} if rng.random() < 0.3 else {"type": "string", "enum": options}
    if note:
        schema["description"] = note
    return schema, [quoted(labels[name]) for name in classes], "enum"


def _labels(name: str, classes: list[str], rng: random.Random, book: Book) -> dict[str, str]:
    """Draw labels by class: a whole set that has all of the classes, or the classes and some others."""
    if name in book.label_sets:
        return rng.choice([labels for labels in book.label_sets[name] if set(classes) <= set(labels)])
    every = book.classes[name]
    near = set().union(*(group for group in book.near.get(name, []) if group & set(classes)))
    others = [other for other in every if other not in classes and other not in near]
    most = 3 if book.trains and rng.random() < _FEW else _MOST_OPTIONS
    many = rng.randint(1, min(most, len(others)))
    chosen = [*dict.fromkeys(classes), *rng.sample(others, many)]
    style = (
        0 if rng.random() < (_USUAL if book.trains else 0.4) else None
    )  # all by their usual names, or each by any of its names
    labels = {one: every[one][0] if style == 0 else rng.choice(every[one]) for one in chosen}
    return labels if len(set(labels.values())) == len(labels) else {one: every[one][0] for one in chosen}
