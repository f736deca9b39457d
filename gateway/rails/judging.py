"""Asynchronous judges, before the windows of an answer.

Every text of an answer is judged by every enforcing judge; its pieces go on to their window once all have cleared them.
A judge in shadow mode runs beside the stream and holds nothing. One that fails closed ends the request with an error:
text that was not judged has not left.

Not covered: choices are judged one after the other, as their pieces come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluicegate.gateway.rails.judged_text import (
    PART,
    ActiveJudge,
    JudgedText,
    ReadableJson,
    Step,
    TextVerdict,
    as_read,
)
from sluicegate.gateway.rails.stage_calls import LONGEST_S
from sluicegate.gateway.rails.states import reads_states
from sluicegate.gateway.rails.text_windows import read_as
from sluicegate.plugins import (
    AwaitedSession,
    Caller,
    Channel,
    JudgingRail,
    JudgingTerms,
    OutputRail,
    Piece,
    Request,
    StageFailed,
    Verdict,
    offers,
    properties_of,
)
from sluicegate.safety import RAIL_FAILURES, Joined, JudgeRail, Released, WindowLimits

log = logging.getLogger("sluicegate.rails")
Key = tuple[Channel, int]


_Shown = tuple[str, Sequence[Mapping[str, float]], Joined]
"""A text, the probes' scores of its tokens, and the parts that it was joined of."""


@dataclass(slots=True)
class _Shadow:
    """A judge in shadow mode at work on one text."""

    judge: ActiveJudge
    spelling: ReadableJson | None
    texts: asyncio.Queue[_Shown | None] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[list[Released]] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(_watched(self))


class Judging:
    """The judging of all texts of one request. Used by one task, which must call `cancel` at the end, however it
    ends."""

    def __init__(
        self,
        rails: Sequence[tuple[str, OutputRail]],
        request: Request,
        caller: Caller,
        limits: WindowLimits = WindowLimits(),
        lead: str = "",
    ) -> None:
        """Prepare to judge the answers to `request`. `rails` that are no `JudgingRail` are ignored."""
        self._rails: list[tuple[str, JudgingRail]] = [(name, rail) for name, rail in rails if offers(rail, JudgingRail)]
        self._request = request
        self._caller = caller
        self._limits = limits
        self._lead = lead
        self._choices: list[dict[Key, JudgedText]] = [{} for _ in range(request.n)]
        self._stopped = [False] * request.n
        self._shadows: dict[tuple[int, Channel, int], list[_Shadow]] = {}
        self._judges: list[ActiveJudge] = []
        self.failure: StageFailed | None = None
        """To be raised once the steps before it are handled."""

    def __bool__(self) -> bool:
        return bool(self._rails)

    def held(self, index: int) -> int:
        """Return how many characters of a choice wait for judges."""
        return sum([text.held for text in self._choices[index].values()])

    def seconds(self) -> dict[str, float]:
        """Return the seconds spent waiting for each rail, by name."""
        found = dict.fromkeys((name for name, _ in self._rails), 0.0)
        for judge in self._judges:
            found[judge.name] += judge.seconds
        return found

    def scores(self) -> dict[str, dict[str, float]]:
        """Return the worst score of each category by rail, for the trace."""
        found: dict[str, dict[str, float]] = {}
        for judge in self._judges:
            mine = found.setdefault(judge.name, {})
            for category, score in judge.scores.items():
                mine[category] = max(round(score, 4), mine.get(category, 0.0))
        return found

    async def feed(self, piece: Piece) -> list[Step]:
        """Return the pieces that may go on to the windows, in order, and the judges' verdicts."""
        if self._stopped[piece.index] or self.failure is not None:
            return []
        ending = piece.finish_reason is not None or piece.ends
        text = self._text(piece)
        if self._shadows:
            self._show(text, piece, ends=ending)
        said = piece if not ending else replace(piece, finish_reason=None, ends=False, closed="", stopped_by="")
        steps = await text.feed(said)
        if self._goes_on(text) and ending:
            steps += await self._end(text, piece)
        return steps

    async def finish(self) -> list[TextVerdict]:
        """Wait for the judges in shadow mode and return their verdicts; every text has ended."""
        found: list[TextVerdict] = []
        for (index, channel, call), shadows in self._shadows.items():
            for shadow in shadows:
                shadow.texts.put_nowait(None)
                found += [TextVerdict(index, channel, call, released) for released in await shadow.task]
        self._shadows = {}
        return found

    def cancel(self) -> None:
        """Cancel the judges in shadow mode. Idempotent."""
        for shadows in self._shadows.values():
            for shadow in shadows:
                shadow.task.cancel()

    async def _end(self, text: JudgedText, piece: Piece) -> list[Step]:
        """Close a complete text; where the choice has ended, all its texts, in the order in which they began."""
        steps: list[Step] = []
        whole = self._choices[piece.index].values() if piece.finish_reason is not None else (text,)
        for one in whole:
            if not one.closed:
                steps += await one.close()
                if not self._goes_on(one):
                    return steps
        return [*steps, replace(piece, text="", logprobs=(), token_ids=(), tool=None)]

    def _goes_on(self, text: JudgedText) -> bool:
        self._stopped[text.index] = self._stopped[text.index] or text.stopped
        if text.failed is not None and self.failure is None:
            name, error = text.failed
            log.error("rail %s of slot moderate failed: %s", name, type(error).__name__)
            self.failure = StageFailed("moderate", name, f"{_why(error)}; nothing that it had not judged was sent")
        return not text.stopped and text.failed is None

    def _text(self, piece: Piece) -> JudgedText:
        key = (piece.channel, piece.call if piece.channel == "tool_arguments" else 0)
        texts = self._choices[piece.index]
        if key not in texts:
            texts[key] = self._begun(piece.index, *key)
        return texts[key]

    def _begun(self, index: int, channel: Channel, call: int) -> JudgedText:
        acting: list[ActiveJudge] = []
        for name, rail in self._rails:
            judge = self._judge(name, rail, channel)
            if judge is None:
                continue
            if judge.rail_policy.mode == "shadow":
                shadow = _Shadow(judge, ReadableJson() if self._is_json(channel) else None)
                self._shadows.setdefault((index, channel, call), []).append(shadow)
            else:
                acting.append(judge)
        spelling = ReadableJson() if self._is_json(channel) else None
        return JudgedText(index, channel, call, acting, self._limits.max_hold, spelling)

    def _judge(self, name: str, rail: JudgingRail, channel: Channel) -> ActiveJudge | None:
        """Open a judge for one text. Return None for a channel that the rail does not read."""
        declared, shown = properties_of(rail), read_as(channel)
        if declared is not None and shown not in declared.channels:
            return None
        rail_policy = self._limits.rail_policy(name)
        lead = "" if channel == "tool_arguments" else self._lead
        terms = JudgingTerms(lead, rail_policy.escalate, rail_policy.block)
        session = _session(rail, self._request, self._caller, shown, terms)
        own_s = declared.budget_s if declared is not None else None
        limit_s = rail_policy.budget_s or own_s or LONGEST_S
        judge = ActiveJudge(name, session, rail_policy, limit_s, is_ours=type(rail) is JudgeRail)
        judge.reads_states = reads_states(rail)
        self._judges.append(judge)
        return judge

    def _is_json(self, channel: Channel) -> bool:
        constraint = self._request.constraint
        is_structured = constraint is not None and constraint.kind in ("json_schema", "json_object")
        return channel == "tool_arguments" or (channel == "content" and is_structured)

    def _show(self, text: JudgedText, piece: Piece, *, ends: bool) -> None:
        for shadow in self._shadows.get((text.index, text.channel, text.call), ()):
            if piece.text:
                shadow.texts.put_nowait((piece.text, piece.probed, piece.joined))
            if ends:
                shadow.texts.put_nowait(None)


def _session(
    rail: JudgingRail, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms
) -> AwaitedSession:
    """Open a session. One that cannot be made fails where it is first asked."""
    try:
        return rail.follow(request, caller, channel, terms)
    except RAIL_FAILURES as error:
        return _FailedSession(error)


class _FailedSession:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def feed(self, text: str) -> Verdict:
        raise self._error

    async def close(self) -> Verdict:
        raise self._error


async def _watched(shadow: _Shadow) -> list[Released]:
    """Judge beside the stream, and return the steps that enforcing would have taken."""
    judge, fed = shadow.judge, 0
    found: list[Released] = []
    try:
        while (shown := await shadow.texts.get()) is not None:
            text, probed, joined = shown
            if judge.reads_states and not probed:  # a kept answer, or another model's: there is nothing to judge
                return found
            read, joined = as_read(shadow.spelling, text, joined)
            judge.add_log_odds(len(read), probed, joined)
            for at in range(0, len(read), PART):
                fed += len(read[at : at + PART])
                found += _would(judge, await judge.ask(read[at : at + PART], fed))
                if judge.silent:
                    return found
        found += _would(judge, await judge.ask(None, fed))
    except Exception as error:
        found.append(Released(failures=(f"{judge.name}: {type(error).__name__}",)))
    return found


def _would(judge: ActiveJudge, verdict: Verdict) -> list[Released]:
    found: list[Released] = []
    if verdict.escalate:
        found.append(Released(shadow=(f"{judge.name}: escalate: {verdict.escalate}",)))
    if verdict.block is not None:
        judge.silent = True
        found.append(Released(shadow=(f"{judge.name}: {judge.rail_policy.on_block}: {verdict.block}",)))
    return found


def _why(error: Exception) -> str:
    """Return the kind of failure for the caller, without the judge's words about the answer."""
    if isinstance(error, TimeoutError):
        return "its judgement of the answer took too long"
    return f"it could not judge the answer ({type(error).__name__})"
