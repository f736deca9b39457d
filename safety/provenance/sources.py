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

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase

from sluicegate.plugins import Message, Request, Text, texts_of
from sluicegate.safety.detection.parts import DOCUMENT, document_tags, split_documents, tools_of_results
from sluicegate.safety.provenance.answers.tool_names import gives_away
from sluicegate.safety.provenance.given import GivenTargets
from sluicegate.safety.provenance.parts import HOME, parts_of
from sluicegate.safety.provenance.spelling import spelled
from sluicegate.safety.provenance.targets import CallTarget, Kind
from sluicegate.safety.provenance.texts import ForeignText, TrustedText, UntrustedText
from sluicegate.safety.provenance.urls import bare_url

LOADS: frozenset[Kind] = frozenset(("loaded", "embedded"))
SHARED_HOSTS = frozenset([
    "github.com", "raw.githubusercontent.com", "img.shields.io", "badge.fury.io", "codecov.io", "cdn.jsdelivr.net",
    "unpkg.com", "cdnjs.cloudflare.com", "ajax.googleapis.com", "fonts.googleapis.com", "fonts.gstatic.com",
    "code.jquery.com",
])  # fmt: skip
"""Hosts of badges and libraries for everybody: who writes a text does not see what is asked of them."""


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
        self._given = GivenTargets(request, self.untrusted, self.trusted, self._is_trusted)

    def untrusted_target(
        self, readings: Sequence[Sequence[CallTarget]], argument: str = "", tool: str = ""
    ) -> tuple[CallTarget, ForeignText, int] | None:
        """Return the first target found in an untrusted text and in no trusted one, with its source and offset there;
        None if there is none. `readings`: targets of a value as it is spelled, then of what its disguises decode to;
        each needs trust of its own. `argument`: its name, `tool`: that of what is called."""
        every = dict.fromkeys(target for targets in readings for target in targets)
        is_lost = gives_away(tool, (target.value for target in every if target.kind == "command"))
        for target in every:
            sought = target if target.kind not in LOADS else CallTarget("url", target.value)
            found = next(filter(None, map(self._found, (sought, *parts_of(sought)))), None)
            if found is None or self._is_trusted(sought) or self._given.has(target, argument, tool, is_lost=is_lost):
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

    def _found(self, target: CallTarget) -> tuple[ForeignText, int] | None:
        found = ((source, source.text.find(target)) for source in self.untrusted)
        return next(((source, at) for source, at in found if at >= 0), None)

    def _is_trusted(self, target: CallTarget) -> bool:
        if any(text.names(target) for text in self.trusted):
            return True
        home = HOME.match(target.value) if target.kind == "path" else None
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
            asked = self._asked(at, message) if self._called.get(at) else ()
            return [], [ForeignText(text.place, tool, UntrustedText(text.text), is_result=True, asked=asked)]
        if role == "assistant":
            return [], []
        own, documents = split_documents(text.text, self._tags)
        return [own], [ForeignText(f"a document in {text.place}", "", UntrustedText(found)) for found in documents]

    def _asked(self, at: int | None, result: Message | None) -> tuple[str, ...]:
        """Return the strings with which the call was made whose result a message is."""
        for message in reversed(self._request.messages[:at]):
            for call in message.tool_calls if result is not None else ():
                if result is not None and call.id == result.tool_call_id:
                    return _strings_of(call.arguments)
        return ()


def _strings_of(arguments: str) -> tuple[str, ...]:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return ()
    return tuple(one for one in values.values() if isinstance(one, str)) if isinstance(values, dict) else ()
