"""Recognise the id of what the user named: `list_folders` answers `{"id": "fld_88213", "name": "Site Photos"}`, the
user says "Site Photos", and a call has `folder_id: "fld_88213"`.

A result gives an id only if its tool lists what the argument names (`list_folders`, `search_users`), the whole text is
JSON, and the id stands beside a name that the user said in full and that no other record there has. A tool that lists
or searches anything gives it where the list, or the field of the id, has the argument's name (`{"files": [...]}`,
`entity_id`). Of accounts the kind is a name, too ("from checking to savings").
Not covered: ids in prose (trust the tool), ids from other tools; a record that somebody else gave the name of the
user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sluicegate.safety.provenance.answers.directories import NAMES, Calls, is_of_all_called
from sluicegate.safety.provenance.answers.tool_names import is_directory, is_listing, is_of_texts
from sluicegate.safety.provenance.argument_names import words_of

MIN_NAME_CHARS = 3
_SAYS_NOTHING = frozenset(["id", "ids", "uuid", "key", "name", "login", "slug", "number", "target", "to", "new"])
_LISTS = frozenset(["list", "search", "find", "lookup", "get", "query", "all", "by", "name", "index", "browse"])
PEOPLE = frozenset([
    "user", "username", "member", "people", "person", "assignee", "reviewer", "collaborator", "owner", "employee",
    "colleague", "contact", "attendee", "participant", "customer", "client", "friend", "staff", "team", "guest",
])  # fmt: skip
_REACHED = frozenset(["to", "recipient", "channel", "chat", "conversation"])
"""Arguments that may hold the id of a person, too."""
ID_KEYS = re.compile(
    r"(?:\w*_)?(?:ids?|uuid|login|username|handle|slug|sku|key|number|uri|nr|nummer|numero|numéro)|[a-z]+nummer|\w*(?:Id|Login|Key)"
)
_KINDS = re.compile(r"type|kind|nickname|alias|product")
_KEPT = frozenset(["account", "card"])
"""What its owner calls by its kind."""
_NAME = re.compile(
    rf"(?:\w*_)?(?:title|subject|summary|titel|titre|titulo|título|titolo|tytuł)|\w*Title|{NAMES.pattern}"
)
_AROUND = frozenset(["result", "item", "data", "value", "record", "entrie", "list"])


def is_reached(argument: str) -> bool:
    """Return whether an argument is whom something reaches, and not by its name an id of theirs."""
    return not _words(argument).isdisjoint(_REACHED | _KEPT | frozenset(["number"]))


def lists(tool: str, argument: str) -> bool:
    """Return whether `tool` lists what `argument` names by its id."""
    said = _words(argument) - _SAYS_NOTHING
    words = [_singular(word) for word in words_of(tool)]
    rest = [word for word in words if word not in _LISTS]
    if not rest or len(rest) == len(words):
        return False
    if rest[-1] in PEOPLE and (not said.isdisjoint(PEOPLE) or not _REACHED.isdisjoint(_words(argument))):
        return True
    return rest[-1] in said


def is_id_of_named(tool: str, answer: Any, value: str, argument: str, calls: Calls) -> bool:
    """Return whether `value` is the id of the only record in an `answer` of `tool`, read as JSON, that the user
    named."""
    is_about = lists(tool, argument)
    if not (is_about or (is_listing(tool) and not is_of_texts(tool))):
        return False
    try:
        records = list(_records(answer, argument, is_said=is_about))
    except RecursionError:
        return False
    keys, own_key = _keys_of_names(records, argument), _own_key(argument, is_people=is_directory(tool))
    own = [record for record, is_said in records if _has_id(record, value, None if is_said else own_key)]
    others = (record for record, _ in records if record not in own)
    names_of = partial(map, partial(_names, keys=keys))
    return is_of_all_called(names_of(own), names_of(others), calls, by_word=is_directory(tool))


def _names(record: dict[str, Any], keys: re.Pattern[str]) -> list[str]:
    found = (one for key, one in record.items() if keys.fullmatch(key) and isinstance(one, str))
    return [one for one in found if len(one) >= (MIN_NAME_CHARS if one.isascii() else 2)]


def _has_id(record: dict[str, Any], value: str, only: str | None) -> bool:
    """Return whether a record has an id, under the key `only` unless that is None."""
    own = record if only is None else {key: one for key, one in record.items() if key == only}
    return value in _values(own, ID_KEYS)


def _keys_of_names(records: Sequence[tuple[dict[str, Any], bool]], argument: str) -> re.Pattern[str]:
    """Return the keys of names, with those of kinds where records of several are what their owner calls so."""
    is_kept = len(records) > 1 and not _words(argument).isdisjoint(_KEPT)
    return re.compile(f"{_NAME.pattern}|{_KINDS.pattern}") if is_kept else _NAME


def _own_key(argument: str, *, is_people: bool) -> str:
    """Return the key that is the argument's own name, if that says what it is and not whom it reaches: a file's record
    has its owner's id. `is_people`: the records are those of people."""
    said = _words(argument) - _SAYS_NOTHING
    return argument if said and (is_people or said.isdisjoint(PEOPLE | _REACHED | _KEPT)) else ""


def _records(value: Any, argument: str, *, is_said: bool) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the objects of lists that nothing but the name of what is listed leads to, or the object that is the whole
    answer. `is_said`: the tool or a key on the way says that the argument is the id of such a thing."""
    if isinstance(value, list):
        yield from ((one, is_said) for one in value if isinstance(one, dict))
    elif isinstance(value, dict):
        if _values(value, ID_KEYS) and _values(value, _NAME):
            yield value, is_said
            return
        said = _words(argument) - _SAYS_NOTHING
        around = _AROUND | _words(argument) | PEOPLE
        for key, one in value.items():
            if (words := _words(key)) <= around or not is_said:
                yield from _records(one, argument, is_said=is_said or (bool(words) and words <= said))


def _values(record: dict[str, Any], keys: re.Pattern[str]) -> set[str]:
    found = (one for key, one in record.items() if keys.fullmatch(key))
    return {str(one).lower() for one in found if isinstance(one, str | int) and not isinstance(one, bool)}


def _words(name: str) -> set[str]:
    return {_singular(word) for word in words_of(name)}


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word
