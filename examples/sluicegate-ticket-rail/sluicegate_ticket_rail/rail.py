"""The rail itself: one regular expression for a whole ticket number, one for the beginning of one.

Not covered: other hyphens than `-`, numbers spelled out, keys with blanks inside.
"""

from __future__ import annotations

import re

from sluicegate.plugins import Caller, Channel, RailExample, RailProperties, RailSession, Request, Span, Verdict
from sluicegate_ticket_rail.settings import TicketSettings

EDGE = "[0-9A-Za-z]"


class TicketRail:
    """Slot `moderate`. Holds nothing of a request; sessions do."""

    def __init__(self, settings: TicketSettings) -> None:
        self.name = "tickets"
        self.settings = settings
        fewest, most = settings.digits
        keys = "|".join(sorted(settings.prefixes, key=len, reverse=True))
        begun = "|".join(_beginnings(key, most) for key in settings.prefixes)
        self.ticket = re.compile(rf"(?<!{EDGE})(?:{keys})-[0-9]{{{fewest},{most}}}(?!{EDGE})", re.I | re.A)
        self.begun = re.compile(rf"(?<!{EDGE})(?:{begun})\Z", re.I | re.A)
        self.properties = RailProperties(
            version="1",
            look_back=1,
            hold_back=max(map(len, settings.prefixes)) + 1 + most,
            budget_s=0.005,
            examples=_examples(settings),
        )

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        return TicketSession(self)


class TicketSession:
    """Keeps the text that is not settled and the one character before it, which says whether a word begins there."""

    def __init__(self, rail: TicketRail) -> None:
        self._rail = rail
        self._text = ""
        self._offset = 0  # of `_text` in the whole text
        self._settled = 0  # in `_text`

    def feed(self, text: str) -> Verdict:
        self._text += text
        begun = self._rail.begun.search(self._text, self._settled)
        return self._settle(len(self._text) if begun is None else begun.start())

    def close(self) -> Verdict:
        return self._settle(len(self._text))

    def _settle(self, end: int) -> Verdict:
        """Decide everything before `end`. A ticket number that touches the end of the text stays open: it may go on."""
        found = [m for m in self._rail.ticket.finditer(self._text, self._settled) if m.start() < end]
        offset, action = self._offset, self._rail.settings.action
        if found and action == "block":
            return Verdict(offset + found[0].start(), block="internal ticket number")
        replacement = self._rail.settings.replacement
        spans = tuple(Span(offset + m.start(), offset + m.end(), "ticket", replacement) for m in found)
        self._forget(end)
        return Verdict(offset + end, spans)

    def _forget(self, end: int) -> None:
        keep = max(0, end - 1)
        self._text, self._offset, self._settled = self._text[keep:], self._offset + keep, end - keep


def _beginnings(key: str, most: int) -> str:
    """Return a pattern for every text that a ticket number of this key can begin with:
    `O(?:P(?:S(?:-[0-9]{0,7})?)?)?`."""
    pattern = f"(?:-[0-9]{{0,{most}}})?"
    for letter in reversed(key[1:]):
        pattern = f"(?:{letter}{pattern})?"
    return key[0] + pattern


def _examples(settings: TicketSettings) -> tuple[RailExample, ...]:
    """Return examples for `sluicegate plugins check`, which knows the settings of an installation only through the
    rail."""
    key, (fewest, most) = settings.prefixes[0], settings.digits
    ticket = f"{key}-{'1' * fewest}"
    return (
        RailExample(f"please see {ticket} and {ticket.lower()}.", forbidden=(ticket, ticket.lower())),
        RailExample(f"{key}-{'9' * most}", forbidden=(f"{key}-{'9' * most}",)),
        RailExample(f"X{ticket}, {ticket}b, {key}-, {key} {'1' * fewest}, {key}-{'9' * (most + 1)} and {key[0]}"),
    )
