"""Times of a generation's phases and, on request, details of each of its tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_TOKEN_STEPS = 4096
"""Most tokens of a generation that are described; later ones are only counted."""
MAX_PREEMPTIONS = 64


class TokenStep(NamedTuple):
    """How one token of a choice came about. `at_s` is as `time.perf_counter` reads."""

    choice: int
    token_id: int
    text: str
    at_s: float
    forced: bool
    """Whether the grammar allowed no other token, so that it was appended, not drawn."""
    masked_share: float | None
    """Share of the vocabulary that the grammar refused at this point; None where no mask was needed."""
    logprob: float | None
    """In the model's own distribution, before masks; None for forced tokens, which the model did not compute."""
    data: bytes = b""
    """The token's exact bytes."""
    law: float | None = None
    """Its logprob among the tokens that the mask allows, at temperature 1; 0 for a forced token, None where it was not
    computed."""
    likely: tuple[tuple[bytes, float], ...] = ()
    """The likeliest of the allowed tokens, in the same measure."""


@dataclass(slots=True)
class Timeline:
    """Of one generation, all choices together. Times are those of `time.perf_counter`, None until they are reached.

    Written by the generator's thread, read anywhere: numbers only grow, and a reader may be one step behind.
    """

    explain: bool = False
    """Describe every token in `steps`."""
    forward: str = ""
    """What computes it: "compiled" code, or the model's own ("transformers")."""
    queued_s: float = field(default_factory=time.perf_counter)
    started_s: float | None = None
    """When the first forward pass with one of its tokens was scheduled: the end of its wait in the queue."""
    first_token_s: float | None = None
    """When the prompt was computed and a token drawn; tokens that a grammar forces before that do not count."""
    ended_s: float | None = None
    tokens: int = 0
    forced: int = 0
    drafted: int = 0
    accepted: int = 0
    mask_s: float = 0.0
    """Seconds spent on filling token bitmasks for it."""
    preempted_s: list[float] = field(default_factory=list)
    """When it lost its blocks, so that it had to be computed again."""
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
