"""Find where a target stands in a text: at borders of words in untrusted texts, as a whole address, path or name in
trusted ones.

Not covered: what languages attach to a name in their own script, except the particles of Korean.
"""

from __future__ import annotations

import re

JOINED = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
"""A letter or digit of a script that sets its words apart."""
_JOINS = re.compile(JOINED)
_HANGUL = re.compile("[\uac00-\ud7a3]")
_PARTICLE = re.compile(
    "(?:님|씨)?(?:에게서?|한테|께|으로|로|을|를|이랑?|가|은|는|와|과|랑|하고|의|에서?|도)?(?![\uac00-\ud7a3])"
)
"""What follows a Korean name without a space."""
_ATTACHED_BEFORE = re.compile(r"[\u0590-\u07ff]-?$")
_ATTACHED_BEHIND = re.compile(r"-?[\u0590-\u139f\u1400-\u1dff\uac00-\ud7a3]")
"""What Hebrew, Arabic, Korean, Georgian and the languages of India attach to a word in Latin letters."""
_ENDING = re.compile(r"-[^\W\d_]{1,4}(?![\w.@-])")
"""What Hungarian attaches to an address."""
_GOES_ON_BEFORE = re.compile(rf"(?:{JOINED}|{JOINED}[/.+%-]|[/~][./]+|(?<![:/])/|(?<=\S)-)$")
_GOES_ON_BEHIND = re.compile(rf"{JOINED}|-{JOINED}|[./@]+[\w~]")
_MAY_STAND_BEFORE = re.compile(rf"(?:(?<!{JOINED})(?<![.-])(?:www\.|\./)|\w@|://)$")


def bounded(text: str, value: str) -> int:
    """Return the first offset of `value` at which no letter or digit continues it on either side; -1 if there is
    none. What follows a name in Hangul may be a particle."""
    at = text.find(value)
    while at >= 0:
        before, behind = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        ends = _HANGUL.match(value[-1]) or not (_continues(behind) and _continues(value[-1]))
        if ends and not (_continues(before) and _continues(value[0])):
            return at
        at = text.find(value, at + 1)
    return -1


def _continues(char: str) -> bool:
    return char != "_" and _JOINS.match(char) is not None


def exactly(text: str, value: str) -> bool:
    """Return whether `value` stands in `text` and is no part of a longer address, host, path or name there."""
    at = text.find(value) if value else -1
    while at >= 0:
        before, behind = text[max(0, at - 8) : at], text[at + len(value) : at + len(value) + 8]
        if _begins(value, before) and _ends(value, behind):
            return True
        at = text.find(value, at + 1)
    return False


def _begins(value: str, before: str) -> bool:
    if (not value[0].isalnum() and value[0] not in "/~.") or not _GOES_ON_BEFORE.search(before):
        return True
    attached = value[0].isascii() and _ATTACHED_BEFORE.search(before)
    return bool(attached or _MAY_STAND_BEFORE.search(before))


def _ends(value: str, behind: str) -> bool:
    if not _GOES_ON_BEHIND.match(behind):
        return True
    if _HANGUL.match(value[-1]):
        return _PARTICLE.match(behind) is not None
    if value[-1].isascii() and _ATTACHED_BEHIND.match(behind):
        return True
    return "@" in value and (behind.startswith("/") or _ENDING.match(behind) is not None)
