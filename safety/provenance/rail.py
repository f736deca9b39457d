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
from sluicegate.safety.provenance.argument_names import CODE_NAMES, NAMES, name_counts
from sluicegate.safety.provenance.nested import ArgumentPath, LongJson, begins_json
from sluicegate.safety.provenance.sources import ForeignText, ProvenanceTexts
from sluicegate.safety.provenance.spelling import clean
from sluicegate.safety.provenance.targets import (
    LONGEST,
    CallTarget,
    is_date,
    pieces,
    targets_in,
    targets_of_code,
)
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
        argument = next((step for step in reversed(self.path) if isinstance(step, str)), "")
        exempt = any(fnmatchcase(self.tool, pattern) for pattern in own.exempt)
        if exempt or channel != "tool_arguments" or argument.lower() in own.harmless_arguments:
            return PassSession()
        return ProvenanceSession(self.rail, request, self.path, is_code=self.tool in request.custom_tools)


class ArgumentReader:
    """Reads the targets of one string, piece by piece. Mutable."""

    def __init__(self, rail: ProvenanceRail, path: ArgumentPath, *, is_code: bool = False) -> None:
        self._harmless = rail.settings.harmless_arguments
        self._names = rail.names
        self._path = path
        self._named = name_counts(path, rail.names)
        self._ends_range = self._named and not name_counts(path, rail.names - {"to"})
        """Whether only `to` names the argument, which may also be the end of a time."""
        self._is_code = not self._named and (is_code or name_counts(path, CODE_NAMES))
        self._json: LongJson | None = None
        self.is_over = False
        """Whether the rest is a text: what follows the first piece, unless the argument's name is known, the piece is
        blank, or the string is JSON."""

    def targets(self, piece: str, *, whole: bool) -> list[list[CallTarget]]:
        """Return the targets of the next piece. `whole`: it is the only one."""
        named = self._named and not (self._ends_range and is_date(piece))
        found = targets_in(piece, named=named, inside=self._counts)
        if self._is_code:
            found.append(targets_of_code(piece))
        if self._json is None and not whole and begins_json(piece):
            self._json = LongJson()
        for path, said in self._json.read(piece) if self._json is not None else ():
            found += targets_in(said, named=self._counts(path), inside=self._counts, path=path)
        self.is_over = not (self._named or self._is_code or self._json is not None) and bool(clean(piece).strip())
        return [targets for targets in found if targets]

    def _counts(self, path: ArgumentPath) -> bool:
        own = next((step for step in reversed(path) if isinstance(step, str)), "")
        return own.lower() not in self._harmless and name_counts((*self._path, *path), self._names)


class ProvenanceSession:
    """Judges one string at its end, a long one in pieces that do not depend on how it came."""

    def __init__(self, rail: ProvenanceRail, request: Request, path: ArgumentPath, *, is_code: bool = False) -> None:
        """Open a session for the string at `path`. `is_code`: as the text of a custom tool, it may be a program."""
        self._rail = rail
        self._request = request
        self._new_reader = partial(ArgumentReader, rail, path, is_code=is_code)
        self._reader = self._new_reader()
        self._text = ""
        self._start = 0
        """Offset of `_text`: everything before it is settled."""
        self._end = 0
        self._settled = False

    def clears(self, text: str) -> bool:
        reader = self._new_reader()
        found, _ = pieces(text, ends=True)
        for piece in found:
            if self._untrusted_target(reader.targets(piece, whole=len(found) == 1)) is not None:
                return False
            if reader.is_over:
                break
        return True

    def feed(self, text: str) -> Verdict:
        return self._judged(text, ends=False)

    def close(self) -> Verdict:
        return self._judged("", ends=True)

    def _judged(self, text: str, *, ends: bool) -> Verdict:
        self._end += len(text)
        if self._settled:
            return Verdict(self._end)
        found, self._text = pieces(self._text + text, ends=ends)
        for piece in found:
            whole = ends and self._start == 0 and len(found) == 1
            if verdict := self._refused(self._reader.targets(piece, whole=whole)):
                return verdict
            self._start += len(piece)
            if self._reader.is_over:
                return self._rest_passes()
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
        return self._rail.sources(self._request).untrusted_target(targets) if targets else None


def _described(target: CallTarget, source: ForeignText, at: int) -> str:
    """Describe for operators the kind of a target and its source. The value itself stays out of logs."""
    name = f" ({source.name})" if _NAME.fullmatch(source.name) else ""
    return f"{target.kind} from {source.place}{name}, characters {at} to {at + len(target.value)}"
