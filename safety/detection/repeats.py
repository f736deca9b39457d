"""Leave out what a text says again and again, before heads read it.

Heads read every digit as 0 and add up what they find over the root of the number of words. An account number of 26
digits, ten addresses of one host, a column of numbers or ten times "no" came to the score of an attack.

Not covered: words that return with others between them, as in any long text.
"""

from __future__ import annotations

import re

KEPT = 3
"""How often something is read in a row."""
_DIGIT, _DIGITS = re.compile(r"\d"), re.compile(r"(\d{6})\d+")
_ADDRESS, _HOST = re.compile(r"\S*(?:@|://)\S*"), re.compile(r"(?:@|\w+://)[\w.-]+")
_WORD = re.compile(r"\s*\S+")
_LONG_WORD, _SAME = re.compile(r"\S{16,}"), re.compile(r"(.{1,8}?)\1{3,}")
_LONGEST = 4
"""Words of a row that repeats."""


def without_repeats(text: str) -> str:
    """Return `text` with runs of digits cut to six; without addresses of e-mail and the web that differ from an earlier
    one in digits at most, and without hosts that an earlier one named; and of up to four words, or characters inside a
    word, that follow themselves, the first three times. Digits count as equal. Linear in the length of `text`."""
    text = _DIGITS.sub(r"\1", text)
    if "@" in text or "://" in text:
        text = _of_one_host(text)
    text = _LONG_WORD.sub(lambda word: _SAME.sub(r"\1\1\1", word[0]), text)
    return _of_words(text)


def _of_one_host(text: str) -> str:
    addresses: set[str] = set()
    hosts: set[str] = set()

    def once(seen: set[str], found: re.Match[str], instead: str) -> str:
        same = _DIGIT.sub("0", found[0])
        if same in seen:
            return instead
        seen.add(same)
        return found[0]

    text = _ADDRESS.sub(lambda found: once(addresses, found, " "), text)
    return _HOST.sub(lambda found: once(hosts, found, ""), text)


def _of_words(text: str) -> str:
    words = _DIGIT.sub("0", text).split()
    if len(words) == len(set(words)):
        return text
    repeated = _repeated(words)
    if not any(repeated):
        return text
    marks = iter(repeated)
    return _WORD.sub(lambda word: "" if next(marks) else word[0], text)


def _repeated(words: list[str]) -> list[bool]:
    """Return for each word whether it stands in a row of words that was read `KEPT` times just before."""
    found = [False] * len(words)
    for period in range(1, _LONGEST + 1):
        run = 0
        for at in range(period, len(words)):
            run = run + 1 if words[at] == words[at - period] else 0
            if run > (KEPT - 1) * period:
                found[at] = True
    return found
