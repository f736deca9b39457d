"""Questions that are asked in several forms, and words that mean the same wherever a request has them.

Rules of `english.py` make two spellings of a sentence one; those here make two constructions of a question one: "how
much does X cost" and "what is the price of X". What is between the fixed words stays, word for word and in order, so
that names, numbers, negations and directions decide as before. A word stands here only if no request is another one
with its synonym: "film" for "movie" is there, "remove" for "delete" is not.
"""

from __future__ import annotations

import re
from functools import cache

from sluicegate.cache.semantic import constructions, frames
from sluicegate.cache.semantic.lexicon import stem

MAX_FRAMED_CHARS = 200
"""Of a question that is tried in another frame: a longer one costs time, and has a frame of its own."""
SYNONYMS = {
    word: group[0]
    for group in map(
        str.split,
        """
        build construct
        built constructed
        building constructing
        children kids
        child kid
        doctor physician
        doctors physicians
        lawyer attorney
        lawyers attorneys
        bicycle bike
        bicycles bikes
        refrigerator fridge
        movie film
        movies films
        car automobile
        cars automobiles
        vacation holiday
        photo photograph
        photos photographs
        information info
        advertisement advert
        trash rubbish garbage
        happen occur
        happens occurs
        happened occurred
        fix repair
        fixing repairing
        fixed repaired
        change modify alter
        changing modifying altering
        recommend suggest
        large big
        largest biggest
        larger bigger
        often frequently
        fast quick
        fastest quickest
        allowed permitted
        get obtain
        help assist
        delivery shipping
        advantages benefits pros
        disadvantages drawbacks downsides cons
        gasoline petrol
        buy purchase
        buying purchasing
        begin start
        begins starts commences
        beginning starting
        began started
        objective aim goal
        ill sick
        delicious tasty
        enormous huge
        wealthy rich
        wealthiest richest
        famous renowned
        nearest closest
        quickest fastest
        quickly rapidly
        cheap inexpensive
        maximum max
        subway metro
        taxi cab
        airplane aeroplane
        shop store
        shops stores
        mother mom mum
        father dad
        sofa couch
        company firm
        companies firms
        need require
        symptoms signs
        documents paperwork
        founded established
        luggage baggage
        flat apartment
        lift elevator
        salary wage
        toilet restroom lavatory
        teenager adolescent
        purse handbag
        stages phases
        colleague coworker
        colleagues coworkers
        stage phase
        error mistake
        errors mistakes
        """.strip().splitlines(),
    )
    for word in group[1:]
}

# ruff: noqa: E501
_DIMENSIONS = {
    "old": "age", "tall": "height", "high": "height", "wide": "width", "deep": "depth", "heavy": "weight",
    "big": "size", "large": "size", "fast": "speed",
}  # fmt: skip
_KEPT = r"(\x00\d+\x00|.+?)"
_BE = "(?:is|are)"

REWORDINGS = [
    *((rf"^how {adjective} {_BE} (.+)$", rf"what is {noun} of \1") for adjective, noun in _DIMENSIONS.items()),
    (r"^how much do(?:es)? (.+) weigh$", r"what is weight of \1"),
    (r"^(?:how much|what) do(?:es)? (.+) cost$", r"what is price of \1"),
    (r"^how much is (?!\d)(.+)$", r"what is price of \1"),
    (r"^what is (?:cost|price) of ", "what is price of "),
    (r"^what is (?:number|amount|count) of (.+?) (in|on|of) (.+)$", r"how many \1 are \2 \3"),
    (r"^how many (.+?) are there (in|on) (.+)$", r"how many \1 are \2 \3"),
    (r"^(?:in |during )?(?:which|what) year (was|were|did|is|does) ", r"when \1 "),
    (r"^(?:at )?what time (is|are|do|does|did|will|was) ", r"when \1 "),
    (r"^what is location of (.+)$", r"where is \1"),
    (r"^where (is|are) (.+) (?:located|situated|found)$", r"where \1 \2"),
    (r"^in (?:which|what) (?:place|location) (is|are) ", r"where \1 "),
    (r"^by whom was (.+) (painted|invented)$", r"who-\2 \1"),
    (r"^by whom was (.+) written$", r"who-wrote \1"),
    (r"^who was (.+) (painted|invented) by$", r"who-\2 \1"),
    (r"^who was (.+) written by$", r"who-wrote \1"),
    (r"^why do(?:es)? (.+) (?:happen|occur|take place)$", r"what causes \1"),
    (r"^what is (?:cause|reason) (?:of|for) (.+)$", r"what causes \1"),
    (r"^what makes (.+) (?:happen|occur)$", r"what causes \1"),
    (r"^how do(?:es)? (.+) differ from (.+)$", r"what is difference between \1 and \2"),
    (r"^how (?:do|are) (.+) and (.+) (?:differ|different)$", r"what is difference between \1 and \2"),
    (r"^how is (.+) different from (.+)$", r"what is difference between \1 and \2"),
    (r"^what (?:distinguishes|differentiates) (.+) from (.+)$", r"what is difference between \1 and \2"),
    (r"^what are differences between ", "what is difference between "),
    (rf"^how (?:do|would|can) (?:you|i|one) say {_KEPT} in (\w+)$", r"translate \1 to \2"),
    (rf"^what is {_KEPT} in (french|german|spanish|italian|dutch|polish|portuguese|swedish|danish|japanese|chinese"
     r"|korean|russian|turkish|arabic|greek|latin|hindi|english|finnish|norwegian|czech|hungarian|irish|welsh|thai|vietnamese|hebrew|ukrainian|romanian|catalan)$", r"translate \1 to \2"),
    (r"^what is (\w+) (?:word|translation) (?:for|of) (\x00\d+\x00|\w+)$", r"translate \2 to \1"),
    (r"^translate (.+) (?:into|in) (\w+)$", r"translate \1 to \2"),
    (r"^(?:convert|change) (\d\S*) (.+) into (.+)$", r"convert \1 \2 to \3"),
    (r"^how (?:many|much) (.+?) (?:is|are|equals?|make) (\d\S*) (.+)$", r"convert \2 \3 to \1"),
    (r"^what is (\d\S*) (.+) in (.+)$", r"convert \1 \2 to \3"),
    (r"^(?:define|what is definition of) (?!an? )", "what is meaning of "),
    (r"^(?:which|what) (.+) (?:would|do|can|could) you (?:recommend|suggest)$", r"recommend \1"),
    (r"^(?:do you have|can you give|give|have you got) (?:me )?(?:any )?(?:recommendations?|suggestions?) for ", "recommend "),
    (r"^recommend (?:an?|some) ", "recommend "),
    (r"^(?:come up with|think of|propose) (?=(?:an? )?(?:name|names|title|slogan|gift)\b)", "recommend "),
    (r"^do you (?:have|provide) (?!to\b)", "do you offer "),
    (r"^(?:which|what) (\w+) (in|on|of) (.+) is (\w+est)$", r"what is \4 \1 \2 \3"),
    (r"^(?:which is|name|tell me|give me) (\w+est \w+ (?:in|on|of) )", r"what is \1"),
    (r"^what makes (.+) so (\w+)$", r"why is \1 \2"),
    (r"^is (an? \w+|\w+) (?:needed|required|necessary) (to|for) (.+)$", r"do i need \1 \2 \3"),
    (r"^(?:is|are) (.+) safe to (\w+)$", r"is it safe to \2 \1"),
    (r"^how (?:many people|many inhabitants) (?:live in|does|reside in) (.+?)(?: have)?$", r"what is population of \1"),
    (r"^(?:what|which) currency (?:does (.+) use|is used in (.+))$", r"what is currency of \1\2"),
    (r"^(?:what|which) language (?:do people speak|do they speak|is used) in (.+)$", r"which language is spoken in \1"),
    (r"^what language is spoken in ", "which language is spoken in "),
    (r"^who (?:is|was) director of ", "who directed "),
    (r"^who (?:is|was) founder of ", "who founded "),
    (r"^who (?:is|was) discoverer of ", "who discovered "),
    (r"^who (?:is|was) composer of ", "who composed "),
    (r"^who (?:is|was) designer of ", "who designed "),
    (r"^who (?:is|was) creator of ", "who created "),
    (r"^(?:who was|by whom was) (.+?) (founded|discovered|composed|designed|created|directed)(?: by)?$", r"who \2 \1"),
    (r"^how much time does ", "how long does "),
    (r"^how frequently ", "how often "),
    (r"^write an? (?!short|long|new|good|funny|sad)(\w+) (haiku|limerick)$", r"write a \2 about \1"),
    (r"^(?:walk|guide|talk) me through ", "how-to "),
    (r"^(?:show|teach|tell|explain to) me how to ", "how-to "),
    (r"^(?:explain|describe) how to ", "how-to "),
    (r"^how (?:does one|can one|might i|may i|am i able to) ", "how-to "),
    (r"^how (?:do i|would one|to) go about ", "how-to "),
    (r"^(?:what are|give me|list|share|provide) (?:instructions|steps|directions|guidelines) (?:on how to|for|to|on) ", "how-to "),
    (r"^what is (?:steps?|procedure|process|way|best way|right way|correct way|proper way|method) (?:of|to|for|in) ", "how-to "),
    (r"^what do i (?:have|need) to do (?:in order )?to ", "how-to "),
    (r"^what (?:is required|does it take) to ", "how-to "),
    (r"^i (?:want|need|would like) to know how to ", "how-to "),
    (r"^how-to (?:go about|best) ", "how-to "),
    (r"^how-to sign in\b", "how-to log in"),
    (r"^how-to (?:sign|log) on\b", "how-to log in"),
    (r"^how-to sign out\b", "how-to log out"),
    (r"^how-to (?:stop|end|terminate|discontinue|quit) (my|our) (subscription|membership|plan)$", r"how-to cancel \1 \2"),
    (r"^how-to (?:erase|remove|get rid of) (my|our) account$", r"how-to delete \1 account"),
    (r"^what can i do to ", "how-to "),
    (r"^(?:compose|create|produce|draft|make up|come up with) (?=(?:an? )?(?:\w+ ){0,2}(?:poem|haiku|story|letter|email"
     r"|essay|song|limerick|speech|tale|sonnet|toast)\b)", "write "),
    (r"^(?:list|enumerate|name all|tell me) (?=(?:side )?\w+s\b)", "what are "),
    (r"^(?:describe|explain) process of ", "how-works "),
    (r"^(?:describe|explain) how (.+) works?$", r"how-works \1"),
    (r"^how do(?:es)? (.+) works?$", r"how-works \1"),
    (r"^(?:give me|provide|can i have|i need|share) (?:an? )?recipe (?:for|of) ", "recipe for "),
    (r"^how-to (?:cook|make|prepare|bake) (?=(?:an? )?(?:\w+ ){0,2}(?:soup|bread|cake|pancakes|stew|salad|pie|pasta|curry"
     r"|sauce|cookies|pizza|risotto|omelette|omelet)$)", "recipe for "),
    (r"^what is recipe for ", "recipe for "),
    (r"^(?:summarize|sum up|condense|recap|give me an overview of|provide an overview of) ", "summarize "),
    (r"^give me a (\S+)[- ](sentence|paragraph|page) summary of (.+)$", r"summarize \3 in \1 \2"),
    (r"^who is current (\w+) of ", r"who is \1 of "),
]  # fmt: skip
"""Tried in this order on lower-case text without "the", after those of `english.py`; each at most once."""


@cache
def _rewordings() -> list[tuple[re.Pattern[str], constructions.Becomes]]:
    """Compile the rewordings when they are first needed: a gateway without a semantic cache starts without them."""
    return [(re.compile(pattern), becomes) for pattern, becomes in (*REWORDINGS, *constructions.REWORDINGS)]


@cache
def _frames() -> list[tuple[re.Pattern[str], constructions.Becomes]]:
    return [(re.compile(pattern), becomes) for pattern, becomes in frames.FRAMES]


COURTESIES = [
    r"^(?:i was|i am|just) (?:wondering|curious)(?: about)?[:,]* (?=(?:what|how|why|where|when|who|which|if)\b)",
    r"^(?:does anyone|do you guys|would you|might you) know (?=(?:what|how|why|where|when|who|which)\b)",
    r"^(?:any idea|can i ask|may i ask|could i ask|remind me|please advise)[:,]* (?=(?:what|how|why|where|when|who|which)\b)",
    r"^(?:can|could|would|will) you (?:please |kindly )?(?=(?:suggest|share|define|walk|guide|teach|outline|sum)\b)",
    r"^i (?:need|want|would like) (?:some )?help (?:with )?(?=\w+ing\b)",
    r"^(?:for me|briefly put)[:,] ",
]

PHRASAL = [
    (re.compile(rf"(?<![\w-]){pattern}\b"), verb)
    for pattern, verb in (
        (r"get(?:ting)? rid of", "remove"),
        (r"(?:opt(?:ing)? out of|stop (?:receiving|getting))", "unsubscribe from"),
        (r"send(?:ing)? back", "send-back"),
        (r"set(?:ting)? up", "set-up"),
        (r"(turn|switch)(?:ing)? (on|off)", r"turn-\2"),
        (r"(?:turn|switch)(?:ing)? ((?:(?!on\b|off\b)[\w-]+ ){1,3})(on|off)(?= in\b| at\b| with\b|$)", r"turn-\2 \1"),
        (r"(?:log|sign)(?:ging|ing)? (?:in|on) ?(?:to|into)?", "log-in"),
        (r"log into", "log-in"),
        (r"(?:log|sign)(?:ging|ing)? (?:out|off) ?(?:of|from)?", "log-out"),
        (r"sign(?:ing)? up", "sign-up"),
        (r"find(?:ing)? out", "find"),
        (r"work(?:ing)? out (?=(?:area|volume|average|mean|percentage|perimeter)\b)", "calculate "),
    )
]
"""Verbs of several words as one."""

_HOW_TO = re.compile(r"^how-to ([\w-]+)")


def reworded(text: str) -> str:
    """Rewrite a question to one construction. After "how-to" the verb has no ending, so that "deleting" is "delete"."""
    for pattern, becomes in _rewordings():
        text = pattern.sub(becomes, text, count=1)
    for several, verb in PHRASAL:
        text = several.sub(verb, text)
    if len(text) <= MAX_FRAMED_CHARS:
        for pattern, becomes in _frames():
            text = pattern.sub(becomes, text, count=1)
    return _HOW_TO.sub(lambda found: "how-to " + stem(found[1]), text)
