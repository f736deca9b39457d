"""Numbers of a question as quantities: times of day, spans of time, measures, codes and plain numbers.

Two texts may write one quantity in different ways ("8 pm", "8 in the evening", "20:00"; "two-year", "2 years", "24
months"), and one of them may say in a word what the other counts ("twice", "a day"). `other_quantities` compares what
is meant, not how it is written; what really differs, or changed places, is a difference.

Not covered: fractions, dates in figures alone, roman numerals, other languages than English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sluicegate.cache.semantic.judged.near_words import form
from sluicegate.cache.semantic.judged.quantity_words import (
    ARTICLES,
    BASIC,
    FEW_OF,
    MEASURES,
    NO_CONTEXT,
    NUMBER_WORDS,
    PERIODS,
    SCALES,
    SHORT_SCALES,
    SIGNS,
    SPANS,
)

POUNDS = ({"pound", "gbp"}, {"pound", "lb"})
DAY_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}
LEAST_IN_DIGEST = 100
"""Least number that tells rows apart before they are compared: a smaller one may be an hour, or said in a word."""


MOST_PAIRED = 12
"""Most quantities of a text that are compared in any order."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """`value` is minutes of half a day for a time, minutes, nights or months for a span, else the number. `unit` is
    "am", "pm" or nothing for a time. `loose`: the other text need not have it. `before`, `after`: the words around it,
    by form."""

    kind: str
    value: float | str
    unit: str = ""
    loose: bool = False
    before: str = ""
    after: str = ""


_WORD = "|".join(sorted(NUMBER_WORDS | SCALES.keys(), key=len, reverse=True))
SPELLED = re.compile(rf"\b(?:{_WORD})(?:(?: and |[ -])(?:{_WORD}))*\b(?!')")
_SPAN = "|".join(sorted(SPANS, key=len, reverse=True))
_MEASURE = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))
_PERIOD = "|".join(sorted(PERIODS, key=len, reverse=True))
_FEW = "|".join(FEW_OF)
_AP = r"(?:\s?(?P<{}>[ap])\.?m\b\.?)"
_PART = r"(?:\s+(?:in\ the\ |at\ |this\ )?(?P<{}>morning|afternoon|evening|night)\b)"
SCAN = re.compile(
    rf"""(?P<code>\b[a-z]+[-_]?\d[a-z\d]*(?:[-_]\d[a-z\d]*)*\b)
    |\b(?P<part>(?:half|quarter)(?=[ ](?:past|to)[ ])|\d\d?(?=[ ]past[ ]))
        [ ](?P<way>past|to)[ ](?P<past>\d\d?|one)\b
        (?:{_AP.format("a0")}|{_PART.format("p0")})?
    |(?<![\d.:/])(?P<hour>\d\d?)(?P<dot>[:.])(?P<minute>[0-5]\d)(?![\d:/])
        (?:{_AP.format("a1")}|{_PART.format("p1")})?
    |(?<![\d.:/])(?P<clock>\d\d?|one)(?:\s?o'?clock)(?:{_AP.format("a2")}|{_PART.format("p2")})?
    |(?<![\d.:/])(?P<bare>\d\d?)(?:{_AP.format("a3")}|{_PART.format("p3")})
    |\b(?P<noon>noon|midday|midnight)\b
    |(?P<sign>[€$£])\s?(?P<sum>\d+(?:\.\d+)?)(?P<times>k|m|bn)?\b
    |(?P<count>\d+(?:\.\d+)?)(?P<and>[ ]and[ ]a[ ]half)?[ -]?(?P<span>{_SPAN})\b(?P<half>[ ]and[ ]a[ ]half\b)?
    |\b(?P<one>a|an|one|per|each|every|half[ ]an?|this|next|last|past)[ ](?P<period>{_SPAN})\b
        (?P<more>[ ]and[ ]a[ ]half\b)?
    |\b(?P<often>{_PERIOD})\b
    |(?P<amount>\d+(?:\.\d+)?)(?P<of>k|m|bn)?[ -]?(?P<measure>{_MEASURE})(?![^\W_])(?!(?<=[ ]in)[ ]\w|(?<=[ ]a)[ ]\w)
    |\bhalf[ ]an?[ ](?P<halved>{_MEASURE})(?![^\W_])
    |\b(?P<few>{_FEW})\b
    |(?P<plain>\d+(?:[.,:/]\d+)*)(?P<scale>k|m|bn)?(?:st|nd|rd|th)?(?P<rest>[^\W\d_]*)
    """,
    re.VERBOSE,
)
AROUND = re.compile(r"[^\W_]+")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
CAPITAL = re.compile(r"(?<![€$£\d.])(\d+) ?([BDGHMPTX])(?![^\W_])")
"""Where a capital letter makes another unit: "5 M" is no "5 m", "5G" no 5 g."""
DECADE = re.compile(r"\b(over|under|above|below|in (?:my|his|her|their|your|the)|the) (\d0)s\b")


def quantities(text: str) -> list[Quantity]:
    """Return the quantities of a text, in order."""
    plain = in_figures(text)
    return [_with_context(_made(match), plain, match) for match in SCAN.finditer(plain)]


def in_figures(text: str) -> str:
    """Return a text in lower case with its number words in figures."""
    text = CAPITAL.sub(r"\1\2cap", THOUSANDS.sub("", text)).lower()
    return DECADE.sub(r"\1 \2", SPELLED.sub(_in_figures, text))


def without_spans(plain: str) -> str:
    """Return what `in_figures` returned without the spans of time that are counted, and halves: "18 months", "half a
    year", "half a kilo"."""
    return SCAN.sub(lambda match: " " if match["span"] or match["more"] or _is_half(match) else match[0], plain)


def _is_half(match: re.Match[str]) -> bool:
    return match["halved"] is not None or (match["one"] or "").startswith("half")


def digest_numbers(found: Sequence[Quantity]) -> Iterator[str]:
    """Yield what two texts of equal quantities have alike, whatever way they are written."""
    for one in sorted(found, key=lambda one: str(one.value)):
        sized = one.kind in ("number", "measure") and isinstance(one.value, float) and one.value >= LEAST_IN_DIGEST
        if one.kind == "code" or sized or (one.kind == "number" and isinstance(one.value, str)):
            yield str(one.value)


def other_quantities(one: Sequence[Quantity], other: Sequence[Quantity]) -> bool:
    """Return whether a quantity of one text is not in the other, or two of them changed places, with or without what is
    said of them. Where there are many, they have to be written alike."""
    if max(len(one), len(other)) > MOST_PAIRED:
        return [_written(quantity) for quantity in one] != [_written(quantity) for quantity in other]
    pairs, left = _paired(one, other)
    if any(not quantity.loose for side in left for quantity in side):
        return True
    if {quantity.kind for quantity in left[0]} & {quantity.kind for quantity in left[1]}:
        return True  # "one side" and "both sides", "a day" and "weekly"
    return any(
        _exchanged(one[a], other[b], one[c], other[d])
        or ((a < c) != (b < d) and _moved(one[a], other[b], one[c], other[d]))
        for (a, b), (c, d) in combinations(pairs, 2)
    )


def _written(one: Quantity) -> tuple[str, float | str, str, str, str]:
    return one.kind, one.value, one.unit, one.before, one.after


def _paired(
    one: Sequence[Quantity], other: Sequence[Quantity]
) -> tuple[list[tuple[int, int]], tuple[list[Quantity], list[Quantity]]]:
    """Return the places of quantities that are one, and those of either text that the other lacks. Of several that may
    be one, those with the same words around them go first."""
    timed = all(any(quantity.kind == "time" for quantity in side) for side in (one, other))
    ways = [
        (a, b)
        for a, mine in enumerate(one)
        for b, theirs in enumerate(other)
        if _may_be_one(mine, theirs) and not (timed and mine.kind != theirs.kind)  # "for 6 at 7 pm", "for 7 at 6 pm"
    ]
    ways.sort(key=lambda way: (-_likeness(one[way[0]], other[way[1]]), abs(way[0] - way[1])))
    pairs: list[tuple[int, int]] = []
    for a, b in ways:
        if all(a != x and b != y for x, y in pairs):
            pairs.append((a, b))
    mine, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    return pairs, (
        [quantity for at, quantity in enumerate(one) if at not in mine],
        [quantity for at, quantity in enumerate(other) if at not in theirs],
    )


def _likeness(one: Quantity, other: Quantity) -> int:
    exact = (one.kind, one.value, one.unit) == (other.kind, other.value, other.unit)
    return 2 * exact + (one.before == other.before != "") + (one.after == other.after != "")


def _may_be_one(one: Quantity, other: Quantity) -> bool:
    kinds = {one.kind, other.kind}
    if kinds == {"time"}:
        return one.value == other.value and (one.unit == other.unit or not one.unit or not other.unit)
    if len(kinds) == 1:
        units = {one.unit, other.unit}
        return one.value == other.value and (len(units) == 1 or units in POUNDS)
    if kinds == {"time", "number"}:
        time, number = (one, other) if one.kind == "time" else (other, one)
        return isinstance(number.value, float) and _is_hour(time, number)
    if kinds == {"span", "number"}:
        span, number = (one, other) if one.kind == "span" else (other, one)
        aged = span.after == "old" or span.before in ("aged", "age")
        return aged and span.unit == "month" and isinstance(number.value, float) and span.value == 12 * number.value
    if kinds == {"measure", "number"}:
        return one.value == other.value and "deg" in (one.unit, other.unit)
    return False


def _is_hour(time: Quantity, number: Quantity) -> bool:
    """Return whether a number without a unit is an hour: "past 8", or hour and minutes: "9.40"."""
    assert isinstance(number.value, float)
    hour = int(number.value)
    minutes = round(100 * (number.value - hour))
    return hour <= 24 and minutes < 60 and hour % 12 * 60 + minutes == time.value and (hour <= 12 or time.unit != "am")


def _exchanged(a: Quantity, b: Quantity, c: Quantity, d: Quantity) -> bool:
    """Return whether two quantities of one kind, `a` and `c`, which are `b` and `d` in the other text, changed places
    there, or what is said of them did."""
    if a.kind != c.kind or a.value == c.value or (a.kind == "measure" and a.unit != c.unit):
        return False
    if "" != a.after == d.after != c.after == b.after:
        return True
    return "" != a.before == d.before != c.before == b.before


def _moved(a: Quantity, b: Quantity, c: Quantity, d: Quantity) -> bool:
    """Return whether two quantities of one kind, `a` and `c`, which are `b` and `d` in the other text and in another
    order there, left the words that stood around them."""
    if a.kind != c.kind or a.value == c.value or a.loose or b.loose or c.loose or d.loose:
        return False
    return not (_accompanied(a, b) and _accompanied(c, d))


def _accompanied(one: Quantity, other: Quantity) -> bool:
    return one.after == other.after != "" or one.before == other.before != ""


def _with_context(made: Quantity, text: str, match: re.Match[str]) -> Quantity:
    before = AROUND.findall(text[max(0, match.start() - 24) : match.start()])
    after = AROUND.findall(text[match.end() : match.end() + 24])
    last = next((form(word) for word in reversed(before) if word not in ARTICLES), "")
    first = next((form(word) for word in after if word not in ARTICLES), "")
    return Quantity(
        made.kind,
        made.value,
        made.unit,
        made.loose,
        "" if last in NO_CONTEXT else last,
        "" if first in NO_CONTEXT else first,
    )


def _made(match: re.Match[str]) -> Quantity:
    found = match.groupdict()
    if found["code"]:
        return Quantity("code", re.sub("[-_]", "", found["code"]))
    if found["way"]:
        return _past(found)
    if found["hour"] or found["clock"] or found["bare"] or found["noon"]:
        return _time(found)
    if found["sum"]:
        scale = SHORT_SCALES.get(found["times"] or "", 1)
        return Quantity("measure", float(found["sum"]) * scale, SIGNS[found["sign"]])
    if found["span"]:
        return _span(float(found["count"]) + 0.5 * bool(found["and"] or found["half"]), found["span"])
    if found["period"]:
        half, more = _is_half(match), bool(found["more"])
        return _span(0.5 if half else 1 + 0.5 * more, found["period"], loose=not half and not more)
    if found["often"]:
        return _span(1, PERIODS[found["often"]], loose=True)
    if found["measure"] or found["halved"]:
        unit = MEASURES[found["measure"] or found["halved"]]
        basic, times = BASIC.get(unit, (unit, 1))
        times *= SHORT_SCALES.get(found["of"] or "", 1)
        return Quantity("measure", times * float(found["amount"] or 0.5), basic)
    if found["few"]:
        return Quantity("number", FEW_OF[found["few"]], loose=True)
    return _plain(found)


def _plain(found: dict[str, str]) -> Quantity:
    if found["rest"]:  # "5g", "11n": a name of something
        return Quantity("code", found["plain"] + (found["scale"] or "") + found["rest"])
    try:
        return Quantity("number", float(found["plain"]) * SHORT_SCALES.get(found["scale"] or "", 1))
    except ValueError:
        return Quantity("number", found["plain"])


def _span(count: float, unit: str, *, loose: bool = False) -> Quantity:
    basic, times = SPANS[unit]
    return Quantity("span", count * times, basic, loose)


def _past(found: dict[str, str]) -> Quantity:
    """Return the time of "quarter past 7"."""
    minutes = {"half": 30, "quarter": 15}.get(found["part"]) or int(found["part"])
    hour = 1 if found["past"] == "one" else int(found["past"])
    total = 60 * hour + (minutes if found["way"] == "past" else -minutes)
    return Quantity("time", float(total % 720), _half(hour, found, 0))


def _time(found: dict[str, str]) -> Quantity:
    if found["noon"]:
        return Quantity("time", 0.0, "am" if found["noon"] == "midnight" else "pm")
    which = 1 if found["hour"] else 2 if found["clock"] else 3
    written = found["hour"] or found["clock"] or found["bare"]
    hour, minute = 1 if written == "one" else int(written), int(found["minute"] or 0)
    half = _half(hour, found, which)
    if hour > 24 or (found["dot"] == "." and not half):
        return Quantity("number", float(f"{hour}.{minute:02}"))
    return Quantity("time", float((60 * hour + minute) % 720), half)


def _half(hour: int, found: dict[str, str], which: int) -> str:
    """Return the half of the day, "" where the text leaves it open."""
    if found[f"a{which}"]:
        return found[f"a{which}"] + "m"
    part = found[f"p{which}"]
    return DAY_PARTS[part] if part else "pm" if 12 < hour < 24 else "am" if hour in (0, 24) else ""


def _in_figures(match: re.Match[str]) -> str:
    """Write number words in figures; a single "one" stays, since it mostly counts nothing."""
    words = [word for word in re.split(r"[ -]", match[0]) if word != "and"]
    if words == ["one"]:
        return "one"
    return " ".join(str(number) for number in _composed(words)) + ("-" if match[0].endswith("-") else "")


def _composed(words: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of a row of number words: "twenty five" is one, "two three" are two."""
    total, last = 0, 0
    for word in words:
        scale = SCALES.get(word)
        if scale is not None:
            total = (total or 1) * scale
            last = scale
            continue
        value = NUMBER_WORDS[word]
        fits = total == 0 or (last >= 20 and value < (10 if last < 100 else last))
        if not fits:
            yield total
            total = 0
        total += value
        last = value
    yield total
