"""Differences between two questions that no model may judge away: numbers and their order, quotations, names, negation,
direction, opposites, and the person that a question is about.

A judge of sameness is fast because it is small, and small models take "from Paris to Rome" for "from Rome to Paris". So
differences that rules can find are decided here, and the judge is asked only about the rest.

Differences of form that rules can explain are no differences: "did not arrive" and "is missing" (`negation.py`), "8 in
the evening" and "20:00" (`quantities.py`), "UK" and "Britain" (`names.py`), "how many times a year" and "how often",
one word replaced by one of a row of `near_words.txt`. Those go to the judge.

Not covered: opposites that no table lists. English only.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise

from sluicegate.cache.semantic.fact_guard import (
    canonical_words,
    is_comparable,
    quotations_of,
    signature,
)
from sluicegate.cache.semantic.judged.name_words import NO_ADVERBS
from sluicegate.cache.semantic.judged.names import every_name, names, unnamed
from sluicegate.cache.semantic.judged.near_words import are_near, form
from sluicegate.cache.semantic.judged.negation import Negation, negated_alike, prefixed
from sluicegate.cache.semantic.judged.quantities import (
    AROUND,
    Quantity,
    digest_numbers,
    in_figures,
    other_quantities,
    quantities,
    without_spans,
)
from sluicegate.cache.semantic.judged.tables import (
    ALIKE_ADDED,
    ALIKE_REPLACED,
    ASKED_AMOUNTS,
    DIRECTION,
    EVERY,
    FIRST,
    GENERIC_YOU,
    NO_LABELS,
    NO_OPPOSITES,
    NUMBER,
    OFF,
    ON,
    OPPOSITES,
    PERSONS,
    QUANTITIES,
    SECOND,
    SUBTRACTS_NOTHING,
    SWITCHED,
    TIMES,
    UNIT_ASKED,
)
from sluicegate.cache.semantic.wording.senses import rows
from sluicegate.plugins.concurrency.unlocked import cached_property

MAX_CHARS = 600


class PreparedText:
    """A text prepared for comparison. `text` itself is the state; the rest is computed when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = canonical_words(text)

    @cached_property
    def plain(self) -> str:
        """Return the text in lower case."""
        return self.text.lower()

    @cached_property
    def kinds(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def turnable(self) -> frozenset[str]:
        """Return the words that may have an opposite, without what only says the same from the other side."""
        text = " ".join(self.words)
        for pattern, becomes in NO_OPPOSITES:
            text = pattern.sub(becomes, text)
        return frozenset(text.split())

    @cached_property
    def sides(self) -> tuple[int, int]:
        """Return the rows of opposites of which the text has a word on the left, and those on the right, as bits: they
        are compared with many texts."""
        words, left, right = self.turnable, 0, 0
        for at, (one, other) in enumerate(OPPOSITES):
            left |= (not words.isdisjoint(one)) << at
            right |= (not words.isdisjoint(other)) << at
        return left, right

    @cached_property
    def switched(self) -> frozenset[str]:
        """Return "on" and "off" where something is switched, or is so."""
        last = len(self.words) - 1
        return frozenset(
            word
            for at, word in enumerate(self.words)
            if word in ("on", "off") and (at == last or not SWITCHED.isdisjoint(self.forms[max(0, at - 3) : at]))
        )

    @cached_property
    def negation(self) -> Negation:
        return Negation(self.text, self.words, self.forms)

    @cached_property
    def quantities(self) -> list[Quantity]:
        return quantities(self.text)

    @cached_property
    def every(self) -> frozenset[str]:
        return every_name(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        return names(self.text)

    @cached_property
    def quoted(self) -> list[str]:
        return quotations_of(self.text)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return the word before each number: "port" of "port 8080"."""
        words = [word for word in self.words if word != "1" or "1" in self.text]
        return {b: a for a, b in pairwise(words) if NUMBER.fullmatch(b) and a.isalpha() and a not in NO_LABELS}

    @cached_property
    def units_asked(self) -> frozenset[str]:
        """Return the units of time in which an amount is asked."""
        return frozenset(unit.rstrip("s") for unit in UNIT_ASKED.findall(" ".join(self.words)))

    @cached_property
    def amounts(self) -> frozenset[str]:
        """Return the words without what only asks how long, how often or when, and without spans that are counted."""
        text = without_spans(in_figures(self.text))
        for pattern, becomes in ASKED_AMOUNTS:
            text = pattern.sub(becomes, text)
        return frozenset(AROUND.findall(text))

    @cached_property
    def forms(self) -> list[str]:
        return [form(word) for word in self.words]

    @cached_property
    def signature(self) -> tuple[str, ...] | None:
        return signature(self.text)


def judged_digest(text: str, scope: str) -> int | None:
    """Return a 64-bit digest of the scope and the text's numbers; None where the text cannot be judged."""
    if not can_be_judged(text):
        return None
    told = "\x1f".join(("judged", scope, *digest_numbers(quantities(text)))).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


def can_be_judged(text: str) -> bool:
    return len(text) <= MAX_CHARS and "\n" not in text.strip() and is_comparable(text)


def what_differs(one: str, other: str) -> str | None:
    """Return the kind of protected difference between two questions; None where there is none and a judge may
    decide."""
    return difference(PreparedText(one), PreparedText(other))


def difference(a: PreparedText, b: PreparedText) -> str | None:
    """Return what `what_differs` returns, of prepared texts."""
    if other_quantities(a.quantities, b.quantities):
        return "number"
    if _relabelled(a, b) or _relabelled(b, a):
        return "number"
    if _unquoted(a, b) or _unquoted(b, a):
        return "quotation"
    if unnamed(a.text, a.names, b.text, b.every) or unnamed(b.text, b.names, a.text, a.every):
        return "name"
    if prefixed(a.kinds, b.kinds) or not negated_alike(a.negation, b.negation):
        return "negation"
    if _opposed(a.sides, b.sides) or _opposed(b.sides, a.sides):
        return "opposite"
    if _turned(a.switched, b.switched, ON, OFF):
        return "opposite"
    if _other_amount(a, b) or _other_person(a, b):
        return "quantity"
    if _turned(a.kinds, b.kinds, FIRST, SECOND) and not any(map(GENERIC_YOU.search, (a.plain, b.plain))):
        return "person"
    if _directed(a.words, b.words):
        return "direction"
    return "word" if _substituted(a.words, b.words) or _substituted_by_wording(a, b) else None


def _substituted_by_wording(a: PreparedText, b: PreparedText) -> bool:
    """Return whether a word is replaced or added in the canonical wordings of two texts that are worded alike; of
    texts in other words such a difference often is what the canonical wording lacks."""
    one, other = _plain(a.signature), _plain(b.signature)
    most = ALIKE_REPLACED if len(one) == len(other) else ALIKE_ADDED
    return len(frozenset(a.forms) ^ frozenset(b.forms)) <= most and _substituted(one, other)


def _plain(signed: tuple[str, ...] | None) -> list[str]:
    return [word for word in signed or () if not word.startswith("head=")]


def _unquoted(one: PreparedText, other: PreparedText) -> bool:
    """Return whether the words of a quotation do not stand in the other text, quoted or not."""
    said = f" {' '.join(EVERY.findall(other.text))} "
    others = [each for each in one.quoted if each not in other.quoted]
    return any(f" {' '.join(EVERY.findall(each.removeprefix('quote=')))} " not in said for each in others)


def _relabelled(one: PreparedText, other: PreparedText) -> bool:
    """Return whether a number's label stands in the other text as well, but not before that number: "port 8080" and
    "the port of process 8080"."""
    return any(
        word in other.kinds and other.labels.get(number, word) != word and other.labels[number] in one.kinds
        for number, word in one.labels.items()
    )


def _other_amount(a: PreparedText, b: PreparedText) -> bool:
    """Return whether two texts ask in other units of time, one has a word of quantity and the other none, or each names
    a time that the other does not."""
    if a.units_asked and b.units_asked and a.units_asked != b.units_asked:
        return True
    if any(a.amounts.isdisjoint(kind) != b.amounts.isdisjoint(kind) for kind in QUANTITIES):
        return True
    times = [{at for at, kind in enumerate(TIMES) if not text.amounts.isdisjoint(kind)} for text in (a, b)]
    return bool(times[0] - times[1]) and bool(times[1] - times[0])


def _other_person(a: PreparedText, b: PreparedText) -> bool:
    """Return whether one text has a pronoun of a person that the other does not speak of."""
    return any(
        not one.kinds.isdisjoint(pronouns) and other.kinds.isdisjoint(pronouns | nouns)
        for pronouns, nouns in PERSONS
        for one, other in ((a, b), (b, a))
    )


def _opposed(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether of a row of opposites one text has the left side alone, and the other the right side alone."""
    return bool(one[0] & ~one[1] & other[1] & ~other[0])


def _turned(one: frozenset[str], other: frozenset[str], left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether one text has a word of `left` and none of `right`, and the other text the reverse."""
    says = [(not words.isdisjoint(left), not words.isdisjoint(right)) for words in (one, other)]
    return says in ([(True, False), (False, True)], [(False, True), (True, False)])


def _substituted(one: list[str], other: list[str]) -> bool:
    """Return whether two texts are equal but for one word replaced or added, the form of most near misses, and it is
    not known that the word may say nothing, or the two the same."""
    if len(one) == len(other):
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
        return len(pairs) == 1 and not _may_be_one(*pairs[0])
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    if len(longer) != len(shorter) + 1:
        return False
    added = [longer[at] for at in range(len(longer)) if longer[:at] + longer[at + 1 :] == shorter]
    return bool(added) and added[0] not in SUBTRACTS_NOTHING


def _may_be_one(one: str, other: str) -> bool:
    """Return whether two words, or what is bound to one preposition, may mean the same."""
    (bound, _, first), (also, _, second) = one.rpartition(":"), other.rpartition(":")
    if bound != also or frozenset((form(first), form(second))) in _apart():
        return False
    return {first, second} <= SUBTRACTS_NOTHING or are_near(first.split("-"), second.split("-"))


@cache
def _apart() -> frozenset[frozenset[str]]:
    """Return the pairs of words that are near and never one."""
    return frozenset(frozenset((form(a), form(b))) for row in rows("opposites") for a in row for b in row if a != b)


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in NO_ADVERBS


def _directed(one: list[str], other: list[str]) -> bool:
    """Return whether the object of a preposition changed, the shared words stand in another order, or one text names
    a way and the other what it lies between."""
    ways = [{"from", "to"} <= set(words) and "between" not in words for words in (one, other)]
    if ways[0] != ways[1] and "between" in (other if ways[0] else one):
        return True
    found = [dict(DIRECTION.findall(" ".join(words))) for words in (one, other)]
    shared = found[0].keys() & found[1].keys()
    swapped = any(
        found[0][word] != found[1][word] and found[0][word] in other and found[1][word] in one for word in shared
    )
    turned = any(
        found[a].get("from") == found[b].get("to") is not None and found[b].get("from") != found[b].get("to")
        for a, b in ((0, 1), (1, 0))
    )
    content = [[word for word in words if len(word) > 2 and not _is_adverb(word)] for words in (one, other)]
    moved = sorted(content[0]) == sorted(content[1]) and content[0] != content[1] and not shared
    return (
        swapped
        or turned
        or moved
        or _against(found[0], found[1], one, other)
        or _against(found[1], found[0], other, one)
    )


def _against(way: dict[str, str], others: dict[str, str], one: list[str], other: list[str]) -> bool:
    """Return whether one text names a way, and the other its two ends in the other order, and with no "from" or "to"
    that says which is which: "from English to Dutch", "it is in Dutch, I want it in English"."""
    start, end = way.get("from"), way.get("to")
    if start is None or end is None or start not in other or end not in other:
        return False
    said = others.get("from") == start or end in (others.get("to"), others.get("into"))
    return not said and (other.index(start) > other.index(end)) != (one.index(start) > one.index(end))
