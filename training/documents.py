"""Documents: a subject's facts, drawn at random, in one layout of one family."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from training import heldout, layouts, marks
from training.concepts import BROAD_SUBJECTS, FIRST_SUBJECTS, FURTHER_SUBJECTS, Concept
from training.layouts import Fact
from training.makers import make_value
from training.names import Names, Pool
from training.renamed import renamed, told_generically
from training.tables import words
from training.values import Value

Family = Literal["train", "heldout", "heldout_subject"]
_LAYOUTS = (*layouts.LAYOUTS, *marks.LAYOUTS)
_GENERIC = 0.3  # of the documents: of a subject of random words
_UNHEARD = 0.5  # of the subjects of random words: words of made-up syllables
_WITH_ROWS = 0.1  # of the documents: of a subject that has a list of things or people, which few have
_RENAMED = 0.25  # of the others: some words of the field names are other words
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK", "PLN")


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    facts: tuple[Fact, ...]
    absent: tuple[Concept, ...]  # concepts of the subject that the text says nothing about
    currency: str


def sample_document(
    rng: random.Random, pool: Pool = "train", family: Family = "train", max_facts: int = 10
) -> Document:
    names = Names(rng, pool)
    concepts, currency = _subject(rng, family), rng.choice(_CURRENCIES[: rng.choice([3, 6])])
    many = rng.randint(1, max_facts) if rng.random() < 0.25 else rng.randint(3, max(3, min(max_facts, 9)))
    chosen = rng.sample(concepts, min(many, len(concepts)))
    facts = [_fact(concept, names, rng, currency, family) for concept in chosen if concept.make != "currency"]
    if rng.random() < 0.35:
        facts.sort(key=lambda fact: concepts.index(fact.concept))
    facts = facts or [_fact(concepts[0], names, rng, currency, family)]
    text = _write(_main_first(facts, concepts, rng), rng, family)
    absent = tuple(concept for concept in concepts if concept not in chosen and concept.make != "currency")
    return Document(text, tuple(facts), absent, currency)


def _main_first(facts: list[Fact], concepts: Sequence[Concept], rng: random.Random) -> list[Fact]:
    """Put what a text is about first in two texts of five: it often opens them."""
    return sorted(facts, key=lambda fact: fact.concept is not concepts[0]) if rng.random() < 0.4 else facts


def _subject(rng: random.Random, family: Family) -> Sequence[Concept]:
    if family == "heldout_subject":
        return heldout.SUBJECTS[rng.choice(list(heldout.SUBJECTS))]
    if family == "heldout":
        return FIRST_SUBJECTS[rng.choice(list(FIRST_SUBJECTS))]
    if rng.random() < _GENERIC:
        return _generic_subject(rng)
    shelf = _listing() if rng.random() < _WITH_ROWS else _shelf(rng)
    concepts = shelf[rng.choice(list(shelf))]
    if rng.random() < _RENAMED:
        return renamed(concepts, lambda many: _unheard(many, rng), rng, heldout.KEYS)
    return concepts


@cache
def _listing() -> dict[str, tuple[Concept, ...]]:
    """Return the subjects some of whose facts are rows of several parts."""
    shelves = FIRST_SUBJECTS | FURTHER_SUBJECTS | BROAD_SUBJECTS
    return {
        name: concepts
        for name, concepts in shelves.items()
        if any(concept.make in ("items", "contacts") for concept in concepts)
    }


def _shelf(rng: random.Random) -> dict[str, tuple[Concept, ...]]:
    """Draw one of the lists of subjects, so that the longest does not crowd out the others."""
    return rng.choices((FIRST_SUBJECTS, FURTHER_SUBJECTS, BROAD_SUBJECTS), (0.28, 0.30, 0.42))[0]


def _generic_subject(rng: random.Random) -> list[Concept]:
    """Compose a subject nobody has heard of: labels of random words, so that label and field name must be matched by
    form."""
    heads = rng.sample(words("generic_head" if rng.random() < 0.6 else "common"), 12)
    others = words("generic_modifier") if rng.random() < 0.6 else words("common")
    if rng.random() < _UNHEARD:
        heads, others = _unheard(12, rng), _unheard(8, rng) if rng.random() < 0.5 else others
    labels = [f"{rng.choice(others)} {head}" if rng.random() < 0.4 else head for head in heads]
    labels = [label for label in labels if len(set(label.split())) == len(label.split())]
    if rng.random() < 0.3:  # the same head with two modifiers
        labels[:2] = [f"{modifier} {heads[0]}" for modifier in rng.sample(words("generic_modifier"), 2)]
    return [_generic_concept(label, rng) for label in labels if label.replace(" ", "_") not in heldout.KEYS]


def _unheard(many: int, rng: random.Random) -> list[str]:
    """Make up words, which a tokenizer has in several pieces: they are found by their letters or not at all."""
    names, made = Names(rng, "made"), dict[str, None]()
    while len(made) < many:
        word = names.stem(2, 3)
        if word.isascii() and len(word) > 3:
            made[word] = None
    return list(made)


def _generic_concept(label: str, rng: random.Random) -> Concept:
    says = told_generically(label)
    make, key = rng.choice(words("generic_makes")), label.replace(" ", "_")
    if make == "bool":
        return Concept(make, (key,), (label.capitalize(),), (f"{label.capitalize()}: {{v}}.", f"The {label}: {{v}}."))
    if rng.random() < 0.2:
        shelf = _unheard(5, rng) if rng.random() < _UNHEARD else words("noun") + words("generic_modifier")
        make = "enum:" + ":".join(dict.fromkeys(rng.choice(shelf) for _ in range(rng.randint(2, 5))))
    return Concept(make, (key,), (label.capitalize(),), says)


def _fact(concept: Concept, names: Names, rng: random.Random, currency: str, family: Family) -> Fact:
    value = make_value(concept.make, names, rng, currency)
    label, sentence = rng.choice(concept.labels), _sentence(concept, value, rng, family)
    if family == "train" and concept.says and rng.random() < 0.12:
        sentence = _filled(rng.choice(words("generic_says")), label, value)
    bit = _filled(rng.choice(concept.bits), label, value) if concept.bits and "\n" not in value.text else None
    return Fact(concept, value, label, sentence, bit)


def _filled(wording: str, label: str, value: Value) -> str:
    return wording.replace("{l}", label.lower()).replace("{L}", label.capitalize()).replace("{v}", value.text)


def _sentence(concept: Concept, value: Value, rng: random.Random, family: Family) -> str | None:
    """Put the value into a sentence of the family, or return None when the family has none for this concept."""
    says = _wordings(concept, value, family)
    if not says:
        return None
    said = rng.choice(says)
    if not said.startswith("{"):  # a value keeps its case, also where it opens a sentence
        said = said[0].upper() + said[1:]
    sentence = said.replace("{vy}", value.text.replace(",", "")).replace("{v}", value.text)
    return sentence.removesuffix(".") if value.text.startswith("\n") else sentence


def _wordings(concept: Concept, value: Value, family: Family) -> Sequence[str]:
    if value.kind == "boolean" and concept.yes:
        if family == "heldout":
            return (heldout.YES if value.raw == "true" else heldout.NO).get(concept.name, ())
        return concept.yes if value.raw == "true" else concept.no
    return heldout.SAYS.get(concept.name, ()) if family == "heldout" else concept.says


def _write(facts: list[Fact], rng: random.Random, family: Family) -> str:
    if family == "train":
        return rng.choice(_LAYOUTS)(facts, rng)
    told = [fact for fact in facts if fact.sentence]
    untold = [fact for fact in facts if not fact.sentence]
    if not told or rng.random() < 0.4:
        return rng.choice(heldout.LAYOUTS)(facts, rng)
    sentences = layouts.distracted([fact.told for fact in told], rng, heldout.DISTRACTORS)
    parts = [layouts.paragraphs(sentences, rng)]
    if untold:
        parts.append(rng.choice(heldout.LAYOUTS)(untold, rng))
    return "\n\n".join(parts)
