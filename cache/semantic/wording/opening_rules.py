"""Rules for what people write around a question, used by `openings.py`.

Patterns of lower-case text with articles and opened contractions.
"""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import base
from sluicegate.cache.semantic.wording.rewriting import Becomes
from sluicegate.cache.semantic.wording.senses import nominal

# ruff: noqa: E501
NOT_IZE = listed(
    """
    exercise advise promise premise surprise otherwise likewise franchise merchandise enterprise expertise televise supervise
    revise disguise compromise improvise paradise precise noise raise praise appraise cruise bruise excise demise devise
    despise comprise rise arise wise poise concise incise circumcise turquoise anise marquise reprise
    """
)


def _ize(found: re.Match[str]) -> str:
    verb = found[1] + "ise"
    return found[0] if verb in NOT_IZE or len(found[1]) < 4 else f"{found[1]}iz{found[2]}"


def _done_by_me(found: re.Match[str]) -> str:
    """Rewrite "how can a booking be changed" as "how do i change a booking"."""
    verb = base(found[2])
    if verb == found[2] and verb not in ("set", "put", "cut", "read"):
        return found[0]
    return f"how do i {verb}{found[3] or ''} {found[1]}{found[4] or ''}"


def _possible(found: re.Match[str]) -> str:
    """Rewrite "is early repayment of a loan possible" as "can i repay a loan early"."""
    verb, manner = nominal(found[2]), (found[1] or "").strip()
    return f"can i {verb} {found[3]} {'for free' if manner == 'free' else manner}".strip() if verb else found[0]


_ASKS = r"(?=(?:how|what|which|who|whom|whose|where|when|why|if|whether|can|could|may|do|does|did|is|are|was|were|will|should|at what|by when|in which|for how)\b)"
_WH = r"(?=(?:how|what|which|who|whom|whose|where|when|why)\b)(?!how .* works?$)"
_VERBAL = r"(?=[a-z-]+ing\b)"
LEADS: list[tuple[str, Becomes]] = [
    (r"^(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening)|greetings|excuse me|sorry|um|so|ok|well|quick (?:q|question)|question|hi there|hey there|hello there)(?: (?:all|everyone|team|folks|guys))?\s*[,!.:-]+\s*", ""),
    (rf"^(?:please|kindly|pls|plz)[, ]+{_ASKS}", ""),
    (rf"^(?:could|can|would|will) (?:you|someone|anyone|anybody|somebody)(?: please| kindly| possibly| maybe)? (?:tell me|tell us|inform me|explain to me|explain to us|advise me|advise|help me|help|show me|show us|remind me|enlighten me)(?: understand| out| know)?,? {_WH}", ""),
    (rf"^(?:could|can|would) you(?: please)? (?:explain|clarify|let me know|let us know|say) {_WH}", ""),
    (rf"^would you mind (?:telling|explaining to|showing|letting) me(?: know)? {_WH}", ""),
    (rf"^(?:do|does|would) (?:you|anyone|anybody|someone)(?: here| out there)?(?: happen to)? (?:know|have (?:any|an) idea) {_WH}", ""),
    (rf"^(?:any|got any|have you any|some) (?:idea|ideas|clue|advice|thoughts) (?:on |about |as to )?{_WH}", ""),
    (rf"^(?:i am|i was|we are|we were|i) (?:just |still )?(?:wondering|curious|confused|unsure|unclear|not sure|interested in(?: knowing)?|trying to (?:understand|find out|figure out|work out|learn|see|know)|struggling to (?:understand|find out|figure out))(?: about| as to)?,? {_WH}", ""),
    (rf"^(?:i|we) (?:would like to|want to|need to|would love to|wish to|have to|must|wanted to|just want to|just need to|really need to) (?:know|find out|figure out|understand|learn|ask|see|check|be told|hear) {_WH}", ""),
    (rf"^(?:i|we) (?:have no idea|do not know|do not understand|can not figure out|can not find out|can not remember|forgot|need help understanding|need information on|need info on|cannot work out) {_WH}", ""),
    (rf"^(?:i have a question|a question|my question is|question for you|here is my question|one question|another question)(?: about this)?[:,.]? {_WH}", ""),
    (rf"^(?:tell|show|teach|remind|explain to|advise) (?:me|us) {_WH}", ""),
    (r"^(?:is|are) there (?:a|an|any|some) (?:good|easy|quick|simple|better|proper|recommended|convenient|smart|reliable) (?:way|ways|method|option|possibility|trick|means)(?: for me| for us)? (?:to|of|for) (?=[a-z])", "how do i "),
    (r"^(?:what|which) (?:is|are|would be) (?:the |a |an |some )?(?:(?:correct|right|proper|easiest|simplest|best|easy|simple|usual|recommended|exact|standard|official|common|good|most common|preferred) )?(?:command|commands|syntax|steps?|method|methods|procedure|process|approach|technique|way|ways|trick|instructions|sequence of steps) (?:to|for|of|when) (?=[a-z])", "how do i "),
    (r"^(?:how|what) (?:would be|is) the (?:way|best way) to go about (?=[a-z]+ing\b)", "how do i "),
    (r"^(?:what|which) (?:steps|actions|measures) (?:do i (?:need to |have to )?take|should i take|must i take|are (?:needed|required|necessary|involved)) (?:to|in|for|in order to) ", "how do i "),
    (r"^(?:the )?(?:best|correct|right|proper|easiest|simplest|recommended) way (?:to|of|for) (?=[a-z])", "how do i "),
    (rf"^(?:(?:some |a few |any )?(?:instructions?|steps|guide|tutorial|directions|help|howto|tips|advice)) (?:to|for|on|with|about|in) {_VERBAL}", "how do i "),
    (rf"^(?:i need|looking for|i am looking for|give me|i would like|can i get|can you give me|please give me)(?: some| a| any)? (?:help|instructions|guidance|assistance|a guide|advice|tips|directions|steps) (?:to|for|on|with|about|in) {_VERBAL}", "how do i "),
    (r"^(?:i need help to|i need to know how to|need help|help me) (?=[a-z]+ing\b)", "how do i "),
    (r"^(?:i need|i want|i would like|we need|we want|i am trying|i am looking|i wish) to ((?!know\b|see if\b)[a-z].+?)[,.;:-]+ (?:so |but )?(?:how|what do i do|what should i do|how do i do (?:it|that|this)|how can i do (?:it|that|this)|how does (?:it|that|this) go|how to do (?:it|that|this)|what is the way|how does (?:it|that|this) work|what are the steps|how should i do (?:it|that|this)|how do i go about (?:it|that|this)|where do i start|please help|can you help(?: me)?|is that possible how)$", r"how do i \1"),
    (r"^what (?:helps|would help|can help|might help)(?: me| you)? to (?=[a-z])", "how do i "),
    (r"^what (?:is|are) (?:good |effective |the best |some )?(?:ways|methods|strategies|tricks) (?:to|of|for) (?=[a-z])", "how do i "),
    (r"^how (?:is it possible|would it be possible|am i supposed|is one supposed|are you supposed|do i manage|do i go about|can i go about|would i go about|should i go about|do you go about|does one go about|might i|shall i|do i best|can i best|is the best way) (?:to )?(?=[a-z])", "how do i "),
    (r"^how (?:do|does|can|could|would|might|should) (?:you|one|someone|somebody|people|a person|a customer|customers|users|a user|we) (?=(?:change|reset|cancel|delete|update|install|create|set up|download|upload|turn|enable|disable|remove|add|export|import|log|sign|register|apply|submit|renew|return|order|pay|book|print|scan|connect|block|unblock|share|convert|sort|reverse|merge|split|format|rename|undo|find|calculate|solve|make|cook|bake|peel|clean|wash|fix|repair|replace|write|draw|fold|tie|plant|prune|train|treat|get rid|open|close|file|report|dispute|transfer|withdraw|deposit|activate|deactivate|verify|link|unlink|recover|restore|back|sync|pair|unlock|charge|restart|reboot|uninstall|upgrade|downgrade|request|redeem|track|contact|invite|leave|join|edit|crop|rotate|resize|freeze|thaw|defrost|reheat|boil|fry|roast|grill|steam|store|sharpen|measure|test|debug|deploy|compile|run|kill|stop|start|exit|quit)\b)", "how do i "),
    (r"^in (?:what|which) (?:way|manner) (?:do|does|did|can|could) ", "how do "),
    (r"^how (?:can|could) (?!i\b|you\b|we\b|one\b|it\b)(.+?) be ([a-z]+)( up| on| off| out| down| back)?((?: (?:in|on|at|for|with|from|to|into|by|without|after|before|online|automatically) ?.*)?)$", _done_by_me),
    (r"^is (early |late |free |online |partial )?([a-z]+) of (.+?) (?:possible|allowed|permitted)$", _possible),
    (r"^in (?:what|which) (?:case|cases|situation|situations|circumstances|event) ", "when "), (r"^in (?:what|which) (?:regions?|places?|areas?|parts? of the world) (?=do|does|can|are)", "where "),
    (r"^what age (?=can|may|must|do|does|is|are)", "at what age "), (r"^at what age (?:is it (?:legal|allowed|possible|permitted)|am i allowed|are you allowed|is one allowed) to ", "at what age can you "),
    (r"^([a-z]+(?: [a-z]+){0,3}) recipe$", r"recipe for \1"),
    (r"^what is another word for ", "what is a synonym of "),
    (r"^am i (?:entitled to|eligible for) ", "do i get "),
    (r"^in (?:what|which) (?:part of (?:the )?world|place|location|corner of the world) (is|are) (.+?)(?: located| situated| found)?$", r"where \1 \2"),
    (r"^for how long ", "how long "),
    (r"^by (?:when|what date|which date|what time|what day) ", "by when "),
    (r"^whom ", "who "),
    (r"^what kinds? of (?=[a-z]+s? (?:do|does|are|is|can|should)\b)", "what "),
    (r"^how frequently ", "how often "),
    (r"^how quickly ", "how fast "),
    (r"^(?:is|would) it (?:be )?(?:ok|okay|fine|alright|all right|acceptable|allowed|permitted|permissible) (?:if i|for me to|to|if we) ", "am i allowed to "),
    (r"^(?:do|does) (?:the |your )?(?:rules|policy|system|company|app) (?:allow|let|permit) (?:me|us) (?:to )?", "am i allowed to "),
    (r"^(?:is|are) (?:i|we) (?:able|permitted|eligible) to ", "can i "),
    (r"^(?:am i|are we) (?:permitted|free) to ", "am i allowed to "),
    (r"^(?:am i|are we) (?:obliged|obligated|required|forced|expected) to ", "do i have to "),
    (r"^(?:is it|would it be) (?:necessary|mandatory|compulsory|required|obligatory|essential|needed)(?: for me)? to ", "do i have to "),
    (r"^must i ", "do i have to "),
    (r"^(?:i am|we are) (?:unable to|not able to) ", "i can not "),
    (r"^what does it mean (?:when|if) ", "what does it mean if "),
    (r"^(?:what|which) (?:is|was) the year (?:in which|when|that) ", "when did "),
]  # fmt: skip
ANYWHERE: list[tuple[str, Becomes]] = [
    (r"\b(?:http|HTTP) (?:status code|error code) (?=\d)", "http "),
    (r"\b([a-z]+)is(e|es|ed|ing)\b", _ize),
    (r"\b(?:driver's|drivers|driver) licen[sc]e\b", "driving license"), (r"\b(bachelor|master|doctor)'s (degree|note|appointment|visit)\b", r"\1 \2"),
    (r"\b(i|you|we|they) have got (?!to\b)", r"\1 have "), (r"\bhave got to\b", "have to"), (r"\b(can|could|do|does|did|will|would|should) not\b(?= have to\b)", r"\1 not"),
    (r"\beuropean union\b", "eu"), (r"\bunited kingdom\b", "uk"), (r"\bunited states(?: of america)?\b", "usa"),
]  # fmt: skip
TAILS: list[tuple[str, Becomes]] = [
    (r"(?:[,.!?;]\s*| - )(?:please|pls|plz|thanks|thank you|thx|ty|cheers|many thanks|thanks in advance|thanks a lot|please help(?: me)?|help please|help me|any help(?: is| would be)? appreciated|please advise|please explain|please tell me|could you help(?: me)?|can you help(?: me)?|can anyone help|can someone help|any ideas|any idea|any advice|any suggestions|do you know|does anyone know|just curious|just wondering|if i may ask|if you do not mind|asap)$", ""),
    (r" (?:exactly|at all|by any chance|again please|in general|these days|in practice|please)$", ""),
]  # fmt: skip
