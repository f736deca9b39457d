"""Subjects some of whose words are other words: made up, or out of place. What a field is called is then found by its
letters, in sentences that were written about something else.

A model that has learnt the meaning of every label of training looks up meanings, and is lost where it has none; of
texts that are told as the real ones are and whose labels mean nothing, only the form can be learnt.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from training.concepts import Concept
from training.tables import words


def renamed(
    concepts: Sequence[Concept], makes_up: Callable[[int], list[str]], rng: random.Random, avoided: frozenset[str]
) -> list[Concept]:
    """Return the subject with up to half of the words of its field names replaced, wherever they stand in it. `avoided`
    are field names that must not come of it; a concept that would have no other is left out."""
    known = _words(concepts, rng)
    many = max(1, int(len(known) * rng.uniform(0.1, 0.5)))
    taken = {part for concept in concepts for key in concept.keys for part in key.split("_")}
    listed = {*words("common"), *words("generic_head")} - taken
    made = rng.random() < 0.5
    others = [word for word in makes_up(many) if word not in taken] if made else rng.sample(sorted(listed), many)
    swapped = dict(zip(rng.sample(known, len(others)), others, strict=True))
    if not swapped:
        return list(concepts)
    parts = re.compile(r"(?<![^\W_])(" + "|".join(swapped) + r")(?![^\W_])", re.IGNORECASE)

    def swap(text: str) -> str:
        return parts.sub(lambda match: _like(match[0], swapped[match[0].lower()]), text)

    found = [_renamed(concept, swap, rng) for concept in concepts]
    kept = [replace(concept, keys=tuple(key for key in concept.keys if key not in avoided)) for concept in found]
    return [concept for concept in kept if concept.keys]


def _words(concepts: Sequence[Concept], rng: random.Random) -> list[str]:
    """Return words of field names: half of the time those that stand in sentences too, where there are some."""
    named = {part for concept in concepts for key in concept.keys for part in key.split("_") if len(part) > 3}
    said = {word for concept in concepts for say in concept.says for word in re.split(r"[\W_]+", say.lower())}
    both = named & said
    return sorted(both if len(both) > 3 and rng.random() < 0.5 else named)


def told_generically(label: str) -> tuple[str, ...]:
    """Return the sentences that can be said of any label."""
    return tuple(say.replace("{l}", label).replace("{L}", label.capitalize()) for say in words("generic_says"))


def _renamed(concept: Concept, swap: Callable[[str], str], rng: random.Random) -> Concept:
    changed = {key: swap(key) for key in concept.keys}
    touched = [key for key in concept.keys if changed[key] != key]
    labels, says, bits = (tuple(map(swap, part)) for part in (concept.labels, concept.says, concept.bits))
    yes, no, note = tuple(map(swap, concept.yes)), tuple(map(swap, concept.no)), swap(concept.note)
    if not touched:
        return replace(concept, labels=labels, says=says, bits=bits, yes=yes, no=no, note=note)
    key = rng.choice(touched)
    new = rng.choice(sorted(set(changed[key].split("_")) - set(key.split("_"))))

    def with_it(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if new in re.split(r"[\W_]+", text.lower()))

    labels = with_it(labels) or (changed[key].replace("_", " ").capitalize(),)
    says = with_it(says) or told_generically(labels[0].lower().rstrip("."))
    yes, no = with_it(yes), with_it(no)
    yes, no = (yes, no) if yes and no else ((), ())
    keys = tuple(dict.fromkeys(with_it(tuple(changed.values()))))
    return Concept(concept.make, keys, labels, says, yes, no, note if with_it((note,)) else "", with_it(bits))


def _like(old: str, new: str) -> str:
    return new.upper() if old.isupper() else new.capitalize() if old[0].isupper() else new
