"""Find the targets in a call's arguments: strings that name a destination or a command to run.

A target is an argument with a known name (`to`, `url`, `account`, `path`, `command` ...), or a string that as a whole
has a target's form (a list of mail addresses, a URL, an IBAN, a path, a command line). Strings of JSON are read as the
arguments they hold. Running text is not a target, whatever it quotes, but for what it asks for by itself (`loads.py`).

Neither are dates, decimal numbers and fractions, unless the argument has a known name. Of a program (`code`) addresses
and absolute paths are targets.
Not covered: a target without a known name or form (`{"x": "Bob"}`): add its name to the settings; what a shell makes of
variables and wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sluicegate.safety.provenance.loads import formulas_in, loads_in
from sluicegate.safety.provenance.nested import ArgumentPath, values_in
from sluicegate.safety.provenance.number_words import digits_of_words
from sluicegate.safety.provenance.numbers import bare_number, whole_number
from sluicegate.safety.provenance.spelling import clean, decoded, spelled
from sluicegate.safety.provenance.urls import as_browsers_read

LONGEST = 2_000
"""Maximum characters of a target, and of a piece of a string that is judged at once."""

MIN_DIGITS = 4
"""Digits from which a whole number in an argument with a known name is a number."""
JSON_LEVELS = 3
"""Strings of JSON in strings of JSON that are read, as input rails do."""

Kind = Literal["address", "url", "host", "number", "path", "command", "name", "loaded", "embedded"]


@dataclass(frozen=True, slots=True)
class CallTarget:
    """A target. `value`: in lower case. Kind `name`: the whole value of an argument with a known name; `loaded` and
    `embedded`: an address that the reader of a text asks for, and one from which something runs there."""

    kind: Kind
    value: str


_TLD = r"(?:xn--[a-z0-9-]{2,59}|[a-z]{2,24}|[^\W\d_a-z]{2,24})"
_ADDRESS = re.compile(r"[\w.+%'-]+@(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[\w-]+\.)+[^\W\d_][\w-]{1,62})")
_PLAIN_ADDRESS = re.compile(r"[a-z]+(?:[._-][a-z]+)*@(?:[a-z]+(?:-[a-z]+)*\.)+[a-z]{2,24}")
"""One in which nothing is in a code."""
_ODD_ADDRESS = re.compile(
    r"(?:\"[^\"\n]{0,64}\"|[^\s@<>,;\"]{1,64})@(?:\[?\d{1,3}(?:\.\d{1,3}){3}\]?|(?:[\w-]+\.)+[\w-]{2,63})"
)
"""One whose mailbox is quoted or has unusual characters."""
_URL = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,20}:|(?<![\w/.~-]))//(?:\[[\da-f:.%]{2,60}\][^\s\"'<>`|;)\]]*|[^\s\"'<>`|;)\]]+)"
    r"|\b(?:mailto|data|javascript|tel):[^\s\"'<>]+",
    re.I,
)
_SITE = re.compile(
    rf"(?<![\w@/.-])(?:[\w-]{{1,63}}\.)+{_TLD}(?::\d{{1,5}}(?:[/?#]|(?![\w.-]))|[/?#])[^\s\"'<>`|;)\]]*", re.I
)
"""A web address without a scheme."""
_HOST = re.compile(
    rf"(?<![\w@/.-])(?:(?:[\w-]{{1,63}}\.)+{_TLD}|\d{{1,3}}(?:\.\d{{1,3}}){{3}})(?![\w@]|-\w)(?::\d{{1,5}})?", re.I
)
_NUMBER = re.compile(
    r"(?<!\w)(?:[a-z]{2}[ -]?\d{2}(?:[ -]?[a-z0-9]{2,4}){3,8}|\+?\d(?:[ ().-]?\d){5,23})(?!\w|\.[\w-]*[a-z])", re.I
)
_NAMED_NUMBER = re.compile(r"[a-z]{1,8}[:=#.]*\+?\d[\d().-]*", re.I)
"""One behind its kind: `IBAN:12345678`, `tel.0301234567`."""
_DATE = re.compile(
    r"(?:(\d{4})[-/](\d{1,2})[-/](\d{1,2})|(\d{1,2})[./-](\d{1,2})[./-](\d{4}))"
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z| ?[+-]\d{2}:?\d{2})?)?",
    re.I,
)
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})\.\d{1,17}|\d{1,4}/\d{1,4}")
_NESTED_URL = re.compile(
    rf"(?<=[=/])[a-z][a-z0-9+.-]{{1,20}}://[^\s\"'<>`|;)\]]+|(?<==)//[^\s\"'<>`|;)\]]+|(?<==)(?:[\w-]{{1,63}}\.)+{_TLD}(?![\w-])",
    re.I,
)
"""A URL or host within another."""
_PATH = re.compile(
    r"(?<![\w:/])(?:~|\$\{?home\}?|%userprofile%|\.{1,2}|[a-z]:)?[/\\][\w.@~+-][^\s\"'`|;&<>]*|(?<![\w/:])[\w.-]+(?:[/\\][\w.@+-]+)+",
    re.I,
)
_FILE = re.compile(r"[\w@+-][\w@+. -]{0,80}\.[a-z][a-z0-9]{0,5}", re.I)
_CHAT = re.compile(r"\d{1,3}:[\w-]{4,80}@(?:thread|unq)\.[a-z0-9]{2,10}", re.I)
"""The id of a conversation, which looks like an address."""
_SEPARATED = re.compile(r"\s*[,;\n]\s*")
_COMMAND = re.compile(
    r"\s*(?:\$ |> )?(?:sudo |env |nohup |time )*(?:[\w./~-]*/)?"
    r"(?:curl|wget|ping|dig|nslookup|whois|traceroute|rm|rmdir|mv|cp|dd|cat|echo|printf|tee|chmod|chown|kill"
    r"|killall|ssh|scp|rsync|sftp|nc|ncat|netcat|telnet|ftp|bash|sh|zsh|fish|pwsh|powershell|cmd(?:\.exe)?|python[0-9.]*"
    r"|node|npm|npx|yarn|pip[0-9.]*|uv|cargo|go|make|gcc|git|docker|podman|kubectl|helm|terraform|aws|gcloud|az|apt"
    r"|apt-get|dnf|yum|brew|systemctl|service|crontab|at|useradd|usermod|passwd|mysql|psql|sqlite3|redis-cli|mongo|find"
    r"|xargs|sed|awk|perl|ruby|php|java|tar|zip|unzip|gpg|openssl|base64|eval|exec|source|export|iex|invoke-\w+|reg"
    r"|del|format|shutdown|reboot|mkfs\S*|history|alias|set|drop|delete|insert|update|truncate|grant)\s+\S",
    re.I,
)
_INSTALL = re.compile(
    r"\b(?:pip[0-9.]*|npm|pnpm|yarn|bun|uv|poetry|conda|cargo|gem|go|composer|apt|apt-get|dnf|yum|brew|helm|docker|podman)"
    r"(?:\s+(?:-\S+|pip))*\s+(?:install|i|add|get|pull|require)\s+(\S.*)|\b(?:npx|uvx|pipx run)\s+(\S.*)"
)
_VERSION = re.compile(r"(?<=.)(?:[=<>~!@;\[].*|:[\w.-]+$)")
_LINK = re.compile(r"\[[^\]\n]{0,200}\]\(\s*(\S+)\s*\)")
_WRAPPED_SCHEME = re.compile(r"^[a-z-]{2,20}:(?=[a-z]{2,8}://)", re.I)
_AROUND = ("<>", '""', "''", "``", "()")
_ABSOLUTE = ("/", "~/", "$home/", "${home}/")
_SPACES = re.compile(r"\s+")
_DISPLAYED = re.compile(r"^[^<>@:/]{1,64}(?=<[^<>\s@]{1,64}@[^<>\s@]{1,255}>$)")
"""The name before a mail address."""
_SHELL_QUOTES = re.compile(r"['\"\\]|\$(?=['\"])")
_SUBSTITUTED = re.compile(r"\$\([^()]{0,200}\)|`[^`]{0,200}`|\$\{?\w{1,40}\}?")
_JOINED_HOST = re.compile(rf"[@.](?=(?:[\w-]{{1,63}}\.)+{_TLD}(?:[/:?#]|$))", re.I)
_PLACEHOLDER = re.compile(r"(?:[\w\s.,'-]{0,60})(<[A-Z_]{2,32}_[A-Z2-9]{4,32}>)")
"""What `pseudonyms` puts in the place of an address or number, with a display name before it or without."""
_SPELLED_AT = re.compile(r"\bat\b", re.I)
_SCP = re.compile(rf"(?:[\w.-]{{1,63}}@)?(?:[\w-]{{1,63}}\.)+{_TLD}:[\w~][\w~./-]*", re.I)
_QUERY = re.compile(
    r"\s*(?:select\b.{1,2000}?\bfrom|insert\s+into|update\s+\S+\s+set|delete\s+from|merge\s+into|with\s+\w+\s+as\s*\()",
    re.I | re.S,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_DIALLED = re.compile(r"(?:(?:tel|sms|callto):|https?://(?:www\.)?wa\.me/)\+?(\d[\d().-]{6,20})", re.I)
_JOINED = re.compile(r"\"\s*\+\s*\"|'\s*\+\s*'")
"""Between two strings that a program puts together."""
_PUBLIC_KEY = re.compile(r"(?:ssh-[a-z0-9-]+|ecdsa-sha2-\S+|sk-\S+@openssh\.com)\s+(\S{20,})(?:\s.*)?")
_FORGE = re.compile(r"^(?:github|gitlab|bitbucket|gist):(?=[\w.-]+/)|^git\+[a-z]+:/*[\w.-]+/")
"""Before the repository that is installed as a package."""
_PARTED = re.compile(r"\s*(?:&&|\|\||\$\(|[;|&\n`()])\s*")
_BORDERS = re.compile(r"[\s,;|&]")
_TEXT_BORDERS = re.compile(r"[\s>]")


def pieces(text: str, *, ends: bool, is_text: bool = False) -> tuple[list[str], str]:
    """Return the pieces of a string that can be judged, each at most `LONGEST` characters, and the rest, which may go
    on. `ends`: nothing follows. `is_text`: cut within an address only where there is no other border. Where a string
    is cut depends on it alone."""
    found, rest = [], text
    while len(rest) > LONGEST:
        cut = _last_border(rest, _TEXT_BORDERS) if is_text else 0
        cut = cut or _last_border(rest, _BORDERS) or LONGEST
        found.append(rest[:cut])
        rest = rest[cut:]
    return ([*found, rest], "") if ends else (found, rest)


def _last_border(text: str, borders: re.Pattern[str]) -> int:
    return max((border.end() for border in borders.finditer(text, 0, LONGEST)), default=0)


Named = Callable[[ArgumentPath], bool | None]
"""Returns whether an argument at a path below this one has a known name; None if it is a text and no target."""


def targets_in(
    text: str, *, named: bool, inside: Named | None = None, path: ArgumentPath = (), levels: int = JSON_LEVELS
) -> list[list[CallTarget]]:
    """Return the targets of an argument's value as it is spelled, and then as each of its disguises decodes.

    `inside`: names of arguments in a string of JSON, which may hold others, `levels` of them."""
    is_plain = _NUMBER.fullmatch(text.strip()) or _PLAIN_ADDRESS.fullmatch(text.strip())
    readings = [text] if is_plain else decoded(text)  # many are also base64 or codes of characters
    found = [targets_of(reading, named=named) for reading in dict.fromkeys([*readings, *_respelled(text, named=named)])]
    if inside is not None and levels:
        for below, value in (pair for reading in readings for pair in values_in(reading)):
            found += targets_at((*path, *below), value, inside=inside, levels=levels - 1)
    return [targets for targets in found if targets]


def targets_at(path: ArgumentPath, value: str, *, inside: Named, levels: int = JSON_LEVELS) -> list[list[CallTarget]]:
    """Return the targets of an argument at `path` in a string of JSON."""
    named = inside(path)
    if named is None:
        return [targets_of_text(value)]
    return targets_in(value, named=named, inside=inside, path=path, levels=levels)


def _respelled(text: str, *, named: bool) -> Iterator[str]:
    """Yield what a value of a known argument is read as: `evil at mail.example`, `/e''tc/pas\\swd`,
    `$(whoami).evil.example` and a number in words; and what follows the address that a client joins to it."""
    if named and _runs_something(text):
        yield _SHELL_QUOTES.sub("", text)
        yield _SUBSTITUTED.sub("x", text)
        return
    if named:
        yield from digits_of_words(spelled(text))
    if _JOINED_HOST.match(text):  # behind the address that a client puts before it
        yield text[1:]
    elif named and ("@" in text or _SPELLED_AT.search(text)):
        yield spelled(text)


def targets_of(value: str, *, named: bool) -> list[CallTarget]:
    """Return the targets in an argument's value. `named`: the argument has a known name, so that any text is one."""
    text = as_browsers_read(clean(value).strip())
    if not text or len(text) > LONGEST:
        return []
    if named:
        items = _of_command(text) if _runs_something(text) else _items(text)
        return _of_query(text, items) if _QUERY.match(text) else items
    if found := _PLACEHOLDER.fullmatch(text):
        return [CallTarget("name", found[1].lower())]
    whole, text = text, _unwrapped(text)
    if _DECIMAL.fullmatch(text) or is_date(text):
        return []
    if found := _PUBLIC_KEY.fullmatch(text):
        return [CallTarget("name", found[1].lower())]
    shaped = _shape(text)
    if shaped == "command":
        return _of_command(text)
    if shaped is not None:
        return _inside(text) or [CallTarget(shaped, text.lower())]
    for separated in (_SEPARATED, _SPACES):
        parts = [part for part in separated.split(text) if part]
        if len(parts) > 1 and all(_shape(part) is not None for part in parts):
            return _inside(text)
    return targets_of_text(whole)


def targets_of_text(text: str, *, formulas: bool = True) -> list[CallTarget]:
    """Return what a running text asks for where it is shown. `formulas`: it may be that of a cell or a table."""
    found: list[CallTarget] = []
    for load in loads_in(text):
        kind: Kind = "embedded" if load.is_active else "loaded"
        url = load.url.lower()
        found += [CallTarget(kind, one) for one in (url, *_NESTED_URL.findall(url))]
    for asked in formulas_in(text) if formulas else ():
        found += [*_inside(asked), *([] if "//" in asked[:10] else [CallTarget("command", asked.lower())])]
    return list(dict.fromkeys(found))


def targets_of_code(value: str) -> list[CallTarget]:
    """Return the web and mail addresses and the absolute paths in a program, in which most other names are those of
    variables."""
    found = _inside(as_browsers_read(_JOINED.sub("", clean(value))))
    return [one for one in found if one.kind in ("address", "url") or one.value.startswith(_ABSOLUTE)]


def _of_query(text: str, found: list[CallTarget]) -> list[CallTarget]:
    """Return the targets `found` in a query of SQL without `schema.table`, which looks like a host: a real one stands
    in quotation marks there."""
    quoted = {one for part in _QUOTED.findall(text) for one in _inside(part[1:-1])}
    return [one for one in found if one.kind != "host" or one in quoted]


def _unwrapped(text: str) -> str:
    """Return a text without the marks around it: of a link in Markdown, angle brackets, quotation marks."""
    text = _WRAPPED_SCHEME.sub("", text)
    if found := _LINK.fullmatch(text):
        return found[1]
    return text[1:-1] if len(text) > 2 and text[0] + text[-1] in _AROUND else text


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
    ("url", _SITE),
    ("url", _SCP),
    ("host", _HOST),
    ("number", _NUMBER),
    ("path", _PATH),
    ("path", _FILE),
)


_INSIDE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("address", _ADDRESS),
    ("address", _ODD_ADDRESS),
    ("url", _URL),
    ("url", _SITE),
    ("path", _PATH),
    ("number", _NUMBER),
    ("host", _HOST),
)


def _inside(text: str) -> list[CallTarget]:
    """Return each address, URL, host, account number and path once, without those inside another."""
    found: list[CallTarget] = []
    for kind, pattern in _INSIDE:
        found += [CallTarget(kind, match[0].strip(" '\n\t").rstrip(".,").lower()) for match in pattern.finditer(text)]
        if kind == "url":
            found += [CallTarget("url", nested) for url in found for nested in _NESTED_URL.findall(url.value)]
            found += [
                CallTarget("number", f"+{bare_number(dialled)}")
                for url in found
                for dialled in _DIALLED.findall(url.value)
            ]
        text = pattern.sub(" ", text)
    return list(dict.fromkeys(found))


def _items(text: str) -> list[CallTarget]:
    """Return the targets in the items of an argument with a known name; an item without one is a target itself: a
    person's name, a file."""
    found: list[CallTarget] = []
    for item in (part for part in _SEPARATED.split(text) if part):
        inside = [] if _CHAT.fullmatch(item) else _inside(_DISPLAYED.sub("", item))
        found += inside or [_whole(item.lower())]
        if _is_part(item, inside):
            found.append(_whole(item.lower()))
    return list(dict.fromkeys(found))


def _is_part(item: str, inside: list[CallTarget]) -> bool:
    """Return whether the numbers in an item without spaces are only parts of an id: `07f0a5d2-5460-5331`."""
    if any(one.kind != "number" for one in inside) or len(inside) == 0 or " " in item:
        return False
    return not any(pattern.fullmatch(item) for pattern in (_NUMBER, _NAMED_NUMBER, _HOST))


def _whole(item: str) -> CallTarget:
    digits = whole_number(item)
    if digits is not None and len(digits) >= MIN_DIGITS:
        return CallTarget("number", digits)
    return CallTarget("name", " ".join(item.removeprefix("@").removeprefix("#").split()))


def _packages(line: str) -> list[CallTarget]:
    """Return the packages that a command line installs or runs."""
    found = _INSTALL.search(line.lower())
    words = (found[1].split() if found[1] else found[2].split()[:1]) if found else ()
    bare = (_FORGE.sub("", word.strip("'\"")) for word in words if not word.startswith("-"))
    return [CallTarget("name", _VERSION.sub("", word).removesuffix(".git")) for word in bare]


def _of_command(text: str) -> list[CallTarget]:
    """Return the targets in a command line, and its commands one by one."""
    lines = [text, *(part for part in _PARTED.split(text) if part != text)]
    return [
        *_inside(text),
        *(package for line in lines[1:] or lines for package in _packages(line)),
        *(CallTarget("command", " ".join(line.lower().split())) for line in lines if len(line) >= 6 or " " in line),
    ]
