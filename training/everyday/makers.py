"""Values of everyday texts: weekdays, clock times, small numbers in words, and the makers of `training.makers`."""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable, Sequence

from training.everyday.dialling import dialled
from training.makers import make_value
from training.names import Names, ascii_lower
from training.values import Value, quoted, string

Row = dict[str, Value]

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = tuple(calendar.month_name[1:])


def made(make: Sequence[str], names: Names, rng: random.Random, currency: str) -> Value:
    kind, *args = make
    if kind in _TEXTS:
        return string(_TEXTS[kind](names, rng))
    if kind == "count":
        return count(rng, int(args[0]), int(args[1]))
    if kind == "pick":
        return string(rng.choice(args))
    if kind == "year":  # an integer that nobody writes with a thousands separator
        year = str(rng.randint(int(args[0]), int(args[1])))
        return Value("integer", year, year)
    if kind == "num":
        plain = f"{rng.uniform(float(args[0]), float(args[1])):.{args[2]}f}"
        return Value("number", plain, plain)
    return make_value(":".join(make), names, rng, currency)


def count(rng: random.Random, low: int, high: int) -> Value:
    """Draw a small number, as a word half of the time where people would write one."""
    number = rng.randint(low, high)
    shown = NUMBERS[number] if number < len(NUMBERS) and rng.random() < 0.5 else str(number)
    return Value("integer", shown, str(number))


def listed(items: list[str], rng: random.Random) -> Value:
    items = list(dict.fromkeys(items))
    return Value("strings", joined(items, rng), "[" + ",".join(map(quoted, items)) + "]")


def joined(items: Sequence[str], rng: random.Random) -> str:
    """Write `a, b and c`, in one of the ways in which people write it."""
    if len(items) < 2:
        return "".join(items)
    link = rng.choice([" and ", " and ", " and ", ", and " if len(items) > 2 else " and ", ", ", " & "])
    return ", ".join(items[:-1]) + link + items[-1]


def _weekday(names: Names, rng: random.Random) -> str:
    day = rng.choice(_DAYS)
    return rng.choice([day, day, day, f"next {day}", f"this {day}", f"{day} {rng.choice(_PARTS)}"])


_PARTS = ("morning", "afternoon", "evening", "night")


def _day(names: Names, rng: random.Random) -> str:
    """Draw a day without a year: `Friday`, `tomorrow`, `March 3`, `the 14th of May`."""
    roll = rng.random()
    if roll < 0.45:
        return _weekday(names, rng)
    if roll < 0.6:
        return rng.choice(
            ["today", "tomorrow", "tonight", "tomorrow morning", "next week", "next month", "this weekend"]
        )
    number, month = rng.randint(1, 30), rng.choice(_MONTHS)
    month = month if rng.random() < 0.7 else month[:3]
    shown = rng.choice([str(number), ordinal(number)])
    return rng.choice(
        [f"{month} {shown}", f"{number} {month}", f"{month} {shown}", f"the {ordinal(number)} of {month}"]
    )


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _clock(names: Names, rng: random.Random) -> str:
    hour, minute = rng.randint(1, 12), rng.choice([0, 0, 15, 30, 45, rng.randint(1, 59)])
    if rng.random() < 0.3:
        return f"{rng.randint(0, 23):02d}:{minute:02d}"
    half, gap = rng.choice(["am", "pm", "AM", "PM", "p.m.", "a.m."]), rng.choice(["", " "])
    return f"{hour}{gap}{half}" if minute == 0 and rng.random() < 0.8 else f"{hour}:{minute:02d}{gap}{half}"


def _url(names: Names, rng: random.Random) -> str:
    host = ascii_lower(names.last())
    path = rng.choice(["", "", f"/{ascii_lower(names.stem())}", f"/{ascii_lower(names.stem())}/{rng.randint(1, 999)}"])
    return f"{rng.choice(['https://', 'https://www.', 'http://', 'www.'])}{host}.{rng.choice(_ENDS)}{path}"


_ENDS = ("com", "org", "net", "io", "de", "example", "co.uk")


def _name(names: Names, rng: random.Random) -> str:
    """Draw what people are called in a sentence: mostly one name, or two."""
    return names.first() if rng.random() < 0.5 else f"{names.first()} {names.last()}"


def _handle(names: Names, rng: random.Random) -> str:
    return f"@{ascii_lower(names.first())}{rng.choice(['', '_', str(rng.randint(1, 99))])}".rstrip("_")


def _postcode(names: Names, rng: random.Random) -> str:
    if rng.random() < 0.7:
        return f"{rng.randint(1000, 99999):05d}" if rng.random() < 0.8 else str(rng.randint(1000, 9999))
    letters = "ABCDEFGHKLMNPRSTUW"
    first, second, third, last = (rng.choice(letters) for _ in range(4))
    return f"{first}{second}{rng.randint(1, 20)} {rng.randint(1, 9)}{third}{last}"


def _flight(names: Names, rng: random.Random) -> str:
    letters = "ABDEFIKLNQRSTUVX"
    return f"{rng.choice(letters)}{rng.choice(letters)}{rng.choice(['', ' '])}{rng.randint(10, 9999)}"


def _percent(names: Names, rng: random.Random) -> str:
    return f"{rng.randint(1, 99)}{rng.choice(['%', '%', ' %', ' percent'])}"


_TEXTS: dict[str, Callable[[Names, random.Random], str]] = {
    "first": lambda names, rng: names.first(),
    "last": lambda names, rng: names.last(),
    "name": _name,
    "fullname": lambda names, rng: f"{names.first()} {names.last()}",
    "weekday": _weekday,
    "day": _day,
    "month": lambda names, rng: rng.choice(_MONTHS),
    "clock": _clock,
    "url": _url,
    "handle": _handle,
    "postcode": _postcode,
    "flight": _flight,
    "percent": _percent,
    "dial": lambda names, rng: dialled(rng),
    "madeup": lambda names, rng: names.stem(2, 3).capitalize(),
}
