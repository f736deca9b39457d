"""Know by the name of an argument whether it says where something goes.

Not covered: names in other languages than English, and names that say nothing: add them to the settings.
"""

from __future__ import annotations

import re

NAMES = frozenset([
    "to", "cc", "bcc", "recipient", "recipients", "email", "emails", "mail", "address", "addresses", "addr", "dst",
    "rcpt", "assignee", "collaborator", "contact", "guest", "owner", "reviewer", "room", "group", "package",
    "receiver", "addressee", "attendee", "attendees", "invitee", "invitees", "participant", "participants", "member",
    "members", "url", "urls", "uri", "link", "href", "endpoint", "webhook", "callback", "redirect", "host",
    "hostname", "domain", "server", "ip", "proxy", "remote", "upstream", "repo", "repository", "registry", "account",
    "accounts", "iban", "bic", "swift", "payee", "beneficiary", "creditor", "wallet", "card", "phone", "msisdn",
    "channel", "chat", "user", "username", "userid", "handle", "path", "paths", "file", "files", "filename", "filepath",
    "dir", "directory", "folder", "dest", "destination", "target", "bucket", "command", "commands", "cmd", "script",
    "shell", "exec", "argv", "program", "executable", "sql", "organizer", "organiser", "grantee", "delegate", "vpa",
    "upi", "share_with", "sharewith", "shared_with", "sharedwith", "invite",
])  # fmt: skip
"""Words of an argument's name: `recipient_email`, `targetUrl`, `file-path`."""
GENERIC = frozenset(
    ["value", "values", "name", "id", "ids", "key", "label", "ref", "text", "item", "items", "display", "full", "data"]
)
"""Words of a name that says nothing: the argument around it counts instead (`{"to": [{"name": ...}]}`)."""
PROPERTIES = frozenset([
    "type", "types", "kind", "count", "by", "format", "size", "status", "state", "limit", "mode", "role", "level",
    "length", "timeout", "encoding", "language", "method", "currency", "order", "date", "time", "total",
])  # fmt: skip
"""Last words of a name that say what something is like: `file_type`, `group_by`."""
CODE_NAMES = frozenset(
    ["code", "python", "javascript", "typescript", "js", "source", "snippet", "cell", "expression", "config", "crontab"]
)
"""Words of the name of an argument that holds a program."""
AMOUNT_NAMES = frozenset([
    "amount", "price", "total", "sum", "cost", "fee", "cents", "quantity", "qty", "balance", "budget", "salary",
    "offset", "timestamp", "size", "bytes", "width", "height", "reference", "remittance",
])  # fmt: skip
"""Last words of the name of an argument whose digits are no account."""
MONEY_NAMES = frozenset([
    "iban", "account", "accounts", "wallet", "card", "bic", "swift", "vpa", "upi", "payee", "beneficiary", "creditor",
    "bank", "konto", "cuenta", "conto", "compte",
])  # fmt: skip
"""Words of the name of an argument whose number is where money goes."""
EVENT_NAMES = frozenset(["event", "trigger"])
PERSON_NAMES = frozenset(
    ["assignee", "user", "username", "login", "handle", "owner", "member", "reviewer", "collaborator"]
)
"""Last words of the name of an argument that holds a person's login, which may look like a host: `vera.lindqvist`."""
ZONE_NAMES = frozenset(["timezone", "zone", "tz"])
JOURNEY_WORDS = frozenset(
    ["flight", "fare", "trip", "route", "travel", "train", "convert", "currency", "exchange", "rate"]
)
"""Words of the name of a tool whose `to` is where a journey ends, or the money that is asked for."""
TABLE_WORDS = frozenset(["sheet", "spreadsheet", "worksheet", "workbook", "excel", "table", "cell", "row", "csv"])
"""Words of the name of a tool that writes tables."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_named(argument: str, names: frozenset[str]) -> bool:
    """Return whether an argument's name, or a word of it, is one of `names`."""
    words = words_of(argument)
    if len(words) > 1 and words[-1] in PROPERTIES:
        return False
    return argument.lower() in names or not names.isdisjoint(words) or not names.isdisjoint(map(_singular, words))


def words_of(name: str) -> list[str]:
    """Return the words of the name of an argument or a tool, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def _singular(word: str) -> str:
    return word.removesuffix("s")


def name_counts(path: tuple[str | int, ...], names: frozenset[str]) -> bool:
    """Return whether the argument at `path` has a known name. A name that says nothing takes that of what it is in."""
    keys = [step for step in reversed(path) if isinstance(step, str)]
    if not keys:
        return False
    says_nothing = all(word in GENERIC for word in words_of(keys[0]))
    return any(is_named(key, names) for key in (keys if says_nothing else keys[:1]))


def is_last_word(argument: str, names: frozenset[str]) -> bool:
    """Return whether the last word of an argument's name, which says what it is, is one of `names`."""
    words = words_of(argument)
    return bool(words) and not names.isdisjoint((words[-1], _singular(words[-1])))


def is_cell(tool: str, path: tuple[str | int, ...], names: frozenset[str]) -> bool:
    """Return whether the argument at `path` of a tool for tables is a cell in a list of rows: content, like a text."""
    if len(path) < 3 or any(isinstance(step, str) for step in path[-2:]):
        return False
    return says(tool, TABLE_WORDS) and not any(isinstance(step, str) and is_named(step, names) for step in path)


def says(tool: str, words: frozenset[str]) -> bool:
    """Return whether a word of a tool's name is one of `words`."""
    return not words.isdisjoint(_singular(word) for word in words_of(tool))
