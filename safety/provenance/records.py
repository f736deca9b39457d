"""Recognise the id of what the user named: `list_folders` answers `{"id": "fld_88213", "name": "Site Photos"}`, the
user says "Site Photos", and a call has `folder_id: "fld_88213"`.

A result gives an id only if its tool lists what the argument names (`list_folders`, `search_users`), the whole text is
JSON, and the id stands beside a name that the user said in full and that no other record there has.
Not covered: ids in prose (trust the tool), ids from other tools; a record that somebody else gave the name of the
user's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from sluicegate.safety.provenance.argument_names import words_of

MIN_NAME_CHARS = 3
_SAYS_NOTHING = frozenset(["id", "ids", "uuid", "key", "name", "login", "slug", "number", "target", "to", "new"])
_LISTS = frozenset(["list", "search", "find", "lookup", "get", "query", "all", "by", "name", "index", "browse"])
_PEOPLE = frozenset([
    "user", "username", "member", "people", "person", "assignee", "reviewer", "collaborator", "owner", "employee",
    "colleague", "contact", "attendee", "participant", "customer", "client",
])  # fmt: skip
_ID = re.compile(r"(?:\w*_)?(?:ids?|uuid|login|username|handle|slug|sku|key|number)|\w*(?:Id|Login|Key)")
_NAME = re.compile(r"(?:\w*_)?(?:name|title|label|subject)|\w*(?:Name|Title)")
_AROUND = frozenset(["result", "item", "data", "value", "record", "entrie", "list"])


def lists(tool: str, argument: str) -> bool:
    """Return whether `tool` lists what `argument` names by its id."""
    said = _words(argument) - _SAYS_NOTHING
    words = [_singular(word) for word in words_of(tool)]
    rest = [word for word in words if word not in _LISTS]
    if not said or not rest or len(rest) == len(words):
        return False
    return rest[-1] in said or (rest[-1] in _PEOPLE and not said.isdisjoint(_PEOPLE))


def is_id_of_named(text: str, value: str, argument: str, names: Callable[[str], bool]) -> bool:
    """Return whether `value` is the id of the only record in a text of JSON with a name of which `names` is true."""
    try:
        records = list(_records(json.loads(text), argument))
    except (ValueError, RecursionError):
        return False
    own = [record for record in records if value in _values(record, _ID)]
    called = {name for record in own for name in _values(record, _NAME) if len(name) >= MIN_NAME_CHARS and names(name)}
    return any(all(record in own for record in records if name in _values(record, _NAME)) for name in called)


def _records(value: Any, argument: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of lists that nothing but the name of what is listed leads to."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))
    elif isinstance(value, dict):
        around = _AROUND | _words(argument) | _PEOPLE
        yield from (found for key, one in value.items() if _words(key) <= around for found in _records(one, argument))


def _values(record: dict[str, Any], keys: re.Pattern[str]) -> set[str]:
    found = (one for key, one in record.items() if keys.fullmatch(key))
    return {str(one).lower() for one in found if isinstance(one, str | int) and not isinstance(one, bool)}


def _words(name: str) -> set[str]:
    return {_singular(word) for word in words_of(name)}


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word
