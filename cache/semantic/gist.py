"""The gist of a question: what is asked of which things, without the words that only hold the sentence together.

It is taken of the canonical words that `phrases.py` leaves, so that what was equal there stays equal. How a question
begins says its kind (how to, may I, do you offer, when ...). Articles, auxiliaries and the asker's "I" are dropped;
plurals and "-ing" lose their ending; synonyms become one word; "deadline of the thesis" becomes "thesis deadline".
All other words stay, in their order: numbers, names, negations, directions and comparisons among them.

Not covered: requests that are no questions ("write a poem" is not "write poems"), and words that stand in no row of
`synonyms.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.gist_rules import REWORDINGS
from sluicegate.cache.semantic.lexicon import is_known, singular, stem, verb_of
from sluicegate.cache.semantic.wording.rewriting import Rewriting

MAX_WORDS = 30
"""Of a question whose gist is taken; a longer one is compared word for word."""
KINDS = listed(
    """
    how-to may-i need should-i offer when where where-find who whom who-must who-contact why how what which is are
    do does did can will would has includes fee-for not-working was were may refund deadline may i my our
    """
)
"""How something begins that is a question. Other texts are requests, and keep their words."""
WHAT_IS = (["what", "is"], ["offer", "a"])
VERB_NEXT = listed("how-to may-i need should-i")
NOUNS_TOO = listed("charge store bill")
"""Verbs behind `VERB_NEXT` whose synonyms are those of a noun."""
HOLD_TOGETHER = listed("a an some any do does is are am be being i we one so also just please")
"""What may be dropped anywhere in a question."""
WITH_TIME = listed("when what where")
"""Kinds in which "is it open" and "does it open" are two questions."""
GERUNDS = WITH_TIME | {"whether", "offer", "has", "includes"}
"""Kinds in which "is it raining" and "does it rain", "gift wrapping" and "gift wrap" are two."""
KEPT_ENDING = listed(
    """
    building meeting ceiling wedding morning evening spring string thing king ring wing clothing painting training
    parking housing shipping savings earring nothing something anything everything during pudding lightning
    feeling being bring sing swing sling sting cling missing reading hearing charging running existing following
    interesting boring exciting remaining living working opening beginning ending building rating ranking listing
    setting saving standing dressing packing icing frosting filling lining flooring heating lighting plumbing wiring
    dating offering outing gathering boarding landing savings settings
    pricing marketing engineering accounting programming banking gaming
    """
)
"""Nouns and adjectives in -ing that say something else than their verb."""
IRREGULAR = dict(
    pair.split(":")
    for pair in listed(
        """
    shoes:shoe toes:toe canoes:canoe leaves:leaf knives:knife wives:wife people:person men:man women:woman feet:foot
    teeth:tooth mice:mouse geese:goose halves:half loaves:loaf shelves:shelf phases:phase houses:house buses:bus
    quizzes:quiz analyses:analysis diagnoses:diagnosis caches:cache
        """
    )
)
COUNTS = listed("first last second third next only all both each every few many several most")
OF_WORDS = listed("plural singular spell word letter pronounce spelling rhyme verb noun syllable character")
"""Where one of these or of `COUNTS` stands, number decides."""
ABOUT_A_WORD = listed(
    """
    translate synonym synonyms antonym rhyme rhymes meaning stand pronounce spell spelling plural
    """
)
"""Where one of these stands, a word is asked about and no thing."""
LANGUAGES = listed("python java javascript typescript rust go ruby swift kotlin perl php sql bash")
TOOLS = listed("CSS HTML SQL Git CSV JSON PDF XML URL API SSH PHP LaTeX NumPy")
CODE = listed(
    """
    list string function dict dictionary array file loop class script variable integer code sort parse module
    package method regex
    """
)
"""Beside these a programming language needs no capital letter to be one."""
PLAIN = re.compile(r"[a-z][a-z-]*")
SETTINGS = listed(
    """
    monday tuesday wednesday thursday friday saturday sunday weekend weekday january february april june july
    september october november december winter summer spring autumn hotel restaurant website app store shop school
    office airport station platform exam lesson menu account python java javascript sql excel outlook windows
    linux ubuntu mac iphone android phone laptop museum gym university morning afternoon evening night
    """
) | {f"{language}_cap" for language in LANGUAGES}  # fmt: skip
"""Where "in", "on" and "at" say the same."""
AT = listed("in on at during")
BINDS = listed("of for")
STOPS = listed(
    """
    to from into onto in on at during with without by before after than until till since between against over
    under through and or if but not while when because per as like near that who which unless except versus how
    what where why @ about
    """
)
"""Where a phrase with "of" or "for" ends at the latest."""
MEASURES = listed(
    """
    glass cup bottle box bag piece slice bowl jar can pair number lot kind type sort part one some most all many
    much bit couple group set full out because instead ahead afraid proud short tired think hear made consist get
    take look wait ask pay apply search care name word letter photo picture gift present message
    """
)
"""Before "of" or "for" none of these changes places with what follows: a glass of wine is no wine glass."""


def gist(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the gist of canonical words; the words themselves where they are no question, or too many."""
    if len(tokens) > MAX_WORDS or not tokens:
        return tokens
    text = " ".join(tokens)
    text = _rewordings()(text)
    words = text.split(" ")
    words = _languages(words)
    if words[0] not in KINDS:
        return tuple(words if words[0] in ABOUT_A_WORD else synonymous(words))
    words = _dropped(_verb(words))
    if len(words) < 2:
        return tuple(text.split(" "))
    counted = not COUNTS.isdisjoint(words) or words[0] == "who"  # "Alien" and "Aliens"
    counted = counted or not OF_WORDS.isdisjoint(words)
    words = [_lemma(word, words, counted) for word in words]
    defined = words[:2] == ["what", "is"] and len(words) == 3
    return tuple(_bound(_at(words if defined or not ABOUT_A_WORD.isdisjoint(words) else synonymous(words))))


@cache
def _rewordings() -> Rewriting:
    return Rewriting(REWORDINGS)


@cache
def _synonyms() -> dict[tuple[str, ...], str]:
    """Return the representative of each word or expression, keyed by its words."""
    text = files("sluicegate.cache.semantic").joinpath("synonyms.txt").read_text("utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {tuple(word.split("-")): row[0] for row in rows for word in row if word != row[0] or "-" in word}


def _languages(words: list[str]) -> list[str]:
    words = [word.lower() if word in TOOLS else word for word in words]
    if CODE.isdisjoint(map(singular, words)):
        return words
    return [word[:-4] if word.endswith("_cap") and word[:-4] in LANGUAGES else word for word in words]


def _verb(words: list[str]) -> list[str]:
    """Replace the verb after "how to" and the like by its representative for that object."""
    led = words[0] in VERB_NEXT or (words[0] in ("where", "when") and is_known(stem(words[1] if words[1:] else "")))
    if not led or len(words) < 3 or not PLAIN.fullmatch(words[1]):
        return words
    rest = words[2:]
    ends = next((at for at, word in enumerate(rest) if word in STOPS or word in BINDS), len(rest))
    return [words[0], verb_of(stem(words[1]), singular(rest[ends - 1]) if ends else ""), *rest]


def _dropped(words: list[str]) -> list[str]:
    """Drop function words, except at the beginning of the question."""
    timed = words[0] in WITH_TIME
    kept = words[:1] if words[0] not in ("is", "are", "do", "does") else ["whether"]
    for place, word in enumerate(words[1:], 1):
        if word in ("is", "are") and timed and place == 1:
            kept.append("is")
        elif word in ("my", "our"):
            if words[0] in ("what", "who") or words[place + 1 : place + 2] in ([], ["own"]):
                kept.append("my")
        elif word == "there" and words[place - 1] in ("is", "are", "was", "were"):
            continue
        elif (word in ("i", "we", "a") and words[0] in ("who", "whom")) or (
            word == "i" and words[0] in ("what", "which")
        ):
            kept.append(word)  # "who do I pay" and "who pays"
        elif word in ("was", "were", "did", "had"):
            kept.append("did")
        elif word not in HOLD_TOGETHER or (
            word == "a" and words[place + 1 : place + 2] in (["few"], ["little"], ["lot"])
        ):
            kept.append(word)
    return kept


def _lemma(word: str, words: Sequence[str], counted: bool) -> str:
    if not PLAIN.fullmatch(word) or word in KINDS:
        return word
    if word.endswith("ing") and word not in KEPT_ENDING:
        return stem(word) if words[0] not in GERUNDS else word
    if word in IRREGULAR:
        return IRREGULAR[word]
    return word if counted else singular(word)


def synonymous(words: list[str]) -> list[str]:
    """Replace words, and expressions of up to five words, by their representatives."""
    known, found, place = _synonyms(), [], 0
    while place < len(words):
        if place == 1 and words[0] in VERB_NEXT and words[1] in NOUNS_TOO:
            found.append(words[1])
            place += 1
            continue
        for length in (5, 4, 3, 2, 1):
            several = tuple(words[place : place + length])
            stands = known.get(several) or (length == 1 and known.get(tuple(several[0].split("-")))) or None
            if stands and len(several) == length:
                found.append(stands)
                place += length
                break
        else:
            found.append(words[place])
            place += 1
    return found


def _at(words: list[str]) -> list[str]:
    """Write "in", "on" and "at" as one preposition before a day or a place."""
    return [
        "@" if word in AT and place + 1 < len(words) and words[place + 1] in SETTINGS else word
        for place, word in enumerate(words)
    ]


def _bound(words: list[str]) -> list[str]:
    """Write "deadline of thesis" and "deadline for thesis" as "thesis deadline"."""
    first = 2 if words[0] in VERB_NEXT or words[:2] in (*WHAT_IS, ["how", "long"]) else 1
    for at in range(len(words) - 2, first, -1):
        if words[at] not in BINDS or words[at - 1] in MEASURES or not PLAIN.fullmatch(words[at - 1]):
            continue
        ends = next((n for n in range(at + 1, len(words)) if words[n] in STOPS or words[n] in BINDS), len(words))
        begins = at - 1
        while (
            first == 2
            and begins > first
            and PLAIN.fullmatch(words[begins - 1])
            and words[begins - 1] not in STOPS | BINDS
        ):
            begins -= 1
        if ends == at + 1 or words[begins] in KINDS or not PLAIN.fullmatch(words[at + 1]):
            continue
        words = [*words[:begins], *words[at + 1 : ends], *words[begins:at], *words[ends:]]
    return words
