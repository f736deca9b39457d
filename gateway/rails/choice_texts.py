"""The texts of a choice, each as a client joins it, and what was released of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sluicegate.gateway.rails.token_probabilities import TokenProbabilities
from sluicegate.plugins import Answer, Channel, ClosedBy, FinishReason, TokenLogprob, ToolCall
from sluicegate.safety import HoldbackWindow, JsonWindow, Redaction


@dataclass(slots=True)
class WindowedText:
    """One text as a client joins it, with its window. `number`: of the call in its choice; `fed`: characters fed."""

    channel: Channel
    window: HoldbackWindow | JsonWindow
    number: int = 0
    call: ToolCall | None = None
    probabilities: TokenProbabilities | None = None
    fed: int = 0
    closed: bool = False
    is_open_call: bool = False
    """Whether the opening of the call was sent."""
    released: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    redactions: list[Redaction] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Return whether no text is held. For arguments of a call: whether they are a complete JSON value."""
        if self.closed:
            return True
        if self.call is not None and isinstance(self.window, JsonWindow):
            return self.window.is_whole
        return not self.window.held

    def joined(self, *, whole: bool) -> str:
        """Return the released text; `whole`: with the text that waits for review."""
        return "".join([*self.released, *(self.withheld if whole else ())])


@dataclass(slots=True)
class ChoiceTexts:
    index: int
    at: WindowedText | None = None
    """The text that the stream is in; None before its first piece."""
    texts: dict[tuple[Channel, int], WindowedText] = field(default_factory=dict)
    """In the order in which they began."""
    behind: int = 0
    """Characters that wait in the windows of texts other than `at`."""
    in_front: int = 0
    """Characters that wait for a judge, before any window."""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    refusal: str | None = None
    closed: ClosedBy = ""
    stopped_by: str = ""
    """The stop string of the request that ended the choice, if one did."""
    waiting_since: float | None = None
    """When the text that is now held began to be held; `most` is the most characters held at once."""
    most: int = 0
    asked: bool = False
    """Whether a rail wants a person to look: nothing more is released, and the rest goes to the review."""
    ended: FinishReason | None = None
    """Finish reason of a withheld choice."""

    @property
    def told(self) -> str | None:
        """Return why there is no answer, or none that goes on: a rail's refusal, else the generator's own."""
        if self.refusal is not None:
            return self.refusal
        return self._own_refusal(whole=False)

    @property
    def unclosed(self) -> list[WindowedText]:
        return [text for text in self.texts.values() if not text.closed]

    def stand_in(self, text: WindowedText) -> None:
        """Make `text` the current one; text held in the previous window stays held."""
        if text is not self.at:
            self.behind += (self.at.window.held if self.at is not None else 0) - text.window.held
            self.at = text

    def answer(self) -> Answer:
        """Return the released answer. A choice that has not ended counts as cancelled."""
        told = self.told if self.finish_reason is not None else None
        return self._answer(self.finish_reason or "cancelled", tuple(self.logprobs), told, whole=False)

    def withheld(self) -> Answer:
        """Return the whole answer, including the text that waits for review and leaves on approval."""
        if not self.ended:
            return self.answer()
        return self._answer(self.ended, (), self._own_refusal(whole=True), whole=True)

    def _own_refusal(self, *, whole: bool) -> str | None:
        """Return the generator's refusal; None where it gave none."""
        return self._said("refusal", whole) if ("refusal", 0) in self.texts else None

    def _answer(
        self, ended: FinishReason, logprobs: tuple[TokenLogprob, ...], refusal: str | None, *, whole: bool
    ) -> Answer:
        calls = [text for text in self.texts.values() if text.call is not None and (whole or text.is_open_call)]
        return Answer(
            self.index,
            self._said("content", whole),
            ended,
            logprobs,
            refusal,
            self._said("reasoning", whole),
            tuple([replace(text.call, arguments=text.joined(whole=whole)) for text in calls if text.call is not None]),
            self.closed,
            self.stopped_by if refusal is None else "",
        )

    def _said(self, channel: Channel, whole: bool) -> str:
        text = self.texts.get((channel, 0))
        return "" if text is None else text.joined(whole=whole)
