"""Slot `moderate`: pass every text of every choice through a hold-back window of its own.

A text is what a client will join: the content of one choice, its thoughts, the arguments or the name of one call. Its
window stays open while the stream goes on in other texts, and keeps what it holds until the text goes on or the choice
ends. A block in any text ends the choice.

Where an answer continues a text that the client sent, the client joins the two: windows read the end of that text
first.

Log probabilities are derived: `gateway.rails.token_probabilities` says which of them leave.

Not covered: a violation spread over two texts (thoughts and content, two calls, two choices), for a client that joins
what the protocols keep apart.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.rails.choice_texts import ChoiceTexts, WindowedText
from sluicegate.gateway.rails.findings import WHY, Findings
from sluicegate.gateway.rails.judged_text import TextVerdict
from sluicegate.gateway.rails.text_windows import Windows
from sluicegate.gateway.rails.token_probabilities import TokenProbabilities
from sluicegate.gateway.telemetry import HoldRecord
from sluicegate.plugins import (
    Answer,
    Caller,
    Channel,
    Decision,
    FinishReason,
    GenerationFailed,
    JudgingRail,
    OutputRail,
    Piece,
    Request,
    TokenLogprob,
    ToolCall,
    offers,
)
from sluicegate.safety import QUESTION_PREFIX, HoldbackWindow, JsonWindow, Released, WindowLimits

REFUSAL = "The answer was stopped by a safety rail."
PENDING = "The answer waits for a person to look at it."
MAX_HOLDS = 64
WHOLE = ("stop", "tool_calls")


class Moderation:
    """All choices of one request. Not thread-safe; fed from the event loop."""

    def __init__(
        self,
        rails: Sequence[tuple[str, OutputRail]],
        request: Request,
        caller: Caller,
        limits: WindowLimits = WindowLimits(),
        lead: str = "",
    ) -> None:
        """Open the windows for the answers to `request`. `lead` is what the client sent and joins the answer to."""
        self._request = request
        self._judged = {name for name, rail in rails if offers(rail, JudgingRail)}
        at_once = [rail for name, rail in rails if name not in self._judged]
        acting = any(limits.rail_policy(name).mode == "enforce" for name in self._judged)
        self._windows = Windows(at_once, request, caller, limits, lead, whole=acting)
        self._lead = lead
        self._findings = Findings([name for name, _ in rails])
        self.asked, self.failures = self._findings.asked, self._findings.failures
        self.reasons = self._findings.reasons
        self._seconds = 0.0
        self._judging_s: Mapping[str, float] = {}
        self._holds: list[HoldRecord] = []
        self._choices = [ChoiceTexts(i) for i in range(request.n)]
        if not request.reasoning and not request.callable_tools:  # a rail that cannot open fails before any text
            for choice in self._choices:
                choice.at = self._begin(choice, "content")

    @property
    def is_judged(self) -> bool:
        """Return whether some rail judges in front of the windows."""
        return bool(self._judged)

    @property
    def finished(self) -> bool:
        for choice in self._choices:  # noqa: SIM110  # asked for each piece: half the time of a generator
            if choice.finish_reason is None:
                return False
        return True

    @property
    def holds(self) -> tuple[HoldRecord, ...]:
        """Return when and how long text waited for a rail. Of very many holds only the first ones are kept."""
        return tuple(self._holds)

    @property
    def longest_hold_s(self) -> float:
        return max([hold.ended_s - hold.began_s for hold in self._holds], default=0.0)

    @property
    def altered(self) -> bool:
        """Return whether a rail changed or stopped a choice: then what was generated is not what left."""
        return self.redacted or any(choice.refusal is not None for choice in self._choices)

    @property
    def redacted(self) -> bool:
        return any(text.redactions for text in self._texts())

    @property
    def held(self) -> bool:
        """Return whether a choice has all its text, and part of it waits for review."""
        return any(choice.asked and choice.refusal == PENDING for choice in self._choices)

    @property
    def irreplaceable(self) -> tuple[str, ...]:
        """Return the texts that were refused and could not be replaced in place. They ended their choices."""
        return tuple([text.window.irreplaceable for text in self._texts() if text.window.irreplaceable])

    def is_settled(self, index: int, channel: Channel, call: int = 0) -> bool:
        """Return whether no text of that channel and call is held. For arguments of a call: whether they are a complete
        JSON value."""
        text = self._choices[index].texts.get((channel, call))
        return text is None or text.settled

    def passes(self, text: str) -> bool:
        """Return whether all output rails let `text` through untouched, as a whole and as content."""
        return self._windows.passes(text)

    def feed(self, piece: Piece) -> list[Delta]:
        """Return the text that may leave now; nothing for a choice that has ended. Raises `GenerationFailed` for a
        piece that breaks the generator's contract."""
        choice = self._choices[piece.index]
        if choice.finish_reason is not None:
            return []
        started = time.perf_counter()
        deltas: list[Delta] = []
        text = choice.at
        if text is None or text.channel != piece.channel or text.number != piece.call:
            text = self._turn(choice, piece, deltas)
        if choice.finish_reason is None and text is not None:
            if piece.finish_reason is None and not piece.ends:
                delta = self._pass(choice, text, piece)
                if delta.text or delta.logprobs or delta.finish_reason:
                    deltas.append(delta)
            else:
                deltas += self._end(choice, text, piece)
            held = text.window.held + choice.behind + choice.in_front
            if held or choice.waiting_since is not None:
                self._watch(choice, held, started)
        self._seconds += time.perf_counter() - started
        return deltas

    def apply_verdict(self, verdict: TextVerdict) -> list[Delta]:
        """Apply the judges' verdict on a text; return the delta that ends the choice, where it does."""
        choice, step = self._choices[verdict.index], verdict.released
        if choice.finish_reason is not None and step.blocked is not None:
            return []
        text = choice.texts.get((verdict.channel, verdict.call)) or choice.at or self._begin(choice, "content")
        out = self._take(choice, text, step)
        if step.blocked is None:
            return []
        delta = self._delta(choice, text, out, step, None)
        return [delta if text.channel != "tool_name" else replace(delta, channel="content", call=0)]

    def waits(self, index: int, held: int) -> None:
        """Record how many characters of a choice wait for a judge."""
        choice = self._choices[index]
        choice.in_front = held
        within = choice.behind + (choice.at.window.held if choice.at is not None else 0)
        if held or choice.waiting_since is not None:
            self._watch(choice, held + within, time.perf_counter())

    def judged(self, seconds: Mapping[str, float], scores: Mapping[str, Mapping[str, float]]) -> None:
        """Record the seconds spent waiting for each judge, and its worst scores."""
        self._judging_s, self._findings.scores = seconds, scores

    def _turn(self, choice: ChoiceTexts, piece: Piece, deltas: list[Delta]) -> WindowedText | None:
        """Switch to another text, new or begun before."""
        number = piece.call if piece.channel == "tool_arguments" else 0
        text = choice.texts.get((piece.channel, number)) or self._open(choice, piece, number, deltas)
        if text is not None:
            choice.stand_in(text)
        return text

    def _open(self, choice: ChoiceTexts, piece: Piece, number: int, deltas: list[Delta]) -> WindowedText | None:
        """Begin a text with its first piece. Return None where a rail stops the call's name."""
        if piece.channel in ("content", "reasoning", "refusal"):
            return self._begin(choice, piece.channel)
        if piece.channel != "tool_arguments":
            raise GenerationFailed(f"a generator gave a piece on {piece.channel!r}, which is no channel of pieces")
        name = piece.tool or ""
        if all(tool.name != name for tool in self._request.callable_tools):
            raise GenerationFailed("the model called a tool that it was not offered; nothing of the call is passed on")
        call = ToolCall(f"call_{uuid.uuid4().hex[:24]}", name)
        delta, is_opened = self._name_passes(choice, call, number)
        if delta.opened is not None or delta.finish_reason is not None:
            deltas.append(delta)
        if choice.finish_reason is not None:
            return None
        text = self._begin(choice, "tool_arguments", call, number)
        text.is_open_call = is_opened
        return text

    def _name_passes(self, choice: ChoiceTexts, call: ToolCall, number: int) -> tuple[Delta, bool]:
        """Screen the name of a call, which comes whole and cannot be replaced: open the call, or end the choice."""
        window = self._windows.of_name()
        text = choice.texts["tool_name", number] = WindowedText("tool_name", window, number, closed=True)
        steps = window.whole(call.name)
        out = "".join([self._take(choice, text, step) for step in steps])
        delta = self._delta(choice, text, out, steps[-1], None)
        if delta.finish_reason is not None:
            return replace(delta, text="", channel="content", call=0), False
        is_opened = out == call.name
        return Delta(choice.index, channel="tool_arguments", call=number, opened=call if is_opened else None), is_opened

    def _begin(
        self, choice: ChoiceTexts, channel: Channel, call: ToolCall | None = None, number: int = 0
    ) -> WindowedText:
        text = choice.texts[channel, number] = WindowedText(channel, self._windows.of(channel, call), number, call)
        if channel == "content" and self._request.sampling.logprobs is not None:
            text.probabilities = TokenProbabilities(self._windows.clearing(channel), self._lead)
        return text

    def _pass(self, choice: ChoiceTexts, text: WindowedText, piece: Piece) -> Delta:
        if text.closed:
            raise GenerationFailed(f"a generator went on with a text of {text.channel!r} that it had called whole")
        self._count(choice, text, piece)
        step = text.window.feed(piece.text)
        return self._delta(choice, text, self._take(choice, text, step), step, None)

    def _count(self, choice: ChoiceTexts, text: WindowedText, piece: Piece) -> None:
        if text.probabilities is not None:
            text.probabilities.feed(piece.text, piece.logprobs)
        text.fed += len(piece.text)
        choice.closed = choice.closed or piece.closed

    def _end(self, choice: ChoiceTexts, text: WindowedText, piece: Piece) -> list[Delta]:
        """Take the last piece of a text, or of the choice: then all its texts end, in the order in which they began."""
        first, reason = text.fed == 0, piece.finish_reason
        if piece.stopped_by in self._request.sampling.stop:  # else a generator made it up
            choice.stopped_by = piece.stopped_by
        cut = reason is not None and (reason not in WHOLE or bool(self._request.sampling.stop))
        if text.closed or (reason is not None and len(choice.unclosed) > 1):
            choice.closed = choice.closed or piece.closed
            deltas = [self._pass(choice, text, piece)] if piece.text else []
            deltas += self._close_all(choice, text, reason, cut)
        else:
            self._count(choice, text, piece)
            deltas = [self._close(choice, text, _steps(text.window, piece.text, first=first, cut=cut), reason)]
        if choice.finish_reason is not None:
            choice.behind = 0
        return [d for d in deltas if d.text or d.logprobs or d.finish_reason]

    def _close_all(self, choice: ChoiceTexts, at: WindowedText, reason: FinishReason | None, cut: bool) -> list[Delta]:
        """Close all open texts. A block ends the choice: what the texts after it hold does not leave."""
        deltas: list[Delta] = []
        for text in choice.unclosed if reason is not None else ():
            if choice.finish_reason is None:
                deltas.append(self._close(choice, text, [text.window.close(cut=cut)], None))
        if choice.finish_reason is None:
            deltas.append(self._delta(choice, at, "", Released(), reason))
        return deltas

    def _close(
        self, choice: ChoiceTexts, text: WindowedText, steps: Sequence[Released], reason: FinishReason | None
    ) -> Delta:
        text.closed = True
        return self._delta(choice, text, "".join([self._take(choice, text, s) for s in steps]), steps[-1], reason)

    def answers(self) -> list[Answer]:
        """Return the choices as released; one that has not ended counts as cancelled."""
        return [choice.answer() for choice in self._choices]

    def withheld(self) -> list[Answer]:
        """Return the choices including the text that waits for review and leaves on approval."""
        return [choice.withheld() for choice in self._choices]

    def decisions(self, began_s: float = 0.0) -> list[Decision]:
        """Return a decision for each rail, all of which began together. Rails that answer at once share their time
        evenly."""
        each = self._seconds / max(1, len(self._findings.outcomes) - len(self._judged))
        found = []
        for name, outcome in self._findings.outcomes.items():
            took_s = self._judging_s.get(name, 0.0) if name in self._judged else each
            found.append(Decision("moderate", name, outcome, took_s, self._findings.detail(name), began_s))
        return found

    def _texts(self) -> Iterable[WindowedText]:
        return [text for choice in self._choices for text in choice.texts.values()]

    def _watch(self, choice: ChoiceTexts, held: int, now: float) -> None:
        """Note when text was held, from its first character until nothing waits any more."""
        if choice.waiting_since is None:
            choice.waiting_since, choice.most = now, held
        choice.most = max(choice.most, held)
        if held and choice.finish_reason is None:
            return
        if len(self._holds) < MAX_HOLDS:
            self._holds.append(HoldRecord(choice.index, choice.waiting_since, now, choice.most))
        choice.waiting_since = None

    def _take(self, choice: ChoiceTexts, text: WindowedText, step: Released) -> str:
        """Return the part of a step that may leave; the rest waits for review."""
        if step.redactions:
            text.redactions += step.redactions
        if step.rail or step.redactions or step.escalations or step.failures or step.shadow:
            self._findings.note(step)
        out, withheld = ("", step.text + step.withheld) if choice.asked else (step.text, step.withheld)
        if withheld:
            text.withheld.append(withheld)
        choice.asked = choice.asked or bool(step.escalations)
        return out

    def _delta(
        self, choice: ChoiceTexts, text: WindowedText, out: str, last: Released, ended: FinishReason | None
    ) -> Delta:
        if last.blocked is not None:
            choice.finish_reason, choice.refusal = "content_filter", refusal(last)
        elif ended is not None and choice.asked:
            choice.finish_reason, choice.refusal, choice.ended = "content_filter", PENDING, ended
        else:
            choice.finish_reason = ended
        text.released.append(out)
        logprobs = _cleared(choice, text, last) if text.probabilities is not None else ()
        told = choice.told if choice.finish_reason is not None else None
        if text.channel == "refusal":  # leaves as a whole, with the end of the choice
            return Delta(choice.index, "", (), choice.finish_reason, told)
        return Delta(choice.index, out, logprobs, choice.finish_reason, told, text.channel, text.number)


def refusal(last: Released) -> str:
    """Return the refusal message: it names the check, and neither its finding nor its confidence."""
    finding = "The answer was stopped by the safety check {rail!r}: what came next is not allowed here."
    if last.rail is None and last.blocked != "not_json":
        return REFUSAL
    if (last.blocked or "").startswith(QUESTION_PREFIX):
        finding = "The answer was stopped by the safety check {rail!r}: what was asked for is not allowed here."
    return WHY.get(last.blocked or "", finding).format(rail=last.rail)


def _steps(window: HoldbackWindow | JsonWindow, text: str, *, first: bool, cut: bool) -> list[Released]:
    """Feed a window its last text and close it."""
    if first and isinstance(window, HoldbackWindow):
        return window.whole(text, cut=cut)
    fed = window.feed(text)
    return [fed] if fed.blocked is not None else [fed, window.close(cut=cut)]


def _cleared(choice: ChoiceTexts, text: WindowedText, last: Released) -> tuple[TokenLogprob, ...]:
    """Return log probabilities of text that has left untouched."""
    assert text.probabilities is not None
    if last.blocked is not None or choice.asked:
        text.probabilities.drop()
        return ()
    found = text.probabilities.release(text.fed - text.window.held, text.redactions)
    choice.logprobs.extend(found)
    return found
