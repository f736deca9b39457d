"""The held-out family: wordings, layouts and whole subjects that training never sees. Evaluation only."""

from __future__ import annotations

import random

from training.concepts import Concept, concept_of, short_subjects
from training.layouts import Fact
from training.tables import table

_TABLE = table("heldout")
# Wordings by concept name (the first key); other concepts fall back on a layout that needs no sentence.
SAYS: dict[str, list[str]] = _TABLE["says"]
YES: dict[str, list[str]] = _TABLE["yes"]
NO: dict[str, list[str]] = _TABLE["no"]
DISTRACTORS: list[str] = _TABLE["distractors"]
INSTRUCTIONS: list[str] = _TABLE["instructions"]
SUBJECTS: dict[str, tuple[Concept, ...]] = {
    "car_claim": tuple(concept_of(entry, {}, {}) for entry in _TABLE["car_claim"]),
    **short_subjects("heldout_subjects"),
}
KEYS = frozenset(key for concepts in SUBJECTS.values() for concept in concepts for key in concept.keys)


def xml_record(facts: list[Fact], rng: random.Random) -> str:
    tag = rng.choice(["record", "entry", "doc"])
    names = [fact.label.lower().replace(" ", "-").replace(".", "").replace("#", "no") for fact in facts]
    lines = [f"  <{name}>{fact.shown}</{name}>" for name, fact in zip(names, facts, strict=True)]
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])


def markdown_table(facts: list[Fact], rng: random.Random) -> str:
    return "| what | content |\n| --- | --- |\n" + "\n".join(f"| {fact.label} | {fact.shown} |" for fact in facts)


def arrows(facts: list[Fact], rng: random.Random) -> str:
    return "MEMO\n\n" + "\n".join(f"{fact.label} -> {fact.shown}" for fact in facts)


def questionnaire(facts: list[Fact], rng: random.Random) -> str:
    return "\n".join(f"Q: {fact.label}?\nA: {fact.shown}" for fact in facts)


def aligned(facts: list[Fact], rng: random.Random) -> str:
    width = max(len(fact.label) for fact in facts) + 3
    return "\n".join(fact.label.upper().ljust(width) + fact.shown for fact in facts)


def slashes(facts: list[Fact], rng: random.Random) -> str:
    return " // ".join(f"{fact.label.lower()} {fact.shown}" for fact in facts)


def legal(facts: list[Fact], rng: random.Random) -> str:
    lines = [f"WHEREAS the {fact.label.lower()} is {fact.shown};" for fact in facts]
    return "\n".join([*lines, "NOW, THEREFORE, the parties agree as follows."])


LAYOUTS = (xml_record, markdown_table, arrows, questionnaire, aligned, slashes, legal)
