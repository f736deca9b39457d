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

from sluicegate.plugins import Request, Text, texts_of
from sluicegate.safety.detection.parts import DOCUMENT, document_tags, split_documents, tools_of_results
from sluicegate.safety.provenance.records import is_id_of_named, lists
from sluicegate.safety.provenance.spelling import spelled
from sluicegate.safety.provenance.targets import CallTarget, Kind
from sluicegate.safety.provenance.texts import TrustedText, UntrustedText
from sluicegate.safety.provenance.urls import bare_url, host_of, parents, resolved

_HOME = re.compile(r"(?:~|\$\{?home\}?|%userprofile%|/(?:home|users)/[^/]+|[a-z]:[/\\]users[/\\][^/\\]+|/root)[/\\]")
"""The folder of a user."""
_V4_IN_V6 = frozenset((0, 0xFFFF, 0x64FF9B << 64))
"""The first 96 bits of an address of IPv6 that stands for one of IPv4."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # names to compare, no address to listen on
_ROUTED = re.compile(r"(?:[\w-]{1,63}\.)+[\w-]{2,63}(?=!)|(?<=%)(?:[\w-]{1,63}\.)+[\w-]{2,63}")
"""A host on the way to a mailbox."""
DISPLAYED = frozenset(["name", "displayname", "display_name", "fullname", "full_name"])
LOADS: frozenset[Kind] = frozenset(("loaded", "embedded"))
SHARED_HOSTS = frozenset([
    "github.com", "raw.githubusercontent.com", "img.shields.io", "badge.fury.io", "codecov.io", "cdn.jsdelivr.net",
    "unpkg.com", "cdnjs.cloudflare.com", "ajax.googleapis.com", "fonts.googleapis.com", "fonts.gstatic.com",
    "code.jquery.com",
])  # fmt: skip
"""Hosts of badges and libraries for everybody: who writes a text does not see what is asked of them."""
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_HOST_NUMBER = re.compile(r"0x[0-9a-f]{7,8}|[1-9]\d{7,9}")


@dataclass(frozen=True, slots=True)
class ForeignText:
    """An untrusted text. `name`: of its tool or document, if it has one."""

    place: str
    name: str
    text: UntrustedText
    is_result: bool = False
    """Whether it is what a tool answered."""


class ProvenanceTexts:
    """The texts of one request, sorted by trust. Built once per request, at the first target."""

    def __init__(
        self, request: Request, names: frozenset[str], tags: tuple[str, ...], trusted_tools: tuple[str, ...]
    ) -> None:
        self._request = request
        self._names = names | {DOCUMENT}
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

    def untrusted_target(
        self, readings: Sequence[Sequence[CallTarget]], argument: str = ""
    ) -> tuple[CallTarget, ForeignText, int] | None:
        """Return the first target found in an untrusted text and in no trusted one, with its source and offset there;
        None if there is none. `readings`: targets of a value as it is spelled, then of what its disguises decode to;
        each needs trust of its own. `argument`: its name."""
        for target in dict.fromkeys(target for targets in readings for target in targets):
            sought = target if target.kind not in LOADS else CallTarget("url", target.value)
            found = next(filter(None, map(self._found, (sought, *_parts(sought)))), None)
            if found is None or self._is_trusted(sought) or self._is_given(target, argument):
                continue
            if target.kind not in LOADS or not self._is_copied(target):
                return target, *found
        return None

    def _is_copied(self, target: CallTarget) -> bool:
        """Return whether a text asks for, or in that of images: spells, the whole address; or a host of many
        that nobody else watches is asked for something that no text names."""
        if any(source.text.copies(target) for source in self.untrusted):
            return True
        bare = bare_url(spelled(target.value))
        is_shared = bare.partition("/")[0] in SHARED_HOSTS and "?" not in target.value
        return is_shared and self._found(CallTarget("url", target.value)) is None

    def _is_given(self, target: CallTarget, argument: str) -> bool:
        """Return whether a target is the id that a tool lists for a name the user said, or the name beside an address
        that the user wrote (`{"address": "ida.nes@fjord.example", "name": "Ida Nes"}`)."""
        if target.kind not in ("name", "number"):
            return False
        if argument.lower() in DISPLAYED and any(text.has_mailbox(target.value) for text in self.trusted):
            return True
        return any(
            lists(source.name, argument) and is_id_of_named(source.text.raw, target.value, argument, self._says)
            for source in self.untrusted
            if source.is_result
        )

    def _says(self, name: str) -> bool:
        return self._is_trusted(CallTarget("name", name.removeprefix("#").removeprefix("@")))

    def _found(self, target: CallTarget) -> tuple[ForeignText, int] | None:
        found = ((source, source.text.find(target)) for source in self.untrusted)
        return next(((source, at) for source, at in found if at >= 0), None)

    def _is_trusted(self, target: CallTarget) -> bool:
        if any(text.names(target) for text in self.trusted):
            return True
        home = _HOME.match(target.value) if target.kind == "path" else None
        if home is None or home[0] == "~/" or ".." in target.value:
            return False
        own = CallTarget("path", f"~/{target.value[home.end() :]}")  # the user's, whatever its name is
        return any(text.names(own) for text in self.trusted)

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
            return [], [ForeignText(text.place, tool, UntrustedText(text.text), is_result=True)]
        if role == "assistant":
            return [], []
        own, documents = split_documents(text.text, self._tags)
        return [own], [ForeignText(f"a document in {text.place}", "", UntrustedText(found)) for found in documents]


def _parts(target: CallTarget) -> Iterator[CallTarget]:
    """Yield the parts of a target that an untrusted text may supply alone: the domain of an address, the host of a URL,
    the domains above it, an address within an address (`evil%attacker.example@relay.example`), those of a path."""
    host = ""
    if target.kind == "address":
        mailbox, _, host = target.value.rpartition("@")
        yield from (CallTarget("host", part) for part in _ROUTED.findall(mailbox))
    elif target.kind in ("url", "host"):
        host = host_of(spelled(target.value))
    elif target.kind == "path":
        yield from _of_path(target.value)
    if address := _as_ipv4(target, host):
        yield CallTarget("host", address)
    if target.kind in ("url", "host") and _IPV4.fullmatch(host):
        with contextlib.suppress(ValueError):
            yield CallTarget("number", str(int(ipaddress.IPv4Address(host))))
    if host := host.strip("[]"):
        yield from (CallTarget("host", name) for name in (host, *parents(host)))
    if host in LOOPBACK:
        yield from (CallTarget("host", name) for name in LOOPBACK)


def _of_path(path: str) -> Iterator[CallTarget]:
    """Yield a path from a user's own folder on, without `..`, and its ends of two steps or more."""
    if home := _HOME.match(path):
        yield from (CallTarget("path", f"{start}{path[home.end() :]}") for start in ("~/", "/"))
    if ".." in path:
        yield CallTarget("path", resolved(spelled(path)))
        return
    steps = spelled(path).split("/")
    yield from (CallTarget("path", "/".join(steps[n:])) for n in range(1, len(steps) - 1) if steps[n])
    if path.startswith("./"):
        yield CallTarget("path", path[2:])


def _as_ipv4(target: CallTarget, host: str) -> str:
    """Return the address that a host of IPv6 stands for, or that a number without a scheme may be; else ""."""
    value = target.value
    with contextlib.suppress(ValueError):
        if host.startswith("["):
            address = ipaddress.IPv6Address(host.strip("[]"))
            if address.sixtofour:
                return str(address.sixtofour)
            return str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)) if int(address) >> 32 in _V4_IN_V6 else ""
        if target.kind in ("number", "name") and _HOST_NUMBER.fullmatch(value):
            return str(ipaddress.IPv4Address(int(value, 0)))
    return ""
