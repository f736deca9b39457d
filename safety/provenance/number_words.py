"""Read numbers that are spelled digit by digit in words: `zero seven double four nine hundred`.

Not covered: tens and more in one word (`twenty-one`, `achtundvierzig`), and languages that are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator

MIN_DIGITS = 5
"""Digits in words from which a run of them is a number: two or three stand in any text."""
_LANGUAGES = (
    "zero one two three four five six seven eight nine",
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "null ein zwo drei vier fuenf sechs sieben acht neun",
    "zéro un deux trois quatre cinq six sept huit neuf",
    "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "zero um dois três quatro cinco seis sete oito nove",
    "zero uno due tre quattro cinque sei sette otto nove",
    "nul een twee drie vier vijf zes zeven acht negen",
    "nul één twee drie vier vijf zes zeven acht negen",
    "noll ett två tre fyra fem sex sju åtta nio",
    "null en to tre fire fem seks syv åtte ni",
    "nul en to tre fire fem seks syv otte ni",
    "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
    "nula jedna dva tři čtyři pět šest sedm osm devět",
    "ноль один два три четыре пять шесть семь восемь девять",
    "нуль одна два три четыре пять шесть семь восемь девять",
    "нуль один два три чотири п'ять шість сім вісім дев'ять",
    "sıfır bir iki üç dört beş altı yedi sekiz dokuz",
    "nolla yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän",
    "nulla egy kettő három négy öt hat hét nyolc kilenc",
    "nol satu dua tiga empat lima enam tujuh delapan sembilan",
    "không một hai ba bốn năm sáu bảy tám chín",
)
_DIGITS = {word: str(digit) for language in _LANGUAGES for digit, word in enumerate(language.split())}
_DIGITS |= {"o": "0", "oh": "0", "niner": "9", "hundred": "00", "thousand": "000", "plus": "+", "плюс": "+"}
_REPEATS = {"double": 2, "doppel": 2, "doble": 2, "triple": 3, "treble": 3, "dreifach": 3}
_WORDS = frozenset((*_DIGITS, *_REPEATS))
_WEAK = frozenset(["o", "en", "et", "to", "um", "un", "ein", "ba", "bir", "hai", "hat", "ni"])
"""Digits that are other words, too, and therefore begin no number: `text to zero seven ...`."""
_APART = str.maketrans(dict.fromkeys(',.;:/-()[]{}|_*"', " ") | {"’": "'"})


def digits_of_words(text: str) -> list[str]:
    """Return the numbers that `text`, in the spelling used for comparison, spells in words. Digits before the first
    word or behind the last may be another number: each run is also read without them."""
    found: dict[str, None] = {}
    for run in _runs(text.translate(_APART).split()):
        spelled = [at for at, word in enumerate(run) if not word.isdigit()]
        for words in (run, run[spelled[0] : spelled[-1] + 1]) if spelled else ():
            number = _read(words)
            if len(number) >= MIN_DIGITS:
                found[number] = None
    return list(found)


def _runs(words: list[str]) -> Iterator[list[str]]:
    """Yield the longest runs of digits and words for them."""
    run: list[str] = []
    for word in words:
        if word in _WORDS or word.isdigit():
            if run or word not in _WEAK:
                run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _read(words: list[str]) -> str:
    said, times = "", 1
    for word in words:
        if word in _REPEATS:
            times = _REPEATS[word]
            continue
        said, times = said + times * (word if word.isdigit() else _DIGITS[word]), 1
    return said
