"""Map a character to the Latin letter that it resembles.

Two tables: `confusable_letters.py`, written by hand, and for all other characters `uts39.py`, generated from the data
of Unicode's UTS #39.
Not covered: look-alikes of most punctuation, pairs such as `rn` for `m` (`modern` is no `modem`), the capital I for l
within a word, and decimal digits of other scripts that look like another digit: they count by their value.
Only letters that no normalisation form maps are listed; fullwidth, mathematical and circled letters fall to NFKD.
The table is closed under case on purpose: `в` follows `В`, although only the capital resembles `B`, so that a
phrase in Cyrillic or Greek still matches whatever its case. Letters whose two cases resemble different letters stay as
they are, and are listed in `AMBIGUOUS`: a phrase takes them for either.
"""

from __future__ import annotations

from sluicegate.safety.matching import uts39
from sluicegate.safety.matching.confusable_letters import pairs


def _by_char(chars_by_target: dict[str, str]) -> dict[str, str]:
    return {char: target for target, chars in chars_by_target.items() for char in chars}


EITHER = {"ɩ": "il", "ⲓ": "il", "ꓲ": "il", "𐊊": "il", "𐌉": "il", "ʋ": "uv", "ᶌ": "vy"}
"""Letters whose shape is one letter's, by hand, and another's in UTS #39."""
_PAIRS = {char: letter for char, letter in pairs().items() if char not in EITHER}
_GENERATED = {char: to for char, to in _by_char(uts39.LETTERS).items() if char.lower() not in EITHER}
_GENERATED |= _by_char(uts39.MARKS)
LIGATURES = _by_char(uts39.LIGATURES)
"""Single letters that look like two."""

_BY_HAND = {
    "η": "hn", "ν": "nv", "μ": "mu", "υ": "yu", "γ": "y", "г": "r", "ь": "b", "ш": "w", "и": "nu",
    "я": "r", "ъ": "b", "щ": "w", "э": "e", "σ": "o", "θ": "o", "λ": "a", "δ": "d", "п": "n", "л": "n", "д": "a",
    "ค": "a", "ภ": "n", "๏": "o", "ร": "s", "ย": "u", "ฬ": "w", "ק": "p", "ץ": "y", "א": "x", "ש": "w", "ס": "o",
    "〇": "o", "工": "i", "ഠ": "o", "ଠ": "o", "ዐ": "o", "ሀ": "u",
}  # fmt: skip

_ALSO = {char.casefold(): target.lower() for char, target in _by_char(uts39.ALSO).items() if char.lower() not in _PAIRS}
AMBIGUOUS = _BY_HAND | EITHER | {char: target + _BY_HAND.get(char, "") for char, target in _ALSO.items()}
"""For a folded letter, the letters of a phrase that it may stand for, besides itself."""

BY_CASE = {"Η": "H", "Μ": "M", "Ν": "N", "Υ": "Y", "ν": "v", "υ": "u", "γ": "y", "σ": "o"}
"""Greek letters of `AMBIGUOUS` by the letter that each of their cases resembles in UTS #39."""

_SHAPES = _by_char(uts39.LETTERS) | _by_char(uts39.ALSO)
_CAPITALS = frozenset(char for char, to in _SHAPES.items() if to.isupper() and char.upper() == char.lower())
"""Letters without case that look like capitals: those of Lisu and of Canadian syllabics, for instance."""

LEET = {
    "0": "o", "1": "il", "2": "z", "3": "e", "4": "a", "5": "s", "6": "g", "7": "t", "8": "b", "9": "g",
    "@": "a", "$": "s", "!": "il", "|": "il", "+": "t", "€": "e", "£": "l",
}  # fmt: skip

_MARKS = {"’": "'", "‘": "'", "ʼ": "'", "′": "'", "。": ".", "｡": ".", "․": ".", "−": "-", "∕": "/", "⁄": "/", "∶": ":"}

_LETTER_RUNS = ((0x1F150, "A"), (0x1F170, "A"), (0x1F1E6, "A"))  # negative circled, negative squared, regional


def look_alike(char: str) -> str:
    """Return the Latin character that `char` resembles, of the same case, or of its shape's where it has none; `char`
    itself where there is no such character."""
    found = _PAIRS.get(char.lower()) or _PAIRS.get(char)
    if found is not None:
        return found.upper() if char.isupper() or char in _CAPITALS else found
    if char in _MARKS:
        return _MARKS[char]
    for first, letter in _LETTER_RUNS:
        if first <= ord(char) < first + 26:
            return chr(ord(letter) + ord(char) - first)
    latin = _GENERATED.get(char, char)
    return latin.upper() if char.isupper() else latin.lower() if char.islower() else latin
