"""List letters of other scripts that look like Latin ones, by the Latin letter.

Written by hand, script by script, from the shapes of the letters; it takes precedence over `uts39.py`. Latin letters
that do not decompose (with strokes, with hooks, small capitals) are found by their names in `unicodedata`.
Not covered: letters that look alike in some fonts only.
"""

from __future__ import annotations

import re
import unicodedata

BY_LETTER = {
    # Cyrillic, Greek, Coptic | Armenian, Georgian | Cherokee | Lisu | Canadian | Tifinagh | Old Italic, Gothic, others
    "a": "аαɑⲁ" "Ꭺᗅᗩꓮ" "𐌀𐌰𐊠₳",
    "b": "вβᲀⲃ" "ᏏᏴᗷᑲꓐ" "𐌁𐌱𐊂𐊡฿",
    "c": "сҫᲃⲥ" "Ꮯꓚᑕᙅ" "𐌂𐊢𐐕𐔜₵",
    "d": "ԁ" "ᎠᏧꓓᑯᗞᗪ" "𐌃",
    "e": "еєҽҿԑεⲉ" "Ꭼꓰᕮᗴ" "ⴹⴺ" "𐌄𐌴𐊆",
    "f": "ғϝ" "ꓝᖴ" "𐌅𐍆𐊇𐔥₣",
    "g": "ԍ" "ց" "ᏀᏳᎶᏩꓖᘜ" "₲",
    "h": "һнӊңђћⲏ" "հի" "ᎻᏂꓧᕼ" "𐌇𐌷𐋏",
    "i": "іꙇι" "ւ" "ᎥᏆ" "ⵊ",
    "j": "јϳ" "յ" "Ꭻꓙᒍᒎ",
    "k": "кқҟҡҝӄԟκϗⲕ" "Ꮶꓗ" "𐌊𐌺𐔘ᛕ₭",
    "l": "ӏꞁ" "լ" "ᏞᏝꓡᒪ" "ⵏ" "𐌋𐐛𐔦",
    "m": "мӎϻⲙ" "Ꮇꓟᗰ" "𐌌𐌼𐊰ᛖ₥",
    "n": "ⲛ" "ոռ" "ꓠᑎ" "𐌍𐌽𐔓₦",
    "o": "оөѻᲂοⲟ" "օჿ" "Ꮎꓳ" "ⵔⵀ" "𐌏𐊒𐊫𐐬𐐄𐓂𐓪𐔖",
    "p": "рҏρϸƿⲣ" "ք" "Ꮲꓑᑭ" "𐌐𐊕þ₱",
    "q": "ԛ" "զգ" "ᑫ" "ⵕ",
    "r": "ґӷӻⲅ" "ᎡᏒᎱꓣᖇᒥ" "𐍂𐒴ᚱ",
    "s": "ѕ" "տႽ" "ᏚᏕꓢᔕ" "𐌔𐍃𐊖𐑈𐐠₴",
    "t": "тҭԏᲄτⲧ" "Ꭲꓔ" "ⵜ" "𐌕𐍄𐊗𐊱₮",
    "u": "ʉս" "Ꮜꓴᑌ" "ⵡ" "𐌵𐓎𐓶",
    "v": "ѵ" "Ꮩꓦᐯ" "ⴸ" "𐌖𐔝",
    "w": "ԝѡꙍωⲱ" "ա" "ᎳᏔꓪᗯᙡ" "₩",
    "x": "хҳӿχⲭ" "ꓫ᙭᙮" "ⵝ" "𐌗𐍇𐊴𐔧ᚷ",
    "y": "уүұⲩ" "ყ" "ᎩᎽꓬ" "ⵖ" "𐍅𐊲",
    "z": "ζⲍ" "չ" "Ꮓꓜᘔ",
    "3": "зҙ",
    "4": "Ꮞ",
    "6": "Ꮾ",
    "8": "𐌚",
}  # fmt: skip

_LATIN = ((0x00C0, 0x02B0), (0x1D00, 0x1DC0), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800), (0xAB30, 0xAB70))
_NAME = re.compile(
    r"LATIN (?:(?:SMALL|CAPITAL) LETTER (?:(?:OPEN|SCRIPT|DOTLESS|BROKEN|BARRED|BLACKLETTER) )?|LETTER SMALL CAPITAL )"
    r"([A-Z])(?: WITH [A-Z -]+)?"
)


def pairs() -> dict[str, str]:
    """Map each look-alike, in lower case if it has one, to its Latin letter in lower case."""
    found = {char.lower(): letter for char, letter in _named()}
    for letter, chars in BY_LETTER.items():
        found |= {_key(char): letter for char in chars}
    return found


def _named() -> list[tuple[str, str]]:
    """Return (variant, plain letter) of Latin letters that look plain but that no normalisation form maps to one."""
    chars = (chr(code) for first, end in _LATIN for code in range(first, end))
    named = ((char, _NAME.fullmatch(unicodedata.name(char, ""))) for char in chars)
    return [(char, name[1].lower()) for char, name in named if name]


def _key(char: str) -> str:
    """Return `char` in the case used as key. Cherokee is mostly written in capitals, and its small letters fold to
    them."""
    return char if char.casefold() == char else char.lower()
