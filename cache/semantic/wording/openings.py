"""What people write around a question, taken away or made one, before the question itself is looked at.

Works on lower-case text with opened contractions and articles, once from each end. A rule belongs here if what it takes
away asks for nothing: who asks, how politely, how urgently, for whom the answer is.
"""

from __future__ import annotations

import re
from functools import cache

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.lexicon import stem
from sluicegate.cache.semantic.wording.intent_rules import INTENTS
from sluicegate.cache.semantic.wording.intents import as_intent
from sluicegate.cache.semantic.wording.opening_rules import ANYWHERE, LEADS, TAILS
from sluicegate.cache.semantic.wording.rewriting import Rewriting
from sluicegate.cache.semantic.wording.senses import is_act

EMPTY = re.compile(
    r"(?<=[a-z,] )(?:actually|really|exactly|usually|normally|typically|generally|basically|simply|possibly|perhaps"
    r"|kindly|please|currently|approximately|roughly|precisely) "
)
"""Adverbs that change nothing that is asked, before another word."""
END = re.compile(r"(?:(?<!\d)!|[ .?])+$")
QUESTION = re.compile(
    r"^(?:(?:at|in|on|by|for|from|to) )?"
    r"(?:how|what|which|who|whose|where|when|why|can|could|may|do|does|is|are|will|should|am) "
)
KEPT = re.compile(
    r"\b(?:word|words|spell|spelling|mean|meaning|synonym|translate|difference|quote|adverb|say|pronounce)\b|\x00"
)
"""Where a word itself is asked about nothing is taken out."""

LEADING_TOOL = re.compile(
    r"^(python|java|javascript|typescript|golang|ruby|kotlin|php|sql|bash|css|html|git|docker|kubernetes|linux|ubuntu|pandas"
    r"|numpy|react|excel|outlook|gmail|powerpoint|iphone|android|photoshop|vim|mysql|postgresql|mongodb)"
    r"(?:[:,]| -)? (?=\S+ \S)(?!tutorial|vs|versus|or|is|are)(.+)$"
)
"""A tool that stands before what is searched for."""
ORDERS = listed(
    """
    book order play send buy call pay open close start read write print create make schedule reserve translate
    convert list show find check use differentiate integrate solve calculate factor simplify multiply divide
    subtract sum quote label tag mention round prove draw cancel submit post add pack run try look go let give
    put keep take bring
    """
)
"""What is an order to an assistant rather than a search for how it is done."""
SENTENCE = listed(
    """
    i you we they he she it is are was were do does did can could will would should may might must has have had me my
    a an the this that these those all every please how what which who where when why if not no never
    """
)
"""Where one of these stands, a text is no row of search words."""


@cache
def _rules() -> tuple[Rewriting, Rewriting, Rewriting, Rewriting]:
    return Rewriting(ANYWHERE), Rewriting(TAILS), Rewriting(LEADS), Rewriting(INTENTS)


def without_opening(text: str) -> str:
    """Return lower-case text without courtesies and context around its question; the question itself is unchanged."""
    sentence = text.rstrip().endswith((".", "!"))
    text = END.sub("", text)
    anywhere, tails, leads, intents = _rules()
    text = as_intent(leads(tails(anywhere(text))))
    text = text if KEPT.search(text) else intents(text)
    if QUESTION.match(text):
        return text if KEPT.search(text) else EMPTY.sub("", text)
    return text if sentence else _searched(text)


def _searched(text: str) -> str:
    """Write search words as the question that they stand for: "python reverse list", "enabling dark mode"."""
    if "\x00" in text or len(text) > 80:
        return text
    text = re.sub(r"[,:]? how(?: to| do i do it| to do it)?$", "", text) if is_act(text.partition(" ")[0]) else text
    tool = LEADING_TOOL.match(text)
    rest, behind = (tool[2], f" in {tool[1]}") if tool else (text, "")
    asked = re.match(r"(?:how (?:to|do i|can i)|command to|commands? for|way to) (.+)$", rest)
    if tool and asked:
        return f"how do i {asked[1]}{behind}"
    words = rest.split(" ")
    first = words[0]
    if not 2 <= len(words) <= 8 or any((char.isdigit() and not tool) or char in ",;:" for char in rest):
        return text
    things = set(words[1:]) - {"a", "an", "the", "my", "all"}
    if first.endswith("ing") and is_act(stem(first)) and SENTENCE.isdisjoint(things):
        return f"how do i {stem(first)} {' '.join(words[1:])}{behind}"
    searched = is_act(first) and SENTENCE.isdisjoint(words) and (tool is not None or first not in ORDERS)
    return f"how do i {rest}{behind}" if searched else text
