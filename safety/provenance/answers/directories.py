"""Recognise the address of whom the user named: `search_contacts` answers `{"name": "Maria Keller", "email":
"m.keller@northwind.example"}`, the user says "Maria Keller" and a call has that address.

A result gives an address or telephone number only if its tool answers with people (`search_contacts`, `list_users`) or
places, the whole text is JSON, the value stands whole in a field of the record, and every record that the user's words
call has it.
Not covered: entries in prose (trust the tool); an entry that somebody else gave the name of the user's; nicknames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from sluicegate.safety.provenance.numbers import bare_number
from sluicegate.safety.provenance.spelling import spelled

NAMES = re.compile(
    r"(?:\w*_)?(?:name|title|label|team|group|nom|nome|nombre|naam|navn|namn|nimi|jmeno|nazwa|nazwisko|osoba|isim|ad"
    r"|nama|grupo|gruppo|gruppe|equipo|имя|фио|ім.я|назва|название|όνομα|الاسم|שם|नाम|이름|姓名|名前|氏名)|\w*Name",
    re.I,
)
"""Names of the field with the name of somebody, in the languages of tools that were met."""
MIN_NAME_CHARS = 2
_MOST_WORDS = 4
LEVELS = 2
"""Lists and objects in a record in which its addresses may stand."""


Calls = Callable[[str], Iterable[str]]
"""Yields what the user calls somebody of a name: by the whole name, or one of its words."""


def is_address_of_named(answer: Any, value: str, calls: Calls) -> bool:
    """Return whether `value` is the address or number of those in an `answer`, read as JSON, whom the user named."""
    try:
        records = list(_records(answer))
    except RecursionError:
        return False
    own = [record for record in records if _has(record, value)]
    names_of = partial(map, _names)
    return is_of_all_called(names_of(own), names_of(record for record in records if record not in own), calls)


def is_of_all_called(
    own: Iterable[list[str]], others: Iterable[list[str]], calls: Calls, *, by_word: bool = True
) -> bool:
    """Return whether the user calls a record by a name or word that belongs to no other. `own`: the names of each
    record with the value that is judged, `others`: those of the rest. `by_word`: they may be called by a word."""
    said = {called.casefold() for names in own for name in names for called in calls(name)}
    if said:
        said -= {one.casefold() for names in others for name in names for one in _known_as(name, by_word)}
    return bool(said)


def _known_as(name: str, by_word: bool) -> tuple[str, ...]:
    return (name, *first_and_last(name)) if by_word else (name,)


def first_and_last(name: str) -> tuple[str, ...]:
    """Return the words of a name by which somebody is called alone: its first and its last."""
    words = name.split()
    return tuple(dict.fromkeys((words[0], words[-1]))) if 1 < len(words) <= _MOST_WORDS else ()


def _records(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list, of the lists in an object that has no name itself, or the object."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))
    elif isinstance(value, dict):
        if any(_names(value)):
            yield value
            return
        for below in value.values():
            yield from _records(below) if isinstance(below, list) else ()


def _names(record: dict[str, Any]) -> list[str]:
    found = (one for key, one in record.items() if NAMES.fullmatch(key) and isinstance(one, str))
    return [name for name in found if len(name.strip()) >= MIN_NAME_CHARS]


def _has(record: dict[str, Any], value: str) -> bool:
    number = bare_number(value)
    fields = [spelled(one) for one in _fields(record, LEVELS)]
    return any(value in (one, *one.split(", ")) or bare_number(one) == number for one in fields)


def _fields(value: Any, levels: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif levels >= 0 and isinstance(value, list | dict):
        for one in value if isinstance(value, list) else value.values():
            yield from _fields(one, levels - 1)
