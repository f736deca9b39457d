"""Marks of an attack that hardly occur in honest text: forged roles, invisible writing, orders to a reading machine.

A rule speaks alone, so each must be nearly never wrong; what needs judgement is left to the classifier. A phrase that
stands in quotation marks is being talked about, and no rule for wording fires on it. What a user sends may be a record
or a template of a chat, with marks of roles from its first character on: of such a text the heads judge the words.

Not covered: everything that is not written exactly so. Rules for wording know English only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BEGIN = r"(?:^|[.!?;:\n>*#-]\s{0,3}|\band (?:then )?|\bplease,? |\bnow,? |\b(?:you|must|should|to) )"
_PRIOR = r"(?:previous|prior|above|earlier|preceding|former|initial|original|existing|system)"
_ORDERS = r"(?:instructions?|directives?|prompts?|rules|guidelines|commands|orders|directions|programming)"
_MACHINE = r"(?:ai|llm|language model|chatbot|ai (?:assistant|model|agent)|gpt|assistant)"


@dataclass(frozen=True, slots=True)
class AttackRule:
    """`certainty` is the score that a hit gives. `needs`: a hit holds one of these words (looking for them first is
    fast). `where`: `any` text, or only `document`s. `spares`: a user's text that begins so."""

    label: str
    certainty: float
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    where: str = "any"
    spares: re.Pattern[str] | None = None


def _rule(
    label: str, certainty: float, needs: str, pattern: str, where: str = "any", spares: str | None = None
) -> AttackRule:
    spared = None if spares is None else re.compile(spares)
    return AttackRule(label, certainty, tuple(needs.split()), re.compile(pattern), where, spared)


RULES = (
    _rule(
        "forged role",
        0.97,
        "<| [inst] [/inst] <<",
        r"<\|(?:im_start|im_end|system|start_header_id|eot_id)\|>|\[/?inst\]|<</?sys>>",
        spares=r"\s*(?:(?:<\w{1,9}>|\[\w{0,9}\])\s*){0,3}"
        r"(?:<\|(?:im_start|system|user|assistant|start_header_id|begin_of_text)\|>|\[inst\]|<<sys>>)",
    ),
    _rule(
        "takes back instructions",
        0.95,
        "ignore disregard forget override bypass discard",
        _BEGIN + r"(?:ignore|disregard|forget|override|bypass|discard) "
        r"(?:(?:all|any|every|each|of|the|your|my|these|those|about) ){0,4}" + _PRIOR + r" " + _ORDERS + r"\b",
    ),
    _rule(
        "unbound persona",
        0.9,
        "dan unfiltered uncensored jailbroken amoral",
        r"\byou (?:are|will be|must act as|will act as|shall be) (?:now |going to be )?"
        r"(?:dan|an? (?:unfiltered|uncensored|jailbroken|amoral) " + _MACHINE + r")\b",
    ),
    _rule("do anything now", 0.9, "dan", r"\bdan\b[^\n]{0,80}\bdo anything now\b"),
    _rule(
        "order to a reading machine",
        0.93,
        "if attention note message instruction",
        r"\b(?:if you are|attention|note to|message (?:to|for)|instructions? (?:to|for)) (?:an?|any|the|all)? ?"
        + _MACHINE
        + r"s?\b[^\n]{0,60}\b(?:must|reply|respond|write|say|ignore|do not|don't|include|output|print|send|stop)\b",
        "document",
    ),
    _rule(
        "forged system note",
        0.9,
        "system",
        r"(?:^|\n)\s*(?:<system>|\[system\]|### ?system|system:|<\|system\|>)\s*[^\n]{4}",
        "document",
    ),
)

HIDDEN = {"tags": 0.97, "selectors": 0.97}
"""Views whose mere existence tells: readable text in characters that nobody sees."""

_QUOTES = "\"'“”‘’«»„`「」"


def hits(text: str, *, document: bool) -> list[tuple[str, float]]:
    """Return (label, certainty) of the rules that fire on folded `text`, quoted phrases left out."""
    return [
        (rule.label, rule.certainty)
        for rule in RULES
        if (document or (rule.where == "any" and not (rule.spares and rule.spares.match(text))))
        and any(word in text for word in rule.needs)
        and any(not _quoted(text, m) for m in rule.pattern.finditer(text))
    ]


def _quoted(text: str, match: re.Match[str]) -> bool:
    """Return whether a quotation mark opens just before the phrase, or within its beginning. One before a sentence's
    end closes."""
    start = match.start()
    low = start + 1 if text[start] in ".!?;:" else max(start - 2, 0)
    return any(mark in text[low : start + 3] for mark in _QUOTES)
