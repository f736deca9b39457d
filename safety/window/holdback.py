"""The hold-back window of one channel: text goes in as it is generated and comes out once every rail has cleared it.

Two invariants: the released text and the verdict do not depend on how the text was cut into pieces; and no character of
a forbidden span is ever released. Both hold if they hold for each rail alone.

Not covered: a rail that takes a verdict back (refused as a bad verdict), one that never returns (its time is measured,
not cut short), and a rail whose verdicts depend on the cut of the text or on the clock: nothing leaks then, but where
the stream ends may depend on them too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from sluicegate.plugins import Caller, Channel, CuttableSession, OutputRail, RailSession, Request, Verdict, offers
from sluicegate.safety.rail_policy import WindowLimits
from sluicegate.safety.window.active_rail import RAIL_FAILURES, ActiveRail
from sluicegate.safety.window.continuation import LeadSession, continuing
from sluicegate.safety.window.escaped import UnescapedSession
from sluicegate.safety.window.released import NOTHING, Redaction, Released, joined
from sluicegate.safety.window.verdict_check import check_verdict, is_plain

_NONE: tuple[Redaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str
    rail: str


class HoldbackWindow:
    """Holds the text of one channel of one choice. Mutable, used by one task at a time. Call `feed` until `blocked`,
    then `close`."""

    def __init__(
        self,
        rails: Sequence[OutputRail],
        request: Request,
        caller: Caller,
        channel: Channel = "content",
        limits: WindowLimits = WindowLimits(),
        lead: str = "",
    ) -> None:
        """Open a session of each rail; one that cannot fails at the first piece. `lead`: the text that the client
        continues; each rail then reads the text twice, alone and after its lead."""
        self.blocked: str | None = None
        self._limits = limits
        self._active = [self._activated(rail, request, caller, channel) for rail in rails]
        self._behind = [self._activated(rail, request, caller, channel, lead) for rail in rails] if lead else []
        decoded = self._reading_decoded(rails, request, caller, channel)
        self._active += [*self._behind, *decoded]
        self._reads_twice = bool(self._behind or decoded)
        self._pieces: list[str] = []
        self._held_text = ""
        self._done = 0  # released up to here
        self._fed = 0
        self._spans: list[Redaction] = []
        self._failures: list[str] = []
        self._escalations: list[str] = []
        self._shadow: list[str] = []
        self._hold_from: int | None = None  # an escalation's offset: text from here on is withheld
        self._refused: Stop | None = None
        self.irreplaceable: str | None = None
        """The text that had to be redacted and could not be, if that ended the stream."""
        self._closing = False
        self._cut = False

    @property
    def held(self) -> int:
        """Return the number of characters fed and neither released nor replaced."""
        return self._fed - self._done

    def feed(self, text: str) -> Released:
        """Read `text`; return the text that may leave now. After a block nothing more is read or released."""
        if text and self.blocked is None and len(text) <= self._limits.max_hold - self._fed + self._done:
            return self._step(text)
        steps = []
        while text and self.blocked is None:
            # A piece that fits the room left cannot exceed the bound midway, so the stream ends at an exact character.
            room = max(1, self._limits.max_hold - self._fed + self._done)
            piece, text = (text, "") if len(text) <= room else (text[:room], text[room:])
            steps.append(self._step(piece))
        return steps[0] if len(steps) == 1 else joined(*steps)

    def close(self, *, cut: bool = False) -> Released:
        """End the text: return the rest of it, or a block. `cut`: it was cut short, by its length or a stop string; a
        `CuttableSession` is then asked `cut` in place of `close`."""
        if self.blocked is not None:
            return NOTHING
        if self._behind:
            self._read_leads()
        self._closing, self._cut = True, cut
        return self._release(self._ask_all(None))

    def whole(self, text: str, *, cut: bool = False) -> list[Released]:
        """Return the results of `feed` of the whole text and `close`. If every session is a `ClearingSession` and
        clears it, none reads it character by character."""
        if not cut and len(text) <= self._limits.max_hold and self._clears(text):
            self._fed = self._done = len(text)
            return [Released(text) if text else NOTHING]
        fed = self.feed(text)
        return [fed] if fed.blocked is not None else [fed, self.close(cut=cut)]

    def _clears(self, text: str) -> bool:
        for active in self._active:  # noqa: SIM110  # asked once a request: half the time of a generator
            if not active.clears(text):
                return False
        return True

    def _step(self, piece: str) -> Released:
        before = [active.clear_to for active in self._active]
        if self._behind:
            self._read_leads()
        self._pieces.append(piece)
        self._held_text += piece
        self._fed += len(piece)
        stop = self._ask_all(piece)
        if stop is not None and len(piece) > 1:
            stop = self._pinpoint(stop, before, self._fed - len(piece))
        released = self._release(stop)
        if stop is None and self._fed - self._done > self._limits.max_hold:
            released = joined(released, self._release(Stop("max_hold", self._slowest())))
        return released

    def _read_leads(self) -> None:
        """Let sessions read their leads outside of any rail's time budget. A failure here recurs in `_ask`, which
        handles it."""
        for active in self._behind:
            if isinstance(active.session, LeadSession):
                with contextlib.suppress(*RAIL_FAILURES):
                    active.session.prepare()

    def _slowest(self) -> str:
        return min((g for g in self._active if g.is_enforced), key=lambda g: g.clear_to).name

    def _ask_all(self, piece: str | None) -> Stop | None:
        """Pass the piece (None: the end) to every rail, even after one has blocked: the released text depends on
        all."""
        stop: Stop | None = None
        for active in self._active:
            if not active.dropped and not active.blocked_without_stop:  # `is_active`, inlined
                found = self._ask(active, piece)
                stop = stop or found
        return stop

    def _ask(self, active: ActiveRail, piece: str | None) -> Stop | None:
        budget_s = active.rail_policy.budget_s
        began = perf_counter() if budget_s is not None else 0.0
        try:
            verdict = self._last_of(active.session) if piece is None else active.session.feed(piece)
            plain = piece is not None and is_plain(verdict) and active.clear_to <= verdict.clear_to <= self._fed
            if not plain:
                verdict = check_verdict(verdict, active.clear_to, self._fed, closing=piece is None)
            if budget_s is not None and (took := perf_counter() - began) > budget_s:
                raise TimeoutError(f"took {took:.3f} s of {budget_s} s")
        except RAIL_FAILURES as error:
            return self._failed(active, error)
        seen, active.clear_to = active.clear_to, verdict.clear_to
        if plain:
            return None
        if active.rail_policy.mode == "shadow":
            self._shadowed(active, verdict)
            return None
        for span in verdict.redact:
            self._spans.append(Redaction(span.start, span.end, span.reason, span.replacement, active.name))
        if verdict.block is not None:
            return self._blocked(active, verdict.block)
        if verdict.escalate:
            self._escalated(active, verdict.escalate, seen if verdict.escalate_at is None else verdict.escalate_at)
        return None

    def _last_of(self, session: RailSession) -> Verdict:
        return session.cut() if self._cut and offers(session, CuttableSession) else session.close()

    def _blocked(self, active: ActiveRail, reason: str) -> Stop | None:
        if active.rail_policy.on_block == "block":
            return Stop(reason, active.name)
        active.blocked_without_stop = True
        self._escalated(active, reason, active.clear_to)
        return None

    def _escalated(self, active: ActiveRail, reason: str, at: int) -> None:
        self._escalations.append(f"{active.name}: {reason}")
        self._hold_from = at if self._hold_from is None else min(at, self._hold_from)

    def _shadowed(self, active: ActiveRail, verdict: Verdict) -> None:
        self._shadow += (f"{active.name}: redact: {span.reason}" for span in verdict.redact)
        if verdict.escalate:
            self._shadow.append(f"{active.name}: escalate: {verdict.escalate}")
        if verdict.block is not None:
            self._shadow.append(f"{active.name}: {active.rail_policy.on_block}: {verdict.block}")
            active.blocked_without_stop = True

    def _failed(self, active: ActiveRail, error: BaseException) -> Stop | None:
        self._failures.append(f"{active.name}: {type(error).__name__}: {error}")
        active.dropped = active.rail_policy.may_fail
        return None if active.dropped else Stop("rail_failed", active.name)

    def _pinpoint(self, stop: Stop, before: list[int], low: int) -> Stop:
        """Find the character at which a rail blocks, and the other rails' verdicts there, since they may have read past
        it.

        Fresh sessions read the text again; the first offset that blocks is found by bisection. Happens once per stream
        at most.
        """
        whole, high = "".join(self._pieces), self._fed
        saved, hold_from = self._spans, self._hold_from
        while high - low > 1:
            middle = (low + high) // 2
            if self._replay(whole[:middle])[0] is None:
                low = middle
            else:
                high = middle
        found, again = self._replay(whole[:high])
        if found is None:  # not reproducible: release no more than was clear before this piece
            for active, clear_to in zip(self._active, before, strict=True):
                active.clear_to = clear_to
            self._spans, self._hold_from = saved, hold_from
            return stop
        self._escalations = [line for line in self._escalations if line in again]
        return found

    def _replay(self, text: str) -> tuple[Stop | None, list[str]]:
        """Return the verdict that stops `text`, and escalations before it."""
        fed, self._fed = self._fed, len(text)
        saved = self._failures, self._escalations, self._shadow
        self._failures, self._escalations, self._shadow = list(self._failures), [], []
        self._spans, self._hold_from = [], None
        try:
            for active in self._active:
                active.session, active.clear_to, active.blocked_without_stop = active.open(), 0, False
            return self._ask_all(text), self._escalations
        except RAIL_FAILURES:  # of `open`; `_ask` catches its own
            return None, []
        finally:
            self._fed = fed
            self._failures, self._escalations, self._shadow = saved

    def _release(self, stop: Stop | None) -> Released:
        clear = self._fed
        for active in self._active:
            if (
                active.clear_to < clear and not active.dropped and not active.blocked_without_stop
            ):  # `is_enforced`, inlined
                clear = clear if active.rail_policy.mode == "shadow" else active.clear_to
        pending = self._failures or self._escalations or self._shadow  # `_has_notes`, inlined: this runs at each piece
        if not (stop or self._refused or self._spans or pending) and self._hold_from is None:
            text = self._take(clear)
            return Released(text) if text else NOTHING
        if self._hold_from is None:
            text, redactions, withheld = *self._until(clear), ""
        else:
            text, before = self._until(min(clear, self._hold_from))
            withheld, behind = self._until(clear)
            redactions = before + behind
        stop = self._refused or stop
        if stop is None and not redactions and not withheld and not self._has_notes():
            return Released(text) if text else NOTHING
        if self._reads_twice:  # sessions after the lead, or on decoded text, report what the others report
            self._escalations = list(dict.fromkeys(self._escalations))
            self._failures = list(dict.fromkeys(self._failures))
        notes = tuple(self._escalations), tuple(self._failures), withheld, tuple(self._shadow)
        self._failures, self._escalations, self._shadow = [], [], []
        if stop is None:
            return Released(text, None, None, redactions, *notes)
        self.blocked = stop.reason
        self._held_text = ""
        return Released(text, stop.reason, stop.rail, redactions, *notes)

    def _has_notes(self) -> bool:
        return bool(self._failures or self._escalations or self._shadow)

    def _until(self, clear: int) -> tuple[str, tuple[Redaction, ...]]:
        return self._take_redacted(clear) if self._spans else (self._take(clear), _NONE)

    def _take(self, end: int) -> str:
        """Release and return the text up to `end`."""
        start = self._done
        if end <= start:
            return ""
        text, self._held_text = self._held_text[: end - start], self._held_text[end - start :]
        self._done = end
        return self._written(start, text)

    def _written(self, start: int, text: str) -> str:
        """Return the released spelling of clean text from `start` on."""
        return text

    def _replaced(self, redaction: Redaction) -> str | None:
        """Return the replacement of a span; None if it cannot be replaced, which blocks."""
        if self._behind and redaction.start == 0 and not self._parts_from_lead(redaction.replacement):
            return None
        return redaction.replacement

    def _parts_from_lead(self, replacement: str) -> bool:
        """Return whether no match that begins in the lead or in `replacement` can end after both."""
        for active in self._behind:
            if not active.dropped and active.rail_policy.mode != "shadow":
                try:
                    verdict = active.open().feed(replacement)
                except RAIL_FAILURES:
                    return False
                if not replacement or verdict != Verdict(len(replacement)):
                    return False
        return True

    def _take_redacted(self, clear: int) -> tuple[str, tuple[Redaction, ...]]:
        parts: list[str] = []
        redactions: list[Redaction] = []
        waiting: list[Redaction] = []
        for group in _overlapping(self._spans):
            first, end = group[0], max(span.end for span in group)
            if end <= self._done:  # found again by a replay, already replaced
                continue
            if end > clear:
                waiting += group
                clear = min(clear, first.start)
                continue
            parts.append(self._take(first.start))
            redaction = replace(first, end=end)
            written = self._replaced(redaction)
            if written is None:
                self._refused = Stop("redaction_refused", first.rail)
                self.irreplaceable = self._held_text[max(0, first.start - self._done) : end - self._done]
                return "".join(parts), tuple(redactions)
            self._take(end)
            parts.append(written)
            redactions.append(redaction)
        self._spans = waiting
        parts.append(self._take(clear))
        return "".join(parts), tuple(redactions)

    def _activated(
        self, rail: OutputRail, request: Request, caller: Caller, channel: Channel, lead: str | None = None
    ) -> ActiveRail:
        def open_alone() -> RailSession:
            return rail.open(request, caller, channel)

        open_session = open_alone if lead is None else lambda: self._opened_behind(rail, open_alone, lead)
        return ActiveRail.opened(rail.name, open_session, self._limits.rail_policy(rail.name))

    def _reading_decoded(
        self, rails: Sequence[OutputRail], request: Request, caller: Caller, channel: Channel
    ) -> list[ActiveRail]:
        """Open sessions that read the text with escapes of JSON decoded; none where it is no spelling."""
        return []

    def _opened_behind(self, rail: OutputRail, open_alone: Callable[[], RailSession], lead: str) -> RailSession:
        return continuing(rail, open_alone, lead)


class UnchangedWindow(HoldbackWindow):
    """For an answer that a pattern, a choice or a grammar determines: a redaction blocks it, since it would break
    it. Rails read it as it is spelled, and with escapes of JSON decoded."""

    def _shadowed(self, active: ActiveRail, verdict: Verdict) -> None:
        """Note what a rail in shadow says, once for both readings of a piece."""
        super()._shadowed(active, verdict)
        self._shadow = list(dict.fromkeys(self._shadow))

    def _reading_decoded(
        self, rails: Sequence[OutputRail], request: Request, caller: Caller, channel: Channel
    ) -> list[ActiveRail]:
        def opened(rail: OutputRail) -> ActiveRail:
            def open_session() -> RailSession:
                return UnescapedSession(lambda: rail.open(request, caller, channel))

            return ActiveRail.opened(rail.name, open_session, self._limits.rail_policy(rail.name))

        return [opened(rail) for rail in rails]

    def _replaced(self, redaction: Redaction) -> str | None:
        return None


def _overlapping(spans: list[Redaction]) -> list[list[Redaction]]:
    groups: list[list[Redaction]] = []
    reach = -1
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if span.start < reach:
            groups[-1].append(span)
        else:
            groups.append([span])
        reach = max(reach, span.end)
    return groups
