"""Recognise what stands in the untrusted texts only as an entry of a list: the number of a record, a file of a folder,
a page that a search engine found. No text asks for it, so the model has chosen it for the user.

A list is JSON, in which an entry is the whole value of a field; files may also stand one a line. Everything else in a
list, as titles and snippets, is text like any other.
Not covered: a record that praises itself without its number ("take this one"); a list that somebody else may write, as
a hostile project does whose tests print names of files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sluicegate.safety.provenance.answers.records import ID_KEYS, PEOPLE
from sluicegate.safety.provenance.argument_names import NAMES, PERSON_NAMES, words_of

_ID_WORDS = frozenset(["id", "ids", "sku", "uuid", "key"])
_DEVICES = frozenset(["entity", "device", "scene", "automation", "area", "light", "switch"])
_NUMBERED = NAMES | PERSON_NAMES | PEOPLE | frozenset(["iban", "bank", "customer", "payer", "sender", "debtor"])
"""Words of the name of an id that may be where money or a message goes."""
_COUNTED = re.compile(
    r"\w*(?:order|invoice|ticket|tracking|case|booking|parcel|bestell|auftrag|rechnung|sendung|vorgang|buchung|paket"
    r"|pedido|factur|commande|ordine|fattura)\w*?_?(?:number|nummer|nr|no|numero)"
    r"|(?:numero|numéro)_(?:de_|di_)?(?:pedido|factura|commande|facture|ordine|fattura)",
    re.I,
)
"""The number of what is bought or asked for."""
_FILE_KEYS = re.compile(
    r"(?:\w*_)?(?:path|file|filename|name|uri|pad|naam|pfad|chemin|ruta|percorso|caminho)|\w*(?:Path|Name)", re.I
)
_URL_KEYS = re.compile(r"(?:\w*_)?(?:url|link|href)|\w*Url", re.I)
_LINE = re.compile(
    r"[ \t*!?MADRCU│├└─|-]{0,40}(?:(?:modified|new file|deleted|renamed|both modified):\s+)?"
    r"((?:~/|\./|/)?[\w.@+-]+(?:/[\w.@+-]+)*/?)(?=$|:\d+(?:$|[:-])|\s+\|\s+\d)"
)
"""A line of a listing: a file, or a file with the number of a line and what stands there."""
_LONG_LINE = re.compile(
    r"[-dlbcps][rwxsStT-]{9}[.@+]?\s+\d+\s+\S+\s+\S+\s+[\d.,]+[KMGTP]?\s+\w+\.?\s+\w+\.?\s+[\d:]+\s+([\w.@+/-]+)$"
)
"""A line of `ls -l`."""
_FAILURE = re.compile(
    r"\s*(?:(?:FAILED|ERROR|E|-->|at)\s+)?(?:File \"([\w./@+-]+)\", line \d+|([\w./@+-]+)(?:::\S+|[:(]\d+\S*))"
)
"""The beginning of a line about a failure."""
_COMPARED = re.compile(r"diff --git a/(\S+) b/\1$|(?:\+\+\+ b|--- a)/(\S+)$")
_UNUSUAL = re.compile(r"(?:^|/)\.(?![./])|\.\.|(?:secret|credential|passw|token|\.pem$|\.key$|id_rsa|\.kdbx$)", re.I)
"""Hidden files and those with secrets, which nobody chooses by chance."""
_SENT = ("attach", "upload", "media", "anhang", "adjunt", "alleg", "piece")
"""Beginnings of names of arguments with what leaves."""


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The entries of a list, in lower case, and every other text in it."""

    entries: frozenset[str]
    rest: str


def ids_in(text: str) -> ListedEntries | None:
    """Return the ids of the records in a text of JSON; None for another text."""
    return _of_json(text, ID_KEYS)


def domains_in(text: str) -> ListedEntries | None:
    """Return what stands before the point in the ids of a smart home's devices: `light.kitchen`."""
    found = _of_json(text, ID_KEYS)
    return found and ListedEntries(frozenset(one.partition(".")[0] for one in found.entries), found.rest)


def urls_in(text: str) -> ListedEntries | None:
    """Return the addresses that stand alone in a field in a text of JSON; None for another text."""
    return _of_json(text, _URL_KEYS)


def files_in(text: str) -> ListedEntries:
    """Return the files that a text lists: in JSON, or one a line."""
    if (found := _of_json(text, _FILE_KEYS)) is not None:
        return found
    entries, rest = set[str](), []
    is_compared = text.startswith("diff --git ")
    for line in text.splitlines():
        began = _COMPARED.match(line) if is_compared else _entry(line)
        if began:
            entries |= {one.lower() for one in began.groups() if one}
        rest.append(line[began.end() :] if began else line)
    return ListedEntries(frozenset(entries), "\n".join(rest))


def _entry(line: str) -> re.Match[str] | None:
    return _LINE.match(line) or _LONG_LINE.match(line) or _FAILURE.match(line)


def is_id_argument(argument: str) -> bool:
    """Return whether an argument is the id of something to which neither money nor a message goes."""
    words = words_of(argument)
    if _COUNTED.fullmatch(argument):
        return True
    return bool(words) and words[-1] in _ID_WORDS and _NUMBERED.isdisjoint(words[:-1])


def may_be_chosen(path: str) -> bool:
    """Return whether a path is a usual one."""
    return not _UNUSUAL.search(path)


def is_device_id(argument: str) -> bool:
    """Return whether an argument is the id of something in a house, which may look like a host."""
    words = words_of(argument)
    return words[-1:] in (["id"], ["ids"]) and not _DEVICES.isdisjoint(words)


def is_sent(argument: str) -> bool:
    """Return whether an argument is for what leaves."""
    return any(word.startswith(_SENT) for word in words_of(argument))


def words_of_file(path: str) -> list[str]:
    """Return the words of a file's name without its ending, if there are two or more."""
    words = re.findall(r"[^\W\d_]{3,}", path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0])
    return words if len(words) > 1 else []


def _of_json(text: str, keys: re.Pattern[str]) -> ListedEntries | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    entries, rest = set[str](), []
    for key, said in _strings("", value):
        if keys.fullmatch(key) and said.strip() and not re.search(r"\s", said.strip()):
            entries.add(said.strip().lower())
        else:
            rest.append(said)
    return ListedEntries(frozenset(entries), "\n".join(rest))


def _strings(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the strings and numbers of a value of JSON with the key each stands under, and the keys as texts. A list
    of nothing but strings is one of names."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield "", name
            yield from _strings(name, one)
    elif isinstance(value, list):
        names = "name" if all(isinstance(one, str) for one in value) else key
        for one in value:
            yield from _strings(names, one)
    elif value is not None:
        yield key, str(value)
