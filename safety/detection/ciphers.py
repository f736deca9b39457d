"""Letters exchanged for others: Caesar shifts (rot13 is one), leetspeak, Morse, text written backwards.

A decoding counts only where it makes more common words than the text had: every cipher is tried, few are believed.

Not covered: other languages than English, ciphers with a key, and disguises that leave fewer than two common words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase

import numpy as np

MAX_CHARS = 1_500
"""How much of a passage is tried."""
MAX_PASSAGES = 6

_WORD = re.compile(r"[a-z]+")
_COMMON = frozenset(
    _WORD.findall(
        """a about above act all and any answer are as at be before but by can code command could do email ever
        everything following for forget from give have hello help here how i if ignore in instructions into
        is it key know last let list make me message my new no not now of on one or order out output
        password people please previous print prompt question repeat reply reveal rules say secret send show
        steps system tell that the their them then there these they this to told two up use user was we what
        when where which who why will with without word words would write you your"""
    )
)

_QUOTED = re.compile(
    r"\"([^\"\n]{8,1500})\"|'([^'\n]{8,1500})'|“([^”\n]{8,1500})”|`([^`\n]{8,1500})`|[:\n] *(\S[^\n:]{8,1500})"
)
_LEET = str.maketrans("013457@$!|", "oieastasil")
_LEET_WORD = re.compile(r"[A-Za-z0-9@$!|]{2,24}")
_MORSE = re.compile(r"[.\-]{1,6}(?:[ /]{1,3}[.\-]{1,6}){4,400}")
_MORSE_CODES = re.findall(
    r"\S+",
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..",
)
_MORSE_LETTERS = dict(zip(_MORSE_CODES, ascii_lowercase, strict=True))
_BACK = [str.maketrans(ascii_lowercase, ascii_lowercase[-n:] + ascii_lowercase[:-n]) for n in range(26)]
_PER_MILLE = (82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2, 20, 1)
_FITNESS = np.array([np.roll(np.log(_PER_MILLE), n) for n in range(26)])
"""[26, 26] float64: row n is how likely each letter is in English text that was shifted by n."""


def word_gain(before: str, after: str) -> int:
    """Return how many more common words of three letters and more `after` has than `before`."""
    return _common(after.lower()) - _common(before.lower())


def decodings(text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, decoded) for each passage that a cipher turns into words."""
    plain = _LEET_WORD.sub(_from_leet, text)
    if plain != text and word_gain(text, plain) >= 2:
        yield "leet", plain
    for found in _MORSE.finditer(text):
        plain = _from_morse(found[0])
        if _common(plain) >= 1:
            yield "morse", plain
    for passage in _passages(text):
        yield from _shifted(passage)


def _passages(text: str) -> list[str]:
    """Return the beginning of the text, and passages in quotation marks or after a colon."""
    quoted = (next(filter(None, found.groups())) for found in _QUOTED.finditer(text[: 4 * MAX_CHARS]))
    return [text[:MAX_CHARS], *(part for part, _ in zip(quoted, range(MAX_PASSAGES - 1), strict=False))]


def _shifted(passage: str) -> Iterator[tuple[str, str]]:
    """Yield the likeliest shift and the reversal of a passage, as far as they read as English. Nothing for a passage
    that reads as English already."""
    lower = passage.lower()
    words = _WORD.findall(lower)
    if len(words) < 4 or not lower.isascii() or 5 * sum(w in _COMMON for w in words) >= len(words):
        return
    enough = max(2, len(words) // 6, _common(lower) + 2)
    shift = _likeliest_shift(lower)
    tries = {"reversed": lower[::-1]}
    if shift:
        tries["rot13" if shift == 13 else f"caesar{shift}"] = lower.translate(_BACK[shift])
    for label, decoded in tries.items():
        if _common(decoded) >= enough:
            yield label, decoded


def _likeliest_shift(lower: str) -> int:
    """Return by how much letters were moved, judged by how often each occurs; 0 for plain text. `lower` is ASCII."""
    codes = np.frombuffer(lower.encode("ascii"), dtype=np.uint8)
    letters = codes[(codes >= 97) & (codes <= 122)] - 97
    return int(np.argmax(_FITNESS @ np.bincount(letters, minlength=26)))


def _common(lower: str) -> int:
    return sum(len(word) > 2 and word in _COMMON for word in _WORD.findall(lower))


def _from_leet(found: re.Match[str]) -> str:
    """Put letters for digits and signs, in a word that has letters too; a number stays a number."""
    word = found[0]
    return word if word.isalpha() or not any(char.isalpha() for char in word) else word.translate(_LEET)


def _from_morse(text: str) -> str:
    words = re.split(r" ?/ ?| {2,}", text)
    return " ".join("".join(_MORSE_LETTERS.get(code, "") for code in word.split()) for word in words)
