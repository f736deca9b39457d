"""What a question comes down to: its kind, what it names in whatever order, and the small words that are left.

The last step of the canonical wording. It works on the words that `meaning.py` leaves, so that what was equal stays
equal. `kind_rules.py` tells the kind ("what does X cost", "fee for X": both `cost`); words that say nothing go; a noun,
a participle and a gerund of one verb become that verb; what is named is sorted.

What decides stays: numbers and names as they are; negations, comparisons, directions and places together with the word
behind them; the past; the last word of a compound; every other small word. Where "or", "than", "which" or two persons
stand, nothing is sorted.

Not covered: kinds in which the order of words says who does what to whom, orders, texts of more than 18 words, with
quotations, or about a word. They keep their words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import DONE, NOT_DONE, base
from sluicegate.cache.semantic.gist import ABOUT_A_WORD, AT, COUNTS, KEPT_ENDING, OF_WORDS, PLAIN
from sluicegate.cache.semantic.lexicon import singular, stem
from sluicegate.cache.semantic.wording.kind_rules import RULES
from sluicegate.cache.semantic.wording.rewriting import Rewriting
from sluicegate.cache.semantic.wording.senses import is_act, nominal, rows

MAX_WORDS = 18
SORTED = listed(
    "how-to need what-need cost has often where-find max min hours due recipe ingredients long trouble many much able"
    " permitted"
)
"""Kinds of which the asker is the subject, or nothing is: what is named may stand in any order."""
IN_ORDER = listed("can why help where explain difference what-if")
"""Kinds in which what is named keeps its order."""
FIRST_COUNTS = listed("many much how-to able permitted")
"""Kinds of which what comes first is what is counted, or the act: "how many days are in a week", "lock the screen"."""
ACTS = listed("how-to able permitted")
"""Kinds that ask about an act."""
NOTHING = listed("a an my any some just there so now currently @")
"""What says nothing in these kinds."""
NOTHING_IN = {
    "for": listed("need what-need cost has max min due hours"),
    "can": listed("how-to where long max"),
    "may-i": listed("how-to where long max"),
    "i": SORTED,
    "to": SORTED,
}
"""Of these the kinds in which they say nothing; "to" only before a verb."""
DIRECTED = listed(
    """
    from to into onto without before after between under over below above behind until till since by than not no never
    less more most least only off out up down away back against except with for as about of in on at during per via
    through near
    """
)
"""What stays together with the word behind it, unless that is a name of the kind's own place ("in" is then "@")."""
PAST = listed("did was were had")
ORDERED = listed(
    "or than because while but unless whose he she him her his their instead and as substitute replace swap exchange"
    " convert turn prefer translate write speak compare owe me us which what who if whether how why when where that"
)
"""Where one of these stands behind the kind, it counts what stands first."""
PERSONS = listed(
    """
    father mother son daughter brother sister wife husband friend boss child parent owner teacher student doctor
    physician patient customer client tenant landlord employer employee manager user dog cat man woman boy girl
    neighbor guest host buyer seller
    """
)
QUALITIES = listed(
    "my your new old other another same different additional online abroad free early late own remote"
    " part-time full-time"
)
"""What says how a thing is, besides what stands in `qualities.txt`: it makes no compound."""
PARTICIPLES = listed("used married lost stolen broken fried")
"""Participles that say how a thing is."""
PASSIVE = listed("obtain get become be how-to")
"""Behind one of these a participle is what happens to somebody: "get paid"."""


def outline(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the outline of a question; the words themselves where it has none."""
    if not 1 < len(words) <= MAX_WORDS or not ABOUT_A_WORD.isdisjoint(words):
        return words
    kind, *rest = _rules()(" ".join(words)).split()
    if kind not in SORTED | IN_ORDER or not rest or any("=" in word or "\x00" in word for word in rest):
        return words
    named = _named(kind, rest)
    past = ["did"] if kind not in IN_ORDER and not PAST.isdisjoint(rest) else []
    if kind in IN_ORDER or not ORDERED.isdisjoint(rest) or _has_roles(named):
        return (kind, *(named or rest))
    first = _first(kind, named)
    others = [word for at, word in enumerate(named) if at not in first]
    return (kind, *(named[at] for at in first), *sorted([*others, *_head(rest)]), *past)


def _first(kind: str, named: Sequence[str]) -> list[int]:
    """Return the place of what stands first: what is counted, or the act, also behind how it is done ("online
    check-in")."""
    if kind not in FIRST_COUNTS or not named:
        return []
    fronted = kind in ACTS and len(named) == 2 and named[0] in _qualities() and is_act(named[1])
    return [1] if fronted else [0]


@cache
def _rules() -> Rewriting:
    return Rewriting(RULES)


@cache
def _families() -> dict[str, str]:
    return {word: words[0] for words in rows("families") for word in words[1:]}


def _has_roles(named: Sequence[str]) -> bool:
    """Return whether two numbers or two persons are named, of which it counts which is which."""
    numbers = sum(any(char.isdigit() for char in word) for word in named)
    return numbers > 1 or sum(word.rpartition(":")[2] in PERSONS for word in named) > 1


def _named(kind: str, words: Sequence[str]) -> list[str]:
    """Return what is named, each word in its base form, with what is bound to it."""
    counted = kind in IN_ORDER or kind == "has" or not (COUNTS.isdisjoint(words) and OF_WORDS.isdisjoint(words))
    loose = ORDERED.isdisjoint(words)
    found: list[str] = []
    bound = ""
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        if (word in NOTHING and (word != "@" or loose)) or (kind in SORTED and word in PAST):
            continue
        if kind in NOTHING_IN.get(word, ()) and (word != "to" or is_act(after)) and not after[:1].isdigit():
            continue
        if word in DIRECTED and after:
            bound += word + ":"
            continue
        one = _families().get(word, word) if counted else _base(word, words[place - 1] if place else kind)
        found.append(bound + one)
        bound = ""
    return [*found, bound] if bound else found


def _base(word: str, before: str) -> str:
    """Return the verb of a noun, participle or gerund that names its act, and the singular of a thing."""
    if not PLAIN.fullmatch(word):
        return word
    family = _families()
    if word in family:
        return family[word]
    one = singular(word)
    verb = nominal(one)
    if verb is None and word.endswith("ing") and word not in KEPT_ENDING and is_act(stem(word)):
        verb = stem(word)
    done = word in DONE or (word.endswith("ed") and word not in NOT_DONE)
    if verb is None and done and before not in PASSIVE and word not in PARTICIPLES and is_act(base(word)):
        verb = base(word)
    return family.get(verb or one, verb or one)


def _head(words: Sequence[str]) -> list[str]:
    """Return a mark for the last word of the first compound of two: "chocolate milk" is no "milk chocolate"."""
    things: list[str] = []
    for word in words:
        if word in DIRECTED or word in AT:
            break
        one = _base(word, "")
        if word in NOTHING or word in _qualities() or is_act(one) or word.endswith(("ed", "est", "ly")):
            if things:
                break
            continue
        things.append(one)
    return [f"head={things[-1]}"] if len(things) == 2 and all(map(PLAIN.fullmatch, things)) else []


@cache
def _qualities() -> frozenset[str]:
    return QUALITIES | {word for row in rows("qualities") for word in row}
