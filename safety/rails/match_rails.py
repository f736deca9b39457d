"""Rails that match patterns: an output rail for streams and an input rail for messages, both over an automaton.

Not covered: meaning. Text without a pattern in the automaton passes; so does a match spread over messages of two roles,
over two channels or over two choices.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sluicegate.plugins import (
    CHANNELS,
    Caller,
    Channel,
    Mark,
    RailProperties,
    Request,
    ScreenResult,
    Span,
    Text,
    Verdict,
    in_two,
    texts_of,
)
from sluicegate.plugins.json_names import Path
from sluicegate.safety.matching.automaton import Automaton, Match
from sluicegate.safety.matching.json_escapes import find_spelled, joined
from sluicegate.safety.matching.scanner import Scanner, find_all
from sluicegate.safety.rails.adjacent_messages import matches_across, spanning
from sluicegate.safety.rails.verdict_memory import Remembered

LONG = 20_000
"""Characters from which texts are read in a thread: a few milliseconds of reading."""
CONTEXT = 2
"""Visible characters before a match that rules may read."""
PASSED = ScreenResult()
MOST_MARKS = 1_000
"""Maximum marks of one request: enough for people to look at."""
WORTH_REMEMBERING = 64
"""Characters from which clean texts are remembered; fewer are read as fast as they are looked up."""


@dataclass(frozen=True, slots=True)
class MatchPolicy:
    """The action for each label: `redact`, `escalate` or `block` by label in `actions`, else `action`."""

    action: str = "redact"
    actions: Mapping[str, str] | None = None
    replacement: str = "[REDACTED]"
    """`{label}` in it stands for the label."""

    def does(self, label: str) -> str:
        return (self.actions or {}).get(label, self.action)

    def span(self, match: Match) -> Span:
        return Span(match.start, match.end, match.label, self.replacement.replace("{label}", match.label))


def version(automaton: Automaton, policy: MatchPolicy) -> str:
    """Return a version that changes exactly when the rules or their actions change."""
    said = (policy.action, sorted((policy.actions or {}).items()), policy.replacement)
    return hashlib.sha256(f"{automaton.fingerprint} {said}".encode()).hexdigest()[:16]


_clear_verdict = lru_cache(4096)(Verdict)
"""Returns the verdict of a piece without matches, cached by `clear_to`: verdicts are immutable."""


class MatchSession:
    """Finds the matches of `find_all` incrementally, up to the first match that blocks. Mutable, for one channel."""

    def __init__(self, scanner: Scanner, policy: MatchPolicy) -> None:
        self._scanner = scanner
        self._policy = policy
        self._escalated = False

    def clears(self, text: str) -> bool:
        """Return whether `text`, as the whole channel, has no match. Does not change the session."""
        return not find_all(self._scanner.automaton, text)

    def feed(self, text: str) -> Verdict:
        matches = self._scanner.feed(text)
        return self._verdict(matches) if matches else _clear_verdict(self._scanner.clear_to)

    def close(self) -> Verdict:
        return self._verdict(self._scanner.close())

    def cut(self) -> Verdict:
        """Close a text that was cut short within a match."""
        return self._verdict(self._scanner.cut())

    def after(self, lead: str) -> MatchSession:
        """Return a session for the text after `lead`."""
        return _MatchContinuation(self._scanner, self._policy, lead)

    @property
    def _clear_to(self) -> int:
        return self._scanner.clear_to

    def _verdict(self, matches: list[Match]) -> Verdict:
        spans: list[Span] = []
        asked: Match | None = None
        for match in matches:
            action = self._policy.does(match.label)
            if action == "block":
                return Verdict(match.start, tuple(spans), block=match.label)
            if action == "redact":
                spans.append(self._policy.span(match))
            elif not self._escalated:  # the first is reported; whoever reviews it sees the others
                self._escalated, asked = True, match
        if asked is None:
            return Verdict(self._clear_to, tuple(spans))
        return Verdict(self._clear_to, tuple(spans), escalate=asked.label, escalate_at=asked.start)


class _MatchContinuation(MatchSession):
    """Reports matches that span the end of `lead`, at offsets in the text after it, until no more are possible. Matches
    in the text alone are left to another session."""

    def __init__(self, scanner: Scanner, policy: MatchPolicy, lead: str) -> None:
        super().__init__(scanner, policy)
        self._lead = lead
        self._is_read = self._over = False
        self._fed = 0
        self._symbols = 0  # visible symbols of the text read so far
        self._near = 0  # offset in the text up to which a rule may depend on the lead

    def clears(self, text: str) -> bool:
        base = len(self._lead)
        return all(match.end <= base for match in find_all(self._scanner.automaton, self._lead + text))

    def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        if not self._over:
            self._read_lead()
            self._look(text)
            found = self._moved(self._scanner.feed(text))
            self._over = self._symbols >= CONTEXT and self._clear_to >= self._near
            return self._verdict(found)
        return Verdict(self._fed)

    def close(self) -> Verdict:
        return self._ended(self._scanner.close)

    def cut(self) -> Verdict:
        return self._ended(self._scanner.cut)

    def _ended(self, end: Callable[[], list[Match]]) -> Verdict:
        if self._over:
            return Verdict(self._fed)
        self._read_lead()
        return self._verdict(self._moved(end()))

    def _read_lead(self) -> None:
        if not self._is_read:
            self._is_read = True
            self._scanner.read_before(self._lead)

    def _look(self, text: str) -> None:
        fold, at = self._scanner.automaton.fold, 0
        while self._symbols < CONTEXT and at < len(text):
            self._symbols += len(fold(text[at]))
            self._near, at = self._near + 1, at + 1

    @property
    def _clear_to(self) -> int:
        return self._fed if self._over else max(0, self._scanner.clear_to - len(self._lead))

    def _moved(self, matches: list[Match]) -> list[Match]:
        base = len(self._lead)
        return [Match(max(0, m.start - base), m.end - base, m.label) for m in matches if m.end > base]


class MatchRail:
    """A rail of slot `moderate` over an automaton that all sessions share."""

    def __init__(
        self, name: str, automaton: Automaton, policy: MatchPolicy, channels: frozenset[Channel] | None = None
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
    """Add the channel of tool names to that of tool arguments: older settings lack it."""
    return channels | {"tool_name"} if "tool_arguments" in channels else channels


class PassSession:
    """The session of a channel the rail does not read: releases everything."""

    def __init__(self) -> None:
        self._end = 0

    def clears(self, text: str) -> bool:
        return True

    def feed(self, text: str) -> Verdict:
        self._end += len(text)
        return Verdict(self._end)

    def close(self) -> Verdict:
        return Verdict(self._end)


_AS_SPACES = str.maketrans("_-./:+~|", "        ")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class MatchScreen:
    """A rail of slot `screen`: searches the texts of a request one by one. The first match that blocks decides."""

    inline_chars = LONG
    text_chars = 0

    def __init__(self, name: str, automaton: Automaton, policy: MatchPolicy, roles: frozenset[str]) -> None:
        """Build an input rail over `automaton`. `roles`: whose messages are read; text beside the messages is always
        read."""
        self.name = name
        self.properties = RailProperties(version(automaton, policy), reads="texts")
        self._automaton = automaton
        self._policy = policy
        self._roles = roles
        self._clean: Remembered[bool] = Remembered()

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        """Search the texts of `request`. Long requests are read in a thread, so that the event loop serves others."""
        texts = texts_of(request)
        if sum(len(text.text) for text in texts) > LONG:
            return await asyncio.to_thread(self.screen_now, request, texts, caller)
        return self.screen_now(request, texts, caller)

    def screen_now(self, request: Request, texts: Sequence[Text], caller: Caller) -> ScreenResult:
        """Do what `screen` does, in the calling thread. `texts`: those of `request`, as `texts_of` lists them."""
        changes: list[tuple[Text, str]] = []
        asked: dict[str, Text] = {}
        marks: list[Mark] = []
        for text, matches in self._found(request, as_spelled(texts), caller.tenant):
            for match in matches:
                action = self._policy.does(match.label)
                if len(marks) < MOST_MARKS:
                    marks.append(Mark(match.label, text.path, match.start, min(match.end, len(text.text))))
                if action == "block":
                    reason = self._reason({match.label: text.place})
                    return ScreenResult("block", reason, told=refusal(text), marks=tuple(marks))
                asked.setdefault(f"{action} {match.label}", text)
            new = self._without(text.text, matches)
            if new != text.text:
                changes.append((text, new))
        return dataclasses.replace(self._result(request, changes, asked), marks=tuple(marks)) if marks else PASSED

    def spanning(self, pieces: Sequence[str]) -> tuple[int, int, str] | None:
        """Return (first piece, last piece, reason) of the first match that spans several of `pieces`, joined by line
        breaks; None if there is none."""
        for first, last, match in spanning(self._automaton, pieces):
            return first, last, f"{self.name}: {match.label} across documents"
        return None

    def _result(self, request: Request, changes: list[tuple[Text, str]], asked: dict[str, Text]) -> ScreenResult:
        """Return the result if nothing blocked. `asked`: the text of the first match by "action label"."""
        worst: Literal["redact", "escalate"] = (
            "escalate" if any(key.startswith("escalate ") for key in asked) else "redact"
        )
        found = {key.removeprefix(f"{worst} "): text for key, text in asked.items() if key.startswith(worst)}
        if not found:
            return ScreenResult()
        messages, others = in_two(changes, request)
        reason = self._reason({label: text.place for label, text in found.items()})
        told = refusal(next(iter(found.values()))) if worst == "escalate" else ""
        return ScreenResult(worst, reason, messages, told=told, texts=others)

    def _reason(self, labels: Mapping[str, str]) -> str:
        return f"{self.name}: {', '.join(f'{label} in {place}' for label, place in sorted(labels.items()))}"

    def _found(self, request: Request, texts: list[Text], tenant: str) -> Iterator[tuple[Text, list[Match]]]:
        """Yield each text that has matches, once. Texts that were clean in one of the tenant's last requests are not
        read again."""
        shared: dict[Path, list[Match]] = {}
        for text, match in matches_across(
            self._automaton, request, (text for text in texts if text.role in self._roles)
        ):
            shared.setdefault(text.path, []).append(match)
        for text, matches in self._alone(texts, tenant):
            yield text, joined([*matches, *shared.pop(text.path, ())])
        yield from ((text, joined(shared[text.path])) for text in texts if text.path in shared)

    def _alone(self, texts: Sequence[Text], tenant: str) -> Iterator[tuple[Text, list[Match]]]:
        for group in _groups(texts, self._roles):
            said = [text.text for text in group]
            read_as = "".join(["f" if text.is_free else "i" for text in group])  # identifiers are read differently
            worth = sum(map(len, said)) >= WORTH_REMEMBERING or any("\\" in text for text in said)  # decoded, too
            key = self._clean.key(tenant, (read_as, *said)) if worth else None
            if key is not None and self._clean.find(key):
                continue
            found = [(text, matches) for text in group if (matches := self._matches(text))]
            if key is not None and not found:
                self._clean.keep(key, True)
            yield from found

    def _matches(self, text: Text) -> list[Match]:
        """Find matches in one text. In an identifier, phrases are also found with signs or case changes in place of
        spaces; the offsets of such a match are not exact."""
        found = find_spelled(self._automaton, text.text)
        if found or text.is_free or not self._automaton.has_phrases:
            return found
        spaced = _BETWEEN_WORDS.sub(" ", text.text.translate(_AS_SPACES))
        return find_all(self._automaton, spaced) if spaced != text.text else []

    def _without(self, text: str, matches: list[Match]) -> str:
        parts, at = [], 0
        for match in matches:
            if self._policy.does(match.label) == "redact":
                parts += [text[at : match.start], self._policy.span(match).replacement]
                at = match.end
        return "".join([*parts, text[at:]])


def _groups(texts: Sequence[Text], roles: frozenset[str]) -> list[list[Text]]:
    """Return each text of a message as a group, and all texts outside messages as one: applications repeat those as a
    whole."""
    beside = [text for text in texts if text.role is None]
    groups = [[text] for text in texts if text.role in roles]
    return [*groups, beside] if beside else groups


def as_spelled(texts: Sequence[Text]) -> list[Text]:
    """Leave out decoded arguments: `find_spelled` reads them in their original spelling, where they can be replaced."""
    return [text for text in texts if "(decoded)" not in text.path]


def refusal(text: Text) -> str:
    """Return the message for a caller whose `text` was refused: its place, never what was found."""
    return f"the text at {text.place} is not allowed here"
