"""What kind of thing a question asks for, as far as its words say: a person, a time, a reason, a price ...

Two questions that ask for kinds which no answer serves both of are two, however alike the rest: "what are the three
laws of robotics", "who wrote the three laws of robotics". Kinds that people do put for one another ("which shop",
"where"; "how do I", "what is the way") are not told apart.

Not covered: questions that name no kind ("opening hours library").
"""

from __future__ import annotations

import re

KINDS = {
    "person": r"(?:by )?who(?:m|se)?",
    "time": (
        r"when(?! (?:i|my|the|it|an?|you|we|he|she|they|there|someone)\b)|(?:what|which) (?:time|date|year|day|month)"
        r"|(?:at )?what age"
    ),
    "place": r"where|(?:what|which) (?:place|city|town|country)|which (?:shop|store|room|building)",
    "reason": r"why|what causes|what's causing|reasons?|causes?|how come|what makes",
    "thing": r"what (?:is|are|does)|what's|meaning|mean|define|definition|explain",
    "price": r"how much|price|costs?|fee|charge",
    "number": r"how many|number of|amount of",
    "duration": r"how long|duration|how many (?:days|weeks|months|years|hours|minutes)",
    "frequency": r"how often|how frequently|how many times|interval",
    "permission": (
        r"(?:can|may|am) i(?: allowed)?|is it (?:ok|okay|allowed|legal|permitted|possible|safe)|allowed|permitted"
        r"|possible"
    ),
    "duty": r"do i (?:have|need) to|must i|need i|obliged|required|necessary|mandatory",
    "way": r"how (?:do|can|to|should|does|would)|how(?=\?|$)|steps|way to|instructions",
}
_PATTERNS = {kind: re.compile(rf"\b(?:{words})(?!\w)") for kind, words in KINDS.items()}
_APART = frozenset(
    frozenset((kind, other))
    for kind, others in {
        "reason": ("time", "person", "permission", "price", "number", "duration", "frequency"),
        "person": ("time", "thing", "duration", "number"),
        "way": ("duration", "price", "frequency"),
        "price": ("permission", "time", "duty"),
        "permission": ("duration",),
    }.items()
    for other in others
)
"""Pairs of kinds that no answer serves both of: of labelled pairs with these, one in thirty at most is one question."""


def asked_kinds(text: str) -> frozenset[str]:
    """Return the kinds of things that a text asks for."""
    plain = text.lower()
    return frozenset(kind for kind, pattern in _PATTERNS.items() if pattern.search(plain))


def ask_apart(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether every kind of the one is apart from every kind of the other."""
    return bool(one) and bool(other) and all(frozenset((a, b)) in _APART for a in one for b in other)
