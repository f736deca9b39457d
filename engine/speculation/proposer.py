"""Propose draft tokens for each sequence's next step: from prompt lookup, or from a draft model or heads.

A lookup costs next to nothing, a draft model a part of a step. Each sequence tracks the acceptance rates of both and
uses the source with the larger expected gain; one that does not pay is skipped, and tried again from time to time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from math import inf
from typing import Protocol

from sluicegate.engine.batching.batch import Batch
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.sequences.drafting import DraftAcceptance
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.engine.speculation.prompt_lookup import draft

TRY_AGAIN = 64
"""A drafter that does not pay is tried once in this many times."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Limits of drafts: `longest` tokens for one sequence in a step (0 = none), `tokens_per_step` for all together."""

    longest: int = 0
    tokens_per_step: int = 16
    look_up: bool = True


class BatchDrafter(Protocol):
    """Drafts tokens for all sequences of a step at once."""

    seconds_a_token: float
    """Recent cost, in seconds, of one more draft token for each sequence."""

    def guess(self, wanted: Seq[tuple[Sequence, int]]) -> list[list[int]]:
        """Return up to the given number of draft tokens for each sequence, allowed by its grammar in order. Sequences
        and matchers are left unchanged."""

    def learn(self, batch: Batch) -> None:
        """Read the states of the step just computed, before its tokens are drawn."""

    def release(self) -> None:
        """Free the memory of sequences that no longer run."""

    def close(self) -> None:
        """Stop its threads, if it has any."""


class Proposer:
    """Chooses between lookup and batch drafter for each sequence. Used by the engine thread alone."""

    def __init__(self, speculation: Speculation, scheduler: Scheduler, group: BatchDrafter | None = None) -> None:
        self.speculation = speculation
        self._scheduler = scheduler
        self._batch_drafter = group
        self._step_s = 0.0
        self._usual = DraftAcceptance()
        """Recent acceptance over all sequences: the initial value of a new one."""
        self._refused = 0

    def note_step(self, seconds: float) -> None:
        """Record how long a forward pass of the model took."""
        self._step_s += 0.1 * (seconds - self._step_s)

    def learn(self, batch: Batch) -> None:
        """Pass the step just computed to the batch drafter."""
        if self._batch_drafter is not None:
            try:
                self._batch_drafter.learn(batch)
            except Exception:
                self._give_up()

    @property
    def looks_up(self) -> bool:
        """Return whether lookups are on and the step budget leaves room for drafts beside the running sequences."""
        wanted = self.speculation
        share = wanted.tokens_per_step // max(1, len(self._scheduler.running))
        return wanted.look_up and min(wanted.longest, share) > 0

    def look_up(self, sequence: Sequence, *, jumped: bool) -> list[int]:
        """Draft from the sequence's own text; see `engine.speculation.prompt_lookup.draft`."""
        if sequence.drafter is None:
            return []
        longest = min(self._room(sequence), sequence.lookup_acceptance.length(self.speculation.longest))
        return draft(sequence.drafter, sequence.tokens, sequence.matcher, longest, jumped=jumped)

    def improve(self, sequences: Seq[Sequence]) -> None:
        """Replace looked-up drafts by the batch drafter's, for sequences where these promise more."""
        if self._batch_drafter is None:
            return
        cost = self._batch_drafter.seconds_a_token / self._step_s if self._step_s else 0.0
        wanted = []
        for sequence in sequences:
            sequence.by_batch_drafter = False
            if sequence.state is SequenceState.RUNNING and not sequence.is_beam:
                longest, promise = self._worth(sequence, cost)
                looked_up = sequence.lookup_acceptance.rate * len(sequence.draft)
                # Lookup costs nothing: compare tokens per time of a step with a draft, and tokens per plain step.
                price = 1 + cost * longest if sequence.draft else 1.0
                if (1 + promise) / price > 1 + looked_up:
                    wanted.append((sequence, longest))
        if wanted:
            for (sequence, _), found in zip(wanted, self._guess(wanted), strict=True):
                if found:
                    sequence.draft, sequence.by_batch_drafter = found, True

    def _worth(self, sequence: Sequence, cost: float) -> tuple[int, float]:
        """Return the batch drafter's draft length, and the expected number of accepted tokens. Every `TRY_AGAIN`-th
        time one token is tried though none pays."""
        if sequence.draft_acceptance is None:
            sequence.draft_acceptance = DraftAcceptance(self._usual.accepted)
        room = self._room(sequence)
        longest = sequence.draft_acceptance.length(room, cost)
        if longest == 0 and room > 0:
            self._refused = (self._refused + 1) % TRY_AGAIN
            return (1, inf) if self._refused == 0 else (0, 0.0)
        return longest, sequence.draft_acceptance.promise(longest)

    def _guess(self, wanted: Seq[tuple[Sequence, int]]) -> list[list[int]]:
        assert self._batch_drafter is not None
        try:
            return self._batch_drafter.guess(wanted)
        except Exception:
            self._give_up()
            return [[] for _ in wanted]

    def _give_up(self) -> None:
        """Switch the batch drafter off: answers do not depend on drafts, so a failing drafter must not fail
        requests."""
        _LOG.exception("guessing failed; it is switched off until the model is loaded again")
        self._batch_drafter = None

    def record(self, sequence: Sequence, guessed: int, right: int) -> None:
        """Record how many of the last step's draft tokens were accepted."""
        if sequence.by_batch_drafter and sequence.draft_acceptance is not None:
            sequence.draft_acceptance.record(guessed, right)
            self._usual.record(guessed, right)
        else:
            sequence.lookup_acceptance.record(guessed, right)

    def release(self) -> None:
        if self._batch_drafter is not None:
            self._batch_drafter.release()

    def close(self) -> None:
        if self._batch_drafter is not None:
            self._batch_drafter.close()

    def _room(self, sequence: Sequence) -> int:
        """Return the longest draft the sequence may have: a share of the step's budget, which full batches use
        better."""
        share = self.speculation.tokens_per_step // max(1, len(self._scheduler.running))
        return max(0, min(share, sequence.max_length - len(sequence.tokens) - 1, self.speculation.longest))
