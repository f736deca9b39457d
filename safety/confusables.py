"""A small table of letters that look like Latin ones, from general knowledge of the scripts (the idea is UTS #39's).

Not covered: most of the scripts of UTS #39, look-alikes of digits and punctuation, and pairs such as `rn` for `m`.
Only letters that no normalisation form maps are listed; fullwidth, mathematical and circled letters fall to NFKD.
The table is closed under case on purpose: `в` follows `В`, although only the capital resembles `B`, so that a
phrase in Cyrillic or Greek still matches whatever its case. Letters whose two cases resemble different letters stay as
they are, and are listed in `AMBIGUOUS`: a phrase takes them for either.
"""

from __future__ import annotations

_PAIRS = {
    # Cyrillic
    "а": "a", "в": "b", "с": "c", "ԁ": "d", "е": "e", "є": "e", "һ": "h", "н": "h", "і": "i", "ӏ": "l",
    "ј": "j", "к": "k", "қ": "k", "м": "m", "о": "o", "ө": "o", "р": "p", "ԛ": "q", "ѕ": "s", "т": "t",
    "у": "y", "ү": "y", "ѵ": "v", "ԝ": "w", "х": "x", "з": "3", "ґ": "r",
    # Greek
    "α": "a", "β": "b", "ε": "e", "ζ": "z", "ι": "i", "κ": "k", "ο": "o",
    "ρ": "p", "τ": "t", "χ": "x", "ϲ": "c", "ϳ": "j", "ω": "w",
    # Armenian and Cherokee
    "օ": "o", "ո": "n", "ս": "u", "հ": "h", "զ": "q", "ց": "g", "յ": "j", "ք": "p",
    "Ꭺ": "a", "Ᏼ": "b", "Ꮯ": "c", "Ꭰ": "d", "Ꭼ": "e", "Ꮋ": "h", "Ꭻ": "j", "Ꮶ": "k", "Ꮮ": "l", "Ꮇ": "m",
    "Ꮲ": "p", "Ꭱ": "r", "Ꮪ": "s", "Ꭲ": "t", "Ꮩ": "v", "Ꮃ": "w", "Ꮓ": "z",
    # Latin letters with strokes and other shapes that do not decompose
    "ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ƀ": "b", "ɨ": "i", "ʉ": "u", "ɵ": "o", "ɇ": "e",
    "ɑ": "a", "ɡ": "g", "ı": "i", "ȷ": "j", "ƿ": "p", "ɩ": "i", "ɪ": "i", "ʏ": "y", "ɴ": "n", "ʀ": "r",
    "ʟ": "l", "ʙ": "b", "ɢ": "g", "ʜ": "h", "ᴀ": "a", "ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ᴊ": "j", "ᴋ": "k",
    "ᴍ": "m", "ᴏ": "o", "ᴘ": "p", "ᴛ": "t", "ᴜ": "u", "ᴠ": "v", "ᴡ": "w", "ᴢ": "z", "ꜱ": "s", "ꜰ": "f",
    "ꞁ": "l", "ɓ": "b", "ɗ": "d", "ƙ": "k", "ƥ": "p", "ƭ": "t", "ʋ": "v", "ⱱ": "v", "ȼ": "c",
}  # fmt: skip

AMBIGUOUS = {"η": "hn", "ν": "nv", "μ": "mu", "υ": "yu", "γ": "y", "п": "n", "г": "r", "ь": "b", "ш": "w", "и": "nu"}
"""Folded letters that a phrase's letters may be written as, besides themselves."""

LEET = {
    "0": "o", "1": "il", "2": "z", "3": "e", "4": "a", "5": "s", "6": "g", "7": "t", "8": "b", "9": "g",
    "@": "a", "$": "s", "!": "il", "|": "il", "+": "t", "€": "e", "£": "l",
}  # fmt: skip

_MARKS = {"’": "'", "‘": "'", "ʼ": "'", "′": "'", "。": ".", "｡": ".", "․": ".", "−": "-", "∕": "/", "⁄": "/", "∶": ":"}

_LETTER_RUNS = ((0x1F150, "A"), (0x1F170, "A"), (0x1F1E6, "A"))  # negative circled, negative squared, regional


def look_alike(char: str) -> str:
    """The Latin character that `char` resembles, of the same case; `char` itself where there is none."""
    found = _PAIRS.get(char.lower()) or _PAIRS.get(char)
    if found is not None:
        return found.upper() if char.isupper() else found
    if char in _MARKS:
        return _MARKS[char]
    for first, letter in _LETTER_RUNS:
        if first <= ord(char) < first + 26:
            return chr(ord(letter) + ord(char) - first)
    return char
