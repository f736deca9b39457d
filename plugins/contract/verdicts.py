"""Verdicts of rails on a request and on a stream, and the properties that rails declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sluicegate.plugins.contract.names import CHANNELS, Channel
from sluicegate.plugins.contract.requests import Message
from sluicegate.plugins.frozen import quick
from sluicegate.plugins.json_names import Path


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a channel's decoded text, absolute offsets."""

    start: int
    end: int
    reason: str
    replacement: str = "[REDACTED]"


@quick
@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rail says about the text so far.

    `clear_to`: absolute offset before which the rail is content with what it has seen and with `redact`; it never
    decreases and never lies inside a redacted span. `redact`: spans new in this verdict, in order, none before an
    offset that was already clear. `block`: a reason; nothing at or after `clear_to` may ever be released. `escalate`: a
    reason; what begins at `escalate_at` (None: at the rail's last `clear_to`) waits for a person, and so does all that
    follows. The session goes on: what it redacts or blocks behind that place stays redacted or blocked.
    """

    clear_to: int
    redact: tuple[Span, ...] = ()
    block: str | None = None
    escalate: str | None = None
    escalate_at: int | None = None
    scores: tuple[tuple[str, float], ...] = ()
    """The worst score of each category in the judged text, 0 to 1, for operators; empty if the rail has none."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that an input rail found: `label` is its category, a short word of the rail's own, never what a caller
    wrote. Characters [start, end) of the text at `path`; `start` = `end`: somewhere in it."""

    label: str
    path: Path = ()
    start: int = 0
    end: int = 0


@quick
@dataclass(frozen=True, slots=True)
class ScreenResult:
    """An input rail's verdict on one request. `reason` is for operators and traces; `told` is for the caller, one plain
    sentence without scores. A rail that redacts gives `messages`, which replace the request's, or `texts`: new texts by
    the path of a `Text`. One for a place that must stay as it is (`fixed`) refuses the request."""

    action: Literal["pass", "redact", "block", "escalate"] = "pass"
    reason: str = ""
    messages: tuple[Message, ...] | None = None
    score: float | None = None
    texts: Mapping[Path, str] = field(default_factory=dict, repr=False)
    told: str = ""
    restore: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Placeholders in `messages` -> the texts that this caller gets back for them in the answer."""
    marks: tuple[Mark, ...] = ()
    """What was found and where, for operators, who count categories and try texts; optional."""


@quick
@dataclass(frozen=True, slots=True)
class TokenJudgement:
    """A guard's judgement of one token in its context. `level`: the guard's own severity label; `probability`: of that
    level among all levels; `category`: the likeliest one, which means little where the level is safe."""

    level: str
    probability: float
    category: str


@dataclass(frozen=True, slots=True)
class JudgingTerms:
    """Under what terms a text is judged. `lead`: what the reader has already, and joins the text to. `escalate`,
    `block`: scores that the policy of the request puts in place of the rail's own; None = the rail's."""

    lead: str = ""
    escalate: float | None = None
    block: float | None = None


@dataclass(frozen=True, slots=True)
class RailExample:
    """A text for trying a rail. `forbidden`: parts of it that must never leave, at every place where they occur;
    with none the text is harmless and must come out as it went in."""

    text: str
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RailProperties:
    """What a rail of slot `screen` or `moderate` says of itself: its optional attribute `properties`.

    `sluicegate plugins check` and `sluicegate.plugins.testing` try whether it is true.
    """

    version: str = "0"
    """Version of the rail's rules; a new one invalidates answers cached under the old one."""
    look_back: int | None = None
    """Characters before `clear_to` that can affect later verdicts; None = the whole text can."""
    hold_back: int | None = None
    """Most characters that the rail holds back behind the newest one; None = no promise."""
    budget_s: float | None = None
    """Most seconds for one call; None = no promise."""
    channels: frozenset[Channel] = frozenset(CHANNELS)
    """Channels that it judges; it lets everything on the others through."""
    failure_mode: Literal["closed", "open"] = "closed"
    """What the author recommends when the rail itself fails. Only the operator may open a failing rail."""
    examples: tuple[RailExample, ...] = ()
    reads: Literal["messages", "texts"] = "messages"
    """For input rails: `texts` = it reads everything that `texts_of` finds in a request. Any other rail is called a
    second time, with each text outside the messages as a message."""
