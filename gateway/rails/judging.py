"""Asynchronous judges, before the windows of an answer.

Every text of an answer is judged by every enforcing judge; its pieces go on to their window once all have cleared them.
A judge in shadow mode runs beside the stream and holds nothing. One that fails closed ends the request with an error:
text that was not judged has not left.

Not covered: choices are judged one after the other, as their pieces come.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sluicegate.gateway.rails.judged_text import ActiveJudge, JudgedText, ReadableJson, Step, TextVerdict
from sluicegate.gateway.rails.shadow_judging import ShadowJudge
from sluicegate.gateway.rails.stage_calls import LONGEST_S, cause_of, failed_stage
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
from sluicegate.safety import RAIL_FAILURES, JudgeRail, WindowLimits

log = logging.getLogger("sluicegate.rails")
Key = tuple[Channel, int]
SHOWN_AT_ONCE = 32
"""Pieces whose text judges in shadow mode are shown together."""
SHOWN_AT_MOST = 512
"""The same where all of them read states: they cannot read a text before its scores, which show it."""


@dataclass(slots=True)
class _Unshown:
    """Text of a choice's current channel that judges in shadow mode have not been shown. Mutable."""

    channel: Channel = "content"
    call: int = 0
    texts: list[str] = field(default_factory=list)


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
        self._shadows: dict[tuple[int, Channel, int], list[ShadowJudge]] = {}
        self._unshown = [_Unshown() for _ in range(request.n)]
        self._at_once = SHOWN_AT_MOST if all(reads_states(rail) for _, rail in self._rails) else SHOWN_AT_ONCE
        self._acts = any(limits.rail_policy(name).mode != "shadow" for name, _ in self._rails)
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

    def reads_beside(self, piece: Piece) -> bool:
        """Have judges in shadow mode read `piece`, at once or with later ones; return False where a judge acts, which
        must be asked about it: `feed`. This is what a judge in shadow mode costs for every token."""
        if self._acts:
            return False
        unshown = self._unshown[piece.index]
        if piece.probed or piece.finish_reason is not None or piece.ends:
            self._catch_up(piece.index)
            self._show(self._text(piece), piece, ends=piece.finish_reason is not None or piece.ends)
            return True
        if piece.channel != unshown.channel or piece.call != unshown.call or len(unshown.texts) >= self._at_once:
            self._catch_up(piece.index)
            unshown.channel, unshown.call = piece.channel, piece.call
        unshown.texts.append(piece.text)
        return True

    def _catch_up(self, index: int) -> None:
        """Show judges in shadow mode the text of a choice that they have not been shown."""
        unshown = self._unshown[index]
        if unshown.texts:
            piece = Piece(index, "".join(unshown.texts), channel=unshown.channel, call=unshown.call)
            unshown.texts = []
            self._show(self._text(piece), piece, ends=False)

    async def feed(self, piece: Piece) -> list[Step]:
        """Return the pieces that may go on to the windows, in order, and the judges' verdicts."""
        if self._stopped[piece.index] or self.failure is not None:
            return []
        ending = piece.finish_reason is not None or piece.ends
        text = self._text(piece)
        if self._shadows:
            self._show(text, piece, ends=ending)
        if piece.behind:  # what it brings is of text that came before, and only for judges that watch
            if not piece.text and not ending:
                return []
            piece = replace(piece, probed=(), joined=(), behind=False)
        said = piece if not ending else replace(piece, finish_reason=None, ends=False, closed="", stopped_by="")
        steps = await text.feed(said)
        if self._goes_on(text) and ending:
            steps += await self._end(text, piece)
        return steps

    def show_all(self) -> bool:
        """Show judges in shadow mode all text that has come; return whether one awaits scores of it."""
        for index in range(len(self._unshown)):
            self._catch_up(index)
        return any(shadow.awaits_scores for shadows in self._shadows.values() for shadow in shadows)

    def add_scores(self, piece: Piece) -> None:
        """Add the scores that a piece brings after its text was stopped by another rail; none of its text."""
        self._catch_up(piece.index)
        for shadow in self._shadows.get((piece.index, piece.channel, piece.call), ()):
            shadow.show_scores(piece)

    @property
    def is_watched(self) -> bool:
        """Return whether judges in shadow mode may still read; every text has ended."""
        return bool(self._shadows)

    async def finish(self) -> list[TextVerdict]:
        """Wait for the judges in shadow mode and return their verdicts; every text has ended."""
        self.show_all()
        found: list[TextVerdict] = []
        for (index, channel, call), shadows in self._shadows.items():
            for shadow in shadows:
                found += [TextVerdict(index, channel, call, released) for released in await shadow.verdicts()]
        self._shadows = {}
        return found

    def cancel(self) -> None:
        """Cancel the judges in shadow mode. Idempotent."""
        for shadows in self._shadows.values():
            for shadow in shadows:
                shadow.cancel()

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
            log.error("rail %s of slot moderate failed: %s", name, cause_of(error))
            reason = f"{_why(error)}; nothing that it had not judged was sent"
            self.failure = failed_stage("moderate", name, error, reason)
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
                shadow = ShadowJudge(judge, ReadableJson() if self._is_json(channel) else None)
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
            shadow.show(piece, ends=ends)


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


def _why(error: Exception) -> str:
    """Return what happened, for the caller, without the judge's words about the answer."""
    if isinstance(error, TimeoutError):
        return "its judgement of the answer took too long"
    return "it could not judge the answer"
