"""Find the source of a value: which texts of a request contain it, and whether one of them is trusted.

    trusted      messages of the system, the developer and the user, descriptions and schemas of tools, variables
    untrusted    results of tools, context documents, messages named as documents, text between document tags
    neither      the model's own earlier messages

An untrusted text has a value if it may have been read there (`spelling.py`: decoded, with look-alikes, a part of a
longer one); a trusted text has it only if it names exactly that, or what contains it.
Not covered: a value that the model translates, or assembles from pieces that are no beginning or end of a target; a
document that the user pasted without tags around it, or that holds a closing and an opening tag of its own.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate

from sluicegate.plugins import Request, Text, texts_of
from sluicegate.safety.detection.parts import document_tags, split_documents, tools_of_results
from sluicegate.safety.provenance.spelling import decoded, letters_of, loose, spelled, squeezed, undone
from sluicegate.safety.provenance.targets import CallTarget
from sluicegate.safety.provenance.urls import bare_url, host_of, parents, resolved

_JOINED = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
"""A letter or digit of a script that sets its words apart."""
_APART = r"[\s().-]{0,2}"  # between the groups of a number
_FAR_APART = r"[\s().,/_:+'\"*|\[\]-]{0,5}"  # in an untrusted text
_URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}://)?(?:www\.)?((?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::\d+)?(?:/[^\s\"'<>)\]]*)?)"
)
_LONG = re.compile(r"[\w.+%'-]{1,64}@[\w.-]{3,255}|\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]]+|[a-z]{0,2}\d{8,34}")
_EMPHASIS = re.compile(r"(?<!\w)_{1,3}(?=[^\s_])|(?<=[^\W_])_{1,3}(?!\w)")
_HOST_NUMBER = re.compile(r"0x[0-9a-f]{7,8}|[1-9]\d{7,9}")
_NUMBER_MARKS = re.compile(r"[\s().,/_:+'\"*|\[\]-]")
_INTERNATIONAL = re.compile(r"(?:\+|00)(\d{8,15})")
_DIALLED = re.compile(r"(?<![\w+])(?:\+|00)\d(?:[ ().-]{0,3}\d){7,15}(?!\w)")
_NATIONAL = re.compile(r"0(\d{7,14})")
MIN_NAME_CHARS = 3
"""Characters from which a name is searched for; shorter ones occur in any text."""
MIN_PART_CHARS = 4
"""Characters from which the beginning or end of a target counts as a part of it."""
MIN_TAIL_DIGITS = 7
MIN_SQUEEZED_CHARS = 9
"""Characters from which a target is also searched for whatever stands between the letters of a text."""


@dataclass(frozen=True, slots=True)
class ForeignText:
    """An untrusted text. `name`: of its tool or document, if it has one."""

    place: str
    name: str
    text: UntrustedText


class _SearchedText:
    """A text in the spelling used for comparison, which is searched for many numbers."""

    text: str

    @cached_property
    def _without_marks(self) -> str:
        return _NUMBER_MARKS.sub("", self.text)

    def _spaced(self, bare: str, apart: str, *, begins: bool = True) -> int:
        """Return the offset of a number, whose digits may stand in groups, or -1. `begins`: nothing is before it."""
        if not bare or bare not in self._without_marks:  # a hundred times faster than the pattern
            return -1
        digits = apart.join(map(re.escape, bare))
        found = re.search(rf"{rf'(?<!{_JOINED})' if begins else ''}{digits}(?!{_JOINED})", self.text)
        return found.start() if found else -1


class UntrustedText(_SearchedText):
    """A text in which a target counts as named where a model may have read it."""

    def __init__(self, text: str) -> None:
        self.text = loose(" ".join(map(spelled, decoded(text))))

    @cached_property
    def _squeezed(self) -> str:
        return squeezed(self.text)

    @cached_property
    def _letters(self) -> str:
        return letters_of(self.text)

    @cached_property
    def _borders(self) -> frozenset[int]:
        """Return the offsets among the letters and digits of the text at which something else stands between them."""
        return frozenset(accumulate(map(len, re.findall(r"[^\W_]+", self.text)), initial=0))

    def _among_letters(self, value: str) -> int:
        """Return the offset of `value` among the letters and digits of the text, where it is made of whole words."""
        at = self._letters.find(value)
        while at >= 0 and not (at in self._borders and at + len(value) in self._borders):
            at = self._letters.find(value, at + 1)
        return at

    @cached_property
    def _long_targets(self) -> tuple[str, ...]:
        """Return addresses, URLs and long numbers, of which a call may name a part."""
        digits = re.sub(r"(?<=\w)[ -](?=\d)", "", self.text)
        return tuple(dict.fromkeys([*_LONG.findall(self.text), *_LONG.findall(digits)]))

    def find(self, target: CallTarget) -> int:
        """Return the offset of `target`, in the compared spelling, or -1."""
        value = loose(spelled(target.value))
        if target.kind == "number":
            return self._number(value)
        if target.kind == "url":
            value = bare_url(value)
            if not value:
                return -1
            at = self.text.find(value)
        elif target.kind == "name" and len(value) < MIN_NAME_CHARS:
            return -1
        else:
            at = _bounded(self.text, value)
        if at < 0 and target.kind in ("address", "url", "name") and len(value) >= MIN_SQUEEZED_CHARS:
            at = self._squeezed.find(squeezed(value))
        if at < 0 and len(letters := letters_of(value)) >= MIN_SQUEEZED_CHARS:
            at = self._among_letters(letters)
        return at if at >= 0 else self._part(value, target)

    def _number(self, value: str) -> int:
        bare = _NUMBER_MARKS.sub("", value)
        at = self._spaced(bare, _FAR_APART)
        for tail in _tails(value) if at < 0 else ():
            at = max(at, self._spaced(tail, _FAR_APART, begins=False))
        return at if at >= 0 or not bare.isdigit() else self._part(bare, CallTarget("number", bare))

    def _part(self, value: str, target: CallTarget) -> int:
        """Return where a longer target begins or ends with `value`."""
        if target.kind not in ("name", "number", "host") or len(value) < MIN_PART_CHARS or value.startswith("http"):
            return -1
        longer = (one for one in self._long_targets if one.startswith(value) or one.endswith(value))
        found = next(longer, None)
        return max(0, self.text.find(found)) if found is not None else -1


class TrustedText(_SearchedText):
    """A text that names targets exactly."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(map(spelled, undone(text)))
        if "_" in text:
            self.text += " " + _EMPHASIS.sub("", self.text)

    @cached_property
    def _urls(self) -> tuple[str, ...]:
        """Return web addresses without scheme and `www.`, and bare hosts."""
        return tuple(dict.fromkeys(bare_url(url.rstrip(".,;:!?")) for url in _URL.findall(self.text)))

    def names(self, target: CallTarget) -> bool:
        """Return whether `target` is named, or something that contains it: its site, a folder above it."""
        value = spelled(target.value)
        if target.kind == "number":
            return self._names_number(value)
        if target.kind == "url":
            bare = bare_url(value)
            return _exactly(self.text, bare) or any(_covers(url, bare) for url in self._urls)
        if target.kind == "path":
            return any(_exactly(self.text, path) for path in (value.removeprefix("./"), *_folders(value)))
        return len(value) > 0 and _exactly(self.text, value)

    def _names_number(self, value: str) -> bool:
        bare = re.sub(r"[\s().+-]", "", value)
        tails = _tails(value)
        written = any(self._spaced(one, _APART) >= 0 for one in (bare, *(f"0{tail}" for tail in tails)))
        return written or (bare.startswith("0") and not self._abroad.isdisjoint(tails))

    @cached_property
    def _abroad(self) -> frozenset[str]:
        """Return the telephone numbers that are written with the code of a country, without it."""
        found = _DIALLED.findall(self.text)
        return frozenset(tail for number in found for tail in _tails(number.replace("(0)", "")))


def _tails(number: str) -> list[str]:
    """Return a telephone number without the code of its country, which has one to three digits, or without its 0."""
    dialled = re.sub(r"[^\d+]", "", number)
    if found := _INTERNATIONAL.fullmatch(dialled):
        return [found[1][code:] for code in (1, 2, 3) if len(found[1]) - code >= MIN_TAIL_DIGITS]
    return _NATIONAL.findall(dialled) if _NATIONAL.fullmatch(dialled) else []


_JOINS = re.compile(_JOINED)


def _bounded(text: str, value: str) -> int:
    """Return the first offset of `value` at which no letter or digit continues it on either side; -1 if there is
    none."""
    at = text.find(value)
    while at >= 0:
        before, behind = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        if not (_continues(before) and _continues(value[0])) and not (_continues(behind) and _continues(value[-1])):
            return at
        at = text.find(value, at + 1)
    return -1


def _continues(char: str) -> bool:
    return char != "_" and _JOINS.match(char) is not None


_GOES_ON_BEFORE = re.compile(rf"(?:{_JOINED}|{_JOINED}[/.+%-]|[/~][./]+|(?<![:/])/|-)$")
_GOES_ON_BEHIND = re.compile(rf"{_JOINED}|-{_JOINED}|[./@]+[\w~]")
_MAY_STAND_BEFORE = re.compile(rf"(?:(?<!{_JOINED})(?<![.-])(?:www\.|\./)|\w@|://)$")


def _exactly(text: str, value: str) -> bool:
    """Return whether `value` stands in `text` and is no part of a longer address, host, path or name there."""
    at = text.find(value) if value else -1
    while at >= 0:
        before, behind = text[max(0, at - 8) : at], text[at + len(value) : at + len(value) + 4]
        starts = (not value[0].isalnum() and value[0] not in "/~.") or not _GOES_ON_BEFORE.search(before)
        if (starts or _MAY_STAND_BEFORE.search(before)) and not _GOES_ON_BEHIND.match(behind):
            return True
        at = text.find(value, at + 1)
    return False


class ProvenanceTexts:
    """The texts of one request, sorted by trust. Built once per request, at the first target."""

    def __init__(
        self, request: Request, names: frozenset[str], tags: tuple[str, ...], trusted_tools: tuple[str, ...]
    ) -> None:
        self._request = request
        self._names = names
        self._tags = document_tags(tags)
        self._trusted_tools = trusted_tools
        self._called = tools_of_results(request.messages)
        trusted: list[str] = []
        self.untrusted: list[ForeignText] = []
        for text in texts_of(request):
            own, foreign = self._sorted(text)
            trusted += own
            self.untrusted += foreign
        self.trusted = [TrustedText(text) for text in trusted]

    def untrusted_target(self, readings: Sequence[Sequence[CallTarget]]) -> tuple[CallTarget, ForeignText, int] | None:
        """Return the first target found in an untrusted text and in no trusted one, with its source and offset there;
        None if there is none. `readings`: targets of a value as it is spelled, then of what its disguises decode to,
        which need no trust of their own if it is trusted as it is spelled."""
        known: dict[CallTarget, bool] = {}
        for targets in readings:
            for target in targets:
                if target in known:
                    continue
                found = next(filter(None, map(self._found, (target, *_parts(target)))), None)
                known[target] = self._is_trusted(target)
                if found and not known[target]:
                    return target, *found
            if targets is readings[0] and all(known[target] for target in targets):
                return None
        return None

    def _found(self, target: CallTarget) -> tuple[ForeignText, int] | None:
        found = ((source, source.text.find(target)) for source in self.untrusted)
        return next(((source, at) for source, at in found if at >= 0), None)

    def _is_trusted(self, target: CallTarget) -> bool:
        return any(text.names(target) for text in self.trusted)

    def _sorted(self, text: Text) -> tuple[list[str], list[ForeignText]]:
        """Return the (trusted, untrusted) parts of one text."""
        at = int(text.path[1]) if text.path[0] == "messages" else None
        message = None if at is None else self._request.messages[at]
        role = text.role or (message and message.role)  # names, ids and decoded arguments are those of the message
        if role is None and text.kind != "document":
            return [text.text], []
        if text.kind == "document" or (message is not None and message.name in self._names):
            return [], [ForeignText(text.place, (message.name or "") if message else "", UntrustedText(text.text))]
        if role == "tool":
            tool = self._called.get(at) or (message and message.name) or ""
            if any(fnmatchcase(tool, pattern) for pattern in self._trusted_tools):
                return [text.text], []
            return [], [ForeignText(text.place, tool, UntrustedText(text.text))]
        if role == "assistant":
            return [], []
        own, documents = split_documents(text.text, self._tags)
        return [own], [ForeignText(f"a document in {text.place}", "", UntrustedText(found)) for found in documents]


def _parts(target: CallTarget) -> Iterator[CallTarget]:
    """Yield the part of a target that an untrusted text may supply alone: the domain of an address, the host of a
    URL, the domains above it, a path without the `~` for a folder spelled out, or without `..`."""
    host = ""
    if target.kind == "address":
        host = target.value.rpartition("@")[2]
    elif target.kind in ("url", "host"):
        host = host_of(spelled(target.value))
    if target.kind == "path" and target.value.startswith("~/"):
        yield CallTarget("path", target.value[1:])
    if target.kind == "path" and ".." in target.value:
        yield CallTarget("path", resolved(spelled(target.value)))
    if address := _as_ipv4(target, host):
        yield CallTarget("host", address)
    if host:
        yield from (CallTarget("host", name) for name in (host, *parents(host)))


def _as_ipv4(target: CallTarget, host: str) -> str:
    """Return the address that a host of IPv6 stands for, or that a number without a scheme may be; else ""."""
    value = target.value
    with contextlib.suppress(ValueError):
        if host.startswith("["):
            mapped = ipaddress.IPv6Address(host.strip("[]")).ipv4_mapped
            return "" if mapped is None else str(mapped)
        if target.kind in ("number", "name") and _HOST_NUMBER.fullmatch(value):
            return str(ipaddress.IPv4Address(int(value, 0)))
    return ""


def _covers(url: str, bare: str) -> bool:
    """Return whether `bare` is `url`, lies below it or is its host."""
    return bare == url or (bare.startswith(url) and bare[len(url)] in "/:") or bare == host_of(url)


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a path except the root; none if the path contains `..`. One that is a single word ends
    in a slash: `docs` in a sentence is no folder."""
    parts = path.removeprefix("./").split("/")
    if ".." not in parts:
        folders = ("/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
        yield from (one if "/" in one else f"{one}/" for one in folders if len(one) >= MIN_NAME_CHARS)
