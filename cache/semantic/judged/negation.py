"""Negation in two questions: whether both negate, or one says in a word what the other negates.

Not covered: a negation in a remark that the other text leaves out; which of several things is negated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluicegate.cache.semantic.judged.near_words import form
from sluicegate.cache.semantic.judged.negation_words import (
    AFFIRMING,
    BACKWARDS,
    FREQUENT,
    INTERJECTIONS,
    LACKING,
    NEAR_NEGATION,
    NEGATED,
    NEGATIONS,
    PREFIXES,
    REPLACING,
)
from sluicegate.plugins.concurrency.unlocked import cached_property

FREE_OF = re.compile(r"\b([^\W\d_]+)[- ]free\b")


class Negation:
    """What a text negates."""

    def __init__(self, text: str, words: Sequence[str], forms: Sequence[str]) -> None:
        self._plain, self._words, self.forms = text.lower(), words, forms

    @cached_property
    def count(self) -> int:
        """Return how many words negate something."""
        idle = sum(
            len(NEGATIONS & set(found.replace("n't", " not").split()))
            for pattern in (INTERJECTIONS, AFFIRMING)
            for found in pattern.findall(self._plain)
        )
        return sum(word in NEGATIONS or word.endswith("-free") for word in self._words) - idle

    @cached_property
    def negated(self) -> frozenset[str]:
        """Return the words that stand near a negation, by form."""
        found: set[str] = set()
        for at, word in enumerate(self._words):
            if word in NEGATIONS:
                found.update(self.forms[at + 1 : at + 1 + NEAR_NEGATION])
            if word in BACKWARDS:
                found.update(self.forms[max(0, at - 2) : at])
        return frozenset(found)

    @cached_property
    def absent(self) -> frozenset[str]:
        """Return the words behind "no" and "without", by form."""
        found: set[str] = set()
        for at, word in enumerate(self._words):
            if word in ("no", "without"):
                found.update(self.forms[at + 1 : at + 4])
        return frozenset(found)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Return the first letters of what is negated: "licen" of "without a licence", which is "unlicensed"."""
        return frozenset(word[:5] for word in self.absent | self.denied if len(word) > 4)

    @cached_property
    def denied(self) -> frozenset[str]:
        """Return the words right behind a negation, by form."""
        pairs = zip(self._words, self.forms[1:], strict=False)
        return frozenset(after for word, after in pairs if word in NEGATIONS)

    @cached_property
    def free_of(self) -> frozenset[str]:
        """Return what a text calls something free of: "gluten free"."""
        return frozenset(form(word) for word in FREE_OF.findall(self._plain) if word not in FREQUENT and len(word) > 3)


def negated_alike(a: Negation, b: Negation) -> bool:
    """Return whether both texts have an even or both an odd number of negations, or one of them says in a word what
    the other negates."""
    if a.count % 2 == b.count % 2:
        return True
    negating, saying = (a, b) if a.count % 2 else (b, a)
    said = set(saying.forms)
    if any(each.startswith(prefix + word) for each in said for prefix in PREFIXES for word in negating.stems):
        return True
    if not saying.free_of.isdisjoint(negating.negated):
        return True
    if not REPLACING.isdisjoint(said) and not negating.absent.isdisjoint(said):
        return True
    if not LACKING.isdisjoint(said - set(negating.forms)) and not negating.negated.isdisjoint(said):
        return True
    if any(not said.isdisjoint(plain) and not negating.denied.isdisjoint(plain) for plain, _ in NEGATED):
        return False  # "not stop" is no "unsubscribe"
    return any(
        not said.isdisjoint(plain) and plain.isdisjoint(negating.forms) and not negating.negated.isdisjoint(counter)
        for plain, counter in NEGATED
    )


def prefixed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether one text has a word that the other has with a negating prefix: "legal", "illegal"."""
    return any(
        prefix + word in theirs and prefix + word not in ours and word not in theirs
        for ours, theirs in ((one, other), (other, one))
        for word in ours
        if len(word) > 2
        for prefix in PREFIXES
    )
