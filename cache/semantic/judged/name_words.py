"""Tables of names, for `names.py`: what is written like one and names nothing, and what is short for others."""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed

NAMES_TOO = listed(
    """
    rob sue jack pat art chase hunter mason grant amber ruby crystal daisy lily iris ivy holly olive violet max drew
    wade chip dale cliff dean earl gene guy hank lance miles nick norm ray reed rich robin rusty skip sterling stone
    ward penny carol ginger heather melody misty sandy sunny baker cook page taylor carter
    """
)
"""Names that are words as well, besides those of `KEEPS_CASE`."""
ORDINARY = listed(
    """
    somebody someone anybody anyone nobody everybody everyone something anything everything whom whose within without
    while because since although though unless until during about above across against along among around behind below
    beneath beside between beyond by despite inside into near off onto out outside over past per through toward under
    upon via whether every each some any all both either neither another other such many much more most several few
    here there we're we've we'd we'll you're you've they're
    they've isn't aren't wasn't weren't don't doesn't didn't can't won't wouldn't couldn't shouldn't haven't hasn't
    hadn't ok okay is are was were am be been being having doing going getting making using taking trying looking
    wanting maybe perhaps sometimes usually often always never again also too only just still yet already currently
    recently today tomorrow yesterday tonight now soon later first second last next new old good bad best better worst
    once whenever wherever like unlike according regarding concerning per plus instead rather than besides except given
    even so then when where why how my your our his her their its this that these those i'm i've i'd i'll i
    easy urgent quick simple possible necessary important available required allowed
    """
)
"""Words that name nothing where they begin a sentence, besides the lexicon's."""
SAME_NAMES = {"wi-fi": "wifi", "wlan": "wifi", "wireless": "wifi", "okay": "ok", "tvs": "tv", "television": "tv"}
SPELLED_OUT = {
    name: listed(words)
    for name, words in {
        "atm": "cash cashpoint machine dispenser", "pc": "computer laptop notebook machine",
        "id": "identity identification", "tv": "television telly set", "cv": "resume curriculum",
        "uk": "britain kingdom british", "usa": "america states us", "us": "america states usa",
        "eu": "europe european union", "gp": "doctor physician", "hr": "personnel resources human",
        "pto": "leave vacation time", "wfh": "home", "sms": "text message texts", "faq": "questions",
        "asap": "soon possible", "eta": "arrive arrival", "vat": "tax", "ceo": "boss chief",
    }.items()
}  # fmt: skip
"""Abbreviations that are words rather than names, and words that another text may have for them."""
COMMON = listed(
    "earth sun moon internet web ok okay tips steps until what who where how it that best good great top many much also"
    " about explain i'd i'm i've i'll"
)
"""Words that begin a sentence, or are written with a capital anywhere, and name nothing."""
WEEKDAYS = listed("mondays tuesdays wednesdays thursdays fridays saturdays sundays")
FIRST_WORD = re.compile(r"(?:^|(?<=[.!?] ))((?:[^\W_]|['-])+)")
NO_ADVERBS = listed(
    "family italy july reply supply apply fly rely bully jelly belly lily assembly only sicily emily kelly molly sally"
    " billy kimberly beverly willy holly polly dolly wembly philly shelly bradly"
)
"""Words in -ly that are no adverbs."""
EXTREMES = listed("budapest bucharest everest ernest forest trieste harvest tempest midwest northwest southwest")
"""Words in -est that are no superlatives."""
