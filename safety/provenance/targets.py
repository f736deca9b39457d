"""Find the targets in a call's arguments: strings that name a destination or a command to run.

A target is an argument with a known name (`to`, `url`, `account`, `path`, `command` ...), or a string that as a whole
has a target's form (a list of mail addresses, a URL, an IBAN, a path, a command line). Strings of JSON are read as the
arguments they hold. Running text is not a target, whatever it quotes.

Neither are dates and decimal numbers, unless the argument has a known name.
Not covered: a target without a known name or form (`{"x": "Bob"}`): add its name to the settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sluicegate.safety.provenance.spelling import clean, decoded

NAMES = frozenset(
    [
        "to",
        "cc",
        "bcc",
        "recipient",
        "recipients",
        "email",
        "emails",
        "mail",
        "address",
        "addresses",
        "receiver",
        "addressee",
        "attendee",
        "attendees",
        "invitee",
        "invitees",
        "participant",
        "participants",
        "member",
        "members",
        "url",
        "urls",
        "uri",
        "link",
        "href",
        "endpoint",
        "webhook",
        "callback",
        "redirect",
        "host",
        "hostname",
        "domain",
        "server",
        "ip",
        "proxy",
        "remote",
        "upstream",
        "repo",
        "repository",
        "registry",
        "account",
        "accounts",
        "iban",
        "bic",
        "swift",
        "payee",
        "beneficiary",
        "creditor",
        "wallet",
        "card",
        "phone",
        "msisdn",
        "channel",
        "user",
        "username",
        "userid",
        "handle",
        "path",
        "paths",
        "file",
        "files",
        "filename",
        "filepath",
        "dir",
        "directory",
        "folder",
        "dest",
        "destination",
        "target",
        "bucket",
        "command",
        "commands",
        "cmd",
        "script",
        "shell",
        "exec",
        "argv",
        "program",
        "executable",
        "sql",
    ]
)
"""Words of an argument's name: `recipient_email`, `targetUrl`, `file-path`."""
GENERIC = frozenset(
    ["value", "values", "name", "id", "ids", "key", "label", "ref", "text", "item", "items", "display", "full", "data"]
)
"""Words of a name that says nothing: the argument around it counts instead (`{"to": [{"name": ...}]}`)."""
LONGEST = 2_000
"""Maximum characters of a target, and of a piece of a string that is judged at once."""

JSON_LEVELS = 3
"""Strings of JSON in strings of JSON that are read, as input rails do."""

Kind = Literal["address", "url", "host", "number", "path", "command", "name"]


@dataclass(frozen=True, slots=True)
class CallTarget:
    """A target. `value`: in lower case. Kind `name`: the whole value of an argument with a known name."""

    kind: Kind
    value: str


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ADDRESS = re.compile(r"[\w.+%'-]+@(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[\w-]+\.)+[^\W\d_][\w-]{1,62})")
_URL = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,20}:)?//[^\s\"'<>`|;)\]]+|\b(?:mailto|data|javascript|tel):[^\s\"'<>]+", re.I
)
_HOST = re.compile(r"(?<![\w@/.-])(?:(?:[a-z0-9-]+\.)+[a-z]{2,24}|\d{1,3}(?:\.\d{1,3}){3})(?![\w@])(?::\d{1,5})?", re.I)
_NUMBER = re.compile(r"(?<!\w)(?:[a-z]{2}[ -]?\d{2}(?:[ -]?[a-z0-9]{2,4}){3,8}|\+?\d(?:[ ().-]?\d){5,23})(?!\w)", re.I)
_DATE = re.compile(
    r"(?:(\d{4})[-/](\d{1,2})[-/](\d{1,2})|(\d{1,2})[./-](\d{1,2})[./-](\d{4}))"
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z| ?[+-]\d{2}:?\d{2})?)?",
    re.I,
)
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})\.\d{1,17}")
_NESTED_URL = re.compile(r"(?<=[=/])[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>`|;)\]]+", re.I)
"""A URL within another."""
_PATH = re.compile(
    r"(?<![\w:/])(?:~|\.{1,2}|[a-z]:)?[/\\][\w.@~+-][^\s\"'`|;&<>]*|(?<![\w/:])[\w.-]+(?:[/\\][\w.@+-]+)+", re.I
)
_FILE = re.compile(r"[\w@+-][\w@+. -]{0,80}\.[a-z][a-z0-9]{0,5}", re.I)
_SEPARATED = re.compile(r"\s*[,;\n]\s*")
_COMMAND = re.compile(
    r"\s*(?:\$ |> )?(?:sudo |env |nohup |time )*(?:[\w./~-]*/)?"
    r"(?:curl|wget|rm|rmdir|mv|cp|dd|cat|echo|printf|tee|chmod|chown|kill"
    r"|killall|ssh|scp|rsync|sftp|nc|ncat|netcat|telnet|ftp|bash|sh|zsh|fish|pwsh|powershell|cmd(?:\.exe)?|python[0-9.]*"
    r"|node|npm|npx|yarn|pip[0-9.]*|uv|cargo|go|make|gcc|git|docker|podman|kubectl|helm|terraform|aws|gcloud|az|apt"
    r"|apt-get|dnf|yum|brew|systemctl|service|crontab|at|useradd|usermod|passwd|mysql|psql|sqlite3|redis-cli|mongo|find"
    r"|xargs|sed|awk|perl|ruby|php|java|tar|zip|unzip|gpg|openssl|base64|eval|exec|source|export|iex|invoke-\w+|reg"
    r"|del|format|shutdown|reboot|mkfs\S*|history|alias|set|drop|delete|insert|update|truncate|grant)\s+\S",
    re.I,
)
_PARTED = re.compile(r"\s*(?:&&|\|\||\$\(|[;|&\n`()])\s*")
_BORDERS = re.compile(r"[\s,;|&]")


def is_named(argument: str, names: frozenset[str]) -> bool:
    """Return whether an argument's name, or a word of it, is one of `names`."""
    words = [word.lower() for word in _WORDS.findall(argument)]
    return argument.lower() in names or not names.isdisjoint(words) or not names.isdisjoint(map(_singular, words))


def _singular(word: str) -> str:
    return word.removesuffix("s")


def name_counts(path: tuple[str | int, ...], names: frozenset[str]) -> bool:
    """Return whether the argument at `path` has a known name. A name that says nothing takes that of what it is in."""
    keys = [step for step in reversed(path) if isinstance(step, str)]
    if not keys:
        return False
    says_nothing = all(word.lower() in GENERIC for word in _WORDS.findall(keys[0]))
    return any(is_named(key, names) for key in (keys if says_nothing else keys[:1]))


def pieces(text: str, *, ends: bool) -> tuple[list[str], str]:
    """Return the pieces of a string that can be judged, each at most `LONGEST` characters, and the rest, which may go
    on. `ends`: nothing follows. Where a string is cut depends on it alone."""
    found, rest = [], text
    while len(rest) > LONGEST:
        cut = max((border.end() for border in _BORDERS.finditer(rest, 0, LONGEST)), default=LONGEST)
        found.append(rest[:cut])
        rest = rest[cut:]
    return ([*found, rest], "") if ends else (found, rest)


ArgumentPath = tuple[str | int, ...]
Named = Callable[[ArgumentPath], bool]
"""Returns whether an argument at a path below this one has a known name."""


def targets_in(
    text: str, *, named: bool, inside: Named | None = None, path: ArgumentPath = (), levels: int = JSON_LEVELS
) -> list[list[CallTarget]]:
    """Return the targets of an argument's value as it is spelled, and then as each of its disguises decodes.

    `inside`: names of arguments in a string of JSON, which may hold others, `levels` of them."""
    found = [targets_of(reading, named=named) for reading in decoded(text)]
    for below, value in _of_json(text) if inside and levels else ():
        whole = (*path, *below)
        is_named = inside(whole) if inside else False
        found += targets_in(value, named=is_named, inside=inside, path=whole, levels=levels - 1)
    return [targets for targets in found if targets]


def _of_json(text: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and text of the strings and numbers of `text`, if it is an object or array of JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return
    try:
        yield from _leaves(json.loads(text), ())
    except (ValueError, RecursionError):
        return


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield (), key
            yield from _leaves(one, (*path, key))
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield from _leaves(one, (*path, n))
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, str(value)


def targets_of(value: str, *, named: bool) -> list[CallTarget]:
    """Return the targets in an argument's value. `named`: the argument has a known name, so that any text is one."""
    text = clean(value).strip()
    if not text or len(text) > LONGEST:
        return []
    if named:
        return _of_command(text) if _runs_something(text) else _items(text)
    if _DECIMAL.fullmatch(text) or is_date(text):
        return []
    shaped = _shape(text)
    if shaped == "command":
        return _of_command(text)
    if shaped is not None:
        return _inside(text) or [CallTarget(shaped, text.lower())]
    parts = [part for part in _SEPARATED.split(text) if part]
    if len(parts) > 1 and all(_shape(part) is not None for part in parts):
        return _inside(text)
    return []


def is_date(text: str) -> bool:
    """Return whether a text is a day, with a time or without."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return False
    year, *after, one, other, _ = found.groups()
    month, day = map(int, after) if year else sorted((int(one), int(other)))  # the day may stand on either side
    return 1 <= month <= 12 and 1 <= day <= 31


def _runs_something(text: str) -> bool:
    return any(" " in " ".join(part.split()) and _COMMAND.match(part) for part in _PARTED.split(text))


def _shape(text: str) -> Kind | None:
    """Return the kind of a string as a whole, or None; a mail address may have a display name around it."""
    found = _ADDRESS.search(text)
    if found and re.fullmatch(r"[\w\s.,'\"-]{0,60}<?" + re.escape(found[0]) + r">?", text) and len(text.split()) <= 6:
        return "address"
    for kind, pattern in _SHAPES:
        if pattern.fullmatch(text):
            return kind
    return "command" if _COMMAND.match(text) and _is_command(text) else None


def _is_command(text: str) -> bool:
    """Return whether `text` looks like a command line rather than a sentence, which may also begin with "find" or
    "make"."""
    return re.search(r"\s-{1,2}\w|[|&;<>$`/\\=*]|\w\.\w", text) is not None


_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("url", _URL),
    ("host", _HOST),
    ("number", _NUMBER),
    ("path", _PATH),
    ("path", _FILE),
)


_INSIDE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("address", _ADDRESS),
    ("url", _URL),
    ("path", _PATH),
    ("number", _NUMBER),
    ("host", _HOST),
)


def _inside(text: str) -> list[CallTarget]:
    """Return each address, URL, host, account number and path once, without those inside another."""
    found: list[CallTarget] = []
    for kind, pattern in _INSIDE:
        found += [CallTarget(kind, match[0].strip().rstrip(".,").lower()) for match in pattern.finditer(text)]
        if kind == "url":
            found += [CallTarget("url", nested) for url in found for nested in _NESTED_URL.findall(url.value)]
        text = pattern.sub(" ", text)
    return list(dict.fromkeys(found))


def _items(text: str) -> list[CallTarget]:
    """Return the targets in the items of an argument with a known name; an item without one is a target itself: a
    person's name, a file."""
    found: list[CallTarget] = []
    for item in (part for part in _SEPARATED.split(text) if part):
        found += _inside(item) or [
            CallTarget("name", " ".join(item.lower().removeprefix("@").removeprefix("#").split()))
        ]
    return list(dict.fromkeys(found))


def _of_command(text: str) -> list[CallTarget]:
    """Return the targets in a command line, and its commands one by one."""
    lines = [text, *(part for part in _PARTED.split(text) if part != text)]
    return [
        *_inside(text),
        *(CallTarget("command", " ".join(line.lower().split())) for line in lines if len(line) >= 6 or " " in line),
    ]
