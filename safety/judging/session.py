"""Wrap a judge in an output rail: cut each text into units, have them judged, and turn scores into verdicts.

A unit is held until its judge has answered, at the cost of one judgement per unit. If a judge raises or is late,
nothing of the unit is released.

Not covered: text that becomes harmful only by later text; it has been released by then.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from sluicegate.plugins import (
    AwaitedSession,
    Caller,
    Channel,
    JudgingTerms,
    Lifecycle,
    RailProperties,
    Request,
    StatsReporter,
    TokenLogOdds,
    Verdict,
    offers,
)
from sluicegate.plugins.frozen import quick
from sluicegate.safety.judging.units import Unit, UnitCutter


@quick
@dataclass(frozen=True, slots=True)
class Assessment:
    """A judge's result for one unit: a score from 0 to 1 per category; no scores = harmless."""

    scores: Mapping[str, float] = field(default_factory=dict)


TOKEN_SUFFIX = "/token"
"""Ends the category of a token's score; a unit's category lacks it."""
Joined = Sequence[tuple[int, int]]
"""Characters and tokens of each part of a text that was joined of several; empty = it is one."""


class JudgedReading(Protocol):
    """A judge's state for one text. Used by one task."""

    async def judge(self, unit: str) -> Assessment:
        """Judge the next unit, in the context of all units before it. Raises if the judge cannot judge."""


@runtime_checkable
class StateReading(Protocol):
    """A `JudgedReading` that uses the model's states. It gets the probes' scores of a text before the text."""

    def add_log_odds(self, size: int, probed: TokenLogOdds, joined: Joined = ()) -> None:
        """Record the probes' scores for the next `size` characters; empty = no probe has scored them."""

    def score_open_unit(self, end: int) -> Assessment:
        """Return the scores of the unit being written, up to character `end` of the text."""


class AnswerJudge(Protocol):
    """Judges the texts of answers. Shared by requests."""

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        """Open a text of the answer to `request`; `lead`: the text before it."""


@dataclass(frozen=True, slots=True)
class ScoreLimits:
    """Scores from which a person is asked, or the answer is blocked; above 1 = never."""

    escalate: float = 2.0
    block: float = 0.9

    def action(self, score: float) -> str:
        if score >= self.block:
            return "block"
        return "escalate" if score >= self.escalate else "pass"


@dataclass(frozen=True, slots=True)
class JudgingPolicy:
    """How one rail judges. `categories`: limits of their own; others have `limits`. `least`, `most`: characters of a
    unit."""

    limits: ScoreLimits = ScoreLimits()
    categories: Mapping[str, ScoreLimits] = field(default_factory=dict)
    least: int = 60
    most: int = 400
    tokens: ScoreLimits | None = None
    """Limits of categories that end in `TOKEN_SUFFIX`, unless `categories` has them. A request's policy does not change
    these."""

    def worst(self, assessment: Assessment, terms: JudgingTerms) -> tuple[str, str]:
        """Return the worst action and the category that caused it, the highest score among equals."""
        found = ("pass", "", -1.0)
        for category, score in assessment.scores.items():
            limits = self.limits_of(category, terms)
            action = limits.action(score)
            if (_SEVERITY[action], score) > (_SEVERITY[found[0]], found[2]):
                found = (action, category, score)
        return found[0], found[1]

    def limits_of(self, category: str, terms: JudgingTerms) -> ScoreLimits:
        """Return the limits of a category under the policy of a request."""
        if category.endswith(TOKEN_SUFFIX) and self.tokens is not None:
            return self.categories.get(category, self.tokens)
        return self._under(terms, self.categories.get(category, self.limits))

    def _under(self, terms: JudgingTerms, own: ScoreLimits) -> ScoreLimits:
        """Return the limits, replaced by those that the policy of a request sets for every category."""
        if terms.escalate is None and terms.block is None:
            return own
        escalate = own.escalate if terms.escalate is None else terms.escalate
        return ScoreLimits(escalate, own.block if terms.block is None else terms.block)


_SEVERITY = {"pass": 0, "escalate": 1, "block": 2}


class JudgeSession:
    """One text of one answer."""

    def __init__(self, reading: JudgedReading, policy: JudgingPolicy, terms: JudgingTerms) -> None:
        self._reading = reading
        # Checked once, and by `offers`: a runtime check of a Protocol is slow.
        self._state_reading = reading if offers(reading, StateReading) else None
        self.judges_at_once = bool(getattr(reading, "judges_at_once", False))
        """Whether it judges by numbers that it has: any length of text may be fed at once."""
        self._policy = policy
        self._terms = terms
        self._units = UnitCutter(policy.least, policy.most)
        self._clear_to = 0
        self._fed = 0
        self._blocked: str | None = None
        self._block_limits: dict[str, float] = {}

    def add_log_odds(self, size: int, probed: TokenLogOdds, joined: Joined = ()) -> None:
        """Record the probes' scores for the next `size` characters, before these are fed."""
        if self._state_reading is not None:
            self._state_reading.add_log_odds(size, probed, joined)

    def is_calm(self, size: int) -> bool:
        """Return whether no token up to the next `size` characters rings. If one does, they must be fed part by part:
        where it stops the answer depends on what was fed before it."""
        return self._state_reading is None or self._is_calm(self._state_reading, self._fed + size)

    def hold(self, text: str) -> bool:
        """Take `text` if `feed` would only repeat the verdict before; else take nothing and return False. Most tokens
        neither complete a unit nor raise an alarm, and this takes a tenth of the time."""
        if self._blocked is not None:
            return False
        if self._state_reading is not None and not self._is_calm(self._state_reading, self._fed + len(text)):
            return False
        if not self._units.hold(text):
            return False
        self._fed += len(text)
        return True

    def _is_calm(self, reading: StateReading, end: int) -> bool:
        """Return whether the open unit's scores are valid, and none of them stops the answer."""
        for category, score in reading.score_open_unit(end).scores.items():
            limit = self._block_limits.get(category)
            if limit is None:
                limit = self._block_limits[category] = self._policy.limits_of(category, self._terms).block
            if not 0.0 <= score <= 1.0 or score >= limit:
                return False
        return True

    async def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        return await self._judged(self._units.feed(text))

    async def close(self) -> Verdict:
        return await self._judged(self._units.close())

    async def _judged(self, units: Iterable[Unit]) -> Verdict:
        """Judge units in order, up to the first that blocks. Several escalations become one."""
        scores: dict[str, float] = {}
        asked: tuple[str, int] | None = None
        for unit in units if self._blocked is None else ():
            assessment = await self._reading.judge(unit.text)
            _check(assessment)
            for category, score in assessment.scores.items():
                scores[category] = max(score, scores.get(category, 0.0))
            action, category = self._policy.worst(assessment, self._terms)
            if action == "block":
                self._blocked = category
                break
            if action == "escalate" and asked is None:
                asked = category, unit.start
            self._clear_to = unit.end
        if self._blocked is None and self._state_reading is not None:
            self._judge_open(self._state_reading, scores)
        reason, at = asked or (None, None)
        return Verdict(self._clear_to, (), self._blocked, reason, at, tuple(scores.items()))

    def _judge_open(self, reading: StateReading, scores: dict[str, float]) -> None:
        """Block at once if the unit being written is already bad."""
        assessment = reading.score_open_unit(self._fed)
        _check(assessment)
        action, category = self._policy.worst(assessment, self._terms)
        if action == "block":
            self._blocked = category
            scores[category] = max(assessment.scores[category], scores.get(category, 0.0))


def _check(assessment: Assessment) -> None:
    for category, score in assessment.scores.items():
        if not 0.0 <= score <= 1.0:  # refuses NaN, too
            raise ValueError(f"the score of {category!r} is not a number from 0 to 1")


@runtime_checkable
class TextJudge(Protocol):
    """Judges texts of answers in units of its own. Shared by requests."""

    def begin(
        self, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms, policy: JudgingPolicy
    ) -> AwaitedSession:
        """Open a text of the answer to `request`."""


class JudgeRail:
    """Slot `moderate`. `open` supports only judges that never suspend; others need `follow`."""

    def __init__(
        self,
        name: str,
        judge: AnswerJudge | TextJudge,
        policy: JudgingPolicy,
        channels: Iterable[Channel],
        version: str,
        budget_s: float,
    ) -> None:
        """Build a rail around `judge`. `budget_s`: time for one judgement, unless the policy of a request says
        otherwise."""
        self.name = name
        self.judge = judge
        self.policy = policy
        self.properties = RailProperties(version, budget_s=budget_s, channels=frozenset(channels))

    @property
    def reads_states(self) -> bool:
        """Return whether the judge needs the model's states; it can then judge only answers as they are generated."""
        return bool(getattr(self.judge, "reads_states", False))

    async def start(self) -> None:
        if isinstance(self.judge, Lifecycle):
            await self.judge.start()

    async def close(self) -> None:
        if isinstance(self.judge, Lifecycle):
            await self.judge.close()

    def stats(self) -> Mapping[str, float]:
        return self.judge.stats() if isinstance(self.judge, StatsReporter) else {}

    def follow(self, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms) -> AwaitedSession:
        if channel not in self.properties.channels:
            return _PassSession()
        if offers(self.judge, TextJudge):
            return self.judge.begin(request, caller, channel, terms, self.policy)
        judge = cast(AnswerJudge, self.judge)
        return JudgeSession(judge.read(request, caller, channel, terms.lead), self.policy, terms)

    def open(self, request: Request, caller: Caller, channel: Channel) -> ImmediateSession:
        return ImmediateSession(self.follow(request, caller, channel, JudgingTerms()))


class _PassSession:
    """The session of a channel that the rail does not judge: releases everything."""

    def __init__(self) -> None:
        self._fed = 0

    async def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        return Verdict(self._fed)

    async def close(self) -> Verdict:
        return Verdict(self._fed)


class ImmediateSession:
    """Adapts the awaited session of a judge that never suspends to a `RailSession`."""

    def __init__(self, session: AwaitedSession) -> None:
        self._session = session

    def feed(self, text: str) -> Verdict:
        return _at_once(lambda: self._session.feed(text))

    def close(self) -> Verdict:
        return _at_once(self._session.close)


def _at_once(call: Callable[[], Coroutine[Any, Any, Verdict]]) -> Verdict:
    """Run a coroutine that never suspends, and return its verdict. Raises `RuntimeError` if it suspends: without a
    verdict no text is released."""
    running = call()
    try:
        running.send(None)
    except StopIteration as done:
        verdict: Verdict = done.value
        return verdict
    running.close()
    raise RuntimeError("this judge answers later; ask it through follow()")
