"""Rails that match: an output rail for streams and an input rail for messages, over one automaton.

Not covered: meaning. What the automaton has no pattern for passes; so does a match spread over two messages, two
channels or two choices.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from plugins.contract import CHANNELS, Caller, Channel, Message, RailProperties, Request, ScreenResult, Span, Verdict
from safety.automaton import Automaton, Match
from safety.scanner import Scanner, find_all

LONG = 20_000
"""Characters; a few milliseconds of reading."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What to do about each label. `actions`: `redact`, `escalate` or `block` by label; others do `action`."""

    action: str = "redact"
    actions: Mapping[str, str] | None = None
    replacement: str = "[REDACTED]"
    """`{label}` in it stands for the label."""

    def does(self, label: str) -> str:
        return (self.actions or {}).get(label, self.action)

    def span(self, match: Match) -> Span:
        return Span(match.start, match.end, match.label, self.replacement.replace("{label}", match.label))


def version(automaton: Automaton, policy: Policy) -> str:
    """Changes when the rules or what is done about them change, and only then."""
    said = (policy.action, sorted((policy.actions or {}).items()), policy.replacement)
    return hashlib.sha256(f"{automaton.fingerprint} {said}".encode()).hexdigest()[:16]


class MatchSession:
    """Same as `find_all` of the whole channel, but incremental; ends at the first match that blocks."""

    def __init__(self, scanner: Scanner, policy: Policy) -> None:
        self._scanner = scanner
        self._policy = policy
        self._escalated = False

    def clears(self, text: str) -> bool:
        """There is nothing to say of `text`, if it is the whole of the channel. Reads nothing into the session."""
        return not find_all(self._scanner.automaton, text)

    def feed(self, text: str) -> Verdict:
        matches = self._scanner.feed(text)
        return self._verdict(matches) if matches else Verdict(self._scanner.clear_to)

    def close(self) -> Verdict:
        return self._verdict(self._scanner.close())

    def cut(self) -> Verdict:
        """As `close`, for a text that was cut short within a match."""
        return self._verdict(self._scanner.cut())

    def _verdict(self, matches: list[Match]) -> Verdict:
        spans: list[Span] = []
        asked: Match | None = None
        for match in matches:
            action = self._policy.does(match.label)
            if action == "block":
                return Verdict(match.start, tuple(spans), block=match.label)
            if action == "redact":
                spans.append(self._policy.span(match))
            elif not self._escalated:  # the first is told; whoever looks at it sees the others
                self._escalated, asked = True, match
        if asked is None:
            return Verdict(self._scanner.clear_to, tuple(spans))
        return Verdict(self._scanner.clear_to, tuple(spans), escalate=asked.label, escalate_at=asked.start)


class MatchRail:
    """Slot `moderate`. The automaton is shared by all sessions."""

    def __init__(
        self, name: str, automaton: Automaton, policy: Policy, channels: frozenset[Channel] | None = None
    ) -> None:
        self.name = name
        self.automaton = automaton
        self.policy = policy
        self.properties = RailProperties(
            version(automaton, policy), channels=_with_names(channels or frozenset(CHANNELS))
        )

    def open(self, request: Request, caller: Caller, channel: Channel) -> MatchSession | PassSession:
        if channel not in self.properties.channels:
            return PassSession()
        return MatchSession(Scanner(self.automaton), self.policy)


def _with_names(channels: frozenset[Channel]) -> frozenset[Channel]:
    """Whoever has the arguments of calls looked at has their names looked at: older settings know no names."""
    return channels | {"tool_name"} if "tool_arguments" in channels else channels


class PassSession:
    """For a channel that the rail was told to leave alone."""

    def __init__(self) -> None:
        self._end = 0

    def clears(self, text: str) -> bool:
        return True

    def feed(self, text: str) -> Verdict:
        self._end += len(text)
        return Verdict(self._end)

    def close(self) -> Verdict:
        return Verdict(self._end)


class MatchScreen:
    """Slot `screen`: the same matches on the request's messages, one by one. The first that blocks decides."""

    def __init__(self, name: str, automaton: Automaton, policy: Policy, roles: frozenset[str]) -> None:
        self.name = name
        self.properties = RailProperties(version(automaton, policy))
        self._automaton = automaton
        self._policy = policy
        self._roles = roles

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        """Long requests are read in a thread, so that others' streams go on."""
        if sum(len(text) for message in request.messages for text in _texts(message)) > LONG:
            return await asyncio.to_thread(self._screened, request)
        return self._screened(request)

    def _screened(self, request: Request) -> ScreenResult:
        screened: list[Message] = []
        labels: dict[str, set[str]] = {"redact": set(), "escalate": set()}
        for message in request.messages:
            texts = _texts(message) if message.role in self._roles else []
            found = [find_all(self._automaton, text) for text in texts]
            told = [match.label for matches in found for match in matches]
            for label in told:
                action = self._policy.does(label)
                if action == "block":
                    return ScreenResult("block", reason=f"{self.name}: {label}")
                labels[action].add(label)
            screened.append(self._redacted(message, found) if told else message)
        worst: Literal["redact", "escalate"] = "escalate" if labels["escalate"] else "redact"
        if not labels[worst]:
            return ScreenResult()
        reason = f"{self.name}: {', '.join(sorted(labels[worst]))}"
        return ScreenResult(worst, reason=reason, messages=tuple(screened) if labels["redact"] else None)

    def _redacted(self, message: Message, found: list[list[Match]]) -> Message:
        content, *arguments = map(self._without, _texts(message), found)
        calls = (replace(call, arguments=text) for call, text in zip(message.tool_calls, arguments, strict=True))
        return replace(message, content=content, tool_calls=tuple(calls))

    def _without(self, text: str, matches: list[Match]) -> str:
        for match in reversed(matches):
            if self._policy.does(match.label) == "redact":
                text = text[: match.start] + self._policy.span(match).replacement + text[match.end :]
        return text


def _texts(message: Message) -> list[str]:
    """What the message says, and what the calls in it say, as their JSON is spelled."""
    return [message.content, *(call.arguments for call in message.tool_calls)]
