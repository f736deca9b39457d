"""Compare names in languages that inflect them: a user writes `Кириллу Дорофееву`, `Pawłowi Gawlińskiemu` or `Mikko
Lehtoselle`, and a call has the name as it stands in an address book.

Each word of a name is turned into the forms that it may have (case endings of Russian, Ukrainian, Greek,
Polish, Czech, Slovak, Finnish, Hungarian). In Latin letters these count only where the text has a word or letter of the
language: `Dana` would else be a form of `Dan`.
Not covered: names that change otherwise (`Wojciech` - `Wojtek`), other languages, names in another script. Whoever
names Александра Иванова also names Александр Иванов, of which it is a case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MIN_STEM = 3
"""Letters of a word that its forms have in common."""
MOST_WORDS = 4
_CYRILLIC = re.compile("[а-яёіїєґ]")
_GREEK_LETTER = re.compile("[α-ωά-ώ]")


@dataclass(frozen=True, slots=True)
class Language:
    """`endings`: what a name may end in as its address book has it ("" is any consonant), with what takes its place.
    `signs`: of a text in this language; none for a script of its own."""

    endings: tuple[tuple[str, str], ...]
    signs: re.Pattern[str] | None = None


_RUSSIAN = Language((
    ("ий", "ого его ому ему им ым ом ем ия ию ии"), ("ый", "ого ому ым ом"), ("ой", "ого ому ым ом"),
    ("ая", "ой ую ою"), ("яя", "ей юю"), ("ия", "ии ию ией ією ії"), ("ова", "овой ову"), ("ева", "евой еву"),
    ("ёва", "ёвой ёву"), ("ина", "иной ину"), ("ець", "ця цю цем цеві"),
    ("ец", "ца цу цом це"), ("ок", "ка ку ком ке кові"), ("ёк", "ька ьку ьком ьке"), ("авел", "авла авлу авлом авле"),
    ("авло", "авла авлу авлові авлом"), ("ётр", "етра етру етром етре"), ("лев", "льва льву львом льве"),
    ("ія", "ії ію ією"), ("ій", "ія ію ієм ієві"), ("й", "я ю ем ём е єм єві"), ("ь", "я ю ем ём е и еві"),
    ("а", "ы и е у ой ою ей і"), ("я", "и е ю ей ёй і ї єю"), ("о", "а у ом ові е"), ("", "а у ом ем ым е і ові еві"),
))  # fmt: skip
_GREEK = Language((
    ("ος", "ο ου ε"), ("ός", "ό ού έ"), ("ας", "α"), ("άς", "ά"), ("ης", "η"), ("ής", "ή"), ("α", "ας"), ("ά", "άς"),
    ("η", "ης"), ("ή", "ής"),
))  # fmt: skip
_POLISH = Language((
    ("ski", "skiego skiemu skim"), ("cki", "ckiego ckiemu ckim"), ("dzki", "dzkiego dzkiemu dzkim"),
    ("ska", "skiej ską"), ("cka", "ckiej cką"), ("dzka", "dzkiej dzką"), ("ny", "nego nemu nym"), ("na", "nej"),
    ("weł", "wła włowi włem wle"), ("ek", "ka kowi kiem ku"), ("iec", "ca cowi cem"), ("iel", "la lowi lem"),
    ("i", "iego iemu im"), ("y", "ego emu ym"),
    ("ta", "cie"), ("da", "dzie"), ("ła", "le"), ("ra", "rze"), ("ka", "ce"), ("ga", "dze"), ("sta", "ście"),
    ("ia", "ii"), ("ja", "ji"), ("a", "y i ę ą ie o"), ("o", "y i ę ą ie a owi em"), ("", "a owi em iem ie u iowi"),
), re.compile(r"[ąćęłńśźż]|\b(?:dla|napisz|wyslij|zadzwon|udostepnij|pani|panu|panem|przez|prosze)\b"))  # fmt: skip
_CZECH = Language((
    ("ový", "ového ovému ovým"), ("ský", "ského skému ským"), ("ová", "ové ovou"), ("ská", "ské skou"),
    ("ný", "ného nému ným"), ("ná", "né nou"), ("ý", "ého ému ým"), ("á", "é ou ej ú"),
    ("ek", "ka kovi kem ku"), ("el", "la lovi lem"), ("ec", "ce ci cem covi"), ("ka", "ce"), ("ra", "ře"),
    ("ie", "ii ií"), ("a", "y ě u ou e ovi i"), ("", "a u ovi em om e i"),
), re.compile(r"[ěščřžůťďň]|\b(?:posli|zavolej|zavolaj|pozvi|komu|paní|prosím)\b"))  # fmt: skip
_FINNISH_CASES = "n lle lta ltä sta stä ssa ssä lla llä a ä"
_FINNISH = Language((
    *((end, " ".join(f"{stem}{case}" for case in _FINNISH_CASES.split())) for end, stem in (
        ("nen", "se"), ("kki", "ki"), ("kko", "ko"), ("kka", "ka"), ("kku", "ku"), ("ppo", "po"), ("tta", "ta"),
        ("tti", "ti"), ("ttu", "tu"), ("nta", "nna"), ("nti", "nni"), ("ki", "e"), ("i", "e"), ("s", "kse"),
        ("as", "aa"), ("n", "ni"), ("l", "li"),
        ("r", "ri"), ("m", "mi"), ("", ""))),
), re.compile(r"ää|yö|äy|öi|\b(?:lähetä|lahet\w+|kutsu|laita|kirjoita|soita|jaa|kerro|viesti)\b"))  # fmt: skip
_HUNGARIAN_CASES = "nak nek t val vel hoz hez höz tól től ról ről nál nél ra re ba be ért"
_HUNGARIAN = Language((
    ("a", " ".join(f"á{case}" for case in _HUNGARIAN_CASES.split())),
    ("e", " ".join(f"é{case}" for case in _HUNGARIAN_CASES.split())),
    ("", _HUNGARIAN_CASES + " et ot at öt"),
), re.compile(r"[őű]|\b(?:írj\w*|küld\w*|hívd?|oszd|szólj|neki|kérlek)\b"))  # fmt: skip
LATIN = (_POLISH, _CZECH, _FINNISH, _HUNGARIAN)


def inflected(name: str, text: str) -> re.Pattern[str] | None:
    """Return what finds the forms of `name` in `text`, both in the spelling used for comparison; None if no language
    inflects it there. A word may also stay as it is."""
    words = name.split()
    if not words or len(words) > MOST_WORDS or not all(word.isalpha() or "-" in word for word in words):
        return None
    if _CYRILLIC.search(name):
        return _forms(tuple(words), (_RUSSIAN,))
    if _GREEK_LETTER.search(name):
        return _forms(tuple(words), (_GREEK,))
    spoken = tuple(language for language in LATIN if language.signs is None or language.signs.search(text))
    return _forms(tuple(words), spoken) if spoken else None


def forms_of(word: str) -> str | None:
    """Return the pattern of what follows the first letter in the forms of a single name in Cyrillic or Greek letters;
    None for another."""
    if len(word) <= MIN_STEM or not (_CYRILLIC.search(word) or _GREEK_LETTER.search(word)):
        return None
    language = _RUSSIAN if _CYRILLIC.search(word) else _GREEK
    return f"(?:{'|'.join(sorted(re.escape(form[1:]) for form in _spellings(word, language)))})"


@lru_cache(maxsize=256)
def _forms(words: tuple[str, ...], languages: tuple[Language, ...]) -> re.Pattern[str]:
    """Return the pattern of all forms. All words of a name have those of one language."""
    each = (r"\s+".join(_of_word(word, language) for word in words) for language in languages)
    return re.compile(rf"(?<![\w@./-])(?:{'|'.join(each)})(?![\w@/-]|\.\w)")


def _of_word(word: str, language: Language) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(_spellings(word, language))))})"


def _spellings(word: str, language: Language) -> set[str]:
    found = {word}
    for ending, others in language.endings:
        stem = word.removesuffix(ending)
        if (
            word.endswith(ending)
            and len(stem) >= MIN_STEM - len(ending) // 2
            and (ending or _ends_bare(word, language))
        ):
            found |= {stem + other for other in others.split()}
    return found


def _ends_bare(word: str, language: Language) -> bool:
    """Return whether endings are appended to a word as it is: to a consonant, and in Finnish and Hungarian to any."""
    return language in (_FINNISH, _HUNGARIAN) or word[-1] not in "aeiouyáéíóúůýąęаеёиоуыэюяіїєьй"
