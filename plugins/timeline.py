"""Times of a generation's phases and, on request, details of each of its tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_TOKEN_STEPS = 4096
"""Tokens of one generation that are described; an answer's later ones are only counted."""
MAX_PREEMPTIONS = 64


class TokenStep(NamedTuple):
    """How one token of a choice came about. `at_s` is as `time.perf_counter` reads."""

    choice: int
    token_id: int
    text: str
    at_s: float
    forced: bool
    """The grammar left no other; it was appended, not drawn."""
    masked_share: float | None
    """Share of the vocabulary that the grammar refused here; None where no mask was needed."""
    logprob: float | None
    """The model's own, before masks; None for forced tokens, which the model was not asked for."""
    data: bytes = b""
    """The token's exact bytes."""
    law: float | None = None
    """Its logprob among the tokens that the mask allows here, at temperature 1; 0 for a forced token, None where nobody
    worked it out."""
    likely: tuple[tuple[bytes, float], ...] = ()
    """The likeliest of the allowed tokens, with the same measure."""


@dataclass(slots=True)
class Timeline:
    """Of one generation, all choices together. Times are those of `time.perf_counter`, None until they are reached.

    Written by the generator's thread, read anywhere: numbers only grow, and a reader may be one step behind.
    """

    explain: bool = False
    """Describe every token in `steps`."""
    forward: str = ""
    """What computes it, from its first token to its last: "compiled" code, or the model's own ("transformers")."""
    queued_s: float = field(default_factory=time.perf_counter)
    started_s: float | None = None
    """The first forward pass that holds a token of it was scheduled: the queue wait is over."""
    first_token_s: float | None = None
    """The prompt was computed and a token drawn from it; what a grammar forces before that does not count."""
    ended_s: float | None = None
    tokens: int = 0
    forced: int = 0
    drafted: int = 0
    accepted: int = 0
    mask_s: float = 0.0
    """Seconds spent on filling token bitmasks for it."""
    preempted_s: list[float] = field(default_factory=list)
    """When its blocks were taken away, so that it had to be computed again."""
    repetitions_s: list[float] = field(default_factory=list)
    """When a choice was ended because it went round in circles."""
    steps: list[TokenStep] = field(default_factory=list)

    def start(self) -> None:
        if self.started_s is None:
            self.started_s = time.perf_counter()

    def preempt(self) -> None:
        if len(self.preempted_s) < MAX_PREEMPTIONS:
            self.preempted_s.append(time.perf_counter())

    def count(self, step: TokenStep | None, *, forced: bool = False) -> None:
        """Count one more token; `step` where it is described."""
        self.tokens += 1
        self.forced += forced
        if self.first_token_s is None and self.started_s is not None:
            self.first_token_s = time.perf_counter()
        if step is not None and len(self.steps) < MAX_TOKEN_STEPS:
            self.steps.append(step)
