"""Words of a request in one form, where its kind allows that: number, articles, possessors, compounds, free phrases.

"How do I cook eggs" asks what "how do I cook an egg" asks, but "write poems" is not "write a poem": what may be passed
over depends on how the request begins. Kinds that are not listed here stay word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluicegate.cache.semantic.english import UNITS, listed
from sluicegate.cache.semantic.gist import gist
from sluicegate.cache.semantic.lexicon import is_known, singular, stem, verb_of
from sluicegate.cache.semantic.wording.meaning import meaning
from sluicegate.cache.semantic.wording.outline import outline

# ruff: noqa: E501
GENERAL = (
    ("how-to",), ("where-find",), ("can", "i"), ("may", "i"), ("do", "you"), ("offer",), ("accept",), ("ship-to",), ("policy",),
    ("what", "causes"), ("what", "is", "difference"), ("what", "is", "price"), ("how", "long"), ("how", "often"), ("why",),
    ("hours",), ("do", "i", "need"), ("recipe", "for"), ("explain",), ("how-works",), ("what", "are", "symptoms"), ("delivery", "time"),
    ("when", "does"), ("is", "it", "safe"), ("tips", "for"), ("where-buy",), ("purpose", "of"), ("how", "difficult"), ("what", "happens", "if"), ("reasons", "to"),
    ("may-i",), ("includes",), ("has",), ("ingredients",), ("substitute",), ("min-age",), ("refund", "of"), ("salary",), ("deadline",), ("who-must",), ("who-contact",),
    ("earliest",), ("recommend", "name", "for"), ("is-a",), ("when", "need-to"), ("where", "need-to"),
    ("tell", "about"), ("opinion", "on"), ("pros-and-cons", "of"), ("not-working",), ("do", "you", "sell"), ("should-i",), ("origin", "of"), ("what", "is", "best"),
)  # fmt: skip
"""How requests begin that ask about things of a kind: one of them or several, mine or anybody's."""
ACTING = (
    ("how-to",),
    ("can", "i"),
    ("may", "i"),
    ("may-i",),
    ("who-must",),
    ("min-age",),
    ("should-i",),
    ("do", "i", "need", "to"),
)
"""What stands right before a verb."""
COUNTED = listed("few little lot bit number couple pair dozen million")
QUANTITY = listed("first last second third next only all both each every few many several most 1 2 3 4 5 6 7 8 9 10")
"""Where one of these stands, number decides."""
POSSESSORS = listed("my our")
FREE = listed("in on at using during via through for")
"""Prepositions of phrases that may stand in any order behind what is asked."""
JOINED = listed("and or but than not no never without then if unless because while although as to from of")
HEADS = listed(
    "status address number name price cost size color date balance policy hours password recipe discount warranty"
)
BEFORE_HEADS = listed("is are a an my our your see view check change get know")
"""Between one of these and a head stands no other noun."""
GENRES = listed("poem haiku story essay song limerick joke speech sonnet article")
LANGUAGES = listed(
    "english french german spanish italian latin greek russian chinese japanese korean arabic dutch polish portuguese turkish"
    " swedish danish hindi short long funny sad new old good happy formal informal different other similar first second"
)
ASKED_WORDS = listed("synonym synonyms antonym spell spelled spelling rhymes rhyme pronounce pronounced word")
PLAIN = re.compile(r"[a-z][a-z-]*")


def canonical(tokens: Sequence[str], *, one_clause: bool) -> tuple[str, ...]:
    """Return the words of a question in one form. `one_clause`: no sign stood between the words of the text."""
    found = _acting(list(tokens))
    opening = next((kind for kind in GENERAL if tuple(found[: len(kind)]) == kind), None)
    if opening is not None:
        begins = len(opening) + (opening in ACTING)
        found = [*found[:begins], *_of_a_kind(found[begins:])]
    if found[:1] == ["convert"]:
        found[-1] = UNITS.get(found[-1], found[-1])
    found = _genre(_compounds(found))
    ordered = _in_order(found) if one_clause and opening is not None else found
    return outline(meaning(gist(tuple(ordered))))


def is_about_things(tokens: Sequence[str]) -> bool:
    """Return whether no word itself is asked about: the synonyms of "big" are not those of "large"."""
    return ASKED_WORDS.isdisjoint(tokens)


def _of_a_kind(words: list[str]) -> list[str]:
    counted = not QUANTITY.isdisjoint(words)
    kept: list[str] = []
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        if word in ("a", "an") and after and after not in COUNTED:
            continue
        if word in POSSESSORS and PLAIN.fullmatch(after):
            continue
        if word in ("any", "some") and after:
            continue
        kept.append(word if counted or not PLAIN.fullmatch(word) else singular(word))
    return kept


def _acting(words: list[str]) -> list[str]:
    """Replace the verb, by what it is done to."""
    start = next((len(kind) for kind in ACTING if tuple(words[: len(kind)]) == kind), 0)
    if start >= len(words) or not PLAIN.fullmatch(words[start]):
        return words
    rest = words[start + 1 :]
    ends = next(
        (at for at, word in enumerate(rest) if word in FREE or word in JOINED or not PLAIN.fullmatch(word)), len(rest)
    )
    verb = stem(words[start])
    if start == 0 and not is_known(verb):
        return words
    return [*words[:start], verb_of(verb, singular(rest[ends - 1]) if ends else ""), *rest]


def _compounds(words: list[str]) -> list[str]:
    """Rewrite "status of order" as "order status", for nouns that are always somebody's."""
    for at in range(1, len(words) - 2):
        if words[at + 1] == "of" and words[at] in HEADS and (words[at - 1] in BEFORE_HEADS or at == 2):
            end = next((n for n in range(at + 2, len(words)) if words[n] in FREE or words[n] in JOINED), len(words))
            owner = [word for word in words[at + 2 : end] if word not in ("a", "an")]
            if owner and all(PLAIN.fullmatch(word) for word in owner):
                return [*words[:at], *owner, words[at], *words[end:]]
    if len(words) > 3 and words[0] == "offer" and words[-2] == "for" and words[-3] in HEADS:
        return [*words[:-3], words[-1], words[-3]]
    return words


def _genre(words: list[str]) -> list[str]:
    """Rewrite "an autumn haiku" as "a haiku about autumn"."""
    match words:
        case ["write", "a" | "an", about, genre] if (
            genre in GENRES and about not in LANGUAGES and PLAIN.fullmatch(about)
        ):
            return ["write", "a", genre, "about", about]
        case ["write", "a" | "an", genre, "on", *about] if genre in GENRES:
            return ["write", "a", genre, "about", *about]
    return words


def _in_order(words: list[str]) -> list[str]:
    """Sort the phrases behind the first preposition, where each begins with another free preposition and nothing is
    joined or counts in order."""
    if not JOINED.isdisjoint(words[1:]) or len(words) > 16:
        return words
    starts = [at for at, word in enumerate(words) if at > 1 and word in FREE]
    if len(starts) < 2 or len({words[at] for at in starts}) < len(starts):
        return words
    phrases = [words[at:end] for at, end in zip(starts, [*starts[1:], len(words)], strict=True)]
    return [*words[: starts[0]], *(word for phrase in sorted(phrases) for word in phrase)]
