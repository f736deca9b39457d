"""Frames of the last step: what is one question though another part of speech carries it.

Works on the gist: no articles and auxiliaries, words in the singular, a kind at the front. Tried in order, each at most
once, two times: before synonyms are made one, and after.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import DONE, NOT_DONE, base
from sluicegate.cache.semantic.gist_rules import ANYBODYS
from sluicegate.cache.semantic.wording.senses import is_act, nominal, place_of

Becomes = str | Callable[[re.Match[str]], str]
# ruff: noqa: E501
MEASURES = {
    "deep": "depth", "high": "height", "tall": "height", "wide": "width", "broad": "width", "heavy": "weight", "old": "age", "thick": "thickness",
    "fast": "speed", "large": "size", "strong": "strength", "hot": "temperature", "warm": "temperature", "dense": "density", "loud": "loudness",
    "bright": "brightness", "expensive": "price", "salty": "salinity", "steep": "steepness", "accurate": "accuracy", "spicy": "spiciness",
}  # fmt: skip
"""What "how deep" asks for."""
QUALITIES = {
    "thicken": "thick", "thin": "thin", "shorten": "short", "lengthen": "long", "widen": "wide", "strengthen": "strong", "weaken": "weak",
    "soften": "soft", "harden": "hard", "sweeten": "sweet", "brighten": "bright", "darken": "dark", "lighten": "light", "loosen": "loose",
    "tighten": "tight", "sharpen": "sharp", "quieten": "quiet", "whiten": "white", "straighten": "straight", "deepen": "deep", "flatten": "flat",
    "moisten": "moist", "dampen": "damp", "toughen": "tough", "simplify": "simple", "enlarge": "big", "speed-up": "fast", "cool": "cool", "warm": "warm",
    "stiffen": "stiff", "smoothen": "smooth", "freshen": "fresh", "cheapen": "cheap", "blacken": "black", "redden": "red", "ripen": "ripe", "fatten": "fat",
}  # fmt: skip
"""Verbs that make a thing more of a quality."""
_ADJ = (
    r"(?:bad|dangerous|harmful|unhealthy|healthy|safe|good|normal|hard|easy|important|possible|common|rare|legal|illegal|slow|fast|high|low|hot|cold|dry|wet|dense|loud|quiet|blue|red|green|black|white"
    r"|expensive|cheap|tired|sore|itchy|swollen|soft|tough|salty|sweet|bitter|sour|blurry|dark|bright|dirty|sticky|soggy|yellow|brown|weak|strong|late|early|empty|full|large|small|heavy|light)"
)
_NP = r"((?:[a-z][\w-]* ){1,4}?)"
_END = r"((?:[a-z][\w-]* ?){1,4})"
_LAND = r"(?:live in|inhabit)"
_MATHS = r"(?:area|volume|perimeter|circumference|radius|diameter|mean|median|average|mode|slope|derivative|integral|percentage|bmi|vat|interest|circle area|triangle area|standard deviation|hypotenuse|surface area)"
_LIGHT = r"(?:make|do|perform|carry out|place|have|take|give|file|submit|put in|go through|conduct|complete|undergo|arrange|start|initiate)"
_LEADING = listed(
    """
    what who how how-to where where-find when why which whether offer has includes may-i need deadline policy limit
    recipe list write explain translate calculate convert compare summarize can does do is are recommend tell-about
    compare give show change update min-age salary
    """
)


def _measured(found: re.Match[str]) -> str:
    noun = MEASURES[found[1]]
    return f"what is {found[2].strip()} {noun}"


def _made_more(found: re.Match[str]) -> str:
    return f"{found[1]} make {found[3].strip()} more {QUALITIES[found[2]]}"


def _comparative(found: re.Match[str]) -> str:
    word = found[3]
    stems = (word[:-2], word[:-1], word[:-3], word[:-3] + "y")
    quality = next((stem for stem in stems if stem in QUALITIES.values() or stem in MEASURES), None)
    quality = {"bigg": "big", "larg": "big", "large": "big"}.get(quality or "", quality)
    return f"{found[1]} make {found[2].strip()} more {quality}" if quality else found[0]


def _in_place(found: re.Match[str]) -> str:
    place = place_of(found[2])
    return f"{found[1]}{found[3]} in {place}" if place != found[2] and not found[3].endswith(" in") else found[0]


def _done(found: re.Match[str]) -> str:
    """Rewrite "how cron job scheduled" as "how-to schedule cron job"."""
    word = found[3]
    if not (word in DONE or (word.endswith("ed") and word not in NOT_DONE)):
        return found[0]
    verb = base(word)
    return f"{found[1]} {verb} {found[2].strip()}{found[4]}" if is_act(verb) else found[0]


def _kind(kind: str) -> Callable[[re.Match[str]], str]:
    def becomes(found: re.Match[str]) -> str:
        return _done_as(kind, found)

    return becomes


def _done_as(kind: str, found: re.Match[str]) -> str:
    word = found[2]
    if not (word in DONE or (word.endswith("ed") and word not in NOT_DONE)):
        return found[0]
    verb = base(word)
    return f"{kind} {verb} {found[1].strip()}{found[3]}" if is_act(verb) else found[0]


def _may(found: re.Match[str]) -> str:
    return f"may-i {found[1]}" if is_act(found[1]) and found[1] not in ANYBODYS else found[0]


RULES: list[tuple[str, Becomes]] = [
    # Passives with "get", and those without an agent.
    (r"\bobtain (paid|locked|charged|renewed|married|divorced|delivered|started|rid|fired|cooked|repaired|refunded|shipped|approved|declined|canceled|rejected|banned|blocked|hacked|stolen|lost|hired|promoted|vaccinated|tested|billed)\b", r"\1"),
    (r"^(how) (?:can |could )?" + _NP + r"(?:be |being )?(\w+)((?: (?:in|on|at|@|for|with|from|to|into|by|using) .+)?)$", lambda f: _done(f).replace("how ", "how-to ", 1) if _done(f) != f[0] else f[0]),
    (r"^(?:can|could|may) " + _NP + r"(?:be )?(\w+)((?: (?:in|on|at|@|for|with|from|to|into|after|before|without) .+)?)$", _kind("may-i")),
    (r"^whether it (?:ok|okay|fine|allowed|permitted|acceptable|possible|all right) to (?:have |obtain )?(?=\w)", "may-i "),
    (r"^whether (\w+) (.+?) (?:allowed|permitted|possible|ok|okay|acceptable)((?: (?:in|on|at|@|for|with|from|to|into|after|before|without|during) .+)?)$", lambda f: f"may-i {f[1]} {f[2]}{f[3]}" if is_act(f[1]) else f[0]),
    (r"^whether (.+?) (?:by|in) (\w+) (?:allowed|permitted|possible|accepted)$", lambda f: f"may-i {nominal(f[1])} by {f[2]}" if nominal(f[1]) else f[0]),
    (r"^can (?!you\b|he\b|she\b|they\b|it\b)([a-z-]+)(?= )", _may),
    (r"^offer (?:possibility|option|chance) to ", "may-i "),
    (r"^whether (?:obtain|receive) (?=\w+ed\b|paid\b)", "whether "),
    (r"^where (?:can|could|may) (?!you\b|he\b|she\b|they\b)(?=[a-z-]+ )", "where "),
    (r"^how-to obtain (.+) out of (?=\w)", r"how-to remove \1 from "), (r"^(how-to|may-i) (?:for )?(.+) apply$", r"\1 apply \2"), (r"^(how-to|may-i) apply for ", r"\1 apply "), (r"^(how-to|may-i) (?:request|ask) (?:for )?(?=(?:[\w-]+ )?(?:leave|visa|loan|refund|permit|scholarship|grant)\b)", r"\1 apply "),
    (r"^(how-to|may-i) (turn|switch) (.+) (on|off)$", r"\1 \2-\4 \3"), (r"\b(?:turn|switch)-on\b", "activate"), (r"\b(?:turn|switch)-off\b", "deactivate"), (r"^(how-to|may-i) free (.+) up\b", r"\1 free-up \2"), (r"^(how-to|may-i) free (\w+ )?up (?=\w)", r"\1 free-up \2"),
    (r"^how-to obtain (more|additional) (space|storage)", r"how-to free-up \2"),
    (r"^my (.+?) (?:did|was|is|has been|got) (\w+ed|lost|stolen|broken) how(?:-to| do)? (?:i )?(?:obtain |get )?(.+)$", r"how-to get \3 for \2 \1"), (r"^how-to obtain (my )?(?:money back|refund)", "how-to get refund"), (r"^(how-to get) money back", r"\1 refund"),
    (r"^why (?:people|person|you|we|one) (?:obtain|have|suffer from|develop|experience) (.+)$", r"what cause \1"),
    (r"^offer payment (in|by|with|via) ", r"may-i pay \1 "), (r"^may-i pay (?:by|with|using|via|in) (invoice|check|cash|card|credit-card|credit card|debit card|paypal|bitcoin|bank transfer|installment|voucher|gift card)$", r"accept \1"), (r"^whether payment (?:by|with|in|via) (.+) (?:possible|accepted|permitted|allowed)$", r"accept \1"),
    (r"^whether (?!my\b|your\b|i\b|it\b|this\b|that\b)(.+?) (?:available|offered|provided)(?: (?:from|at|by) (?:you|your \w+))?((?: (?:in|on|at|@|for|with|to) .+)?)$", r"offer \1\2"), (r"^whether you (?:sell|have|offer|provide|stock|carry) (?!to\b)", "offer "),
    (r"^how much it price (.+)$", r"what is \1 price"), (r"^has (.+) : (.+)$", r"has \1 \2"),
    (r"^what is (.+) processing time$", r"how long obtain it \1"), (r"^how long (?:it take )?(?:to )?(?:get|obtain) (?:it )?(.+)$", r"how long obtain it \1"), (r"^how long obtain it (?:a |an |my )?(.+)$", r"how long obtain it \1"), (r"^how long (.+) (?:take to process|processing take|take to obtain)$", r"how long obtain it \1"),
    (r"^(?:how long|what is) (.+) (?:period|timeframe|time-frame|time frame)$", r"how long \1"), (r"^what is (.*\b(?:flight|travel|delivery|transfer|waiting|response|cooking|baking|recovery|journey|charging|boiling|reaction))(?:ing)? (?:time|duration)((?: (?:from|between|to|in|of|for) .+)?)$", r"how long \1\2"), (r"^how long (.*\b(?:flight|journey|transfer|delivery|drive|trip)) take\b", r"how long \1"),
    (r"^how long (\w+(?: \w+)?) (?:between (\w+) and|from (\w+) to) (\w+)$", lambda f: f"how long {f[1]} from {f[2] or f[3]} to {f[4]}"),
    (r"^how long (?:can|should|do)? ?(?:keep|store) (.+?)((?: (?:in|@) .+)?)$", r"how long \1 last\2"), (r"^how long (.+?) (?:keep|stay good|stay fresh|good for|be kept|kept|stored)((?: (?:in|@) .+)?)$", r"how long \1 last\2"), (r"^how long can (.+) last\b", r"how long \1 last"), (r"^what is (.+) (?:shelf-life|shelf life)((?: (?:in|@) .+)?)$", r"how long \1 last\2"), (r"^what is (.*)(?:battery-life|battery life)$", r"how long \1battery last"),
    (r"^how much (?:have to |need to |must )(order|buy|spend|deposit|pay) at(?: |-)least$", r"what is minimum \1"), (r"^what is minimum (order|deposit|payment|purchase) (?:value|amount|size|sum)$", r"what is minimum \1"),
    (r"^(?:whether )?need (\w+) for (\w+)$", lambda f: f"need {f[2]} {f[1]}" if f[2] != "visit" else f[0]), (r"^whether need ((?!to\b)\w+ \w+)$", r"need \1"), (r"^((?:what )?need .+ for) (?:travel|go|enter) (?:to )?(\w+)$", r"\1 visit \2"),
    (r"^(limit .+?) (?:on|in|for) airplane$", r"\1 flight"), (r"^may-i (?:bring|take) ((?!part\b)[\w-]+(?: [\w-]+)?) (?:on|onto|in|into|to|@) (.+)$", r"permitted \1 in \2"), (r"^whether (.+) permitted (?:on|in|at|@|into|onto) (.+)$", r"permitted \1 in \2"),
    (r"^((?:[a-z][\w-]* ){1,3})(population|capital|currency|price|policy|symptom|height|weight|area|meaning|definition|deadline|phone-number|phone number|address|exchange rate|boiling point|melting point|life expectancy|side effect|ingredient|calorie)$", lambda f: f[0] if f[0].split()[0] in _LEADING else f"what is {f[0]}"),
    (r"^what (.+?) (?:consider|considered|regarded as) (\w+)$", lambda f: f"what is {f[2]} {f[1]}"),
    (r"^(how-to|may-i) (pair|connect|link|hook-up) (.+?) (?:with|to|and) ", r"\1 connect \3 to "), (r"^(how-to|may-i) reset (.+) to (?:factory|original|default) (?:setting|set|default|state)s?$", r"\1 factory-reset \2"), (r"^(how-to|may-i) factory reset ", r"\1 factory-reset "),
    (r"^(why .*?)\bmy ", r"\1"), (r"^whether obtain (.+) paid$", r"whether \1 paid"), (r"(?<!tell )\b(?:when|if|while|though|although) (?:i )?have (?:a |an )?(\w+)$", r"with \1"),
    (r"^what language officially spoken in (\w+)$", r"what official language in \1"), (r"^what is (quote=.+) in (past[- ]tense|plural|future tense|passive)$", r"what is \2 of \1"),
    (r"^how-to (?:obtain|become|be) (\w+ed)$", r"how-to become \1"), (r"^how-to top up (.+)$", r"how-to add money to \1"), (r"^(how-to|may-i|should-i) shop (?=\w)", r"\1 store "), (r"\biterate (?:through|over|across|on) ", "iterate "),
    (r"^what cause (.+) (\w+)$", lambda f: f"why-was {f[1]} {nominal(f[2])}" if nominal(f[2]) else f[0]), (r"^why did (.+) (\w+)$", lambda f: f"why-was {f[1]} {base(f[2])}" if f[2] in DONE or (f[2].endswith("ed") and f[2] not in NOT_DONE) else f[0]),
    (r"^how much (.+) hold$", r"what is \1 capacity"), (r"^how much (storage|memory|ram|space) (.+) (?:have|has|offer)$", r"what is \2 \1"), (r"^what is (.*)(storage|memory) (this |that )?(?:capacity|size|amount)$", lambda f: f"what is {f[3] or ''}{f[1]}{f[2]}"),
    (r"^where (give|leave|submit|enter|see|view|update|change|register|apply|hand-in|upload|request|file|report|modify|edit|download) ((?:.+ )?(?:feedback|review|payslip|invoice|receipt|code|setting|preference|history|pin|password|expense|travel-expense|complaint|form|application|detail|profile|order|email|address|expense-report|number|data|timesheet))$", r"how-to \1 \2"),
    (r"^where-find ((?:.+ )?(?:payslip|invoice|receipt|form|certificate|statement|history))$", r"how-to obtain \1"), (r"^how-to (online|remote) (check-in|[a-z]+)$", lambda f: f"how-to {nominal(f[2]) or f[2]} {f[1]}"),
    (r"^whether (.+) (\w+) possible$", lambda f: f"may-i {nominal(f[2])} {f[1]}" if nominal(f[2]) else f[0]), (r"^how many time has zones (.+)$", r"how many time-zone has \1"),
    (r"^how long ([a-z-]+) it (?=\w)", r"how long \1 "), (r"^how long take to (?=\w)", "how long "), (r"^what make (?:my )?(.+) ([a-z-]+)$", r"why \1 \2"), (r"^what (.+?) (.+) (?:contain|consist of)$", r"what \1 in \2"),
    (r"^what (?:could |can |might )?(?:be )?reason (?:that |why |for )?(?:my )?(.+)$", r"why \1"), (r"^what is (.+?) (?:best |proper |correct |right )?(?:treatment|remedy|cure)$", r"remedy for \1"), (r"^remedy (?:for|against) ", "remedy for "),
    (r"^what (.+) (normal|safe|ideal|healthy|good|high|low|typical|dangerous|best|right|correct)$", r"what is \2 \1"), (r"^whether (.+) (?:belong to|belongs to|part of) (.+)$", r"includes \2 \1"),
    (r"^what (?:country|state) (?!border)(.+) border(?: (?:on|with))?$", r"what is \1 neighbor"), (r"^what (?:country|state) (?:border|neighbor|adjoin)(?: on)? (.+)$", r"what is \1 neighbor"), (r"^what is (.+) (?:neighboring|neighbouring|bordering|neighbor|neighbour) (?:country|state)$", r"what is \1 neighbor"),
    (r"^when is (.+) due$", r"deadline \1"), (r"^what is deadline (?:of|for) (?:my )?(.+)$", r"deadline \1"), (r"^how you calculate (.*\b" + _MATHS + r")$", r"how-to calculate \1"), (r"^(?:calculate|compute|work out|find) ((?:square|cube) root of .+|\d\S* percent of .+|(?:average|sum|mean|median|product|difference) of \d.*)$", r"what is \1"),
    (r"^what is policy (?:on|for|about|of|regarding) (.+)$", r"policy \1"), (r"^what is (?:your |company )?(.+)[ -]policy$", r"policy \1"), (r"^what is ([\w-]+) with (best|most|largest|longest|highest|lowest|fewest|least) ", r"what \1 has \2 "), (r"^by-when (?:can|may) i ([\w-]+) (.+)$", r"deadline \1 \2"),
    (r"^(how-to|may-i) obtain ((?!money|deposit|refund).+) back$", r"\1 restore \2"), (r"^(how-to|may-i) obtain (.+ )back (?=in|from)", r"\1 restore \2"),
    (r"^what (?:is )?(?:can i )?(?:maximum|highest|largest) (?:amount|quantity|sum) (?:of (.+?) )?(?:that )?(?:i )?(?:can|may) (?:i )?([a-z-]+)(.*)$", lambda f: f"how much {f[1] + ' ' if f[1] else ''}can {f[2]}{f[3]}"),
    (r"^can have (?=(?:[\w-]+ )?(?:refund|receipt|invoice|copy|discount)\b)", "may-i get "), (r"^(has .+) on board$", r"\1"), (r"^how-to (?:obtain|reach) (?:to )?from (.+) to (.+)$", r"how-to reach \2 from \1"), (r"^how-to obtain to (.+) from (.+)$", r"how-to reach \1 from \2"), (r"^recipe for ", "how-to make "),
    (r"^what ([\w-]+) (?:need-to|should i|i should) ([\w-]+) use$", r"what is best \1 in \2"), (r"^how long it take for (.+) to ([a-z-]+)$", r"how long \1 \2"), (r"^what is (.+) ([a-z]+)ing time$", lambda f: f"how long {f[1]} {base(f[2] + 'ed')}"),
    (r"^what ([\w-]+) (?:is-in|belong to|part of|make up) (.+)$", r"what \1 in \2"), (r"^how safe (.+)$", r"whether \1 safe"), (r"^how long (.+) ([a-z]+) take$", lambda f: f"how long {nominal(f[2])} {f[1]}" if nominal(f[2]) else f[0]),
    (r"^(?:whether|will) obtain ((?!.*\b(?:paid|refund)\b).+)$", r"offer \1"), (r"^whether you (?:give|issue) ", "offer "), (r"^(how-to|may-i) (convert|turn|change|transform|translate) (.+) into ", r"\1 \2 \3 to "),
    (r"^when (.+) renewed$", r"when \1 renew"),
    # What is asked of a thing.
    (r"^what is (?:length of |duration of )?(.+) (?:length|duration)$", r"how long \1"),
    (r"^how (deep|high|tall|wide|broad|heavy|thick|dense|salty|steep|spicy|strong|bright|large|old) " + _END + r"$", _measured),
    (r"^what (?:" + _NP[1:-1] + r"|(\w+ ))weigh$", lambda f: f[0]),
    (r"^what (.+) weigh$", r"what is \1 weight"), (r"^how much (.+) weigh$", r"what is \1 weight"),
    (r"^how many (?:people|person|inhabitants?|residents?) " + _LAND + " (.+)$", r"what is \1 population"),
    (r"^how densely populated (.+)$", r"what is \1 population density"),
    (r"^what is (.+) (?:dimensions?|measurements?)$", r"what is \1 size"),
    (r"^how many (.+?) (?:are-there|exist|there)(?: (?=in|on|at|@))?(.*)$", r"how many \1 \2"),
    (r"^what is (?:total )?number of ([\w-]+) (?:in|on|of) (.+)$", r"how many \1 has \2"), (r"^what is (.+?) (\w+) (?:number|count)$", r"how many \2 has \1"),
    (r"^how many ([\w-]+) (?:of|in|on|has|orbit|contains?|belong to|make up|form) (.+)$", r"how many \1 has \2"),
    (r"^how many ([\w-]+) (.+) (?:consist of|contains?|have)$", r"how many \1 has \2"),
    (r"^how many ([\w-]+?)s? has (.+)$", r"how many \1 has \2"),
    (r"^what (side effect|resolution|size|color|population|capital|currency|language|shape|capacity|range|weight|height|structure|function|role|purpose|status|symptom|advantage|disadvantage|feature|ingredient|requirement|consequence|effect|origin|climate|flag|form|nationality|format|meaning|price|time zone|boiling point|melting point|atomic number) (.+?) (?:have|has|use|belong to|possess)$", lambda f: f"what is {f[2].removeprefix('can ').removeprefix('may ')} {f[1]}"),
    (r"^what (currency|language|time zone|continent|state|country|region|county|city|system|alphabet|religion|money) (?:is |they |people |person |do |you )?(.*?)(?:used |use |spoken |speak |spoke |accepted |paid with )?(?:belong to|lie|lies|located|situated)? ?(in|on) (\w+)$", lambda f: f"what {f[1]} in {f[4]}" if not f[2] else f[0]),
    (r"^what (continent|state|country|region|county|time zone|city|province) (.+?) (?:in|on|belong to|part of|located in|located on|situated in|lie in|lie on)$", r"what is \2 \1"),
    (r"^what is currency (?:used )?in (\w+)$", r"what currency in \1"), (r"^what is (\w+) currency$", r"what currency in \1"),
    (r"^what language (?:they |people |person |you )?(?:speak|spoken|used) in (.+)$", r"what language in \1"), (r"^what money (?:they |people |person |you )?(?:have|use|used) in (\w+)$", r"what currency in \1"),
    (r"^what is (\w+) official language$", r"what official language in \1"), (r"^what is language (?:spoken )?in (\w+)$", r"what language in \1"),
    (r"^what ([\w-]+) (?:is )?(?:the )?(\w+est)((?: (?:in|on|of|to|for|at|@|with) .+)?)$", r"what is \2 \1\3"),
    (r"^what (\w+) (\w+) (?:the )?(\w+est)$", r"what is \3 \2 \1"),
    (r"^(what is (?:\w+est ))(\w+) (\w+)$", _in_place),
    (r"^what is (\w+) (\w+est) (\w+)$", r"what is \2 \3 in \1"),
    (r"^what (\w+) (?:are |is )?(?:called|named|known as) (.+)$", r"what is \2 \1"),
    (r"^what (?:is )?(\w+) (?:is |are )?(?:considered|regarded as|counts? as) (\w+)$", r"what is \2 \1"),
    (r"^recommend (credit score|BMI|bmi|heart rate|blood pressure|gpa|salary|score)$", r"what is good \1"),
    # Numbers of a kind.
    (r"^what is (.+?) (?:limit|allowance|quota)(?: (?:for|on) (.+))?$", lambda f: f"limit {f[1]}" + (f" {f[2]}" if f[2] else "")),
    (r"^how much (.+?) (?:can|may-i|am permitted to) (?:take|bring|carry)((?: (?:on|in|@|with) .+)?)$", r"limit \1\2"),
    (r"^what is (?:maximum|highest|largest) (?:number|amount|quantity) of (.+?) i (?:can|may|am permitted to) (\w+)(.*)$", r"how much \1 can \2\3"),
    # How.
    (r"^how-to (?:obtain|find|determine|work out|figure out) (" + _MATHS + r"\b)", r"how-to calculate \1"), (r"^where-find (?=(?:[\w-]+ ){0,2}" + _MATHS + r"\b)", "how-to calculate "),
    (r"^what is (.+ )?(" + _MATHS + r") formula$", lambda f: f"how-to calculate {f[1] or ''}{f[2]}"), (r"^what is formula for (?:calculating )?(.+)$", r"how-to calculate \1"),
    (r"^what is (calculating|converting|computing|finding) (.+) formula(.*)$", lambda f: f"how-to {base(f[1][:-3] + 'ed')} {f[2]}{f[3]}"),
    (r"^what-to-do (?:to )?(?=(?:\w+) )(?!if\b|about\b|with\b|when\b)", "how-to "),
    (r"^what (?:help|helps|can help) (?:to )?(stop|reduce|decrease|prevent|quit|lose|improve|relieve) ", r"how-to \1 "),
    (r"^what command (?:to |i use to |create |do i use to )?(\w+) ", lambda f: f"how-to {f[1]} "), (r"^what is (?:linux |git |bash |pip )?command (?:to|for) (\w+) ", lambda f: f"how-to {f[1]} "),
    (r"^how-works (.+) (\w+)$", lambda f: f"how-to {nominal(f[2])} {f[1]}" if nominal(f[2]) else f[0]),
    (r"^how (.+) (\w+) work$", lambda f: f"how-to {nominal(f[2])} {f[1]}" if nominal(f[2]) else f[0]),
    (r"^(how-to|may-i|need) " + _LIGHT + r" (.+)$", lambda f: _light_of(f)),
    (r"^(how-to|may-i) (thicken|shorten|lengthen|widen|strengthen|weaken|soften|harden|sweeten|brighten|darken|lighten|loosen|tighten|quieten|whiten|straighten|flatten|moisten|simplify|enlarge|speed-up|ripen) (.+)$", _made_more),
    (r"^(how-to|may-i) (?:make|obtain) (.+?) (\w+er)$", _comparative),
    (r"^how-to (?:increase|enlarge) (.+) size$", r"how-to make \1 more big"), (r"^how-to (?:decrease|reduce|shrink) (.+) size$", r"how-to make \1 more small"), (r"^how-to increase size of (.+)$", r"how-to make \1 more big"), (r"^how-to reduce size of (.+)$", r"how-to make \1 more small"),
    (r"^how-to (stop|keep|prevent) (.+?) (?:from )?(stick|freez|leak|rust|burn|boil over|bark|fog|squeak|rot|dry out|turn brown|go brown|going brown|becoming brown|become brown|brown)(?:ing|e)?(?: together)?$", r"how-to prevent \2 from \3"),
    (r"^how-to (?:prevent|stop|keep) (.+?) (?:from )?(?:turn|turning|go|going|become|becoming|get|getting|obtain) (\w+)$", r"how-to prevent \1 from \2"),
    (r"\bhow-to tell (?:if|when) ", "how-to tell if "), (r"^how-to know (?:if|when|that|whether) ", "how-to tell if "),
    # When something is wrong.
    (r"^what-to-do if my (.+?) (?:is |are |has |have )?(" + _ADJ + r"|broken|blocked|clogged|frozen|stuck|jammed|offline|full|cracked|wet|lost|damaged|locked)$", r"how-to repair \2 \1"),
    (r"^what-to-do (?:about|with) (.+)$", r"how-to repair \1"),
    (r"^why (.+?) (?:turn out|come out|obtain|become|look|feel) (?:so )?(" + _ADJ + r")$", r"why \1 \2"), (r"^what cause (" + _ADJ + r") (.+)$", r"why \2 \1"), (r"^what (?:make|makes) (.+?) (" + _ADJ + r")$", r"why \1 \2"),
    (r"^what (?:is |did )?(?:caused|causing|cause) (.+) to (\w+)$", r"why \1 \2"), (r"^what (?:caused|did cause) (.+?) (?:to )?(fall|collapse|end|sink|fail|crash|crack|break|stop|die|decline|rise|explode|burn)$", r"why did \1 \2"),
    (r"^what can (?:my |be )?(" + _ADJ + r") (.+?) (?:reason|cause)$", r"why \2 \1"), (r"^what is (?:my )?(" + _ADJ + r") (.+?) (?:reason|cause)$", r"why \2 \1"),
    (r"^what (?:is )?causing (?:my )?(.+?) to (\w+)$", r"why \1 \2"),
    (r"^what (?:happens?|will happen|would happen|consequence) if (?:i )?(.+)$", r"what-if \1"), (r"^what (?:is |are )?(?:the )?consequence (?:of|for|if) (?:i )?(.+)$", r"what-if \1"), (r"^what is (.+) consequence$", r"what-if \1"), (r"^what is consequence of (not )?(\w+)ing\b", r"what-if \1\2"),
    (r"^what (?:will )?happen to (.+?) (?:when|after|if|once) ", r"what happen to \1 when "),
    # What is needed.
    (r"^(?:whether )?need (.+?) (?:to|for) ", r"need \1 for "), (r"^whether (.+?) (?:needed|required|necessary|mandatory|obligatory) (?:to|for|when|if|in order to) ", r"need \1 for "), (r"^need for (.+?) to ", r"need \1 for "),
    (r"^what (.+?) (?:i need|need-to|needed|required|necessary|must i have|i require|do you need|should i have) (?:to |for )", r"what need \1 for "), (r"^what need (.+?) for (?:have |bring |take )?(\w+)", r"what need \1 for \2"),
    (r"^how much (.+?) (?:should|need|must|need-to|do i need)(?: i)?(?: (?:have|eat|drink|take|use|obtain|obtain))?((?: per-day| per-week)?)$", r"recommended \1 amount\2"),
    (r"^what is (?:recommended|right|ideal|proper|suggested|optimal)((?: per-day| per-week)?) (.+?) (?:amount|intake|dose|dosage|quantity)$", r"recommended \2 amount\1"),
    # What is in a price.
    (r"^whether (.+?) (?:included|part of price|included in price|in price)((?: (?:in|with) .+)?)$", r"includes-price \1\2"), (r"^includes (?:price|cost) (.+)$", r"includes-price \1"), (r"^includes (.+?) price (.+)$", r"includes-price \2 in \1 price"),
    # Persons.
    (r"^who (?:is |did )?(.+?) (written|invented|discovered|painted|composed|founded|built|designed|directed|created) by$", lambda f: f"who {f[2]} {f[1]}"),
    (r"^who (?:is )?(?:author|writer) of (.+)$", r"who-wrote \1"), (r"^who (?:is )?(.+) (?:author|writer)$", r"who-wrote \1"),
    # Time.
    (r"^(?:what|when) is (.+) (?:deadline|due-date|closing date|last date)$", r"deadline \1"), (r"^by-when (?:need-to|must|have to) ", "deadline "), (r"^when is (?:deadline|last day|last date|final date) (?:for|to|of) ", "deadline "),
    (r"^deadline (?:for )?(\w+ing|\w+) (.+)$", lambda f: f"deadline {f[2]} {_act_of(f[1])}"), (r"^what is last day to (\w+)(?: for)? (.+)$", r"deadline \2 \1"),
    (r"^(?:what is|when is) (.+) (?:starting|start|opening|beginning) (?:date|time)$", r"when \1 start"),
    (r"^min-age (\w+).*$", lambda f: f[0]), (r"^what is legal (\w+?)(?:ing)? age(.*)$", r"min-age \1\2"), (r"^what is (vot|driv|drink|smok|retir|marry|work)(?:ing|e|ement)? age(.*)$", r"min-age \1\2"),
    (r"^min-age (vot|driv|drink|smok|retir|marry|work)e?(?: alcohol)?\b", r"min-age \1"),
    (r"^how (?:quickly|fast|soon) will (.+) (?:arrive|be delivered|come)$", r"how long \1 take"), (r"^how much time (.+) take\b", r"how long \1 take"),
    (r"^(how long|when) (.+?) (?:take to arrive|take to obtain here|take to reach me)$", r"how long \2 take"),
    # Is it so.
    (r"^(whether) it (\w+) to (\w+) (.+)$", r"whether \3 \4 \2"),
    (r"^whether (.+) (?:same|identical) (?:thing|as (.+))$", lambda f: f[0]),
]  # fmt: skip
"""Tried in this order; each at most once."""


def _light_of(found: re.Match[str]) -> str:
    """Rewrite "make a donation to a school" as "donate to a school"."""
    words = found[2].split()
    for place, word in enumerate(words[:3]):
        if verb := nominal(word):
            behind = words[place + 1 :]
            return " ".join([found[1], verb, *words[:place], *behind[behind[:1] in (["of"], ["for"]) :]])
    return found[0]


def _act_of(word: str) -> str:
    return nominal(word) or (base(word[:-3] + "ed") if word.endswith("ing") else word)
