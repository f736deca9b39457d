"""What is asked, whatever the sentence is built around: who may, what holds what, what a thing is made of, from what age.

These go on where `constructions.py` ends, on its output. A construction there is one sentence in another; a frame here is
one question that is asked around different words: "is X included in Y", "does Y cover X", "is X part of Y". Its parts stay
word for word and in their own places, so that what includes and what is included never change roles.

Not covered: whatever has no frame here. A frame stands here only if both askers get the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sluicegate.cache.semantic.constructions import ATTRIBUTES
from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.lexicon import singular, stem

Becomes = str | Callable[[re.Match[str]], str]

DONE = {
    "made": "make", "done": "do", "written": "write", "built": "build", "sent": "send", "taken": "take", "paid": "pay", "kept": "keep",
    "held": "hold", "grown": "grow", "drawn": "draw", "sold": "sell", "bought": "buy", "spelt": "spell", "brought": "bring",
    "found": "find", "frozen": "freeze", "chosen": "choose", "drunk": "drink", "eaten": "eat", "worn": "wear", "caught": "catch", "taught": "teach",
    "stored": "store", "served": "serve", "used": "use", "cured": "cure", "measured": "measure", "produced": "produce", "tested": "test",
    "fed": "feed", "cut": "cut", "put": "put", "given": "give", "thrown": "throw", "ridden": "ride", "driven": "drive", "shown": "show", "hung": "hang",
}  # fmt: skip
DEADLINES = {
    "application": "apply", "registration": "register", "submission": "submit", "enrolment": "enroll", "enrollment": "enroll",
    "payment": "pay", "nomination": "nominate", "entry": "enter", "booking": "book", "cancellation": "cancel", "voting": "vote",
}  # fmt: skip
"""What a deadline is for, as a verb."""
CARRIED = (
    "(?:dogs?|cats?|pets?|animals?|children|kids|babies|guests?|visitors|friends|food|snacks|drinks|alcohol|cameras?|laptops?|bags?"
    "|strollers?|bi(?:ke|cycle)s?|umbrellas?|backpacks?)"
)
"""What one is allowed to bring where it is allowed to be."""
PIECES = (
    "(?:poem|haiku|story|letter|email|essay|song|limerick|speech|sonnet|toast|slogan|message|note|post|caption|invitation|apology"
    "|description|summary|outline|introduction|conclusion|headline|tagline|advert|review|report|script|dialogue|text|tweet|reminder)"
)
VEHICLE = "(?:bus|train|tram|line|subway|ferry|flight)"
ADJECTIVE = "(?:dangerous|safe|healthy|unhealthy|legal|illegal|harmful|allowed|difficult|easy|hard|expensive|worth it|necessary|normal|rude)"
SLOT = "(?:appointment|slot|visa|delivery|table|refund|date|viewing|interview|consultation|check-up|meeting)"
PERMITTED = listed(
    "bring take park smoke enter wear camp fish pay leave keep sell rent sublet paint drill eat drink work cancel change return export book order"
    " reserve schedule use stay play record film photograph copy print share freeze reheat reuse"
)
"""What one asks leave for: of these, whether one can is whether one may."""
MADE = listed(
    "make brew produce build cook bake harvest play spell pronounce prepare serve store clean wash measure calculate"
)
"""What is done by somebody on purpose: how it is done is how to do it."""
MUST = "(?:must|should i|do i (?:have|need) to|need i|am i (?:required|supposed) to)"
# ruff: noqa: E501


def base(participle: str) -> str:
    """Return the verb of "baked", "stopped", "made"."""
    if participle in DONE:
        return DONE[participle]
    if participle.endswith("lled") and participle[:-3] in SHORT_L:
        return participle[:-3]
    if participle.endswith("ied"):
        return participle[:-3] + "y"
    return stem(participle[:-2] + "ing") if participle.endswith("ed") and len(participle) > 4 else participle


def _is_done(word: str) -> bool:
    return word in DONE or (word.endswith("ed") and len(word) > 4 and word not in NOT_DONE)


SHORT_L = listed(
    "cancel travel label model control signal channel fuel level quarrel compel expel propel patrol enrol fulfil"
)
"""Verbs whose participle doubles the "l"."""
NOT_DONE = listed(
    "need indeed speed seed weed embed breed hundred sacred naked wicked related married interested divided based united"
)


def _how_done(found: re.Match[str]) -> str:
    """Rewrite "how is cheese made" as "how-to make cheese"."""
    verb = base(found[3])
    meant = found[1] in ("can", "could") or verb in MADE
    return f"how-to {verb} {found[2]}{found[4]}" if meant and _is_done(found[3]) else found[0]


def _deadline(noun: str, of: str = "") -> str:
    word = singular(noun)
    return f"deadline {DEADLINES.get(word, word)}{of}"


def _done_to_me(found: re.Match[str]) -> str:
    return f"you {found[1]} me{found[2]}"


FRAMES: list[tuple[str, Becomes]] = [
    # Openings that ask for nothing.
    (r"^(?:could|can) (?:someone|anyone|somebody|anybody) (?:please )?(?:tell me|explain to me|let me know|help me understand) ", ""),
    (r"^(?:could|can|would) (?:someone|anyone|somebody|anybody|you) (?:please )?(?=(?:explain|make|put|shorten|check|list|name) )", ""),
    (r"^(?:i (?:wonder|need to know|would love to know|am trying to find out|have to know|am not sure)|please let me know|do tell me|wondering) (?=(?:what|how|why|where|when|who|which|whether|if)\b)", ""),
    (r"^for (?=how long )", ""), (r"^on (?:what|which) date ", "when "), (r"^(?:by|until|till) (?:when|what date) ", "by-when "),
    (r"^(?:until|till) (?:what time|when) is (.+) open\b", r"when does \1 close"), (r"^how late (?:is|are) (.+) open\b", r"when does \1 close"),
    (r"^(in (?:a |an )?\w+ (?:sentences?|words?|paragraphs?|lines?|bullet points)),? (.+)$", r"\2 \1"),
    *((rf"^(how (?:much|many|often) .+(?<! in)(?<! of)(?<! is)(?<! are)) (?:{often}|(?:each|every|per|a) {unit})$", rf"\1 per-{unit}") for unit, often in (("day", "daily"), ("week", "weekly"), ("month", "monthly"), ("year", "yearly|annually"))),
    (r"^(i|we) (.+?),? why$", r"why do \1 \2"), (r"^what if ", "what happens if "), (r"^(how-to) (\w{2,}ly) ([\w-]+ .+)$", r"\1 \3 \2"),
    (r"^(?:give me|tell me|state) (?!an? |some |\d)((?:(?!\w+s )\w+ ){1,2}of .+)$", r"what is \1"),
    (r"^(is .+) (\w+) or (\w+)$", lambda f: f"{f[1]} " + " or ".join(sorted((f[2], f[3])))),
    (r"^what is name of (?=(?:current )?(?:mayor|president|ceo|king|queen|prime minister|director|captain|owner|head|leader|governor|chancellor|pope|minister) of )", "who is "),
    (r"^what is (capital|currency|population|official language|president|national anthem|time zone|dialling code|dialing code) (?:in|for) ", r"what is \1 of "),
    (r"^what does (.+) weigh$", r"what is weight of \1"),
    (r"\b(begin|start)s? (\w+ing)$", lambda f: f"{f[1]} to {stem(f[2])}"),
    (r"^distance (.+) to (.+)$", lambda f: "distance " + " to ".join(sorted((f[1], f[2])))),
    (r"^what (?:amount|quantity) of ", "how much "), (r"^what (?:length|amount) of time ", "how long "),
    (r"^what number of ", "how many "), (r"^which (?!(?:is|are|was|were|one|ones|of|do|does|did|can|will|would)\b)", "what "),
    (r"^how (?:would|should|might|do|could) (?:i|you|one|1) go about (\w+ing)\b", lambda f: f"how-to {stem(f[1])}"),
    (r"^what is (?:fee|charge|cost) (?:for|of) ", "what is price of "), (r"^what is it price to (\w+) ", lambda f: f"price-to {stem(f[1])} "),
    (r"^(?:name|list|enumerate|give me|tell me) (?:all )?((?:\w+ )?\w+s) (of|in|on) ", r"what are \1 \2 "),
    (r"^how-to (?:reach |get to )?(?=(?:station|airport|hotel|beach|museum|office|stadium|harbor|port|city center|town hall|library|hospital)\b)", "how-to reach "),
    (r"^what is (?:quickest|fastest) (?:route|way) to (?:get to |reach )?", "what is fastest route to "),
    # About a thing, and fragments.
    (r"^(?:tell me (?:something |more |everything )?about|what can you tell me about|(?:give me |i need |i want )?(?:some )?information (?:on|about|regarding)|i want to (?:know|learn) (?:more )?about|know (?:more )?about|learn (?:more )?about|describe to me|tell about) ", "tell-about "),
    (r"^(?:what do you think (?:of|about)|what is your (?:opinion|view|take) (?:on|of|about)|what are your thoughts (?:on|about)|how do you feel about|your opinion on) ", "opinion on "),
    (r"^(?:what are |list |give me |explain )?(?:advantages and disadvantages|pros and cons|benefits and drawbacks|upsides and downsides) of ", "pros-and-cons of "),
    (r"^(?:what are|give me|list|summarize|tell me|name) (?:main|key|most important|central|essential) (?:points|ideas|takeaways|arguments|messages) (?:of|in|from) ", "key-points of "),
    (rf"^({ATTRIBUTES}) of ", r"what is \1 of "),
    (r"^(?:how-to|how can (?:you|one|1)) (?:tell|know|find out|see|check|determine|recognize|be sure) (?:if|whether|that) ", "how-to tell if "),
    (r"^i (?:am )?(?:having (?:trouble|difficulty|difficulties|problems|a hard time)|struggling|have trouble|have problems|have difficulty)(?: with| in)? (\w+ing) ", lambda f: f"how-to {stem(f[1])} "), (r"^i (?:am struggling|struggle|am trying|try) to ", "how-to "),
    (r"^how much time (?:do i need|is needed|is required|will it take|would it take|do you need|should i plan) (?:to|for) ", "how long does it take to "), (r"^how long (?:will|would|do i need|do you need|should|is needed)(?: it| i)?(?: take| need)? to ", "how long does it take to "),
    (r"^(?:my )?(.+?) (?:does not work|do not work|is not working|are not working|will not work|stopped working|has stopped working|no longer works|is out of order)(?: any ?more| properly)?(?:[,.;]? (?:what (?:should|can|do) i do|how do i fix it|how can i fix it|how-to fix it|help|what now))?$", r"not-working \1"),
    (r"^(?:do you (?:sell|carry|stock|have)|can i buy|are you selling|have you got) (?!to\b)(.+?)(?: (?:in stock|for sale|here|at your (?:shop|store)|in your (?:shop|store)))$", r"do you sell \1"), (r"^do you (?:carry|stock) ", "do you sell "),
    (r"^(?:is it worth|is it a good idea to|is it worthwhile to|should i|would you recommend|is it advisable to|does it make sense to) (\w+)(?= )", lambda f: f"should-i {stem(f[1])}"),
    (r"^where does (.+) (?:come from|originate)(?: from)?$", r"origin of \1"), (r"^what is (?:origin|source) of ", "origin of "),
    (r"^(?:what|which) (.+?) (?:is|are) (best|cheapest|most popular|healthiest|safest)\b", r"what is \2 \1"), (r"^what are (best|cheapest|most popular|healthiest|safest) ", r"what is \1 "), (r"^(?:recommend|suggest|name|list|give me) (best|cheapest|most popular|healthiest|safest) ", r"what is \1 "),
    (r"^explain meaning of ", "what is meaning of "), (r"^what (\w+) is ((?:\w+ )?)\1 of (.+)$", r"what is \2\1 of \3"), (r"^what (man|woman|person) was first (.+)$", r"who was first \1 \2"),
    (r"^what is way (.+?)s? works?$", r"how-works \1"), (r"^what is (?:best |quickest |easiest )?(?:way|route) from (.+) to (.+)$", r"how-to get from \1 to \2"), (r"^what (lower|reduce|raise|increase|improve|prevent)s (.+)$", r"how-to \1 \2"),
    (r"^what is (.+) called$", r"what is \1 name"), (r"^what is ((?:\w+ )*(?:manager|boss|teacher|landlord|doctor|supervisor|dentist)) name$", r"who is \1"), (r"^what is name of ((?:\w+ )*(?:manager|boss|teacher|landlord|doctor|supervisor|dentist))$", r"who is \1"),
    (r"^set a reminder (?:to|for me to) ", "remind me to "), (r"^(?:wake me up|wake me) at (.+)$", r"set an alarm for \1"), (rf"^do(?:es)? (an? {VEHICLE}) (?:run|go|leave) from ", r"is there \1 from "),
    # Who may, who must.
    (r"^is there (?:any )?(?:somewhere|a place|anywhere)(?: where| that)? (i|we) can ", r"where can \1 "),
    (r"^is there (?:anyone|someone|anybody|somebody)(?: who| that)? can ", "who can "),
    (r"^(?:can|could|may) ((?:[\w-]+ ){1,3}?)be (\w+)$", lambda f: f"can i {base(f[2])} {f[1].strip()}" if _is_done(f[2]) else f[0]),
    (r"^is it (?:OK|ok|okay|alright|all right|fine|allowed|permitted) (?:for me )?to ", "may i "), (r"^is (\w+ing)((?: [\w-]+)*?) (?:allowed|permitted|ok|OK)((?: (?:in|on|at) .+)?)$", lambda f: f"may i {stem(f[1])}{f[2]}{f[3]}"),
    (r"^(?:are we allowed to|may we|is it fine if i) ", "may i "), (rf"^(?:can|could|may) (?:i|we) (?=(?:{'|'.join(sorted(PERMITTED))})\b|get \w+ back\b|get (?:my|an?) \w+ back\b)", "may-i "),
    (rf"^(?:are|is) (?:an? |my )?({CARRIED}) (?:allowed|permitted|welcome|ok)(?: (?:at|in|on|into|inside) (.+))?$", lambda f: f"may-i bring {f[1]}" + (f" to {f[2]}" if f[2] else "")),
    (rf"^may-i (?:bring|take) (?:an? |my )?({CARRIED})(?: with me| along)? (?:at|in|on|into|inside|to) (.+)$", r"may-i bring \1 to \2"),
    (rf"^may-i (?:bring|take) (?:an? |my )?({CARRIED})(?: with me| along)?$", r"may-i bring \1"),
    (r"^(may-i .+) (?:daily|each day|every day)$", r"\1 per-day"), (r"^what (\w+) (?:is|are) (?:required|needed|necessary) to ", r"what \1 need-to "),
    (r"^may-i (book|order|reserve|schedule) (?=an? )", r"\1 "),
    (r"^(?:is|are) (?:an? )?(.+) (?:mandatory|required|compulsory|obligatory|necessary)( (?:in|for|to|on|at) .+)?$", r"do i need \1\2"),
    (r"^(?:is there (?:a|any) limit (?:on|to) )?how many (\w+) (?:am i allowed to|may i|can i|i can|i may|are we allowed to|can we|i am allowed to) ", r"how many \1 may-i "),
    (r"^(?:who is (?:responsible|in charge) (?:for|of)|who (?:takes care of|handles|is tasked with)) (\w+ing) ", lambda f: f"who-must {stem(f[1])} "),
    (r"^who is (?:in charge of|responsible for) (?!\w+ing\b)", "who-is-in-charge of "),
    (r"^(?:whose (?:job|duty|responsibility|task) is it to|who (?:has|is supposed|is obliged|needs) to|who must) (\w+) ", r"who-must \1 "),
    (rf"^what (\w+) {MUST} (?:i )?", r"what \1 need-to "), (r"^what (\w+) (?:will i|would i) (?:have to|need to) ", r"what \1 need-to "),
    (rf"^(when|by-when|where|how many \w+) {MUST} (?:i )?(?!need-to)", r"\1 need-to "),
    (r"^who (?:do|should|can|must) i (?:contact|call|ask|talk to|speak to|turn to|write to|notify) (?:about|regarding|for|concerning|with) ", "who-contact about "),
    (r"^whom (?:do|should|can|must) i (?:contact|call|ask|talk to|speak to|turn to|write to|notify) (?:about|regarding|for|concerning|with) ", "who-contact about "),
    (r"^(?:how old (?:do|must|should) (?:you|i|one|1|people|someone)(?: have to| need to)? be to|(?:at )?what age (?:can|may|must|do) (?:you|i|one|1|people)(?: have to be to)?|what is minimum age (?:to|needed to|required to)) (\w+)", r"min-age \1"),
    (r"^what is minimum age for (\w+ing)\b", lambda f: f"min-age {stem(f[1])}"),
    # What holds what.
    (r"^(?:is|are) (.+?) (?:included|contained|covered) (?:in|with|by) (.+)$", r"includes \2 : \1"),
    (r"^(?:is|are) (.+?) part of (.+)$", r"includes \2 : \1"),
    (r"^do(?:es)? (.+?) (?:include|cover|come with) (.+)$", r"includes \1 : \2"),
    (r"^what (?:is|are) (?:all )?(?:included|contained) (?:in|with) (.+)$", r"includes what \1"), (r"^what do(?:es)? (.+) (?:include|come with)$", r"includes what \1"),
    (r"^(?:what (?:are|is) ingredients (?:of|for|in)|what (?:is|are)(?= (?:[\w-]+ ){1,3}made (?:of|from|out of)$)|what ingredients (?:are|go|does) (?:in|into)|what goes (?:in|into)|ingredients (?:of|for)) (.+?)(?: made (?:of|from|out of))?$", r"ingredients \1"),
    (r"^what ingredients do(?:es)? (.+) (?:contain|have)$", r"ingredients \1"),
    (r"^how many (\w+) do(?:es)? (?!(?:i|you|we|they|he|she|it)\b)(?:an? )?((?:[\w-]+ ){0,2}[\w-]+) (?:contain|have)$", r"how many \1 has \2"), (r"^how many (\w+) (?:is|are) (?:there )?(?:in|on) (?:an? )?((?:[\w-]+ ){0,2}[\w-]+)$", r"how many \1 has \2"),
    (r"^(?:is|are) there (?:an? |any )?(.+) on (?:your )?menu$", r"do you offer \1"),
    (r"^how long (?:is|are|does|do) (.+?)(?: (?:stay|remain|last))? (?:valid|good for)$", r"validity of \1"),
    (r"^what (\w+) (?:is|are) (?:found |contained |present )?in (\w+)$", lambda f: f"what {singular(f[1])} is-in {singular(f[2])}"),
    (r"^what (\w+) do(?:es)? (?:an? )?(\w+) (?:contain|have in them)$", lambda f: f"what {singular(f[1])} is-in {singular(f[2])}"),
    (r"^(?:is|are) there (?:an? |any )?((?:[\w-]+ ){1,3}?)(?:in|at|on|inside) ((?:[\w-]+ ?){1,3})$", r"has \2 : \1"),
    (r"^do(?:es)? (?!(?:i|you|we|he|she|it|they|anyone)\b)((?:[\w-]+ ){1,3}?)(?:have|offer|feature) (?!to\b)(?:an? |any )?((?:[\w-]+ ?){1,3})$", r"has \1 : \2"),
    (r"^(is|are) (an? \w+) (an? \w+)$", lambda f: f"is-a {f[2].split()[1]} {f[3].split()[1]}"),
    (r"^are (\w+s) (\w+s)$", lambda f: f"is-a {singular(f[1])} {singular(f[2])}"),
    # What becomes of money and time.
    (r"^(?:do|will|can|would) i get (?:my |an? )?(\w+) back\b", r"refund of \1"), (r"^(?:is|are) (?:my |an? )?(\w+) (?:refundable|refunded|returned to me|given back)\b", r"refund of \1"),
    (r"^may-i get (?:my |an? )?(\w+) back\b", r"refund of \1"),
    (r"^how much (?:money )?do(?:es)? (?:an? )?((?:\w+ )?\w+?)s? (?:earn|make|get paid)\b", r"salary \1"), (r"^what do(?:es)? (?:an? )?((?:\w+ )?\w+?)s? earn$", r"salary \1"), (r"^(?:what is|how high is) (?:average |typical )?(?:salary|pay|income|wage) of (?:an? )?((?:\w+ )?\w+?)s?$", r"salary \1"),
    (r"^what is (?:average |typical )?((?:\w+ )?\w+) (?:salary|wage)$", r"salary \1"),
    (r"^(?:what is|when is) (?:deadline|closing date|last day|cut-off date|due date) (?:for|to) (\w+)$", lambda f: _deadline(f[1])),
    (r"^(?:what|when) is (\w+) (?:deadline|closing date|due date)$", lambda f: _deadline(f[1])),
    (r"^when do(?:es)? (applications?|registrations?|nominations?|entries|enrolment|enrollment|voting|submissions?) close$", lambda f: _deadline(f[1])),
    (r"^by-when need-to (\w+)$", lambda f: f"deadline {f[1]}"),
    (r"^(?:do|does) ((?:\w+ ){0,1}\w+) (?:pay less|get (?:a discount|money off|a reduction|cheaper tickets))$", lambda f: f"offer {singular(f[1])} discount"),
    (r"^is there (?:a|any) (?:reduced (?:price|rate|fare)|reduction|discount|special price|concession) for (\w+)$", lambda f: f"offer {singular(f[1])} discount"),
    (rf"^how soon (?:can|may|could) i (?:get|have) (?:an? )?(?={SLOT}\b)", "earliest "), (rf"^(?:when is|what is) earliest (?:date |time )?i can (?:get|have) (?:an? )?(?={SLOT}\b)", "earliest "), (rf"^(?:when is|what is) (?:earliest|soonest) ({SLOT})(?: available| possible| free)?$", r"earliest \1"),
    (r"^(?:what is|what are|any) (?:an? )?(?:good )?(?:substitutes?|replacements?|alternatives?) (?:for|to) ", "substitute "), (r"^what (?:can|could|should) i (?:use|take) (?:instead of|in place of) ", "substitute "),
    (r"^what can (?:replace|i (?:replace|substitute))(?: for)? ", "substitute "),
    (rf"^(?:what|which) ({VEHICLE}) (?:goes|runs|do i (?:take|need|catch) (?:to get )?|should i (?:take|catch) (?:to get )?|takes me|gets me|must i take (?:to get )?)\s?to ", r"what \1 goes to "),
    # How.
    (r"^how (is|are|can|could) ((?:an? |my )?(?:[\w-]+ ){1,3}?)(?:be )?(\w+)((?: (?:in|on|at|for|with|without|from|to|into) .+)?)$", _how_done),
    (r"^what is process (?:of|for|behind) (\w+ing) ", lambda f: f"how-to {stem(f[1])} "),
    (r"^(?:what is|is there) (?:an? |some )(\w+) way (?:of|for) (\w+ing) (.+)$", lambda f: f"how-to {stem(f[2])} {f[3]} {f[1]}ly"), (r"^(?:what is|is there) (?:an? |some )(\w+) way to (\w+) (.+)$", r"how-to \2 \3 \1ly"),
    (r"^(?:what are|explain) rules (?:of|for|in) ", "how-to play "), (r"^how (?:do|does) (?:you|one|1|people) (?=(?:play|spell|pronounce|make|brew|store|season|serve|train|teach|raise|groom|calculate|measure|become) )", "how-to "),
    (r"^what is (?:spelling|correct spelling) of ", "how-to spell "), (r"^what is pronunciation of ", "how-to pronounce "),
    (r"^what (?:is|are) (?:an? )?(?:opposite|antonym|antonyms) (?:of|for|to) ", "antonym of "), (r"^(?:give me|name|tell me|find) (?:an? )?(?:opposite|antonym) (?:of|for) ", "antonym of "),
    (r"^(?:what are|list|name|give me|find) (\d+ )?(?:synonyms (?:of|for)|words (?:that|which) mean same as|words with same meaning as|other words for) ", r"synonyms \1of "),
    (r"^(?:what is|give me|name|find) (?:a synonym (?:of|for)|another word for|a word that means same as) ", "synonym of "),
    (r"^what makes (.+) (rise|work|happen|fall|break|stop|move|grow|change|smell|float|shine|fail|crash|freeze|burn)$", r"why do \1 \2"), (r"^what makes (.+) (change|turn|lose|become|get|go) (\w+)$", r"why do \1 \2 \3"), (r"^why does ", "why do "), (r"^(?:what is|for what) reason (?:that|for which|why) (.+?) (is|are|was|were) ", r"why \2 \1 "), (r"^for what reason (?=(?:is|are|was|were|do|does|did)\b)", "why "),
    (r"^(?:tell me|what are|what is|give me|explain) reasons? (?:why|that|for which) (.+?) (is|are) (\w+ing)\b", r"why is \1 \3"),
    (r"^why (?:is|are) ((?:[\w-]+ ){1,3}?)(\w+ing)\b", lambda f: f"why is {singular(f[1].strip())} {f[2]}"),
    (rf"^is (\w+ing) ((?:[\w-]+ ){{1,5}})({ADJECTIVE})$", lambda f: f"is it {f[3]} to {stem(f[1])} {f[2].strip()}"), (rf"^can (\w+ing) ((?:[\w-]+ ){{1,5}})be ({ADJECTIVE})$", lambda f: f"is it {f[3]} to {stem(f[1])} {f[2].strip()}"),
    (r"^how-to (?:make|get) ((?:an? |my )?[\w-]+) (?:larger|bigger)$", r"how-to increase size of \1"), (r"^how-to (?:enlarge|increase) ((?:an? |my )?(?!size\b)[\w-]+)(?: size)?$", r"how-to increase size of \1"),
    (r"^how-to (?:make|get) ((?:an? |my )?[\w-]+) smaller$", r"how-to reduce size of \1"), (r"^how-to (?:shrink|(?:reduce|decrease|lower) (?=[\w-]+ size)) ?((?:an? |my )?[\w-]+)(?: size)?$", r"how-to reduce size of \1"),
    (r"^how-to (?:change|switch|set) language (?:of|in|for) (.+)$", r"how-to language of \1"), (r"^how-to (?:change|switch|set) (.+?) (?:to|into) (?:another|a different|a new|other) language$", r"how-to language of \1"), (r"^how-to (?:change|switch|set) (?!(?:my|a)\b)([\w-]+) language$", r"how-to language of \1"),
    (r"^how-to (?:stop (.+) from sending (?:me )?|stop getting |stop receiving |mute |silence |disable |turn-off |switch off |deactivate |block )notifications?(?: (?:in|from|of|for|by) (.+))?$", lambda f: "how-to mute notification" + (f" in {f[1] or f[2]}" if f[1] or f[2] else "")),
    (r"^what should i wear (?:to|for|at) ", "how should i dress for "), (r"^how should i dress (?:to|at) ", "how should i dress for "),
    (r"^what (?:could|should|can|shall) i (?:name|call) (?:my|our|an?) ", "recommend name for "), (r"^(?:recommend|suggest|what are|give me|list|what is|find) (?:an? |some )?(?:good |nice |great )?names? for (?:my |our |an? )?", "recommend name for "),
    (r"^(?:recommend|suggest|what are|give me|list) (?:some )?(?:good |nice |great )?(\w+) names$", r"recommend name for \1"),
    # What happened.
    (r"^i have(?: still)? not (?:yet )?(?:received|got|gotten) my (\w+)(?: yet)?$", r"my \1 has not arrived"), (r"^my (\w+) (?:has not|did not|never|still has not) (?:arrived?|come|been delivered|shown up|turned up)(?: yet)?$", r"my \1 has not arrived"),
    (r"^i (?:was|have been|got) (charged|billed|refunded|invoiced|overcharged|debited)\b(.*)$", _done_to_me), (r"^you (?:have )?(charged|billed|refunded|invoiced|overcharged|debited) me\b(.*)$", _done_to_me),
    # To a writer.
    (rf"^(?:compose|draft|formulate) (?=an? (?:[\w-]+ ){{0,2}}{PIECES}\b)", "write "), (rf"^(?:i (?:need|want|would like|am looking for)|give me|create|make|come up with|think of) (?=an? (?:[\w-]+ ){{0,2}}{PIECES} (?:for|about|thanking|that) )", "write "),
    (r"^(?:put|render|turn) (.+) (?:into|in) (french|german|spanish|italian|dutch|polish|portuguese|swedish|danish|japanese|chinese|korean|russian|turkish|arabic|greek|latin|hindi|english|czech|finnish|norwegian|hungarian)$", r"translate \1 to \2"),
    (r"^(?:proofread|spell-check|spellcheck) (.+)$", r"check \1 for mistakes"), (r"^(?:check|read|go through|look over) (.+) for (?:mistakes|errors|typos|spelling mistakes)$", r"check \1 for mistakes"), (r"^find (?:mistakes|errors|typos) in (.+)$", r"check \1 for mistakes"),
    (r"^(?:make) (.+) shorter$", r"shorten \1"), (r"^(?:cut down|trim|abridge) (.+)$", r"shorten \1"), (r"^make (.+) longer$", r"lengthen \1"), (r"^make (.+) simpler$", r"simplify \1"),
    (r"^i need (?=(?:phone number|address|email|opening hours|number|name|date|price) of )", "what is "),
    (r"\b(?:looks after|looking after|look after)\b", "takes care of"),
]  # fmt: skip
"""Tried in this order on the output of `constructions.py`; each at most once."""
