"""The hold-back window for a channel that carries JSON: rails read strings decoded, not as they are spelled.

Every string, key and number is a text of its own, with fresh sessions. A rail reads `\\u0061` as `a`; text that passes
leaves in its original spelling. Structure between texts leaves as soon as the text before it has. A number with a
fraction or an exponent is also judged as the integer it stands for (`4.2e1` is 42), and is held until its end.

Not covered: a match spread over two strings or two numbers, and meaning carried by structure alone. Text that is not
JSON is not released: it blocks with `not_json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sluicegate.plugins import Caller, Channel, OutputRail, PlacedRail, Request, offers
from sluicegate.safety.rail_policy import WindowLimits
from sluicegate.safety.window.holdback import HoldbackWindow
from sluicegate.safety.window.json_position import PARTED, UNPAIRED, EscapeRun, JsonPosition, after, whole_values
from sluicegate.safety.window.lead_border import LeadBorderWindow
from sluicegate.safety.window.released import NOTHING, Redaction, Released, joined

Kind = Literal["string", "key", "number"]


@dataclass(frozen=True, slots=True)
class JsonLocation:
    """The position of a redaction in a JSON text. `path` leads to the value (for a key, to its object); `whole`: the
    span is the entire, finished text, so a replacement becomes the whole value."""

    path: tuple[str | int, ...]
    kind: Kind
    whole: bool


Redactor = Callable[[JsonLocation, Redaction], str | None]
"""Returns the decoded replacement of a redaction, or None if it cannot be replaced there, which blocks the answer."""


def replace_in_strings(place: JsonLocation, redaction: Redaction) -> str | None:
    """Replace spans in strings only, the default: a number or a key cannot hold a replacement text."""
    return redaction.replacement if place.kind == "string" else None


_RUN = re.compile(r'[^"\\]+')
_STRUCTURE = re.compile(r"[\s{}\[\]:,]+")
_BARE = re.compile(r'[^\s{}\[\]:,"]+')


class _Unit(HoldbackWindow):
    """The window of one string, key or number. Offsets are of its decoded characters; `spelled` maps the offsets of
    escaped ones to their spelling."""

    place: Callable[[], tuple[tuple[str | int, ...], Kind]]
    redactor: Redactor
    spelled: dict[int, str]

    def feed_spelled(self, decoded: str, raw: str) -> Released:
        self.spelled[self._fed] = raw
        return self.feed(decoded)

    @property
    def raw_held(self) -> int:
        return sum(len(self.spelled.get(at, " ")) for at in range(self._done, self._fed))

    def raw_offset(self, offset: int) -> int:
        return offset + sum(len(raw) - 1 for at, raw in self.spelled.items() if at < offset)

    def _written(self, start: int, text: str) -> str:
        if not self.spelled:
            return text
        return "".join(self.spelled.get(at, char) for at, char in enumerate(text, start))

    def _replaced(self, redaction: Redaction) -> str | None:
        path, kind = self.place()
        whole = self._closing and redaction.start == 0 and redaction.end == self._fed
        text = self.redactor(JsonLocation(path, kind, whole), redaction)
        return None if text is None or kind == "number" else json.dumps(text)[1:-1]


class JsonWindow:
    """A `HoldbackWindow` for a channel whose text is one JSON value. Offsets in its results are of the JSON text.
    Mutable, for one channel of one choice."""

    def __init__(
        self,
        rails: Sequence[OutputRail],
        request: Request,
        caller: Caller,
        channel: Channel = "content",
        limits: WindowLimits = WindowLimits(),
        redactor: Redactor = replace_in_strings,
        lead: str = "",
        tool: str = "",
    ) -> None:
        """Open a window. `lead`: as for `HoldbackWindow`, read undecoded. `tool`: the text is the arguments of a call
        of this tool; a `PlacedRail` is then opened for each string and number."""
        self.blocked: str | None = None
        self._withholding = False  # after an escalation in any of the texts
        self._open = (rails, request, caller, channel, limits)
        self._border = LeadBorderWindow(*self._open, lead) if lead else None
        self._redactor = redactor
        self._tool = tool
        self._placed = bool(tool) and any(offers(rail, PlacedRail) for rail in rails)
        self._where = JsonPosition()
        self._unit: _Unit | None = None
        self._last: _Unit | None = None
        self._kind: Kind = "string"
        self._key = ""  # the key being read
        self._escape = EscapeRun()
        self._bare = ""  # state of the number or word being read, see `after`
        self._spelled: list[str] = []  # the number being read
        self._waiting: list[str] = []  # cleared text of that number, held until its value is judged
        self._at = 0
        self._unit_at = 0

    @property
    def held(self) -> int:
        """Return the number of characters of the JSON text fed and neither released nor replaced."""
        held = (self._unit.raw_held if self._unit is not None else 0) + len(self._escape.spelled)
        held += sum(map(len, self._waiting)) if self._waiting else 0
        return held if self._border is None else held + self._border.held

    def feed(self, text: str) -> Released:
        """Read `text`; return the text that may leave now, in its original spelling."""
        if self._border is not None:
            return self._let_in(self._border, self._border.feed(text))
        return self._feed(text)

    def _let_in(self, border: LeadBorderWindow, step: Released) -> Released:
        """Pass text that the border cleared on to the windows of its strings and numbers."""
        self._withholding = self._withholding or bool(step.escalations)
        inner = self._feed(step.text + step.withheld)
        told = replace(step, text="", withheld="", redactions=())
        self.blocked = self.blocked or step.blocked
        if border.is_over:
            self._border = None
        return joined(told, inner) if step.blocked is None or inner.blocked is not None else joined(inner, told)

    def _feed(self, text: str) -> Released:
        steps, i = [], 0
        while i < len(text) and self.blocked is None:
            step, end = self._read(text, i)
            self._at += end - i
            i = end
            self.blocked = step.blocked
            steps.append(self._kept(step))
        return joined(*steps)

    @property
    def irreplaceable(self) -> str | None:
        """Return `HoldbackWindow.irreplaceable` of the decoded text."""
        return self._last.irreplaceable if self._last is not None else None

    @property
    def is_whole(self) -> bool:
        """Return whether the text is one complete JSON object, array or string, and nothing is held."""
        return self._at > 0 and self._unit is None and self._where.is_outside

    def close(self, *, cut: bool = False) -> Released:
        """End the text. `cut`: as for `HoldbackWindow.close`; an unfinished string is cut in any case."""
        border, before = self._border, NOTHING
        if border is not None and self.blocked is None:
            before, self._border = self._let_in(border, border.close(cut=cut)), None
        if self.blocked is not None or self._unit is None:
            return before
        return joined(before, self._close(cut=cut))

    def _close(self, *, cut: bool) -> Released:
        released = self._end_unit(cut=cut or self._kind != "number")
        self.blocked = released.blocked
        rest, self._escape = self._escape.spelled, EscapeRun()
        return self._kept(released if self.blocked is not None else joined(released, Released(rest)))

    def _kept(self, step: Released) -> Released:
        if self._withholding and step.text:
            step = replace(step, text="", withheld=step.text + step.withheld)
        self._withholding = self._withholding or bool(step.escalations)
        return step

    def _read(self, text: str, i: int) -> tuple[Released, int]:
        """Read one run of characters of the same kind, from `i` on."""
        if self._unit is None:
            return self._between(text, i)
        if self._kind == "number":
            return self._in_bare(self._unit, text, i)
        if self._escape.spelled or text[i] == "\\":
            return self._in_escape(self._unit, text, i)
        if text[i] == '"':
            ended = self._end_unit()
            return (ended if ended.blocked else joined(ended, Released('"'))), i + 1
        run = _RUN.match(text, i)
        assert run is not None
        return self._pass(run[0], self._unit.feed(run[0])), run.end()

    def _between(self, text: str, i: int) -> tuple[Released, int]:
        run = _STRUCTURE.match(text, i)
        if run is not None:
            for mark in run[0]:
                self._where.read(mark)
            return Released(run[0]), run.end()
        if text[i] != '"':
            self._begin_unit("number", self._at)
            return NOTHING, i
        self._begin_unit("key" if self._where.expects_key else "string", self._at + 1)
        return Released('"'), i + 1

    def _in_bare(self, unit: _Unit, text: str, i: int) -> tuple[Released, int]:
        """Read numbers and the words `true`, `false`, `null`. Blocks at the first character that fits neither."""
        run = _BARE.match(text, i)
        if run is None:
            return self._end_unit(), i
        whole, ends = run[0], len(run[0])
        parted = ends
        for n, char in enumerate(whole):
            self._bare = after(self._bare, char)
            if self._bare in PARTED:
                parted = min(parted, n)
            elif not self._bare:
                parted, ends = min(parted, n), n
                break
        self._spelled.append(whole[:ends])
        step = self._pass("", unit.feed(whole[:parted])) if parted else NOTHING
        if parted < ends and not step.blocked:
            step = joined(step, self._in_part(unit, whole[parted:ends]))
        if ends < len(whole) and not step.blocked:
            step = joined(step, Released(blocked="not_json"))
        return step, run.end()

    def _in_part(self, unit: _Unit, text: str) -> Released:
        """Read a number from its point or exponent on, holding it until its value is known."""
        step = self._pass("", unit.feed(text))
        if step.text:
            self._waiting.append(step.text)
            step = replace(step, text="")
        return step

    def _in_escape(self, unit: _Unit, text: str, i: int) -> tuple[Released, int]:
        if raw := self._escape.take_unpaired(text[i]):
            return self._pass(UNPAIRED, unit.feed_spelled(UNPAIRED, raw)), i
        released = NOTHING
        for decoded, raw in self._escape.read(text[i]):
            step = self._pass(decoded, unit.feed_spelled(decoded, raw))
            released = joined(released, step)
            if step.blocked:
                break
        return released, i + 1

    def _begin_unit(self, kind: Kind, at: int) -> None:
        unit = self._made(kind)
        self._spelled, self._waiting = [], []
        self._unit, self._kind, self._key, self._bare, self._unit_at = unit, kind, "", "start", at

    def _made(self, kind: Kind) -> _Unit:
        rails, request, caller, channel, limits = self._open
        if self._placed and kind != "key":
            rails = [self._at_place(rail) for rail in rails]
        self._last = unit = _Unit(rails, request, caller, channel, limits)
        unit.spelled, unit.redactor, unit.place = {}, self._redactor, lambda: (self._where.path(), kind)
        return unit

    def _at_place(self, rail: OutputRail) -> OutputRail:
        return rail.at_place(self._tool, self._where.path()) if offers(rail, PlacedRail) else rail

    def _end_unit(self, *, cut: bool = False) -> Released:
        assert self._unit is not None
        if self._kind == "key":
            self._where.key = self._key
        released = self._pass("", self._unit.close(cut=cut))
        self._unit = None
        if self._kind != "number" or self._bare not in PARTED or released.blocked is not None:
            return released
        return self._by_value(released)

    def _by_value(self, rest: Released) -> Released:
        """Return the held text of a number with a fraction or exponent; nothing if rails block its value."""
        spelled = Released("".join(self._waiting))
        self._waiting = []
        seen = NOTHING
        for value in whole_values("".join(self._spelled)):
            if seen.blocked is None:
                seen = joined(seen, *self._made("number").whole(value))
        told = replace(seen, text="", withheld="", redactions=())
        if seen.blocked is not None:
            return told
        found = joined(spelled, rest)
        if seen.escalations:
            found = replace(found, text="", withheld=found.text + found.withheld)
        return joined(told, found)

    def _pass(self, decoded: str, released: Released) -> Released:
        """Note that `decoded` was fed; turn offsets of redactions into those of the JSON text."""
        if self._kind == "key":
            self._key += decoded
        if not released.redactions:
            return released
        assert self._unit is not None
        base, offset = self._unit_at, self._unit.raw_offset
        moved = [replace(r, start=base + offset(r.start), end=base + offset(r.end)) for r in released.redactions]
        return replace(released, redactions=tuple(moved))
