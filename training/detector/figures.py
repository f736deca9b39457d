"""Harmless texts of little but figures and addresses: account numbers, tables, lists of links, logs, identifiers.

Heads read every digit as 0, so all such texts look alike to them, and none of the sets holds any.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from training.detector.lines import choose

_ASKS = (
    "", "", "", "{My|The|Our} {account|customer|order|card|tracking|reference} number is: ",
    "{Sum|Sort|Round|Plot|Average} {these|the following} {numbers|values|figures}:\n",
    "{Here|These} are the {links|sources|pages}:\n",
    "{What is wrong with|Explain|Read} this {log|output|table}?\n",
    "{Measured|Readings|Results} {today|of last week}: ",
    "{Call|Write to|Invite} {them|all of these}: ", "{Números|Zahlen|Chiffres|数字|числа}: ",
)  # fmt: skip
_WORDS = ("news", "shop", "wiki", "photos", "item", "guide", "docs", "order", "blog", "map", "price", "room", "team")
_HOSTS = ("example.com", "example.org", "shop.example.net", "news.example", "www.example.edu", "files.example.com")
_NAMES = ("anna", "bob", "carla", "dieter", "eva", "frank", "gina", "hans", "ines", "jan", "kim", "lars", "mona")


def drawn(rng: random.Random) -> str:
    """Draw one text; about half begin with what is asked or said of the figures."""
    body = rng.choice(_KINDS)(rng)
    return f"{choose(rng, rng.choice(_ASKS))}{body}"


def _number(rng: random.Random, most: int = 6) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, most)))


def _account(rng: random.Random) -> str:
    parts = [_number(rng, rng.choice((4, 8, 26, 60))) for _ in range(rng.choice((1, 1, 2, 4)))]
    return rng.choice((" ", "-", "")).join(parts)


def _column(rng: random.Random) -> str:
    mark = rng.choice(("{a}.{b}", "-{a}", "{a}", "{a},{b}", "{a} %", "{a}:{b}", "${a}.{b}", "{a} / {b}"))
    rows = [mark.format(a=_number(rng, 4), b=_number(rng, 2)) for _ in range(rng.randint(3, 60))]
    return rng.choice(("\n", " ", ", ", "; ", "\t")).join(rows)


def _table(rng: random.Random) -> str:
    names = rng.sample(_WORDS, rng.randint(2, 5))
    rows = [[_number(rng, 5) for _ in names] for _ in range(rng.randint(2, 15))]
    cell = rng.choice((" | ", ",", "\t", "  "))
    return "\n".join(cell.join(row) for row in [names, *rows])


def _links(rng: random.Random) -> str:
    host = rng.choice(_HOSTS)
    links = [
        f"https://{host if rng.random() < 0.7 else rng.choice(_HOSTS)}/{rng.choice(_WORDS)}/{_number(rng)}"
        for _ in range(rng.randint(1, 20))
    ]
    return rng.choice(("\n", " ", "\n- ", ", ")).join(links)


def _people(rng: random.Random) -> str:
    host = rng.choice(_HOSTS)
    made = [f"{name}@{host}" if rng.random() < 0.7 else f"+{_number(rng, 12)}" for name in rng.sample(_NAMES, 10)]
    return rng.choice(("\n", "; ", ", ", " ")).join(made[: rng.randint(1, 10)])


def _log(rng: random.Random) -> str:
    lines = [
        f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} {rng.randint(0, 23):02}:{rng.randint(0, 59):02} "
        f"{rng.choice(('INFO', 'WARN', 'DEBUG', 'ERROR'))} {rng.choice(_WORDS)}[{_number(rng, 5)}] "
        f"{rng.choice(('ok', 'done', 'timeout', 'retry'))}"
        for _ in range(rng.randint(2, 20))
    ]
    return "\n".join(lines)


def _identifiers(rng: random.Random) -> str:
    many = rng.randint(1, 12)
    return rng.choice(("\n", " ", ", ")).join(
        f"{rng.getrandbits(64):016x}"[: rng.choice((6, 8, 16))] for _ in range(many)
    )


def _same(rng: random.Random) -> str:
    """Draw a word or mark again and again."""
    what = rng.choice(("no", "test", "ha", "x", "ok", "yes", "la", "-", "0", "1.5", "hello", "=", "please", "go"))
    return rng.choice((" ", "\n", "", ", ")).join([what] * rng.randint(4, 60))


_KINDS: tuple[Callable[[random.Random], str], ...] = (
    _account, _column, _table, _links, _people, _log, _identifiers, _same,
)  # fmt: skip
