"""The lexicon of the canonical wording: words of one sense, verbs by object, nouns of verbs; loaded on first use.

Files hold one row a line; the first word of a row represents the others, hyphens join words that stand together, and
"#" begins a comment. A word stands in one row only, and words of `opposites.txt` never meet in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.gist import synonymous
from sluicegate.cache.semantic.gist_rules import PERSONAL
from sluicegate.cache.semantic.lexicon import is_known, singular

FOLDER = files("sluicegate.cache.semantic.wording").joinpath("senses")
SENSES = ("people", "home", "health", "food", "travel", "money", "work", "computers", "world", "qualities", "acts")
"""Files of synonyms, by what they are about."""


def rows(name: str) -> Iterator[list[str]]:
    """Yield the rows of a file of `senses/`, by its name without the ending."""
    for line in FOLDER.joinpath(f"{name}.txt").read_text("utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield words


@cache
def senses() -> dict[tuple[str, ...], str]:
    """Return the representative of each word or expression, keyed by its words in gist form."""
    found: dict[tuple[str, ...], str] = {}
    for name in SENSES:
        for first, *others in rows(name):
            stands = "-".join(synonymous(first.split("-")))
            for word in (first, *others):
                key = tuple(map(singular, synonymous(word.split("-"))))
                if key != (stands,):
                    found.setdefault(key, stands)
    return found


@cache
def _nominals() -> dict[str, str]:
    return {noun: verb for verb, *nouns in rows("nominals") for noun in nouns}


MORE_ACTS = listed(
    """
    exercise claim appeal dispute contest solve calculate fry grill sharpen thicken undo revert reverse merge sort
    format rename debug compile deploy test measure weigh treat prevent protect build grow sow trim mow shave knit sew
    fold wrap tie polish peel chop slice knead whisk marinate season marry divorce adopt sue appeal resign retire invest
    borrow declare memorize cite quote proofread solve graph factor multiply divide subtract draw sketch frame assemble
    disassemble unclog defrost descale insulate ventilate tile plaster sand varnish unlock lock pair sync crop rotate
    mute silence block unblock ban pin bookmark archive label tag mention schedule reschedule postpone negotiate round
    clone fork push pull fetch stash rebase iterate loop parse append prepend insert concatenate count test compare sum
    throw catch handle raise declare initialize invoke cast encode decode encrypt decrypt compress extract zip
    unzip scrape bind deploy build compile profile lint mock truncate drop flatten shuffle slice invert
    """
)
"""Verbs of what is done on purpose, besides those of `gist_rules.py` and of `nominals.txt`."""


@cache
def _acts() -> frozenset[str]:
    return PERSONAL | frozenset(_nominals().values()) | MORE_ACTS


@cache
def _places() -> dict[str, str]:
    return {adjective: place for place, *adjectives in rows("places") for adjective in adjectives}


@cache
def _verbs() -> dict[str, list[tuple[frozenset[str], str]]]:
    """Return for each verb its sets of objects, each with the representative verb."""
    found: dict[str, list[tuple[frozenset[str], str]]] = {}
    for words in rows("verbs"):
        bar = words.index("|")
        for verb in words[1:bar]:
            found.setdefault(verb, []).append((frozenset(words[bar + 1 :]), words[0]))
    return found


def act_of(verb: str, thing: str) -> str:
    """Return the representative of `verb` for the object `thing`, a singular noun."""
    return next((stands for things, stands in _verbs().get(verb, ()) if thing in things or "*" in things), verb)


def nominal(noun: str) -> str | None:
    """Return the verb of an action noun: "renew" for "renewal"."""
    return _nominals().get(noun)


def is_act(word: str) -> bool:
    """Return whether a word is a verb of the lexicon."""
    return word in _acts() or is_known(word)


def place_of(adjective: str) -> str:
    """Return the place of an adjective, "africa" for "african"; an unknown word unchanged."""
    return _places().get(adjective, adjective)
