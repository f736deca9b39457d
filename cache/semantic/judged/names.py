"""Names of two questions: which of one text the other does not have, in whatever spelling.

A name may be written in short ("UK", "Amex", "JS") where the other text writes it out. A word that only begins a
sentence is no name.

Not covered: a name at the beginning of a sentence that is a common word too; names of one thing that no table knows
("Tokyo", "Japan's capital").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluicegate.cache.semantic import english as known
from sluicegate.cache.semantic.fact_guard import names_of
from sluicegate.cache.semantic.judged.name_words import (
    COMMON,
    EXTREMES,
    FIRST_WORD,
    NAMES_TOO,
    NO_ADVERBS,
    ORDINARY,
    SAME_NAMES,
    SPELLED_OUT,
    WEEKDAYS,
)
from sluicegate.cache.semantic.judged.near_words import form, is_listed
from sluicegate.cache.semantic.wording.senses import is_act, place_of

WORDS = re.compile(r"[^\W_]+(?:[-'.+#/][^\W_]+)*(?:\+\+|#)?")
DETERMINER = re.compile(r"^[^\W_]+ (?:an?|the|my|your|our|his|her|their|its|these|those|some|any|i|i'\w+|we|we'\w+) ")
MOST_LETTERS = 6
"""Most letters of an abbreviation made of the beginnings of several words."""


def every_name(text: str) -> frozenset[str]:
    """Return every word as written, in lower case, without a possessive's ending: what may be a name of the other
    text."""
    return frozenset(_spelling(word) for word in _words(text))


def names(text: str) -> frozenset[str]:
    """Return the words of a text that name something."""
    return frozenset(_spelling(word) for word in names_of(text) - COMMON - _ordinary_firsts(text))


def unnamed(one: str, ones: frozenset[str], other: str, others: frozenset[str]) -> bool:
    """Return whether one of the names `ones` of a text is none of the words `others` of the other text, nor what one of
    these is short for, nor short for them."""
    missing = ones - others
    if not missing:
        return False
    mine, theirs = _words(one), _words(other)
    initials = {_initials(word) for word in WORDS.findall(other)}
    for name in missing:
        short = not others.isdisjoint(SPELLED_OUT.get(name, ())) or name in initials or _is_short(name, theirs)
        apart = _is_joined(name, theirs) or (
            len(name) > 4 and not others.isdisjoint((f"{name}s", name.removesuffix("s")))
        )
        if not short and not apart and not _spelled_out(name, others, mine, one):
            return True
    return False


def _spelled_out(name: str, others: frozenset[str], mine: Sequence[str], text: str) -> bool:
    """Return whether a word of the other text is short for a name, or for words among which the name stands."""
    if any(name in words and short in others for short, words in SPELLED_OUT.items()):
        return True
    own = {_initials(word) for word in WORDS.findall(text) if _spelling(word.lower()) == name} - {""}
    if not own.isdisjoint(others):
        return True
    return any(
        name in map(_spelling, run) for short in others if 1 < len(short) <= MOST_LETTERS for run in _runs(short, mine)
    )


def _words(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in WORDS.findall(text.lower())]


def _initials(word: str) -> str:
    """Return the capital letters of "JavaScript"; nothing for a word that has less than two, or no others."""
    capitals = "".join(char for char in word if char.isupper())
    return capitals.lower() if len(capitals) > 1 and not word.isupper() else ""


def _is_short(name: str, words: Sequence[str]) -> bool:
    return 1 < len(name) <= MOST_LETTERS and any(True for _ in _runs(name, words))


def _is_joined(name: str, words: Sequence[str]) -> bool:
    """Return whether a name is some neighbouring words without the spaces: "NullPointerException"."""
    plain = name.replace("-", "")
    for start, word in enumerate(words):
        joined = word.replace("-", "")
        if plain.startswith(joined) and len(joined) > 1:
            for other in words[start + 1 : start + 4]:
                joined += other.replace("-", "")
                if joined == plain:
                    return True
    return False


def _runs(short: str, words: Sequence[str]) -> list[Sequence[str]]:
    """Return the runs of two or more words whose beginnings make up `short`: "american express" for "amex"."""
    found = []
    for start, word in enumerate(words):
        if word[0] == short[0]:
            for end in range(start + 2, min(len(words), start + len(short)) + 1):
                if _begins(short, words[start:end]):
                    found.append(words[start:end])
    return found


def _begins(short: str, words: Sequence[str]) -> bool:
    """Return whether `short` is made of beginnings of all `words`, in order."""
    if not words:
        return not short
    head, rest = words[0], words[1:]
    most = min(len(head) - 1, len(short) - len(rest))
    return any(short[:n] == head[:n] and _begins(short[n:], rest) for n in range(1, most + 1))


def _spelling(word: str) -> str:
    """Return a name in one spelling: "germany" for "german", "tuesday" for "tuesdays", "atm" for "atms"."""
    word = word.removesuffix("'s")
    if word in WEEKDAYS or (word[-1] == "s" and word[:-1] in SPELLED_OUT):
        word = word[:-1]
    return place_of(SAME_NAMES.get(word, word))


def _ordinary_firsts(text: str) -> set[str]:
    """Return the first words of sentences that name nothing: ordinary ones, and capitalised nowhere else."""
    others = set(FIRST_WORD.sub("", text).replace("?", " ").replace(".", " ").split())
    found = set()
    for match in FIRST_WORD.finditer(text):
        word = match[1]
        if word not in others and _is_ordinary(word, text[match.start() :]):
            found.add(word.lower().removesuffix("'s"))
    return found


def _is_ordinary(word: str, sentence: str) -> bool:
    word = word.removesuffix("'s")
    low = word.lower()
    if word[1:] != low[1:] or low in known.KEEPS_CASE or low in NAMES_TOO or place_of(low) != low:
        return False
    if low in ORDINARY or is_act(form(low)) or is_listed(low):
        return True
    if len(low) > 5 and ((low.endswith("est") and low not in EXTREMES) or (low[-2:] == "ly" and low not in NO_ADVERBS)):
        return True
    return DETERMINER.match(sentence.lower()) is not None
