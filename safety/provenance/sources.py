"""Find the source of a value: which texts of a request contain it, and whether one of them is trusted.

    trusted      messages of the system, the developer and the user, descriptions and schemas of tools, variables
    untrusted    results of tools, context documents, messages named as documents, text between document tags
    neither      the model's own earlier messages

Texts are compared in one spelling (NFKC, lower case, no invisible characters, `[at]` and `hxxp` undone, numbers without
their spaces). Not covered: a value that the model assembles from pieces, translates or decodes; a document that the
user pasted without tags around it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from sluicegate.plugins import Request, Text, texts_of
from sluicegate.safety.detection.parts import opener, split_documents
from sluicegate.safety.matching.json_escapes import Unescaped
from sluicegate.safety.provenance.targets import CallTarget

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_AT = re.compile(r"\s*[\[({]\s*(?:at|@)\s*[\])}]\s*|\s+(?:at|\(a\))\s+(?=[\w-]+\s*(?:\.|[\[({]?\s*dot))")
_DOT = re.compile(r"\s*[\[({]\s*(?:dot|\.)\s*[\])}]\s*|(?<=\w)\s+dot\s+(?=\w)")
_APART = r"[\s().-]{0,2}"  # between the groups of a number
_URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}://)?(?:www\.)?((?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::\d+)?(?:/[^\s\"'<>)\]]*)?)"
)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
MIN_NAME_CHARS = 3
"""Characters from which a name is searched for; shorter ones occur in any text."""


@dataclass(frozen=True, slots=True)
class ForeignText:
    """An untrusted text. `name`: of its tool or document, if it has one."""

    place: str
    name: str
    text: Spelled


class Spelled:
    """A text in the spelling used for comparison."""

    def __init__(self, text: str) -> None:
        readings = [text]
        if "\\" in text:  # JSON, as results of tools are; or a path of Windows, whose `\t` is no escape
            readings = [Unescaped(text).text, _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)]
        self.text = " ".join(map(spelled, readings))

    @cached_property
    def urls(self) -> tuple[str, ...]:
        """Return web addresses without scheme and `www.`, and bare hosts."""
        return tuple(url.rstrip(".,;:!?/") for url in _URL.findall(self.text))

    def find(self, target: CallTarget) -> int:
        """Return the offset of `target`, in the compared spelling, or -1."""
        value = spelled(target.value)
        if target.kind == "number":
            bare = re.sub(r"[\s().+-]", "", value)
            found = re.search(r"(?<!\w)" + _APART.join(map(re.escape, bare)) + r"(?!\w)", self.text) if bare else None
            return found.start() if found else -1
        if target.kind == "url":
            bare = bare_url(value)
            return self.text.find(bare) if bare else -1
        if target.kind == "name" and len(value) < MIN_NAME_CHARS:
            return -1
        return _bounded(self.text, value)


def _bounded(text: str, value: str) -> int:
    """Return the first offset of `value` at which no letter or digit continues it on either side; -1 if there is
    none."""
    at = text.find(value)
    while at >= 0:
        before, behind = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        if not (before.isalnum() and value[0].isalnum()) and not (behind.isalnum() and value[-1].isalnum()):
            return at
        at = text.find(value, at + 1)
    return -1


def spelled(text: str) -> str:
    """Return `text` in the spelling used for comparison (see the module's docstring). Linear in the text: runs of white
    space are reduced before patterns are applied."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).lower().replace("hxxp", "http").replace("\\", "/")
    return " ".join(_DOT.sub(".", _AT.sub("@", " ".join(text.split()))).split())


def bare_url(url: str) -> str:
    """Return `url` without scheme, `www.`, query and the last slash."""
    bare = re.sub(r"^[a-z][a-z0-9+.-]*:(?://)?|^//", "", url).removeprefix("www.").rpartition("@")[2]
    return re.split(r"[?#]", bare)[0].rstrip("/")


class ProvenanceTexts:
    """The texts of one request, sorted by trust. Built once per request, at the first target."""

    def __init__(
        self, request: Request, names: frozenset[str], tags: tuple[str, ...], trusted_tools: tuple[str, ...]
    ) -> None:
        self._request = request
        self._names = names
        self._opener = opener(tags)
        self._trusted_tools = trusted_tools
        self._called = {call.id: call.name for message in request.messages for call in message.tool_calls}
        trusted: list[str] = []
        self.untrusted: list[ForeignText] = []
        for text in texts_of(request):
            own, foreign = self._sorted(text)
            trusted += own
            self.untrusted += foreign
        self.trusted = [Spelled(text) for text in trusted]

    def untrusted_target(self, targets: Iterable[CallTarget]) -> tuple[CallTarget, ForeignText, int] | None:
        """Return the first target found in an untrusted text and in no trusted one, with its source and offset there;
        None if there is none."""
        for target in targets:
            for part in (target, *_parts(target)):
                if found := self._found(part):
                    if self._is_trusted(target):
                        break
                    return target, *found
        return None

    def _found(self, target: CallTarget) -> tuple[ForeignText, int] | None:
        found = ((source, source.text.find(target)) for source in self.untrusted)
        return next(((source, at) for source, at in found if at >= 0), None)

    def _is_trusted(self, target: CallTarget) -> bool:
        if any(text.find(target) >= 0 for text in self.trusted):
            return True
        if target.kind == "url":
            bare = bare_url(spelled(target.value))
            return any(_covers(url, bare) for text in self.trusted for url in text.urls)
        if target.kind == "path":
            return any(
                text.find(CallTarget("path", lead)) >= 0 for lead in _folders(target.value) for text in self.trusted
            )
        return False

    def _sorted(self, text: Text) -> tuple[list[str], list[ForeignText]]:
        """Return the (trusted, untrusted) parts of one text."""
        if text.role is None and text.kind != "document":
            return [text.text], []
        message = self._request.messages[int(text.path[1])] if text.path[0] == "messages" else None
        if text.kind == "document" or (message is not None and message.name in self._names):
            return [], [ForeignText(text.place, (message.name or "") if message else "", Spelled(text.text))]
        if text.role == "tool":
            tool = self._called.get((message.tool_call_id if message else None) or "", (message and message.name) or "")
            if any(fnmatchcase(tool, pattern) for pattern in self._trusted_tools):
                return [text.text], []
            return [], [ForeignText(text.place, tool, Spelled(text.text))]
        if text.role == "assistant":
            return [], []
        own, documents = split_documents(text.text, self._opener)
        return [own], [ForeignText(f"a document in {text.place}", "", Spelled(found)) for found in documents]


def _parts(target: CallTarget) -> Iterator[CallTarget]:
    """Yield the part of a target that an untrusted text may supply alone: the domain of an address, the host of a
    URL."""
    if target.kind == "address":
        yield CallTarget("host", target.value.rpartition("@")[2])
    elif target.kind == "url":
        yield CallTarget("host", re.split(r"[/:?#]", bare_url(spelled(target.value)))[0] or target.value)


def _covers(url: str, bare: str) -> bool:
    """Return whether `bare` is `url` or lies below it."""
    return bare == url or (bare.startswith(url) and bare[len(url)] in "/:")


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a path except the root; none if the path contains `..`."""
    parts = re.split(r"[/\\]", path)
    if ".." not in parts:
        yield from (
            "/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if len("/".join(parts[:n])) >= MIN_NAME_CHARS
        )
