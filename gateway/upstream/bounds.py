"""Limits of every field that is read from an upstream answer; other fields are not read."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins import Request
from sluicegate.plugins.frozen import frozen_when_checked

MOST_COUNT = 2**31 - 1
"""Of a number in `usage`."""
MOST_CALLS = 128
"""Calls of tools in one choice; also the end of `tool_calls[].index`."""
MOST_NAME = 256
"""Characters of a tool's name or a call's id."""
MOST_REASON = 64
"""Characters of a `finish_reason`."""
MOST_TOKEN_CHARS = 1024
"""Of one token of the log probabilities; also the bytes of its `bytes`."""
LOWEST_LOGPROB, HIGHEST_LOGPROB = -1e9, 0.01
"""Rounding lifts the logarithm of 1 a little above 0; what is higher is no log probability."""
CHARS_A_TOKEN = 16
"""No known tokenizer comes to more over a whole answer; prose has 3 to 5, deeply indented code up to 8."""
SPARE_CHARS = 64
"""A short answer may be one long token."""
SPARE_WORDS = 8
"""One word in so many more than there are tokens: a few vocabularies have tokens of two words."""
ENDS = 16
"""Tokens of a choice that no text shows: its role, its channels, its end."""
ENVELOPE_BYTES = 1024
"""What a server may write around one token of a stream."""
LOGPROB_BYTES = 512
"""What it may write for one entry of the log probabilities."""
TEXT_BYTES = 32
"""What it may write for the text of one token: JSON spells a character in up to 12 bytes."""
SPARE_BYTES = 1024 * 1024
SPARE_PARTS = 16_384
FEW_BYTES = 65_536
"""An event of so many is parsed without a look at its parts."""
MOST_EVENT_BYTES = 8 * 1024 * 1024
"""Of one event, and of an answer that is not streamed: it is parsed at once."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds that follow from the request. `tokens` and `chars`: of one choice, with reasoning and calls."""

    choices: int
    tokens: int
    logprobs: int | None
    """How many likeliest tokens were asked for; None: no log probabilities at all."""

    @classmethod
    def of(cls, request: Request, context_length: int) -> Bounds:
        tokens = min(request.sampling.max_tokens or context_length, context_length)
        return cls(request.n, tokens, request.sampling.logprobs)

    @property
    def words(self) -> int:
        return self.tokens + self.tokens // SPARE_WORDS

    @property
    def chars(self) -> int:
        return self.tokens * CHARS_A_TOKEN + SPARE_CHARS

    @property
    def answer_bytes(self) -> int:
        """Return the most bytes of an answer's body, including comments and blank lines."""
        entries = 0 if self.logprobs is None else 1 + self.logprobs
        return SPARE_BYTES + self.choices * self.tokens * (ENVELOPE_BYTES + entries * LOGPROB_BYTES)

    @property
    def event_bytes(self) -> int:
        entries = 0 if self.logprobs is None else 1 + self.logprobs
        return min(SPARE_BYTES + self.choices * self.tokens * (TEXT_BYTES + entries * LOGPROB_BYTES), MOST_EVENT_BYTES)

    @property
    def event_parts(self) -> int:
        """Return the most brackets, braces and quotes of one event. A megabyte of them takes a hundred times as long to
        parse as a megabyte of text."""
        entries = 0 if self.logprobs is None else 1 + self.logprobs
        return SPARE_PARTS + self.choices * self.tokens * (4 + entries * 16)
