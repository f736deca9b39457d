"""Slot `moderate`, stage `provenance`: refuse tool calls whose target comes from an untrusted text.

A simplification of CaMeL (arXiv 2503.18813): no interpreter tracks the flow of values; the rail compares texts instead,
since an address, a URL, an account, a path or a command is copied verbatim. An argument that names a destination or a
command must not occur in a tool's result or a document, unless the user, the operator or the tool's own description
names it, too.

Not covered: see `sources.py` and `targets.py`; calls that the operator exempts; what a call does with a target that the
user named.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from sluicegate.plugins import Caller, Channel, RailProperties, RailSession, Request, Verdict
from sluicegate.safety.provenance.argument_names import JOURNEY_WORDS, NAMES, is_cell, says
from sluicegate.safety.provenance.argument_reader import ArgumentReader
from sluicegate.safety.provenance.nested import ArgumentPath, name_at
from sluicegate.safety.provenance.sources import ProvenanceTexts
from sluicegate.safety.provenance.targets import LONGEST, CallTarget
from sluicegate.safety.provenance.texts import ForeignText
from sluicegate.safety.rails.match_rails import PassSession
from sluicegate.safety.settings import ProvenanceSettings

REQUESTS = 64
"""Requests whose sorted texts are kept, for the other strings of the same call."""
_NAME = re.compile(r"[\w. /:@-]{1,64}")


class ProvenanceRail:
    """Judges the string arguments of tool calls. Holds a string until it ends, or `LONGEST` characters of it."""

    def __init__(self, settings: ProvenanceSettings, name: str = "provenance") -> None:
        self.name = name
        self.settings = settings
        self.properties = RailProperties(
            version=hashlib.sha256(repr(settings).encode()).hexdigest()[:16],
            hold_back=LONGEST + 1,
            channels=frozenset({"tool_arguments"}),
        )
        self.names = (NAMES | {name.lower() for name in settings.arguments}) - frozenset(settings.harmless_arguments)
        self._sorted: OrderedDict[int, tuple[Request, ProvenanceTexts]] = OrderedDict()

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        """Open a session for a string of an unknown argument: it is judged by its form alone."""
        return ProvenanceSession(self, request, ()) if channel == "tool_arguments" else PassSession()

    def at_place(self, tool: str, path: ArgumentPath) -> PlacedProvenanceRail:
        """Return the rail for the string at `path` of a call of `tool`."""
        return PlacedProvenanceRail(self, tool, path)

    def sources(self, request: Request) -> ProvenanceTexts:
        kept = self._sorted.get(id(request))
        if kept is None or kept[0] is not request:
            own = self.settings
            made = ProvenanceTexts(request, frozenset(own.document_names), own.document_tags, own.trusted_tools)
            kept = self._sorted[id(request)] = (request, made)
            while len(self._sorted) > REQUESTS:
                self._sorted.popitem(last=False)
        return kept[1]


@dataclass(frozen=True, slots=True)
class PlacedProvenanceRail:
    """The rail for one argument of a call: a `PlacedRail`'s result."""

    rail: ProvenanceRail
    tool: str
    path: ArgumentPath

    @property
    def name(self) -> str:
        return self.rail.name

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        own = self.rail.settings
        argument = name_at(self.path)
        if channel != "tool_arguments" or any(fnmatchcase(self.tool, pattern) for pattern in own.exempt):
            return PassSession()
        is_text = argument.lower() in own.harmless_arguments or is_cell(self.tool, self.path, self.rail.names)
        is_code, is_journey = self.tool in request.custom_tools, says(self.tool, JOURNEY_WORDS)
        return ProvenanceSession(
            self.rail, request, self.path, self.tool, is_code=is_code, is_text=is_text, is_journey=is_journey
        )


class ProvenanceSession:
    """Judges one string at its end, a long one in pieces that do not depend on how it came."""

    def __init__(
        self, rail: ProvenanceRail, request: Request, path: ArgumentPath, tool: str = "", **kind: bool
    ) -> None:
        """Open a session for the string at `path` of a call of `tool`. `kind`: as of `ArgumentReader`."""
        self._rail = rail
        self._request = request
        self._argument, self._tool = name_at(path), tool
        harmless = rail.settings.harmless_arguments
        self._new_reader = partial(ArgumentReader, path, rail.names, harmless, **kind)
        self._reader = self._new_reader()
        self._text = ""
        self._start = 0
        """Offset of `_text`: everything before it is settled."""
        self._end = 0
        self._settled = False

    def clears(self, text: str) -> bool:
        reader = self._new_reader()
        return all(self._untrusted_target(found) is None for _, found in reader.read(text, ends=True))

    def feed(self, text: str) -> Verdict:
        return self._judged(text, ends=False)

    def close(self) -> Verdict:
        return self._judged("", ends=True)

    def _judged(self, text: str, *, ends: bool) -> Verdict:
        self._end += len(text)
        if self._settled:
            return Verdict(self._end)
        self._text += text
        for length, targets in self._reader.read(self._text, ends=ends):
            if verdict := self._refused(targets):
                return verdict
            self._start += length
            self._text = self._text[length:]
        return Verdict(self._start)

    def _refused(self, targets: list[list[CallTarget]]) -> Verdict | None:
        found = self._untrusted_target(targets)
        if found is None:
            return None
        target, source, at = found
        reason = f"untrusted_target: {_described(target, source, at)}"
        if self._rail.settings.action == "escalate":
            self._rest_passes()
            return Verdict(self._end, escalate=reason, escalate_at=self._start)
        return Verdict(self._start, block=reason)

    def _rest_passes(self) -> Verdict:
        self._settled, self._text = True, ""
        return Verdict(self._end)

    def _untrusted_target(self, targets: list[list[CallTarget]]) -> tuple[CallTarget, ForeignText, int] | None:
        if not targets:
            return None
        return self._rail.sources(self._request).untrusted_target(targets, self._argument, self._tool)


def _described(target: CallTarget, source: ForeignText, at: int) -> str:
    """Describe for operators the kind of a target and its source. The value itself stays out of logs."""
    name = f" ({source.name})" if _NAME.fullmatch(source.name) else ""
    return f"{target.kind} from {source.place}{name}, characters {at} to {at + len(target.value)}"
