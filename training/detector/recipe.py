"""What each head learns from: which sets, which generated texts, how much each counts.

A generated text that equals a text of the sets is dropped, so that no fold is tested on what its rivals were made of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate.safety.detection.classifier import HEADS, Head
from training.detector import catalogues, data, documents, generate
from training.detector.data import Example
from training.detector.fit import Row, fit, segment_rows, text_row

SEED = 0
COST = {"injection": 2.0, "document": 1.0, "harm": 2.0}
GENERATED = {"attack": 3000, "harmless": 3000, "look_alike": 1000, "harmful": 3500, "safe": 3500, "document": 700}
GENERATED_WEIGHT = {"injection": 0.3, "document": 0.5, "harm": 0.05}
FOREIGN_WEIGHT = 0.3
TRANSLATED_WEIGHT = 0.4
"""Many translated attacks are attacks only to their own system prompt; at full weight they teach the language."""
PROSE_WEIGHT = 0.3
PER_LANGUAGE = 150


@dataclass(frozen=True, slots=True)
class Item:
    """A row and the example it was made of (None: generated)."""

    row: Row
    example: Example | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """Head -> everything it may learn from."""

    items: dict[str, list[Item]]

    def train(self, head: str, keep: Callable[[Example], bool] = lambda _: True) -> Head:
        """Fit on all generated items and on the examples that `keep` admits."""
        rows = [item.row for item in self.items[head] if item.example is None or keep(item.example)]
        return fit(rows, COST[head])


def gather(sets: dict[str, list[Example]], folders: Sequence[Path]) -> Material:
    """`folders` hold message catalogues (see `catalogues`); they may be none."""
    rng = random.Random(SEED)
    known = {data.key(e.text) for name, examples in sets.items() if not name.startswith("indirect") for e in examples}
    foreign = catalogues.messages(folders, PER_LANGUAGE)
    makers = {"injection": _injection, "document": _document, "harm": _harm}
    return Material({head: makers[head](sets, foreign, rng, known) for head in HEADS})


def _injection(sets: dict[str, list[Example]], foreign: list[str], rng: random.Random, known: set[str]) -> list[Item]:
    weights = {"injection_cse_multilingual": TRANSLATED_WEIGHT}
    items = [_item(e, e.bad, weights.get(name, 1.0)) for name in data.INJECTION for e in sets.get(name, ())]
    items += [_item(e, False) for name in data.BENIGN for e in sets.get(name, ())]
    weight = GENERATED_WEIGHT["injection"]
    items += _made(rng, generate.attack, "attack", True, weight, known)
    items += _made(rng, generate.harmless, "harmless", False, weight, known)
    items += _made(rng, generate.safe_look_alike, "look_alike", False, weight, known)
    items += [_item(e, False, weight) for e in _harmless_prose(sets, (*data.PROSE, *data.DOCUMENT))]
    items += [Item(text_row(documents.clean(rng).text, False, weight)) for _ in range(GENERATED["document"])]
    return items + [Item(text_row(text, False, FOREIGN_WEIGHT)) for text in foreign]


def _harm(sets: dict[str, list[Example]], foreign: list[str], rng: random.Random, known: set[str]) -> list[Item]:
    items = [_item(e, e.bad) for name in data.HARM for e in sets.get(name, ())]
    items += [_item(e, False) for name in data.BENIGN for e in sets.get(name, ())]
    items += [_item(e, e.bad, PROSE_WEIGHT) for e in sets.get("harm_openai_moderation", ())]
    weight = GENERATED_WEIGHT["harm"]
    items += _made(rng, generate.harmful, "harmful", True, weight, known)
    items += _made(rng, generate.safe_look_alike, "safe", False, weight, known)
    items += _made(rng, generate.harmless, "look_alike", False, weight, known)
    items += _made(rng, generate.ordinary, "look_alike", False, weight, known)
    items += _made(rng, generate.compose, "look_alike", False, weight, known)
    return items + [Item(text_row(text, False, FOREIGN_WEIGHT)) for text in foreign[::3]]


def _document(sets: dict[str, list[Example]], foreign: list[str], rng: random.Random, known: set[str]) -> list[Item]:
    items = [
        Item(row, e) for name in data.DOCUMENT for e in sets.get(name, ()) for _, row in segment_rows(e.text, e.span)
    ]
    weight = GENERATED_WEIGHT["document"]
    items += [
        Item(row, e)
        for e in _harmless_prose(sets, data.PROSE)[::3]
        for _, row in segment_rows(e.text, None, weight)[:6]
    ]
    items += [Item(row) for text in foreign[::3] for _, row in segment_rows(text, None, weight)[:2]]
    makers = (documents.planted, documents.clean)
    made = [maker(rng) for maker in makers for _ in range(GENERATED["document"])]
    return items + [Item(row) for row in _distinct(rng, made, weight)]


def _harmless_prose(sets: dict[str, list[Example]], names: Iterable[str]) -> list[Example]:
    return [e for name in names for e in sets.get(name, ()) if not e.bad]


def _distinct(rng: random.Random, made: Iterable[documents.Document], weight: float) -> list[Row]:
    """Segments of generated documents; of what repeats, and of what merely stands beside a planted line, only some."""
    seen: set[tuple[str, bool]] = set()
    rows = []
    for document in made:
        for text, row in segment_rows(document.text, document.planted, weight):
            kept = row.bad or document.planted is None or rng.random() < 0.2
            repeated = (text, row.bad) in seen and rng.random() < 0.7
            seen.add((text, row.bad))
            if kept and not repeated:
                rows.append(row)
    return rows


def _item(example: Example, bad: bool, weight: float = 1.0) -> Item:
    return Item(text_row(example.text, bad, weight), example)


def _made(
    rng: random.Random,
    make: Callable[[random.Random], str],
    count: str,
    bad: bool,
    weight: float,
    known: Collection[str],
) -> list[Item]:
    texts = dict.fromkeys(make(rng) for _ in range(GENERATED[count]))
    return [Item(text_row(text, bad, weight)) for text in texts if data.key(text) not in known]
