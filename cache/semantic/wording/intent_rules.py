"""Constructions that people choose freely for one kind of request, each written as its plainest one.

By kind: how to, what it costs, when and how long, where, who, may I, is there, what is needed, what it is, why, which is
best. Tried in order on lower-case text with articles, behind the rules of `opening_rules.py` and each at most once. A
rule stands here only if both constructions want the same answer whatever stands in their gaps.
"""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import DONE, NOT_DONE, base
from sluicegate.cache.semantic.lexicon import stem
from sluicegate.cache.semantic.wording.rewriting import Becomes
from sluicegate.cache.semantic.wording.senses import is_act, nominal

# ruff: noqa: E501
_SETTING = r"(?:change|set|update|edit|adjust|modify|reset|enable|disable|turn on|turn off|switch on|switch off|activate|deactivate)"
_WAY = r"(?:way|method|procedure|process|technique|trick|steps?|code|command|syntax|function|query|recipe|formula)"
_GOOD = r"(?:best |right |proper |correct |usual |easiest |recommended |standard )?"
_THING = r"((?:an? |the |my |our )?(?:[\w-]+ ){0,3}[\w-]+)"
_UNIT = r"(?:days?|weeks?|months?|years?|hours?|minutes?)"
_DOCUMENTS = r"(?:documents?|papers?|paperwork|forms?|ids?)"
THEIRS = listed("deliver ship")
"""What the one does who is asked."""
PROPER_SUBJECTS = listed("i you we he she they it this that there")


def _gerund(lead: str) -> Becomes:
    """Return a rewriting of the gerund that a pattern's first group holds: `lead`, its verb, the rest."""

    def becomes(found: re.Match[str]) -> str:
        verb = stem(found[1])
        return f"{lead}{verb}{found[2]}" if verb != found[1] and is_act(verb) else found[0]

    return becomes


def _possible(found: re.Match[str]) -> str:
    """Rewrite "is a salary advance possible" as "can i get a salary advance", and acts as what one can do."""
    words = found[1].split(" ")
    at = next((n for n, word in enumerate(words) if nominal(word) and word not in PROPER_SUBJECTS), None)
    if at is None or words[0] in PROPER_SUBJECTS:
        return found[0]
    before = [word for word in words[:at] if word not in ("a", "an", "the")]
    behind = words[at + 1 :]
    verb = str(nominal(words[at]))
    if verb in THEIRS:
        return " ".join(["do you", verb, *before, *behind])
    return " ".join(["can i", verb, *before, *behind[behind[:1] in (["of"], ["to"]) :]])


def _allowed(found: re.Match[str]) -> str:
    """Rewrite "can opened items be returned" as "can i return opened items"."""
    word = found[2]
    if not (word in DONE or (word.endswith("ed") and word not in NOT_DONE)) or not is_act(base(word)):
        return found[0]
    return f"can i {base(word)} {found[1]}{found[3]}"


def _fronted(found: re.Match[str]) -> str:
    """Rewrite "ants in my kitchen, how do i get them out" as "how do i get ants in my kitchen out"."""
    return f"how do i {found[2]} {found[1]}{found[3]}" if len(found[1].split()) < 6 else found[0]


def _versus(found: re.Match[str]) -> str:
    return f"what is the difference between {found[1]} and {found[2]}"


INTENTS: list[tuple[str, Becomes]] = [
    # How to.
    (r"^(?:the )?([a-z][\w -]*[\w]),? how (?:do|can|should|could) i (\w+) (?:it|them|this|that)( out| off| up| away| back| down)?$", _fronted),
    (rf"^what is (?:the |a |your )?{_GOOD}{_WAY} (?:for|of|to) (\w+ing)( .+)$", _gerund("how do i ")),
    (rf"^what (?:are|is) (?:the |a |some )?{_GOOD}(?:ways?|methods?|steps?|means|options?) (?:for|of) (\w+ing)( .+)$", _gerund("how do i ")),
    (rf"^what are (?:the |some )?{_GOOD}(?:ways?|methods?|steps?|means) to ", "how do i "),
    (r"^which steps (?:are (?:needed|required|necessary) to|do i (?:need|have) to (?:take|follow|do) to|must i take to) ", "how do i "),
    (rf"^where (?:can|do|could|should) i ({_SETTING}) (?=(?:my |our |the |a new |another |an? )?(?:new )?(?:pin|password|email|address|phone number|language|settings?|notifications?|theme|name|username|profile|billing|payment|delivery|time zone|preferences?|privacy|plan|picture|photo)\b)", r"how do i \1 "),
    (r"^how do i set (?:a new|another|a different) ", "how do i change my "), (r"^how do i (?:use|get|choose|pick|select) (?:another|a different) (?=(?:theme|language|font|wallpaper|plan|seat|password|pin|email|name|picture|address|background|ringtone|currency)\b)", "how do i change my "),
    (r"^(?:can i|how can i) (?:use|choose|pick|select|get|have) (?:another|a different|a new) (?=(?:wallpaper|theme|language|font|background|ringtone)\b)", "how do i change my "),
    (r"^how do i (?:put|get) (.+) back to (?:normal|default)$", r"how do i reset \1"),
    (r"^what (?:should|can|could|do|must) i do (?:in order )?to (?:make sure|ensure) (?:that )?", "how do i make sure "),
    (r"^how (?:is|are) (.+) (?:removed|cleaned|installed|replaced|repaired|fixed|changed|cooked|prepared|stored)$", lambda f: f"how do i {base(f[0].rsplit(' ', 1)[1])} {f[1]}"),
    (r"^i forgot (my (?:\w+ )?(?:password|pin|passcode|passphrase))(?:,? (?:and |so )?(?:i )?(?:need|want|have) to (?:reset|change) it|,? (?:and )?how (?:do|can) i (?:set|get|create|choose) a new one|,? what (?:now|do i do|can i do|should i do))?$", r"how do i reset \1"), (r"^(?:i have )?forgotten (my )?(?=(?:\w+ )?(?:password|pin|passcode)$)", "how do i reset my "),
    (r"^i (?:have )?lost (my .+?),? (?:and )?(?:how (?:do|can) i (?:get|order|obtain) a (?:new|replacement)(?: one)?|(?:i )?need a new one|what now|what do i do)$", r"how do i replace \1"), (r"^how do i (?:get|order|obtain|apply for|request) a (?:new|replacement) (?=(?:\w+ )?(?:card|license|licence|passport|sim|id|key|badge)\b)", "how do i replace my "),
    (r"^replace (?:a |my )?(?:lost|stolen) ", "how do i replace my lost "), (r"^how do i replace my (?:lost |stolen )?", "how do i replace my "),
    (r"^(explain|describe) (.+) to me$", r"\1 \2"),
    # Can I, may I.
    (r"^is there (?:an? |any )?(?:way|option|possibility|chance|opportunity) (?:for me )?to ", "can i "), (r"^is there (?:an? |any )?(?:way|option|possibility|chance) of (\w+ing)( .+)$", _gerund("can i ")),
    (r"^is (\w+ing)( .+?) (?:possible|allowed|permitted|ok|okay|acceptable|an option)$", _gerund("can i ")),
    (r"^is (?:an? |the )?((?:[\w-]+ ){0,5}[\w-]+) (?:possible|allowed|permitted)$", _possible),
    (r"^(?:can|may) (?!i\b|you\b|we\b)(.+?) be (\w+)((?: (?:in|on|at|with|without|by|from|to|for|after|before|online|abroad) ?.*)?)$", _allowed),

    (r"^do i get to ", "can i "),
    # Is there, do you have.
    (r"^(?:do you|does the (?:hotel|shop|store|company|school|gym|restaurant|bank|library)) (?:carry|stock|sell|supply) ", "do you have "),
    (r"^(?:do you have|is there|are there) (?:any )?(.+) available$", r"do you have \1"), (rf"^(?:is|are) {_THING} available (?:here|in your (?:shop|store))$", r"do you have \1"),
    (r"^is there (?:a|an|any) (.+) (?:at|in) the (hotel|office|airport|school|gym|library|train)$", r"does the \2 have a \1"), (r"^are there (?:any )?(.+) (?:at|in|on) the (hotel|office|airport|school|gym|library|train)$", r"does the \2 have \1"),
    (r"^can i (?:get|buy|find) (.+) (?:from you|at your (?:store|shop)|in your (?:store|shop)|here)$", r"do you have \1"),
    # What it costs.
    (r"^how expensive is (?:it to (?:have|get) )?(\w+ing)( .+)$", _gerund("how much does it cost to ")), (r"^how expensive is it to ", "how much does it cost to "), (r"^how expensive (?:is|are) ", "how much is "),
    (r"^(?:what|how much) (?:do|will|would|must|should) (?:i|we) (?:have to |need to )?pay (?:for|to get) ", "how much is "), (r"^(?:what|how much) do you (?:charge|ask|want) (?:for|to) ", "how much is "),
    (r"^what are (?:the |your )?(?:fees?|charges?|prices?|costs?|rates?) (?:for|of) ", "how much is "), (r"^what (?:is|are) (?:the |your )?((?!the |your )(?:(?!of |for |in |on )[\w-]+ ){1,3})(?:fees?|charges?|costs?|prices?)( .+)?$", lambda f: f"how much is {f[1].strip()}{f[2] or ''}"),
    (r"^how much (?:are|is) (?:the |your )?((?!the |your )(?:(?!of |for |in |on )[\w-]+ ){1,3})(?:fees?|charges?|costs?|prices?)( .+)?$", lambda f: f"how much is {f[1].strip()}{f[2] or ''}"),
    (r"^(?:are there|is there) (?:any |a |an )?(?:fees?|charges?|costs?|surcharge) (?:for|on) ", "do you charge for "), (r"^do i (?:have|need) to pay (?:extra |a fee |anything )?(?:for|to use) ", "do you charge for "),
    # When, how long, how often.
    (r"^what (?:day|date) is (?=(?:the |my )?(?:start|end|beginning|first|last)\b)", "when is "),
    (r"^(?:at what time|what time|when) can i expect ", "when will i get "), (r"^when (?:do|can) you expect (?:to (?:have|get) )?(.+) (?:again|back)(?: in stock)?$", r"when will \1 be back in stock"),
    (r"^what (?:is|are) (?:the |your )?((?:[\w-]+ )+)(?:opening|business|working) (?:times|hours)$", r"when is the \1open"), (r"^what (?:is|are) (?:the |your )?opening (?:times|hours) (?:of|for|at) (.+)$", r"when is \1 open"), (r"^((?:[\w-]+ ){1,3})(?:opening|business) (?:times|hours)$", r"when is the \1open"),
    (r"^what (?:is|are) (?:the )?(?:first|starting|start) (?:day|date) of ", "when is the start of "), (r"^when is (?:the )?(?:beginning|start|commencement) of (.+)$", r"when does \1 start"), (r"^when is (?:the )?(?:end|expiry|expiration) of (.+)$", r"when does \1 end"), (r"^what is the (?:end|expiry|expiration) date of (.+)$", r"when does \1 end"), (r"^what is the (?:start|starting) date of (.+)$", r"when does \1 start"),
    (rf"^how many {_UNIT} (does|do|did|will|can|should) ", r"how long \1 "), (rf"^for how many {_UNIT} ", "how long "), (r"^how much time (does|do|did|will|can|should|is|are) ", r"how long \1 "),
    (r"^how (?:soon|quickly) (?=(?:do|does|will|can) )", "how long until "), (r"^how long (?:is it|will it be|does it take|will it take|do i have to wait|must i wait) until ", "how long until "),
    (r"^what is (?:the )?(\w+ing) time (?:of|for)( .+)$", lambda f: f"how long do i {stem(f[1])}{f[2]}" if is_act(stem(f[1])) else f[0]),
    (r"^how long (?:does|do|must|should) (.+) (?:have to|need to|take to|must|should) (\w+)$", r"how long does \1 \2"), (r"^how long (?:must|should) (.+) (\w+)$", lambda f: f"how long does {f[1]} {f[2]}" if f[1].split()[0] not in PROPER_SUBJECTS else f[0]),
    (r"^how (?:frequently|regularly) ", "how often "), (r"^how often does (.+) need (\w+ing)$", lambda f: f"how often should i {stem(f[2])} {f[1]}"), (r"^how often (?:does|do|must|should) (?!i\b|you\b)(.+?) (?:need to |have to )?be (\w+ed)$", lambda f: f"how often should i {base(f[2])} {f[1]}"), (r"^how often (?:must|do) i (?:have to |need to )?", "how often should i "),
    # How many, how much.
    (r"^what (?:is the )?number of ", "how many "), (r"^what is the (?:recommended |right |ideal )?(daily|weekly) (?:amount|intake|number) of (.+)$", lambda f: f"how much {f[2]} should i have a {'day' if f[1] == 'daily' else 'week'}"), (r"^what is (?:my |the )?remaining (.+)$", r"how much \1 do i have left"), (r"^how much (.+) (?:is|are) (?:left|remaining)$", r"how much \1 do i have left"), (r"^how much (.+) do i still have$", r"how much \1 do i have left"),
    (r"^how (?:large|big|long|heavy) can (.+) be$", lambda f: f[0].replace("how large can", "what is the maximum size of").replace("how big can", "what is the maximum size of").replace("how long can", "what is the maximum length of").replace("how heavy can", "what is the maximum weight of").removesuffix(" be")),
    (r"^(?:what is the (?:limit|maximum) (?:for|on|of)|what is the most i can|is there a limit (?:on|to|for)) (?:how (?:much|many) )?", "what is the limit of "),
    (r"^how high (?:is|are) ", "what is "),
    (r"^what (.+?) (?:does|do) (.+) (?:contain|include)$", r"what \1 are in \2"), (r"^how many (.+?) (?:does|do) (.+) (?:contain|have|include)$", r"how many \1 are in \2"),
    # Where, who.
    (r"^(?:in|at|on) (?:what|which) (?:place|location|spot|shop|store)s? ", "where "), (r"^where are (.+) (?:made|produced|manufactured)$", r"where do you make \1"), (r"^where do you (?:produce|manufacture) ", "where do you make "),
    (r"^(?:which|what) (?:office|authority|agency|department|shop|store|place) (?:issues|gives out|provides|hands out|sells) ", "where do i get "), (r"^where (?:can|do|should) i (?:request|apply for|order|obtain|pick up) (?:an? )?(?=(?:[\w-]+ ){0,3}(?:certificate|permit|copy|visa|license|licence|card|passport)\b)", "where do i get "), (r"^where (?:is|are) (?:the )?(nearest|closest) ", r"where is the \1 "), (r"^(?:which|what) (\w+) is (?:the )?(?:closest|nearest)(?: to me| to here| by)?$", r"where is the nearest \1"),
    (r"^who (?:is (?:the )?(?:person )?(?:responsible|in charge) (?:for|of)|takes? care of|looks? after|handles?|deals? with|is it that handles) ", "who is responsible for "), (r"^who (?:is|are) (?:allowed|permitted|entitled|able|eligible) to ", "who can "), (r"^who may ", "who can "), (r"^who is (?:our|the|my) (\w+) teacher$", r"who teaches \1"),
    # What is needed.
    (r"^(?:is|are) (?:an? |any )?(.+) (?:required|needed|necessary|mandatory|compulsory|obligatory) (?:for|to|when|if)(?: a| an)? ", r"do i need \1 for "), (rf"^(?:what|which) (?:kind of )?{_DOCUMENTS} (?:are (?:needed|required|necessary)|must i (?:bring|have|submit|provide)|do i (?:need|have to (?:bring|provide|submit))|should i bring|are asked) (?:for|to|when) ", "what documents do i need for "),
    (r"^which (\w+) (?:are|is) (?:needed|required|necessary) (?:for|to|in) ", r"which \1 do i need for "), (r"^what (?:is|are) the (\w+) requirements$", r"what do i need for \1"), (r"^what (?:do|would) i (?:need|require) (?:in order )?(?:to|for) (?!do\b)", "what do i need for "), (r"^am i (?:required|obliged|obligated) to ", "do i have to "),
    (r"^(?:am i|are we) (?:eligible|entitled|qualified) (?:for|to) ", "do i qualify for "), (r"^(?:can|do) i get (?=(?:\w+ )?benefits?$)", "do i qualify for "),
    # What it is, how it differs.
    (r"^(?:what|tell me what) (?:is|are) (?:the )?(?:meaning|definition|sense) of ", "what does it mean "), (r"^explain what (?:an? )?(.+) (?:is|are)$", r"what is \1"), (r"^explain (?:the (?:term|concept|idea|notion) (?:of )?)?(?!how|his\b|her\b|their\b|its\b|my\b|why|the|what|where|when|your)((?:an? )?(?:[\w-]+ ?){1,2}(?: in \w+)?)$", r"what is \1"), (r"^(?:can you )?(?:explain|describe) to me what ", "explain what "),
    (r"^(?:are|is) (.+) and (.+) (?:the same(?: thing)?|identical|different)$", _versus), (r"^is (.+) the same (?:thing )?as (.+)$", _versus), (r"^([\w-]+(?: [\w-]+)?) (?:vs\.?|versus) ([\w-]+(?: [\w-]+)?)$", _versus), (r"^how does (.+) compare (?:to|with) (.+)$", _versus), (r"^what (?:sets|separates) (.+) apart from (.+)$", _versus),
    (r"^(?:which|does) (\w+) or (\w+) (?:run|is|work|go) (\w+er)$", r"which is \3 \1 or \2"), (r"^(\w+) or (\w+)[,:]? which (?:one )?is (\w+er)$", r"which is \3 \1 or \2"), (r"^which (?:one )?is (\w+er)[,:] (\w+) or (\w+)$", r"which is \1 \2 or \3"),
    (r"^is (.+) good or bad for (.+)$", r"is \1 good for \2"),
    # Why.
    (r"^what (?:is|are|could be|might be) (?:the )?(?:cause|causes|reason|reasons) (?:of|for|behind) (?:my |the )?(\w+) (.+)$", lambda f: f"why is my {f[2]} {f[1]}" if f[1] in ("slow", "high", "low", "loud", "bad", "poor", "weak", "noisy", "empty") else f[0]),
    (r"^what (?:makes|could be making|is making|might be making|could make|causes) (.+?) (?:to be |be |come out |turn out )?(?:so |this |that |too )?([\w-]+)$", r"why is \1 \2"),
    (r"^what is wrong with ((?:my|the|our) .+)$", r"why is \1 not working"), (r"^what (?:were|are|was) the (?:main )?(?:causes?|reasons?) (?:of|for|behind) ", "what caused "), (r"^what led to ", "what caused "),
    # Which is best.
    (r"^(?:which|what) (.+?) (?:are|is) (?:the )?(?:best|most suitable|ideal|recommended|good) for (.+)$", r"what is the best \1 for \2"), (r"^best (.+) for (.+)$", r"what is the best \1 for \2"), (r"^(?:what is |when is )?(?:the )?(?:best|right|ideal|good) (?:time of (?:the )?year|season|month|time)(?: of (?:the )?year)? (?:for|to) (\w+?)(ing)?( .+)$", lambda f: f"when should i {stem(f[1] + (f[2] or ''))}{f[3]}"),
    (r"^((?:[\w-]+ ){1,3})ideas$", r"ideas for \1"), (r"^(?:what are|give me|i need|any|some) (?:some |good )?ideas for (?:a |an )?", "ideas for "),
]  # fmt: skip
"""Tried in this order; each at most once."""
