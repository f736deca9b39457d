"""Differences between two questions that no model may judge away: numbers and their order, quotations, names, negation,
direction, opposites, and the person that a question is about.

A judge of sameness is fast because it is small, and small models take "from Paris to Rome" for "from Rome to Paris". So
differences that rules can find are decided here, and the judge is asked only about the rest.

Differences of form that rules can explain are no differences: "did not arrive" and "is missing", "how many times a
year" and "how often", one word replaced by one of a row of `near_words.txt`. Those go to the judge.

Not covered: a name at the beginning of a sentence that is a common word too, and opposites that no table lists. English
only.
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from itertools import pairwise

from sluicegate.cache.semantic import english as known
from sluicegate.cache.semantic.fact_guard import (
    canonical_words,
    is_comparable,
    names_of,
    quotations_of,
    signature,
)
from sluicegate.cache.semantic.judged.near_words import are_near, form, is_listed
from sluicegate.cache.semantic.judged.tables import (
    ALIKE_ADDED,
    ALIKE_REPLACED,
    ASKED_AMOUNTS,
    COMMON,
    DIRECTION,
    EVERY,
    FIRST,
    FIRST_WORD,
    GENERIC_YOU,
    INTERJECTIONS,
    KEEP_FROM,
    NAMES_TOO,
    NEAR_NEGATION,
    NEGATED,
    NEGATIONS,
    NO_ADVERBS,
    NO_LABELS,
    NUMBER,
    OPPOSITES,
    ORDINARY,
    PERSONS,
    PREFIXES,
    QUANTITIES,
    SAME_NAMES,
    SECOND,
    SHORT_WORDS,
    SPELLED_OUT,
    SUBTRACTS_NOTHING,
    UNIT,
    UNIT_ASKED,
    UNITS,
    WEEKDAYS,
)
from sluicegate.cache.semantic.wording.senses import is_act, place_of, rows

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
        """Return the words that may have an opposite: "keep" from doing something is not that of "stop"."""
        return frozenset(KEEP_FROM.sub("stop", " ".join(self.words)).split())

    @cached_property
    def negations(self) -> int:
        """Return how many words negate something."""
        idle = sum(len(NEGATIONS & set(found.split())) for found in INTERJECTIONS.findall(self.plain))
        return sum(word in NEGATIONS or word.endswith("-free") for word in self.words) - idle

    @cached_property
    def counted(self) -> str:
        """Return the words of which numbers count: not "one" that is no number ("a new one", "can one use")."""
        counts_nothing = "one" in EVERY.findall(self.text.lower())
        return " ".join(word for word in self.words if word != "1" or not counts_nothing)

    @cached_property
    def numbers(self) -> list[str]:
        return NUMBER.findall(self.counted)

    @cached_property
    def units(self) -> list[tuple[str, str]]:
        found = UNIT.findall(self.counted)
        return [(number, known.UNITS.get(unit, unit)) for number, gap, unit in found if not gap or _measures(unit)]

    @cached_property
    def every(self) -> frozenset[str]:
        """Return every word as written, in lower case, without a possessive's ending."""
        return frozenset(_name(word.removesuffix("'s")) for word in EVERY.findall(self.text.lower()))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(_name(word) for word in names_of(self.text) - COMMON - _ordinary_firsts(self.text))

    @cached_property
    def quoted(self) -> list[str]:
        return quotations_of(self.text)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return the word before each number: "port" of "port 8080"."""
        return {b: a for a, b in pairwise(self.words) if NUMBER.fullmatch(b) and a.isalpha() and a not in NO_LABELS}

    @cached_property
    def units_asked(self) -> frozenset[str]:
        """Return the units of time in which an amount is asked."""
        return frozenset(unit.rstrip("s") for unit in UNIT_ASKED.findall(" ".join(self.words)))

    @cached_property
    def amounts(self) -> frozenset[str]:
        """Return the words without what only asks how long, how often or when."""
        text = " ".join(self.words)
        for pattern, becomes in ASKED_AMOUNTS:
            text = pattern.sub(becomes, text)
        return frozenset(text.split())

    @cached_property
    def forms(self) -> list[str]:
        return [form(word) for word in self.words]

    @cached_property
    def signature(self) -> tuple[str, ...] | None:
        return signature(self.text)


def _measures(unit: str) -> bool:
    return unit.lower() in UNITS or not unit.islower() or (len(unit) < 3 and unit not in SHORT_WORDS)


def _name(word: str) -> str:
    """Return a name in one spelling: "Germany" for "German", "tuesday" for "tuesdays", "atm" for "atms"."""
    if word in WEEKDAYS or (word[-1] == "s" and word[:-1] in SPELLED_OUT):
        word = word[:-1]
    return place_of(SAME_NAMES.get(word, word))


def _ordinary_firsts(text: str) -> set[str]:
    """Return the first words of sentences that name nothing: of the lexicon, and capitalised nowhere else."""
    firsts = set(FIRST_WORD.findall(text))
    others = set(FIRST_WORD.sub("", text).replace("?", " ").replace(".", " ").split())
    return {word.lower().removesuffix("'s") for word in firsts if word not in others and _is_ordinary(word)}


def _is_ordinary(word: str) -> bool:
    word = word.removesuffix("'s")
    low = word.lower()
    if word[1:] != low[1:] or low in known.KEEPS_CASE or low in NAMES_TOO:
        return False
    return low in ORDINARY or is_act(form(low)) or is_listed(low)


def judged_digest(text: str, scope: str) -> int | None:
    """Return a 64-bit digest of the scope and the text's numbers; None where the text cannot be judged."""
    if not can_be_judged(text):
        return None
    told = "\x1f".join(("judged", scope, *PreparedText(text).numbers)).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


def can_be_judged(text: str) -> bool:
    return len(text) <= MAX_CHARS and "\n" not in text.strip() and is_comparable(text)


def what_differs(one: str, other: str) -> str | None:
    """Return the kind of protected difference between two questions; None where there is none and a judge may
    decide."""
    return difference(PreparedText(one), PreparedText(other))


def difference(a: PreparedText, b: PreparedText) -> str | None:
    """Return what `what_differs` returns, of prepared texts."""
    if a.numbers != b.numbers or a.units != b.units or _relabelled(a, b) or _relabelled(b, a):
        return "number"
    if _unquoted(a, b) or _unquoted(b, a):
        return "quotation"
    if _unnamed(a, b) or _unnamed(b, a):
        return "name"
    if _prefixed(a.kinds, b.kinds) or not _negated_alike(a, b):
        return "negation"
    if any(_turned(a.turnable, b.turnable, left, right) for left, right in OPPOSITES):
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


def _unnamed(one: PreparedText, other: PreparedText) -> bool:
    """Return whether a name of one text is not in the other, nor what it is short for."""
    return any(name not in other.every and other.every.isdisjoint(SPELLED_OUT.get(name, ())) for name in one.names)


def _relabelled(one: PreparedText, other: PreparedText) -> bool:
    """Return whether a number's label stands in the other text as well, but not before that number: "port 8080" and
    "the port of process 8080"."""
    return any(
        word in other.kinds and other.labels.get(number, word) != word and other.labels[number] in one.kinds
        for number, word in one.labels.items()
    )


def _negated_alike(a: PreparedText, b: PreparedText) -> bool:
    """Return whether both texts have an even or both an odd number of negations, or one of them says in a word what
    the other negates."""
    odd = [text.negations % 2 for text in (a, b)]
    if odd[0] == odd[1]:
        return True
    negating, saying = (a, b) if odd[0] else (b, a)
    negated: set[str] = set()
    for at, word in enumerate(negating.words):
        if word in NEGATIONS:
            negated.update(negating.forms[at + 1 : at + 1 + NEAR_NEGATION])
    said = set(saying.forms) - set(negating.forms)
    return any(not said.isdisjoint(plain) and not negated.isdisjoint(counter) for plain, counter in NEGATED)


def _other_amount(a: PreparedText, b: PreparedText) -> bool:
    """Return whether two texts ask in other units of time, or one has a word of quantity and the other none."""
    if a.units_asked and b.units_asked and a.units_asked != b.units_asked:
        return True
    return any(a.amounts.isdisjoint(kind) != b.amounts.isdisjoint(kind) for kind in QUANTITIES)


def _other_person(a: PreparedText, b: PreparedText) -> bool:
    """Return whether one text has a pronoun of a person that the other does not speak of."""
    return any(
        not one.kinds.isdisjoint(pronouns) and other.kinds.isdisjoint(pronouns | nouns)
        for pronouns, nouns in PERSONS
        for one, other in ((a, b), (b, a))
    )


def _prefixed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether one text has a word that the other has with a negating prefix: "legal", "illegal"."""
    return any(
        prefix + word in theirs and prefix + word not in ours and word not in theirs
        for ours, theirs in ((one, other), (other, one))
        for word in ours
        if len(word) > 2
        for prefix in PREFIXES
    )


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
    return swapped or turned or moved
