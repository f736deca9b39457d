"""The last step to the canonical wording of a question: frames, measures, nouns of verbs, tools, order within phrases.

Works on the gist that `gist.py` leaves, so that what was equal there stays equal. "What is the process for trademark
registration" becomes "how-to register trademark", "how deep is X" becomes "what is X depth", "python list sort" and
"sort a list in python" say their tool at the end. Numbers, names, negations, comparisons and directions stay.

Not covered: texts that are no questions, and what needs knowledge of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from sluicegate.cache.semantic.english import KEEPS_CASE, listed
from sluicegate.cache.semantic.gist import ABOUT_A_WORD, COUNTS, IRREGULAR, KINDS, OF_WORDS, PLAIN, STOPS
from sluicegate.cache.semantic.lexicon import singular, verb_of
from sluicegate.cache.semantic.wording.meaning_rules import RULES
from sluicegate.cache.semantic.wording.rewriting import Rewriting
from sluicegate.cache.semantic.wording.senses import act_of, is_act, nominal, senses

VERB_FIRST = listed("how-to may-i need-to should-i fee-for")
"""Kinds behind which the verb stands that the asker does."""
NOUN_FIRST = listed(
    "offer policy remedy where-find recipe substitute deadline hours example who-contact salary duration includes-price"
)
"""Kinds behind which things stand."""
ANY_CASE = listed(
    """
    iphone ipad ipod ios macos macbook youtube whatsapp paypal javascript typescript postgresql github gitlab
    linkedin wifi ebay icloud itunes airpods mysql mongodb openai chatgpt vpn atm vat usb bmi dna pin gps api
    http https css html sql pdf csv json xml url ssh dns sim hdmi ceo gdp ufo faq eu uk hiv adhd seo cpu gpu ssd
    nasa nato apa mla apr ira irs ssn cpr mri ecg ekg covid ram vip pto hr iban sepa vin
    """
)
"""What has one meaning however its letters are written."""
TOOLS = listed(
    """
    python java javascript typescript rust go ruby swift kotlin perl php sql bash c c++ c# git docker kubernetes linux
    ubuntu windows mac macos iphone ipad android excel outlook word powerpoint gmail css html react pandas numpy vim
    photoshop chrome firefox safari slack teams zoom whatsapp instagram facebook youtube jira confluence sheets pip npm
    postgresql mysql mongodb redis numpy scala matlab r powershell latex vscode github gitlab aws azure ios
    """
)
"""In, on or with which something is done, whose place in a question says nothing."""
WITH_TOOL = listed("in on with using @ for at")
PHRASES = listed("in on at during with without for from to using via through @ before after by into onto within until")
"""Prepositions whose phrases may change places where each stands once."""
JOINS = listed("and or but if when while that who which than because unless not no as so then where how what why @@")
"""Behind one of these nothing changes its place."""
ENDS = listed(
    "of for abroad online today tomorrow here there early late free again permanently temporarily manually"
    " automatically"
)
"""Where the thing ends that something is done to, besides prepositions."""
LIVING = listed(
    """
    father mother son daughter brother sister wife husband uncle aunt cousin friend boss child children parent
    person owner teacher student pupil doctor physician patient customer client tenant landlord employer
    employee manager user dog cat horse bird man woman boy girl author artist king queen president neighbor
    guest host buyer seller lawyer judge
    """
)
"""Of these it counts whose is whose: "the dog's owner" and "the owner's dog"."""
ABOUT_THINGS = (
    KINDS
    | NOUN_FIRST
    | listed("whether what-to-do what-if how-works price-to permitted accept limit recommended who-wrote min-age")
    | listed("explain recommend")
)
"""Kinds of questions about things, in which a word stands for its sense."""
ORDERED = listed("first last second third next only all both each every few many several most other another not no non")
"""Where one of these stands in a phrase, its words stay in order."""


def meaning(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a question in its last canonical wording."""
    if not words:
        return ()
    text = " ".join(_cased(word) for word in words)
    text = " ".join(_one_sense(_rules()(text).split(" ")))
    return tuple(_arranged(_acted(_rules()(text).split(" "))))


@cache
def _rules() -> Rewriting:
    return Rewriting(RULES)


def _cased(word: str) -> str:
    if word.lower() in KEEPS_CASE and word.lower() != "ram":
        return word
    return word.lower() if word.lower() in ANY_CASE else word


def _one_sense(words: list[str]) -> list[str]:
    """Replace words and expressions by what stands for them, where a question is about things and no words."""
    if words[0] not in ABOUT_THINGS or not ABOUT_A_WORD.isdisjoint(words):
        return words
    counted = words[0] == "who" or not COUNTS.isdisjoint(words) or not OF_WORDS.isdisjoint(words)
    known, found, place = senses(), words[:1], 1
    lemmas = [_lemma(word) for word in words]
    while place < len(words):
        for length in (4, 3, 2, 1):
            stands = known.get(tuple(lemmas[place : place + length]))
            if stands and place + length <= len(words):
                found.append(stands)
                place += length
                break
        else:
            found.append(words[place] if counted else lemmas[place])
            place += 1
    return found


def _lemma(word: str) -> str:
    if "-" in word:
        first, _, last = word.rpartition("-")
        return f"{first}-{singular(last)}" if PLAIN.fullmatch(word) and word not in KINDS else word
    return IRREGULAR.get(word) or (singular(word) if PLAIN.fullmatch(word) else word)


def _acted(words: list[str]) -> list[str]:
    """Write what is done as a verb and its object: "register trademark" for "trademark registration"."""
    if words[0] not in VERB_FIRST or len(words) < 2:
        return words
    kind, rest = words[0], words[1:]
    ends = _end(rest)
    head = rest[ends - 1] if ends else ""
    if ends and (verb := nominal(head)) and (ends == 1 or not is_act(rest[0])):
        of = rest[ends:]
        rest = [verb, *rest[: ends - 1], *(of[1:] if of[:1] in (["of"], ["for"]) and ends == 1 else of)]
        ends = _end(rest)
    if ends > 1:
        thing = singular(rest[ends - 1])
        rest[0] = act_of(verb_of(rest[0], thing), thing)
    return [kind, *rest]


def _end(words: list[str]) -> int:
    """Return where the thing ends that something is done to."""
    return next((at for at, word in enumerate(words) if at and word in STOPS | ENDS), len(words))


def _arranged(words: list[str]) -> list[str]:
    """Put the tool last, the phrases in one order, and what says more about a thing before it in one order."""
    begins = 2 if words[0] in VERB_FIRST or words[:2] in (["what", "is"], ["what", "are"]) else 1
    if (begins == 1 and words[0] not in NOUN_FIRST) or len(words) <= begins:
        return words
    tail: list[str] = []
    if words[0] in VERB_FIRST:
        words, tail = _tool(words, begins)
    if not words[begins:]:
        return [*words, *tail]
    joined = next((at for at in range(begins, len(words)) if words[at] in JOINS), len(words))
    starts = [at for at in range(begins, joined) if words[at] in PHRASES and at > begins - (begins == 2)]
    borders = [begins, *starts, joined]
    chunks = [_phrase(words[at:end]) for at, end in pairwise(borders) if end > at]
    if joined < len(words):  # the phrase that goes on behind a join stays beside it
        return [*words[:begins], *(word for chunk in chunks for word in chunk), *words[joined:], *tail]
    first = [] if starts and starts[0] == begins else chunks[:1]
    more = chunks[len(first) :]
    if len({chunk[0] for chunk in more}) == len(more):
        more = sorted(more)
    return [*words[:begins], *(word for chunk in (*first, *more) for word in chunk), *tail]


def _phrase(words: list[str]) -> list[str]:
    """Sort what stands before the last word of a phrase: which of a thing's qualities comes first says nothing."""
    lead = words[:1] if words[0] in PHRASES else []
    rest = words[len(lead) :]
    if (
        len(rest) < 3
        or not all(PLAIN.fullmatch(word) and word not in STOPS and word != "of" for word in rest)
        or not ORDERED.isdisjoint(rest)
        or not LIVING.isdisjoint(rest)
        or rest[-1].endswith("ed")
    ):
        return words
    return [*lead, *sorted(rest[:-1]), rest[-1]]


def _tool(words: list[str], begins: int) -> tuple[list[str], list[str]]:
    """Return the words without their one tool, and the tool as it stands last."""
    at = [place for place, word in enumerate(words) if word.removesuffix("_cap") in TOOLS and place >= begins]
    if len(at) != 1 or not JOINS.isdisjoint(words):
        return words, []
    place = at[0]
    tool, before, after = words[place], words[place - 1], words[place + 1 :]
    taken = before == "from" and words[1] in ("uninstall", "remove", "delete")
    if (before in WITH_TOOL or taken) and (not after or after[0] in STOPS):
        kept = [*words[: place - 1], *after]
    elif tool not in KEEPS_CASE and after and PLAIN.fullmatch(after[0]) and after[0] not in STOPS | {"of", "for"}:
        kept = [*words[:place], *after]
    else:
        return words, []
    return (kept, ["@@", tool.removesuffix("_cap")]) if len(kept) > begins else (words, [])
