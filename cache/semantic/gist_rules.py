"""How questions of one kind begin: what is left of a wording when `frames.py` has done its work, made one more time one.

Tried in order on canonical words without signs and articles; each at most once. A rule tells the kind of a question and
moves nothing from its place but a passive's verb: "where should essays be submitted" asks where to submit essays.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import DONE, base
from sluicegate.cache.semantic.lexicon import singular, stem

Becomes = str | Callable[[re.Match[str]], str]
PERSONAL = listed(
    """
    access activate add adjust apply archive attach back bake bathe bike block boil book borrow bring build burn
    buy call camp cancel carry change charge check choose claim clean clear climb close combine compare complete
    compost connect contact convert cook copy create cut cycle deactivate delete deposit disable dispute donate
    download drill drink drive drop dry dye eat edit enable enter exchange export extend feed file filter find
    finish fix fly fold forward freeze get give grill grow hang hide hike hire import install invite iron keep
    kayak leave lend link log-in log-out lock make merge microwave mix mount move mute open order pack paint park
    pause pay peel pick pick-up plant play postpone practice print prune publish put read reactivate receive
    record recover recycle redeem reduce register reheat remove rename renew rent repair replace report reschedule
    reserve reset resize restore retake return reuse roast run save scan schedule search see sell send set set-up
    share ship sign sign-up skip smoke sort split start stay stop store stream submit subscribe swap swim switch
    sync take talk tie track transfer transplant try turn-off turn-on unlock unsubscribe update upgrade upload use
    vacuum view visit vote wash watch water wear withdraw work
    """
)
"""What somebody does on purpose: of these, whether it is possible is whether one can, and how it is done is how to do it."""
ANYBODYS = listed(
    """
    freeze reheat microwave eat drink wash dry iron recycle compost mix boil fry bake roast grill store reuse park
    smoke camp swim
    """
)
"""Of these, whether you can is whether anybody can."""
THEIRS = listed(
    """
    process handle protect share charge calculate ship deliver collect determine verify feel do know think like
    work compare differ see decide select set earn use store keep treat train test check choose make get find
    measure hire pay help support create update send track report
    """
)
"""What "how do you" asks of the one who is asked."""
_EASY = r"(?:easiest|simplest|easy|simple|good|best|proper|correct|right|usual|recommended|quick|smart|better)"
_WAY = r"(?:way|method|trick|procedure|process|approach|technique|instructions?|steps?|guide)"
_ADDRESSED = r"(?!.*\b(?:my|me|your|our|us|he|she|they|it|this|that)\b)"
_THIS = r"(?:that|this|it)"
_MODAL = r"(?:should|must|can|could|may|need to|have to)"
_LED = r"(?:how often|how long|how much|how many times|how|when|where|at what temperature|what temperature|how deep|how far)"
_HOW_NOW = (
    rf"(?:how|how-to|how (?:do|can|could|should) i (?:do|go about|proceed|achieve|get|fix|solve) ?{_THIS}?|how do i|how to|how does {_THIS} work"
    rf"|how-to do {_THIS}|how is {_THIS} done|what (?:do|should|must|can) i (?:do|need to do)|what are (?:the )?steps|what now|can you help(?: me)?|help)"
)
_COOKING = "(?:cook|boil|bake|fry|roast|steam|grill|simmer|poach|microwave|thaw|defrost|marinate)"
_EVENT = "(?:flight|trip|journey|drive|ride|course|class|lesson|meeting|match|game|film|movie|show|concert|tour|exam|test|surgery|operation|treatment|recovery|repair|delivery|shipping|training|semester|lecture|interview|break|process|crossing|installation|fix)s?"
_CODE = "(?:promo|promotional|discount|coupon|voucher)(?:-| )?(?:code)?"
_LANGUAGE = "(python|java|javascript|typescript|rust|go|ruby|swift|kotlin|perl|php|sql|bash|c)(?:_cap)?"
_GARDEN = "(?:plant|prune|sow|harvest|fertilize|transplant|repot)"
_AILMENT = (
    r"(?:[\w-]+ )?(?:hiccups?|coughs?|headaches?|throats?|colds?|acne|sunburn|fever|burns?|rash|bloating|nausea|heartburn|cramps?|migraines?|toothache"
    r"|muscles?|blisters?|hangover|allergy|backache|insect bites?|mosquito bites?)"
)
_ONLINE = "(?:setting|language|theme|password|email|address|username|notification|time zone|timezone|profile|preference|name|plan|avatar|font|number|subscription)"
_TOOL = (
    "(git|css|html|sql|docker|kubernetes|linux|bash|vim|nginx|pandas|numpy|react|django|excel|powershell|latex|emacs)"
)
_FAULT = "(?:leak|flicker|smok|beep|freez|crash|overheat|squeak|rattl|vibrat|dripp|bleed|jamm)"
_SERVED = "(?:collected|encrypted|delivered|shipped|processed|stored|emptied|cleaned|published|inspected|dispatched|serviced|charged|billed|calculated|shared|updated|sent out)"
"""What the one who is asked does: "is my data encrypted" asks whether you encrypt it."""
_SWITCH = "(?:change|update|edit|set|enable|disable|turn-off|turn-on|redeem|cancel|deactivate|activate|reset|adjust)"
_NP = r"((?:[\w-]+ ){1,4}?)"
# ruff: noqa: E501


def _may(found: re.Match[str]) -> str:
    verb, rest = stem(found[1]), found.string[found.end() :]
    if verb == "get" and not rest.startswith((" my ", " a ", " an ", " some ", " refund")):
        return found[0]  # "can I get pregnant"
    return f"may-i {verb}" if verb in PERSONAL else found[0]


def _done_by_me(found: re.Match[str]) -> str:
    """Rewrite "where should essays be submitted" as "where should i submit essays"."""
    verb = base(found[4])
    known = found[4] in DONE or found[4].endswith("ed")
    return f"{found[1]} {found[2]} i {verb} {found[3].strip()}{found[5]}" if known else found[0]


def _differ(found: re.Match[str]) -> str:
    return "what is difference between " + " and ".join(sorted((singular(found[1]), singular(found[2]))))


def _how_you(found: re.Match[str]) -> str:
    verb = stem(found[1])
    return f"how-to {verb}" if verb in PERSONAL and verb not in THEIRS else found[0]


def _as_kind(kind: str) -> Becomes:
    return lambda found: f"{kind} {stem(found[1])}"


_ASKING = (
    r"(?:(?:please |kindly )?(?:tell|inform|advise|show|let) (?:me|us)(?: know)?(?: about)? |i (?:am |was |did )?(?:just )?(?:wonder(?:ing)?|curious|asking|ask)(?: about)? "
    r"|(?:i )?(?:want to |need to |would like to |like to )?(?:know|find out|learn|understand|see|check)(?: about)? |explain(?: to me)? |do you know |any idea |may i (?:know|ask) |i would love to know |wondering "
    r"|i'd (?:like|love) to (?:know|learn|understand|find out) |i am not sure |i do not (?:know|understand) |not sure )"
)
_ASKED = r"(?:(?:if|whether) (?:i|we|you|there|it)\b|how (?:to|i|you|one|much|many|long|often|far|do|can)\b|why\b|when\b|where\b|who\b|what\b|which\b)"


SEVERAL = listed(
    """
    hand-in turn-in back-up bring-back give-back take-back call-off hook-up free-up bring-down ask-for apply-for
    search-for get-back
    """
)


def _several(found: re.Match[str]) -> str:
    """Write a verb of two words as one."""
    verb = f"{found[1]}-{found[2]}"
    return verb if verb in SEVERAL else found[0]


def _embedded(found: re.Match[str]) -> str:
    """Rewrite "if i can" as "can i", "whether there is" as "is there", "if you sell" as "do you sell"."""
    verb = found[2]
    if verb in ("need", "have", "do", "offer", "sell"):
        return f"do {found[1]} {verb}"
    return f"can {found[1]}" if found[0].endswith(" to") and verb in ("am", "are") else f"{verb} {found[1]}"


_PAST = listed("was were did has have had been")
_PRESENT = listed("is are do does am")


def _why(found: re.Match[str]) -> str:
    """Put what tells the time of a "why" first, so that "why my card was declined" is "why was my card declined"."""
    words = found[1].split()
    past = not _PAST.isdisjoint(words[:5])
    if past and "not" in words:
        return found[0]
    kept = [word for place, word in enumerate(words) if place > 6 or (word not in _PAST and word not in _PRESENT)]
    kept = [
        word
        for place, word in enumerate(kept)
        if word not in ("get", "got") or not (kept[place + 1 : place + 2] or [""])[0].endswith("ed")
    ]
    return "why " + ("was " if past else "") + " ".join(kept)


REWORDINGS: list[tuple[str, Becomes]] = [
    # Openings.
    (r"\b(hand|turn|back|bring|give|take|call|hook|free|get|ask|apply|search)(?:ing|ed)? (in|up|back|off|down|for)(?= (?:my|an?|this|\w+$))", _several),
    (r"^(?:also|and|so|now|actually|basically|currently|hi|hello|hey|sorry|excuse me) (?=\w)", ""),
    (r"^(?:i am|i was) (?:interested in knowing|looking to find out|trying to understand|curious to know|asking myself) ", ""),
    (r"^(?:can|could|would) (?:you|somebody|someone|anybody|anyone) (?:please )?(?:tell|inform|advise|show|let) me (?:know )?(?:about )?(?=(?:how|what|when|where|why|who|which|whether|if)\b)", ""),
    (rf"^{_ASKING}(?={_ASKED})", ""), (r"^(?:okay|ok|so|and|well|alright) (?=(?:how|what|when|where|why|who|can|do|is|are)\b)", ""),
    (r"^(?:know|tell me|give me|i need) (?=(?:[\w-]+ ){1,4}(?:price|cost|fee|address|phone number|email|hours|deadline|date|name|number|rate|password|limit)$)", "what is "),
    (r"^(?:whether|if) (i|we|you|there|it) (can|could|may|am|are|is|was|were|will|should|must|need to|have to|need|have|do|offer|sell)\b(?: (?:allowed|able|permitted) to)?", _embedded),
    (r"^how i (?:can|could|may|do|might|should)?\s?", "how-to "), (r"^how (?:do|can|could|would|may) i ", "how-to "), (r"^(?:have|have you) (?:you )?got (?=(?:an? |any )?)", "do you have "),
    (r"^(where|when|what [\w-]+|who|how often|how long|how many [\w-]+) i (can|could|may|should|must|need to|have to) ", r"\1 \2 i "),
    (r"^(?:does|do|will) (?:your |this |my |an? )?(?:app|site|website|program|system|service|software|tool|bank|library|shop|hotel)?\s?(?:let|allow|permit) (?:me|us|users|people)(?: to)? ", "can i "),
    (r"^(?:what is reason|what are reasons|for what reason|how come|what reason is there|why is it|what reason) (?:that |why |for )?", "why "), (r"^what caused (.+?) to (?:be )?", r"why was \1 "), (r"^(?:my|our) (.+?) why(?: is that)?$", r"why my \1"),
    (r"^why (?:do )?my ([\w-]+(?: (?!was|were|is|has|did|got|get)[\w-]+)?) (?!need)(\w+)ed$", lambda f: f"why did {f[1]} {stem(f[2] + 'ing')}"), (r"^why (.+)$", _why),
    (r"^(?:where|how-to) (?:to find|find|do i look for|should i look for|can i look for|look for|need-to look for) ", "where-find "),
    (r"^((?:how|what|when|where|why|who|can|do|is|are)\b.*) then$", r"\1"),
    (r"^(?:which|what) (?:kinds?|types?|sorts?) of ", "what "), (r"^which ", "what "), (r"^whom ", "who "),
    (r" (?:right now|at the moment|at all|exactly|anyway|though|by chance|or not)$", ""),
    # How to.
    (rf"^how (?:do|does|can|could|would|will|might) (?:you|one|1|we|people|somebody|someone|anybody|anyone) ([\w-]+)\b{_ADDRESSED}", _how_you),
    (r"^how would i ", "how-to "), (r"^how can i best ", "how-to "),
    (rf"^(?:what is|what would be|is there|what are|give me|show me|i need|tell me) (?:an? |some |any )?(?:{_EASY} )?{_WAY} (?:of|for|to|in|on) (\w+ing)\b", _as_kind("how-to")),
    (rf"^(?:what is|what would be|what are|give me|show me|i need|tell me) (?:an? |some |any )?(?:{_EASY} )?{_WAY} (?:for me )?to (?!(?:be|an?|my) )([\w-]+)\b", _as_kind("how-to")),
    (r"^(?:which|what) (?:is )?(\w+) command (?:is used to|do i use to|should i use to|to|for|lets me|will) (\w+) (.+)$", lambda f: f"how-to {stem(f[2])} {f[3]} in {f[1]}"),
    (rf"^(?:i (?:want|need|would like|wish|am trying|plan|have|would love|am looking|intend|hope)|we (?:want|need)) to (.+?) {_HOW_NOW}$", r"how-to \1"),
    (r"^(?:i )?(?:do not know|am not sure|have no idea|can not figure out|could not figure out|am unsure|struggle|need to know|want to know) how to ", "how-to "),
    (r"^(?:ways|tips|steps|how|instructions|guide|tutorial|procedure) (?:to|for|on) (?:how to )?([\w-]+ing|(?!an? |my )[\w-]+)(?= \w)", _as_kind("how-to")),
    (r"^(?:show|teach|tell|help) me (?:how )?to ", "how-to "),
    (r"^(?:what is )?(?:procedure|process) (?:for|of|to) ([\w-]+ing) ", lambda f: f"how-to {stem(f[1])} "),
    (rf"^{_TOOL} how-to (.+)$", r"how-to \2 in \1"), (rf"^(how-to .+) (?:using|with|on) {_TOOL}$", r"\1 in \2"),
    (rf"^what (?:helps|can i do|works|is good) (?:against|for|with) (?:an? |my )?(?={_AILMENT}\b)", "remedy for "),
    (rf"^how-to (?:get rid of|treat|cure|remove|relieve|ease|soothe) (?:an? |my )?(?={_AILMENT}\b)", "remedy for "),
    (r"^how-to (?:an? )?(?:instructions?|steps|process|procedure|way)(?: process)? (?:to|of|for|in) ([\w-]+)\b", _as_kind("how-to")), (r"^how-to do it to ", "how-to "),
    (r"^(?:can you |could you |please )?(?:i need |i want |may-i get |may-i |can i get |need |looking for )?(?:some |your )?help (?:me )?(?:with |to |in )?([\w-]+)\b(?= )", lambda f: f"how-to {stem(f[1])}" if stem(f[1]) in PERSONAL - {"find", "make"} else f[0]),
    (r"^may-i (?:get|obtain) help (?:with )?([\w-]+)\b", _as_kind("how-to")), (r"^what is involved in (\w+ing)\b", _as_kind("how-to")),
    (r"^what (?:must|should|do|can) i (?:do )?(?:in order )?to (\w+)\b", _as_kind("how-to")),
    # May I.
    (r"^(?:(?:is|would) it (?:be )?(?:possible|ok|fine|permitted|allowed|alright|acceptable|okay)|is there (?:an? |any )?(?:way|option|possibility)) (?:for me )?(?:to|of) ([\w-]+)\b", _may),
    (r"^is there (?:an? |any )?(?:way|option|possibility) i (?:can|could) ([\w-]+)\b", _may),
    (r"^are we (?=able|allowed|permitted)", "am i "), (r"^(?:can|may|could|am) (?:i|we|one|people)(?: be)?(?: allowed to| able to| permitted to| free to)? (?:also |still |just |already )?([\w-]+)\b", _may),
    (r"^may-i (?:also |still |just |already )", "may-i "),
    (rf"^can you ([\w-]+)\b{_ADDRESSED}(?=.+$)", lambda f: _may(f) if stem(f[1]) in ANYBODYS else f[0]),
    (r"^(?:do you|does it) (?:allow|permit|let) (?:me |us |people |customers |guests |users |one )?(?:to )?([\w-]+)\b", _may),
    (r"^(?:is|are) ([\w-]+ing) (.*?) ?(?:possible|allowed|permitted|ok|fine|okay|acceptable)((?: (?:in|on|at|with|during|to|for) .+)?)$", lambda f: f"may-i {stem(f[1])} {f[2]}{f[3]}".rstrip() if stem(f[1]) in PERSONAL else f[0]),
    (r"^is (?:an? |any )?photography (?:allowed|permitted)", "may-i take photo"), (r"^is (?:an? )?(\w+) (?:pickup|pick-up) (?:possible|available)$", r"may-i pick-up in \1"),
    (r"^(?:is|are) it (?:safe|ok) (?:to|for me to) ", "is it safe to "), (r"^(?:can|may) (?:i|you|one|we) safely ", "is it safe to "),
    # Must I, should I.
    (rf"^({_LED}) ({_MODAL}) (?:an? |my )?{_NP}(?:be|get) (\w+)((?: .+)?)$", _done_by_me),
    (r"^how often (?:do i (?:have|need) to|should i|must i|should you|should one|should i be|need i) ", "how often should "),
    (r"^how often (?:do|does) (?:an? |my )?((?:[\w-]+ ){1,3})need (?:to be )?(\w+ed|\w+ing|\w+en)$", lambda f: f"how often should {base(f[2]) if f[2].endswith('d') else stem(f[2])} {f[1].strip()}"),
    (r"^how many times (?:per|a|each|every) (day|week|month|year) (?:do i (?:have|need) to|should i|must i|should you|do i) ", r"how often per-\1 should "),
    (r"^how long (?:do i (?:have|need) to|should i|must i|do i|should you|need i|should one) ([\w-]+) (?=\w)", lambda f: f"how long {stem(f[1])} "), (rf"^how long (?:do you|does it take to|to) ({_COOKING}) (?=\w)", r"how long \1 "),
    (r"^how long do(?:es)? (?:an? )?((?:[\w-]+ ){1,3})(?:need|have|take|require) to (?:be )?([\w-]+)((?: .+)?)$", lambda f: f"how long {base(f[2])} {f[1].strip()}{f[3]}"),
    (rf"^what is ({_COOKING})e?ing time (?:of |for )?(?=\w)", r"how long \1 "), (rf"^what is (?:an? )?((?:[\w-]+ ){{1,3}})({_COOKING})e?ing time$", lambda f: f"how long {f[2]} {f[1].strip()}"),
    (rf"^how long (?:do|does|will) ((?:an? )?(?:[\w-]+ ){{0,3}}{_EVENT}) (?:last|take)$", r"how long is \1"),
    (r"^(?:at )?what (?:oven )?temperature (?:do i|should i|must i|do you|should you) ", "what temperature should "),
    (r"^(?:do|must|should) i (?:really |absolutely )?(?:have to|need to|must) ", "need "), (r"^do i need to ", "need "), (r"^am i (?:required|obliged|supposed|expected) to ", "need "),
    (r"^is it (?:necessary|required|compulsory|mandatory|obligatory) (?:for me )?to ", "need "),
    (r"^do i need (?:an? )?", "need-thing "), (r"^need-thing (?!to )", "do i need "),
    (r"^(?:what|which) ([\w-]+) (?:are|is) (?:required|needed|necessary) (?:for|to) ([\w-]+ing|[\w-]+)\b", lambda f: f"what {f[1]} need-to {stem(f[2])}"),
    (r"^(?:what|which) ([\w-]+) do i need (?:for|to|in order to) ([\w-]+ing|[\w-]+)\b", lambda f: f"what {f[1]} need-to {stem(f[2])}"),
    # What there is.
    (r"^do you (?:sell|carry|stock|have|offer|provide|got|supply) (?!(?:to|kids|children|feelings?|emotions?|time|opinions?|names?|family|memor\w+|conscious\w+|favorite|body|friends)\b)(?:an? |any |some )?(.+?)(?: available| on offer| in stock| here| for sale)?$", r"offer \1"),
    (r"^(?:is|are) there (?:an? |any |some )?((?:(?!to\b|in\b|on\b|at\b|between\b|from\b|left\b|near\w*\b|close\b)[\w-]+ )*(?!to\b|in\b|on\b|at\b|between\b|from\b|left\b|near\w*\b|close\b)[\w-]+)(?: available| on offer| here)?$", r"offer \1"),
    (r"^offer (.+) (?:available|on offer|here|in stock)$", r"offer \1"),
    (r"^(?:is|are) (?:an? )?((?:[\w-]+ ){1,4}?)(?:available|offered|provided|in stock|on offer)$", lambda f: f"offer {f[1].strip()}"),
    (r"^(?:is|are) there (?:an? |any )?((?:[\w-]+ ){1,3}?)(?:nearby|near here|near me|close by|close to here|around here|close to me|in vicinity)$", lambda f: f"where-find nearest {f[1].strip()}"),
    (r"^(?:where|how)(?:-find| is| are| can i find| can i get to| do i get to| do i find) (?:an? )?(?:nearest|closest) ", "where-find nearest "),
    (r"^(?:is|are) (.+) (?:located|situated|found|kept|placed) (where|in what \w+)$", r"where-find \1"),
    (r"^where (?:is|are|can i (?:find|locate|look up|(?:see|view)(?= my))|do i (?:find|locate|look up|(?:see|view)(?= my))|could i find|would i find) (?!(?:my |an? )?(?:order|package|parcel|shipment)\b)(.+?)(?: located| situated| found| to be found| stored| kept)?$", r"where-find \1"),
    (r"^offer (?:fee|charge|cost|extra charge|extra cost|extra fee|surcharge) (?:for|to|on|of|when) ([\w-]+)", _as_kind("fee-for")),
    (r"^(?:is|are) there (?:an? |any )?(?:fee|charge|cost|extra charge|extra cost|extra fee|surcharge) (?:for|to|on|of|when) ([\w-]+)", _as_kind("fee-for")),
    (r"^do you charge (?:an? |any )?(?:extra |fee |money |anything |something )?(?:fee )?(?:for|to|on|if i|when i) ([\w-]+)", _as_kind("fee-for")),
    (r"^(?:do i|must i|will i) (?:have to |need to )?pay (?:an? |any )?(?:extra |fee |money |anything |something )?(?:fee )?(?:for|to|on|if i|when i) ([\w-]+)", _as_kind("fee-for")),
    (r"^need pay (?:an? |any )?(?:extra |fee |money |anything |something )?(?:fee )?(?:for|to|on|if i|when i) ([\w-]+)", _as_kind("fee-for")),
    (r"^does it cost (?:anything|money|something|extra) to ([\w-]+)", _as_kind("fee-for")),
    (r"^what (.+?) do you (?:offer|sell|have|stock|carry|provide)(?: available| in stock| here)?$", r"what \1 are-there"), (r"^what (.+?) (?:are|is) (?:there|available|offered|on offer|sold)(?: here)?$", r"what \1 are-there"),
    (r"^what (.+?) (?:do you (accept|support|speak)|(?:are|is) (accept|support)ed|can i pay with)(?: here)?$", lambda f: f"what {f[1]} you {f[2] or f[3] or 'accept'}"),
    (r"^(?:do|does) (?:it|this|that) have (?:an? |any )?", "offer "), (r"^what (?!kind|type)([\w-]+) (?:type|kind|sort)s? ", r"what \1 "), (r"^what kind of ", "what "),
    (rf"^(is|are|when is|when are|why is|why are|how is|how are|how often is|how often are|where is|where are) (?:an? )?{_NP}({_SERVED})((?: .+)?)$", lambda f: f"{f[1].rsplit(' ', 1)[0] + ' ' if ' ' in f[1] else ''}do you {base(f[3])} {f[2].strip()}{f[4]}"),
    (rf"^(when|why|how|how often|where|where-find) {_NP}({_SERVED})$", lambda f: f"{f[1].removesuffix('-find')} do you {base(f[3])} {f[2].strip()}"),
    (r"^(do|when do|how often do|why do|where do) they ", r"\1 you "),
    (r"^(?:is|are) (?:an? )?((?:[\w-]+ ){1,4}?)(drink|compost|wash|reus|recycl|return|remov|refund|adjust|resiz|download|edit|exchang|microwav|freez|transfer)able((?: .+)?)$", lambda f: f"may-i {stem(f[2] + 'ing')} {f[1].strip()}{f[3]}"),
    (r"^(?:is|are) (?:an? )?((?:[\w-]+ ){1,4}?)edible$", lambda f: f"may-i eat {f[1].strip()}"),
    (r"^may-i (?:use|run) ((?:this |an? )?(?:[\w-]+ )?(?:app|program|service|site|website|player|software|tool|device|card|phone)) (?=offline|without|abroad|on|in|with|under)", r"does \1 work "),
    (r"^how-to (.+) (?:goodly|easily|simply|correctly|properly|rightly|best|easiest|simplest)$", r"how-to \1"),
    (r"^what is (cheapest|fastest|quickest|safest) way to (.+)$", r"how-to \2 \1"), (r"^how-to (.+?) (?:most )?(cheap|fast|quick|safe)(?:ly|est)?$", lambda f: f"how-to {f[1]} {'fast' if f[2] == 'quick' else f[2]}est"),
    # When, why, who.
    (r"^(?:when|what time|at what time|on what day|on what date|on what days) (is|are|do|does) (?:an? )?", r"when \1 "),
    (r"^what is (start|begin|end|departure|arrival|closing|opening) (?:date|time) of (.+)$", lambda f: f"when does {f[2]} { {'departure': 'leave', 'arrival': 'arrive', 'closing': 'close', 'opening': 'open'}.get(f[1], f[1])}"),
    (r"^(?:when|what) is best time (?:of year |of day )?(?:for|to) (\w+ing)\b", lambda f: f"what is best time to {stem(f[1])}"),
    (r"^(?:what is reason|what are reasons|for what reason|how come|what reason is there|why is it) (?:that |why |for )?", "why "),
    (r"^what (?:causes|makes) (?:an? |my )?((?:[\w-]+ ){1,3}?)(?:to )?(be|become|turn|look|smell|taste|feel|run|go|stop|start|break|restart|crash|fail|flicker|rise|fall|change|grow|die|hurt|freeze|sink|float|burn|explode|shake|leak|rust)\b", lambda f: f"why do {f[1]}{'' if f[2] == 'be' else f[2]}".rstrip()),
    (r"^who (?:should|can|must|do) i (?:contact|call|ask|talk to|speak to|speak with|talk with|turn to|write to|notify|inform|tell|email|reach out to) (?:about|regarding|for|concerning|with|on|if i have)? ?", "who-contact about "),
    (r"^who is (?:responsible for|in charge of|handling|taking care of) ", "who-is-in-charge of "), (r"^who (?:handles|manages|runs|leads|heads) ", "who-is-in-charge of "),
    (r"^who is (?:person|one|man|woman) (?:that|who) ", "who "),
    (r"^who is (\w+?)e?r of (.+)$", lambda f: f"who {stem(f[1] + 'ing')}s {f[2]}" if f[1] in ("own", "teach", "publish", "mak") else f[0]),
    (r"^who is credited with (?:discovery of|discovering) ", "who discovered "),
    (rf"^((?:how often|where|when|at what temperature|what temperature|how deep|how far|how many times per-\w+|what [\w-]+)) (?:do i|should i|must i|do i have to|do i need to|should|must) ({'|'.join(sorted(PERSONAL - {'get', 'see', 'work', 'leave', 'stay'}))})\b(?= )", r"\1 \2"),
    (rf"^where (?:can i |could i |do i |may i |should i )?({_SWITCH})(?= (?:(?:my|an?) )?(?:[\w-]+ )?{_ONLINE}s?$)", r"how-to \1"),
    (r"^who-must (?=(?:approve|sign|authorize|confirm|decide|pay)\b)", "who "), (r"^who (\w+?)s (?=my\b|an?\b|\w+)", lambda f: f"who {f[1]} " if f[1] not in ("i", "wa", "ha", "doe") else f[0]),
    (r"^when will ", "when "), (r"^what (?:date|day|time) (?:do|does|is|are|will) ", "when "),
    (r"^when is (start|begin|beginning|end) of (.+)$", lambda f: f"when does {f[2]} {'end' if f[1] == 'end' else 'begin'}"), (r"^when (?:is |does )?(.+) (?:start|starting|begin|beginning)s?$", r"when does \1 begin"),
    (r"^how much (?:money )?(?:do |does |will )?(?:an? )?((?:[\w-]+ ){1,3})(?:costs?|price)$", lambda f: f"what is {f[1]}price"),
    (r"^need (?:it to )?have ", "do i need "), (r"^(?:will|would|do) i need (?!to )", "do i need "), (r"^do i need it to have ", "do i need "),
    (r"^(?:how|in what ways?) (?:is|are|do|does) (?:an? )?(\w+) (?:different|differ|distinct) from (?:an? )?(\w+)$", _differ), (r"^what sets? (?:an? )?(\w+) apart from (?:an? )?(\w+)$", _differ),
    (r"^what-to-do if (?:i )?(?:forgot|forget|forgotten|have forgotten|lost|can not remember|do not know|not know) (?:my )?password$", "how-to reset password"),
    # What is wrong.
    (rf"^what-to-do if (?:my )?((?:[\w-]+ ){{1,2}})(?:is|keeps) ({_FAULT}ing)$", lambda f: f"how-to fix {f[2]} {f[1].strip()}"), (rf"^what-to-do if (?:my )?((?:[\w-]+ ){{1,2}})({_FAULT})s$", lambda f: f"how-to fix {f[2]}ing {f[1].strip()}"),
    (rf"^how-to stop (?:my )?((?:[\w-]+ ){{1,2}})from ({_FAULT}ing)$", lambda f: f"how-to fix {f[2]} {f[1].strip()}"), (rf"^what (?:can|should|do) i do about (?:an? |my )?({_FAULT}ing) ", r"how-to fix \1 "),
    (r"^my ((?:[\w-]+ ){1,2})(?:is|keeps|has been) (\w+ing)(?: (?:how-to fix it|how do i fix it|how can i fix it|how do i (?:solve|stop) (?:it|this)))$", lambda f: f"how-to fix {f[2]} {f[1].strip()}"),
    (r"^(?:my )?((?:[\w-]+ ){1,2})(\w+)s (?:how-to fix it|how do i fix it|how can i fix it)$", lambda f: f"how-to fix {f[2]}ing {f[1].strip()}"),
    (r"^my (.+? (?:is|was|has been) \w+) (?:what (?:do|should|can) i do|what now|help|what are my options|what to do|how do i fix it|how-to fix it)$", r"what-to-do if my \1"),
    (r"^what (?:do|can|should|must) i do (?:now that|now|when|if|after) ", "what-to-do if "),
    (r"^what-to-do if (.+) (?:refuses to|does not want to|will not) ", r"what-to-do if \1 will not "),
    (r"^my ([\w-]+(?: [\w-]+)?) (?:was|is|got|has been|did) (\w+ed|stolen|broken|lost) how (?:do|can|should) i (\w+) it$", r"how-to \3 \2 \1"),
    (r"^i (?:still )?have (?:still )?not (?:yet )?(?:received|got|gotten) (?:my )?(.+?)(?: yet)?$", r"my \1 has not arrived"), (r"^(?:my )?(.+) still has not arrived$", r"my \1 has not arrived"),
    (r"^refund of money$", "may-i get refund"), (r"^how much money (?:is |are )?(?:there )?(?:in|on) my account$", "what is my account balance"),
    (rf"^where (?:do i |can i |should i |may i )?(?:enter|apply|use|redeem|put|type in|type) (?:an? |my )?{_CODE}$", "how-to apply promo-code"), (rf"^how-to (?:enter|apply|use|redeem) (?:an? |my )?{_CODE}$", "how-to apply promo-code"),
    (r"^how-to make (.+) (?:faster|quicker)$", r"how-to speed-up \1"), (r"^how-to speed up ", "how-to speed-up "), (r"^how-to (apply|ask|search|look) for ", r"how-to \1-for "),
    (r"^how-to (?:get|travel|go) from ", "how-to get from "), (r"^do i need (.+) for (\w+ing) ", lambda f: f"do i need {f[1]} to {stem(f[2])} "), (r"^what (?:helps|can i do|works) to (\w+)", _as_kind("how-to")),
    (r"\bappointment with (?:an? |my )?(\w+)", r"\1 appointment"), (r"\b(\w+) that (?:has |have |had |is |are )?been (\w+ed)\b", r"\2 \1"), (r"\ba different\b", "another"),
    (r"^(summarize .+ in (?!1 )\d+ (?:sentence|paragraph|page|word|line|bullet point))$", r"\1s"), (r"\b(?:about|on) (?:subject|topic|theme) of\b", "about"),
    (r"^list (\d+) names for (?:an? |my )?(.+)$", r"list \1 \2 names"), (r"\b(?:second world war|WWII|WW2|world war (?:II|2))\b", "ww2"), (r"\b(?:first world war|WWI|WW1|world war (?:roman1|1))\b", "ww1"),
    (rf"^in {_LANGUAGE} (write .+)$", r"\2 in \1"), (rf"^write an? (function|program|script|class|method) (?:that |which )(\w+?)s (.+) in {_LANGUAGE}$", r"write a \1 in \4 to \2 \3"), (rf"^write an? (function|program|script|class|method) to (.+) in {_LANGUAGE}$", r"write a \1 in \3 to \2"),
    (rf"^{_TOOL} how to (.+)$", r"how-to \2 in \1"),
    (r"^offer (.+) (?:in|at|on) (?:your )?(hotel|restaurant|school|office|gym|campsite|airport|station|building|room|museum|library|beach|park|train|bus|plane|airplane|apartment|flat|house)$", r"has \2 : \1"),
    (r"^what (?:papers?|paperwork) need-to ", "what document need-to "), (r"^what is my (?:remaining|left) (\w+) (?:balance|days?|allowance)$", r"remaining \1 days"),
    (rf"^(?:when|what) (?:is )?best time (?:of year )?to ({_GARDEN})\b", r"when \1"), (r"^how-to keep (.+?) (?:away from|off|out of) (?:my |an? )?(.+)$", r"how-to protect \2 from \1"),
    (r"^how hot (?:is|are) (.+)$", r"what is \1 temperature"), (r"^what is temperature (?:of|in|on|inside) (.+)$", r"what is \1 temperature"),
    (r"^by whom (?:was|were) (.+) (built|founded|made|discovered|designed|created|directed|composed|invented)$", r"who \2 \1"), (r"^why was (.+) (?:happen|occur|take place|break out)$", r"what caused \1"),
    (r"^(?:is|are) (?:my |an? )?((?:[\w-]+ ){1,3})(?:allowed|permitted) to ", r"can \1"), (r"^can (?:my |an? )(?=\w+ \w)", "can "),
    # What it is.
    (r"^what (.+) means?$", r"what is \1"),
    (r"^how much (.+) do i have(?: left)?$", r"how much \1 is left"),
    (r"^(?:how many|how much) ([\w-]+(?: [\w-]+)?) (?:do i have|have i got|are) (?:left|remaining)$", r"remaining \1"), (r"^what is my (?:remaining |left )?(?:number|amount|balance) of (?:remaining )?(.+)$", r"remaining \1"),
    (r"^(?:describe|explain|tell me) (?:what |who )?([\w-]+) (?:is|are)$", r"what is \1"),
    (r"^what does it mean (?:when|if|that) ", "meaning of "),
    (r"^(?:give me|list|name|suggest|recommend|write|come up with|think of|provide|propose|show me) (?=\d+ )", "list "),
    (r"^recommend (?:an? )?(?:good|great|nice|decent|solid) ", "recommend "),
    (r"^what is (?:an? )?(?:good|great|nice|decent) (?!way|time|idea|reason)(.+)$", r"recommend \1"),
    (r"^how (?:loud|noisy) ", "how loud "),
]  # fmt: skip
