"""Value makers by the name a concept gives (`person`, `id:INV`, `int:1:90`, `enum:low:high` ...).

`pick:oak:elm` is one of these words told as a plain string, `list:oak:elm:ash` an array of up to four of them,
`year:1900:2020` an integer without a thousands separator.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from training import values
from training.names import Names
from training.values import Value


def make_value(make: str, names: Names, rng: random.Random, currency: str) -> Value:
    """Draw a value. Money is in `currency`; everything else depends on the maker's arguments only."""
    kind, *args = make.split(":")
    if kind in ("int", "decimal", "amount"):
        return _quantity(kind, args, rng, currency)
    if kind == "items":
        return values.line_items(names, rng, currency)
    if kind == "contacts":
        return values.contacts(names, rng)
    if kind in ("people", "skills", "children"):
        return _several(kind, names, rng)
    if kind in _TEXTS:
        return values.string(_TEXTS[kind](names, rng))
    return _special(kind, args, names, rng)


def _quantity(kind: str, args: list[str], rng: random.Random, currency: str) -> Value:
    if kind == "int":
        return values.integer(rng, int(args[0]), int(args[1]))
    if kind == "amount":
        return values.amount(rng, currency, float(args[0]), float(args[1]))
    return values.decimal(rng, float(args[0]), float(args[1]), args[2])


def _several(kind: str, names: Names, rng: random.Random) -> Value:
    maker = {"people": names.person, "skills": names.skill, "children": names.first}[kind]
    if kind == "people" and rng.random() < 0.3:
        maker = names.first
    return values.strings(list(dict.fromkeys(maker() for _ in range(rng.randint(1, 4)))), rng)


def _special(kind: str, args: list[str], names: Names, rng: random.Random) -> Value:
    if kind == "date":
        return values.date(rng)
    if kind == "id":
        return values.string(values.identifier(rng, args[0]))
    if kind == "bool":
        return values.boolean(rng, rng.random() < 0.5)
    if kind == "enum":
        return values.enumerated(rng, args)
    if kind == "year":
        year = str(rng.randint(int(args[0]), int(args[1])))
        return values.Value("integer", year, year)
    if kind == "pick":
        return values.string(rng.choice(args))
    if kind == "list":
        return values.strings(rng.sample(args, rng.randint(1, min(4, len(args)))), rng)
    if kind == "rating":
        return values.rating(rng)
    if kind == "email":
        return values.string(names.email(), "email")
    assert kind == "ip", kind
    return values.string(".".join(str(rng.randint(1, 254)) for _ in range(4)), "ipv4")


def _buyer(names: Names, rng: random.Random) -> str:
    return names.person() if rng.random() < 0.5 else names.company()


def _seat(names: Names, rng: random.Random) -> str:
    if rng.random() < 0.6:
        return f"{rng.randint(1, 60)}{rng.choice('ABCDEFGHK')}"
    return f"{rng.choice('ABCDEFG')}{rng.randint(1, 99)}"


def _zip(names: Names, rng: random.Random) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.choice([4, 5, 5])))


def _room(names: Names, rng: random.Random) -> str:
    return rng.choice([f"room {rng.randint(1, 600)}", f"Hall {rng.choice('ABCDEF')}", names.last() + " Room"])


def _host(names: Names, rng: random.Random) -> str:
    stem, part = names.stem(1, 2), rng.choice(["api", "web", "db", names.stem(1, 1)])
    return f"{stem}-{part}{rng.choice(['', '-01', '-2', str(rng.randint(1, 99))])}"


def _version(names: Names, rng: random.Random) -> str:
    return f"{rng.randint(0, 20)}.{rng.randint(0, 30)}" + rng.choice(["", f".{rng.randint(0, 40)}"])


def _username(names: Names, rng: random.Random) -> str:
    stem, join = names.stem(1, 2), rng.choice(["", "_", ".", "-"])
    return f"{stem}{join}{rng.choice([names.stem(1, 1), str(rng.randint(1, 99))])}"


_TEXTS: dict[str, Callable[[Names, random.Random], str]] = {
    "person": lambda names, rng: names.person(),
    "company": lambda names, rng: names.company(),
    "city": lambda names, rng: names.city(),
    "country": lambda names, rng: names.country(),
    "product": lambda names, rng: names.product(),
    "job": lambda names, rng: names.job(),
    "street": lambda names, rng: names.street(),
    "drug": lambda names, rng: names.drug(),
    "topic": lambda names, rng: names.topic(),
    "subject": lambda names, rng: names.subject(),
    "word": lambda names, rng: names.phrase(1, 2),
    "phone": lambda names, rng: values.phone(rng),
    "time": lambda names, rng: values.clock(rng),
    "buyer": _buyer,
    "seat": _seat,
    "zip": _zip,
    "room": _room,
    "host": _host,
    "version": _version,
    "username": _username,
}
