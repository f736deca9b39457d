"""Differences between two questions that no model may judge away: numbers and their order, quotations, names, negation,
direction, opposites, and the person that a question is about.

A judge of sameness is fast because it is small, and small models take "from Paris to Rome" for "from Rome to Paris". So
differences that rules can find are decided here, and the judge is asked only about the rest.

Not covered: a name at the beginning of a sentence that is a common word too, and opposites that no table lists. English
only.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from sluicegate.cache.semantic import english as known
from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.fact_guard import (
    canonical_words,
    is_comparable,
    names_of,
    quotations_of,
    signature,
)

MAX_CHARS = 600
NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
UNIT = re.compile(r"(\d)\s*([^\W\d_]{1,4}|[%€$£°])(?![^\W_])")
EVERY = re.compile(r"[^\W_]+(?:[-'.+#/][^\W_]+)*(?:\+\+|#)?")
NEGATIONS = listed("not no never none nobody nothing nowhere neither nor without except unless")
PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "non-", "de", "anti", "anti-")
OPPOSITES = [
    tuple(frozenset(side.split()) for side in row.split("|"))
    for row in """
    enable activate allow permit | disable deactivate deny forbid block ban
    install | uninstall
    increase raise gain grow rise | decrease reduce lower lose shrink drop fall cut
    add create insert include open start begin enter | remove delete exclude close stop end exit
    buy purchase | sell rent lease
    rent | sell buy purchase own
    lend | borrow
    upload import push send | download export pull receive
    lock encrypt compress hide | unlock decrypt decompress extract show
    accept approve | reject decline refuse
    connect attach mount subscribe join | disconnect detach unmount unsubscribe leave
    renew extend keep | cancel terminate end stop
    upgrade | downgrade
    advantages advantage benefits benefit pros | disadvantages disadvantage drawbacks drawback cons downsides risks
    strengths strength | weaknesses weakness
    positive good best better | negative bad worst worse
    maximum most highest largest biggest longest tallest greatest | minimum least lowest smallest shortest
    oldest fastest | youngest newest slowest
    more greater above over | less fewer below under
    cheap cheapest | expensive
    hot heat boiling | cold cool freezing melting
    before until earlier | after since later
    first | last second third final
    next upcoming | last previous
    left | right
    north | south
    east | west
    top upper up | bottom down
    on | off
    in into inside indoor indoors | out outside outdoor outdoors
    win won | lose lost
    true correct right legal safe | false wrong incorrect illegal unsafe dangerous
    male man men boy father son brother husband | female woman women girl mother daughter sister wife
    morning am | evening night pm
    today | tomorrow yesterday
    ascending | descending
    causes cause | symptoms treatments treatment prevents cures effects cure
    plus | minus times
    multiply | divide
    basic free | premium pro paid
    new | used old
    front | rear back
    internal private | external public
    summer | winter
    username | password
    shipping | billing
    domestic | international
    freeze pause suspend | cancel delete terminate
    always | sometimes rarely
    horizontal | vertical
    input | output
    source | target destination
    parent | child
    all every each whole entire | some any half few
    minute minutes | hour hours second seconds
    """.replace("\n    ", "\n")
    .strip()
    .splitlines()
]
QUANTITIES = tuple(
    listed(row)
    for row in """
    half
    only just
    both
    either
    few
    other another different
    again
    today tonight
    tomorrow
    yesterday
    week weekly weeks
    month monthly months
    year yearly annual years
    day daily days
    """.strip().splitlines()
)
"""Where one text has a word of one, the other must have one, too."""
PERSONS = (listed("he his him"), listed("she her hers"), listed("they their them theirs"))
FIRST, SECOND = listed("i my me mine we our us"), listed("you your yours")
COMMON = listed("tips steps until what who where how it that best good great top many much also about explain")
"""Words at the beginning of a sentence that name nothing."""
DIRECTION = re.compile(r"\b(from|to|into|before|after|than|against|with|without|by) (?:a |an |my |your )?([^\W_]+)")


@dataclass(frozen=True, slots=True)
class _PreparedText:
    """A text prepared for comparison: canonical words, words with numbers, every word as written, names, quotations."""

    words: list[str]
    kinds: frozenset[str]
    counted: str
    every: frozenset[str]
    names: frozenset[str]
    quoted: list[str]

    @property
    def numbers(self) -> list[str]:
        return NUMBER.findall(self.counted)

    @property
    def units(self) -> list[tuple[str, str]]:
        return [(number, known.UNITS.get(unit, unit)) for number, unit in UNIT.findall(self.counted)]


def _read(text: str) -> _PreparedText:
    words = canonical_words(text)
    every = EVERY.findall(text.lower())
    counts_nothing = "one" in every  # "a new one", "can one use"
    counted = " ".join(word for word in words if word != "1" or not counts_nothing)
    bare = frozenset(word.removesuffix("'s") for word in every)
    return _PreparedText(words, frozenset(words), counted, bare, names_of(text) - COMMON, quotations_of(text))


def judged_digest(text: str, scope: str) -> int | None:
    """Return a 64-bit digest of the scope and the text's numbers; None where the text cannot be judged."""
    if len(text) > MAX_CHARS or "\n" in text.strip() or not is_comparable(text):
        return None
    told = "\x1f".join(("judged", scope, *_read(text).numbers)).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


def what_differs(one: str, other: str) -> str | None:
    """Return the kind of protected difference between two questions; None where there is none and a judge may
    decide."""
    a, b = _read(one), _read(other)
    if a.numbers != b.numbers or a.units != b.units:
        return "number"
    if a.quoted != b.quoted:
        return "quotation"
    if not a.names <= b.every or not b.names <= a.every:
        return "name"
    if _negated(a.words) != _negated(b.words) or _prefixed(a.kinds, b.kinds):
        return "negation"
    if any(_turned(a.kinds, b.kinds, left, right) for left, right in OPPOSITES):
        return "opposite"
    if any(a.kinds.isdisjoint(kind) != b.kinds.isdisjoint(kind) for kind in (*QUANTITIES, *PERSONS)):
        return "quantity"
    if _turned(a.kinds, b.kinds, FIRST, SECOND):
        return "person"
    if _directed(a.words, b.words):
        return "direction"
    same_but_one = _substituted(a.words, b.words) or _substituted(
        list(signature(one) or ()), list(signature(other) or ())
    )
    return "word" if same_but_one else None


def _negated(words: list[str]) -> int:
    return sum(word in NEGATIONS for word in words) % 2


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
    """Return whether two texts are equal but for one word replaced or added: the form of most near misses."""
    same = len(one) == len(other) and [a != b for a, b in zip(one, other, strict=True)].count(True) == 1
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    more = len(longer) == len(shorter) + 1 and any(
        longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer))
    )
    return same or more


def _directed(one: list[str], other: list[str]) -> bool:
    """Return whether the object of a preposition changed, or the shared words stand in another order."""
    found = [dict(DIRECTION.findall(" ".join(words))) for words in (one, other)]
    shared = found[0].keys() & found[1].keys()
    swapped = any(
        found[0][word] != found[1][word] and found[0][word] in other and found[1][word] in one for word in shared
    )
    turned = any(
        found[a].get("from") == found[b].get("to") is not None and found[b].get("from") != found[b].get("to")
        for a, b in ((0, 1), (1, 0))
    )
    content = [[word for word in words if len(word) > 2] for words in (one, other)]
    moved = sorted(content[0]) == sorted(content[1]) and content[0] != content[1] and not shared
    return swapped or turned or moved
