"""Slot `moderate`: every channel of every choice goes through a hold-back window of its own.

A token's log probabilities leave together with its text: they are held while it is held, and dropped where a rail
replaced or stopped it, since they would spell what the rail took out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.exchange import Delta
from plugins import Answer, Caller, Decision, FinishReason, OutputRail, Piece, Request, TokenLogprob
from safety import Released, Window, open_window

REFUSAL = "The answer was stopped by a safety rail."


@dataclass(slots=True)
class _Held:
    """Log probabilities of fed text [start, end)."""

    start: int
    end: int
    logprobs: tuple[TokenLogprob, ...]


@dataclass(slots=True)
class _Choice:
    index: int
    window: Window
    fed: int = 0
    text: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    held: deque[_Held] = field(default_factory=deque)
    finish_reason: FinishReason | None = None
    refusal: str | None = None


class Moderation:
    """All choices of one request. Not thread-safe; fed from the event loop."""

    def __init__(self, rails: Sequence[tuple[str, OutputRail]], request: Request, caller: Caller) -> None:
        structured = request.constraint is not None and request.constraint.kind in ("json_schema", "json_object")
        self._rails = rails
        self._seconds = 0.0
        self._choices = [
            _Choice(i, open_window(rails, request, caller, "content", structured=structured)) for i in range(request.n)
        ]

    @property
    def finished(self) -> bool:
        return all(choice.finish_reason is not None for choice in self._choices)

    def feed(self, piece: Piece) -> Iterator[Delta]:
        """What may leave now that `piece` was generated; nothing for a choice that already ended."""
        choice = self._choices[piece.index]
        if choice.finish_reason is not None:
            return
        started = time.perf_counter()
        released = choice.window.feed(piece.text)
        if piece.logprobs:
            choice.held.append(_Held(choice.fed, choice.fed + len(piece.text), piece.logprobs))
        choice.fed += len(piece.text)
        texts = [released.text]
        if piece.finish_reason is not None and released.blocked is None:
            released = choice.window.close()
            texts.append(released.text)
        delta = self._delta(choice, "".join(texts), released, piece.finish_reason)
        self._seconds += time.perf_counter() - started
        if delta.text or delta.logprobs or delta.finish_reason:
            yield delta

    def answers(self) -> list[Answer]:
        """The choices as far as they got; one that never ended counts as cancelled."""
        return [
            Answer(c.index, "".join(c.text), c.finish_reason or "cancelled", tuple(c.logprobs), c.refusal)
            for c in self._choices
        ]

    def decisions(self) -> list[Decision]:
        """One line for each rail: the gravest thing it did in any choice. The time is that of all rails together."""
        lines = []
        for name, _ in self._rails:
            outcomes = [choice.window.outcome(name) for choice in self._choices]
            gravest = max(outcomes, key=("pass", "redact", "escalate", "block", "failed").index)
            lines.append(Decision("moderate", name, gravest, self._seconds / len(self._rails)))
        return lines

    def _delta(self, choice: _Choice, text: str, released: Released, ended: FinishReason | None) -> Delta:
        if released.blocked is not None:
            choice.finish_reason, choice.refusal = "content_filter", REFUSAL
        else:
            choice.finish_reason = ended
        logprobs = _cleared(choice)
        choice.text.append(text)
        choice.logprobs.extend(logprobs)
        return Delta(choice.index, text, logprobs, choice.finish_reason, choice.refusal)


def _cleared(choice: _Choice) -> tuple[TokenLogprob, ...]:
    """Log probabilities of fed text that the window has let go untouched."""
    found: list[TokenLogprob] = []
    while choice.held and choice.held[0].end <= choice.window.clear_to:
        held = choice.held.popleft()
        if not choice.window.touched(held.start, held.end):
            found.extend(held.logprobs)
    return tuple(found)
