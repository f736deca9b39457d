"""Count the tokens that another server used: as it reports, where plausible, else by our own estimate.

Our estimate is a quarter of the characters. Reported completion tokens are accepted between a sixteenth of the text's
characters and its bytes, plus reported hidden reasoning, and never past `max_tokens`; reported prompt tokens between a
sixteenth of the prompt's characters and its bytes. So the charge never exceeds what was reserved for one answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.gateway.accounts.limits.estimates import CHARS_PER_TOKEN, fairly_read, most_read
from sluicegate.gateway.upstream.bounds import CHARS_A_TOKEN, ENDS, Bounds
from sluicegate.gateway.upstream.reading.reader import ReportedUsage
from sluicegate.plugins import Request, Usage
from sluicegate.plugins.frozen import frozen_when_checked


class Length:
    """Measures the text of one choice against `max_tokens`. Counts words only once there are enough characters for too
    many words."""

    def __init__(self, bounds: Bounds) -> None:
        self._most_chars, self._most_words = bounds.chars, bounds.words
        self._unsplit: list[str] = []
        self._words = 0
        self._open = False
        """The last character belongs to a word that may go on."""
        self.chars = 0

    def fit(self, text: str) -> str:
        """Return the beginning of `text` that still fits; less than all of it ends the choice."""
        left = self._most_chars - self.chars
        fitting = text if len(text) <= left else text[:left]
        self.chars += len(fitting)
        if self.chars < 2 * self._most_words:
            self._unsplit.append(fitting)
            return fitting
        if self._unsplit:
            self._count("".join(self._unsplit))
            self._unsplit.clear()
        return self._within(fitting)

    def _within(self, text: str) -> str:
        before = self._words, self._open
        self._count(text)
        if self._words <= self._most_words:
            return text
        self._words, self._open = before
        fitting = self._first(text, self._most_words - self._words)
        self._count(fitting)
        self.chars -= len(text) - len(fitting)
        return fitting

    def _count(self, text: str) -> None:
        words = text.split()
        goes_on = self._open and not text[:1].isspace()
        self._words += len(words) - (1 if words and goes_on else 0)
        if text:
            self._open = not text[-1].isspace()

    def _first(self, text: str, words: int) -> str:
        """Return the beginning of `text` with at most `words` new words."""
        rest = text
        if self._open and not text[:1].isspace():
            words += 1
        found = rest.split(None, words)
        return text if len(found) <= words else text[: len(text) - len(found[-1])].rstrip()


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Written:
    """Of all choices together. `size` in bytes."""

    chars: int
    size: int


def used(
    request: Request, context: int, bounds: Bounds, written: Written, claim: ReportedUsage | None
) -> tuple[Usage, bool]:
    """Return (usage of one answer, whether the server's report was rejected or cut)."""
    prompt, odd_prompt = _read(request, context, claim)
    completion, odd_completion = _wrote(bounds, written, claim)
    cached = min(claim.cached, prompt) if claim is not None else 0
    return Usage(prompt, completion, cached), claim is not None and (odd_prompt or odd_completion)


def unanswered(request: Request, context: int) -> Usage:
    """Estimate the usage of a prompt that was sent and never answered."""
    return Usage(prompt_tokens=_estimated(request, context))


def within_one(request: Request, context: int, total: Usage) -> Usage:
    """Cut `total` to the most that one answer can use, which is what was reserved."""
    bounds = Bounds.of(request, context)
    prompt = min(total.prompt_tokens, most_read(request, context))
    completion = min(total.completion_tokens, bounds.choices * bounds.tokens)
    return Usage(prompt, completion, min(total.cached_tokens, prompt))


def _estimated(request: Request, context: int) -> int:
    return min(fairly_read(request), most_read(request, context))


def _read(request: Request, context: int, claim: ReportedUsage | None) -> tuple[int, bool]:
    if claim is None:
        return _estimated(request, context), True
    chars = sum([len(message.content) for message in request.messages])
    if claim.prompt * CHARS_A_TOKEN < chars:
        return _estimated(request, context), True
    if claim.prompt <= min(chars, context):  # no text has fewer bytes than characters
        return claim.prompt, False
    most = most_read(request, context)
    return min(claim.prompt, most), claim.prompt > most


def _wrote(bounds: Bounds, written: Written, claim: ReportedUsage | None) -> tuple[int, bool]:
    most = bounds.choices * bounds.tokens
    if claim is None or claim.completion * CHARS_A_TOKEN < written.chars:
        return min(most, -(-written.chars // CHARS_PER_TOKEN)), True
    most = min(most, written.size + claim.reasoning + ENDS * bounds.choices)
    return min(claim.completion, most), claim.completion > most


def added(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.cached_tokens + other.cached_tokens,
    )
