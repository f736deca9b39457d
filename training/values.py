"""Values: how a fact is written in a document, and the JSON literal a right answer has for it."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from training.names import Names
from training.tables import words

Kind = Literal["string", "integer", "number", "boolean", "enum", "date", "strings", "objects"]

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£"}


@dataclass(frozen=True, slots=True)
class Value:
    """`text` stands in the document; `raw` is the JSON literal (digits as written, no thousands separators)."""

    kind: Kind
    text: str
    raw: str
    options: tuple[str, ...] = ()  # enum only
    rows: tuple[tuple[tuple[str, str], ...], ...] = ()  # objects only: (part name, JSON literal) per row
    format: str | None = None  # of a string


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def string(text: str, format_: str | None = None) -> Value:
    return Value("string", text, quoted(text), format=format_)


def phone(rng: random.Random) -> str:
    digits = "".join(rng.choice("0123456789") for _ in range(12))
    shape = rng.choice(["+{} {} {}", "{}-{}-{}", "({}) {}-{}", "{} {} {}", "+{}-{}-{}", "+{} ({}) {}"])
    cut = rng.choice([(2, 5, 11), (3, 6, 10), (2, 4, 9), (3, 6, 12)])
    return shape.format(digits[: cut[0]], digits[cut[0] : cut[1]], digits[cut[1] : cut[2]])


def identifier(rng: random.Random, prefix: str) -> str:
    letters, digits = "ABCDEFGHJKLMNPQRSTUVWXYZ", "0123456789"
    shape = rng.choice(
        [
            "P-dddd",
            "Pdddddd",
            "P-yyyy-ddd",
            "dddddd",
            "P/dddd/dd",
            "AAddddd",
            "A-dddd",
            "P-AAdd",
            "#ddddd",
            "dddd-dddd",
            "P_ddd",
            "AAA-dddd",
            "P ddddd",
            "P-dddd-A",
            "AddAddd",
            "yyyy/dddd",
            "P-ddddd",
        ]
    )
    if rng.random() < 0.25:
        prefix = "".join(rng.choice(letters) for _ in range(rng.randint(2, 4)))
    out = shape.replace("yyyy", str(rng.randint(2018, 2027)))
    out = "".join(rng.choice(digits) if c == "d" else rng.choice(letters) if c == "A" else c for c in out)
    return out.replace("P", prefix) if "P" in shape else out


def date(rng: random.Random, low: int = 2015, high: int = 2028) -> Value:
    day = datetime.date(rng.randint(low, high), 1, 1) + datetime.timedelta(days=rng.randrange(365))
    month = _MONTHS[day.month - 1]
    text = rng.choice(
        [
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}, {day.year}",
            day.isoformat(),
            day.isoformat(),
            f"{day.day:02d}.{day.month:02d}.{day.year}",
            f"{day.day} {month[:3]} {day.year}",
            f"{month[:3]} {day.day}, {day.year}",
            f"{day.year}/{day.month:02d}/{day.day:02d}",
        ]
    )
    return Value("date", text, quoted(day.isoformat()))


def clock(rng: random.Random) -> str:
    hour, minute = rng.randint(0, 23), rng.choice([0, 15, 30, 45, rng.randint(0, 59)])
    return f"{hour:02d}:{minute:02d}"


def enumerated(rng: random.Random, options: list[str]) -> Value:
    """Draw one of the options, now and then in another case than the schema may list it in."""
    text = rng.choice(options)
    shown = rng.choice([text, text, text, text.upper(), text.capitalize()])
    return Value("enum", shown, quoted(text), options=tuple(options))


def rating(rng: random.Random) -> Value:
    raw = rng.choice(["1", "2", "3", "4", "5", "4.5", "3.5", "2.5"])
    return Value("number", raw, raw)


def grouped(digits: str) -> str:
    return f"{int(digits):,}"


def integer(rng: random.Random, low: int, high: int) -> Value:
    number = rng.randint(low, high)
    text = grouped(str(number)) if number >= 1000 and rng.random() < 0.4 else str(number)
    return Value("integer", text, str(number))


def amount(rng: random.Random, currency: str, low: float, high: float) -> Value:
    """Draw an amount of money: the sign or code of `currency` with digits in the English manner."""
    value = low * (high / low) ** rng.random()
    plain = f"{value:.2f}" if rng.random() < 0.8 else str(max(1, int(value)))
    whole, _, cents = plain.partition(".")
    shown = (grouped(whole) if rng.random() < 0.6 else whole) + (f".{cents}" if cents else "")
    sign = _SIGNS.get(currency)
    forms = [f"{currency} {shown}", f"{shown} {currency}"] + ([f"{sign}{shown}"] * 3 if sign else [])
    return Value("number", rng.choice(forms), plain)


def decimal(rng: random.Random, low: float, high: float, unit: str) -> Value:
    plain = f"{rng.uniform(low, high):.{rng.choice([0, 1, 1, 2])}f}"
    return Value("number", plain + (rng.choice([" ", ""]) + unit if unit else ""), plain)


def boolean(rng: random.Random, truth: bool) -> Value:
    text = rng.choice(["yes", "Yes", "true", "YES"] if truth else ["no", "No", "false", "NO"])
    return Value("boolean", text, "true" if truth else "false")


def strings(items: list[str], rng: random.Random) -> Value:
    text = items[0]
    if len(items) > 1:
        text = rng.choice(
            [
                f"{', '.join(items[:-1])} and {items[-1]}",
                ", ".join(items),
                "; ".join(items),
                f"{', '.join(items[:-1])} and {items[-1]}",
            ]
        )
    return Value("strings", text, "[" + ",".join(quoted(item) for item in items) + "]")


def line_items(names: Names, rng: random.Random, currency: str) -> Value:
    """Draw one to four bought things; every row has name, quantity and price."""
    form = rng.choice(words("item_lines"))
    rows, lines = [], []
    for _ in range(rng.randint(1, 4)):
        name, count, price = names.product(), rng.randint(1, 60), amount(rng, currency, 2, 900)
        rows.append((("name", quoted(name)), ("quantity", str(count)), ("price", price.raw)))
        lines.append(form.format(n=name, q=count, p=price.text))
    return _listed(rows, lines, rng)


def contacts(names: Names, rng: random.Random) -> Value:
    """Draw one to three people; every row has a name and two of role, e-mail, age and city."""
    second, third = rng.sample(["role", "email", "age", "city"], 2)
    form = rng.choice(words("contact_lines"))
    rows, lines = [], []
    for _ in range(rng.randint(1, 3)):
        made = {"role": names.job(), "email": names.email(), "age": str(rng.randint(18, 90)), "city": names.city()}
        name = names.person()
        literals = {part: text if part == "age" else quoted(text) for part, text in made.items()}
        rows.append((("name", quoted(name)), (second, literals[second]), (third, literals[third])))
        lines.append(form.format(n=name, a=made[second], b=made[third]))
    return _listed(rows, lines, rng)


def _listed(rows: Sequence[tuple[tuple[str, str], ...]], lines: list[str], rng: random.Random) -> Value:
    text = "\n" + "\n".join(rng.choice(["- ", "* ", "  "]) + line for line in lines)
    return Value("objects", text if len(lines) > 1 or rng.random() < 0.5 else lines[0], "", rows=tuple(rows))
