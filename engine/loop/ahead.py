"""Launch the forward pass of the next step as soon as this step's tokens are drawn, before the host has done its work.

    prepare (while the device computes) -> draw -> launch -> accept, detokenise, deliver -> take: the next step begins

What a step does on the host after its draw (grammars accept, text is made and delivered, requests end and come) takes
as long as a good part of a forward pass, and the device would wait for it. Which rows the next step has is known before
all of that, where everyone just goes on: only their newest tokens are missing, and those are drawn first.

The pass is a guess about what the host's work will bring, and `take` keeps what came true of it. A row whose sequence
has ended, waits for its grammar, or was given other tokens is left out. One that a grammar has given further tokens
counts as computed, but its next token is known already: nothing is drawn from its logits. What a row that is left out
wrote harms nobody: its place in the pool lies behind the tokens that count, so it is either written again with the same
numbers, or its block went back to the pool. Who takes that block next writes to it by a later pass on the same stream,
after this one; and blocks are published (`Scheduler.commit_continuation`) when their tokens have proved to be the
sequence's."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.prefill_chunking import SHORT
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.batching.step_inputs import I64, StepInputs
from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.loop.append import TokenAppender
from sluicegate.engine.loop.background_matching import BackgroundMatcher
from sluicegate.engine.loop.counters import CoreCounters
from sluicegate.engine.sequences.sequence import Sequence, SequenceState

WORTH = 0.2
"""Recent share of rows that received more than the one token they drew; above it, steps are not launched ahead. Such a
row needs one more pass than if the host had finished first, and the host's work takes about this share of a pass."""
_WEIGHT = 0.1
"""Weight of the newest step in that share."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The next step, complete but for the tokens that this step draws."""

    rows: list[BatchRow]
    inputs: StepInputs
    missing: I64
    """[D]: indices into `inputs.ids` where a token is still missing."""
    sources: I64
    """[D]: the row of the current step that draws it."""


class StepAhead:
    """Launches the step after the current one, for one core. Used by the engine thread alone."""

    def __init__(
        self,
        runner: ModelRunner,
        scheduler: Scheduler,
        appender: TokenAppender,
        counters: CoreCounters,
        *,
        is_on: bool,
        always: bool = False,
    ) -> None:
        """Begin with nothing launched. Not `is_on`: never launch. `always`: launch even where too many guesses failed
        lately."""
        self._runner = runner
        self._scheduler = scheduler
        self._appender = appender
        self._counters = counters
        self._is_on = is_on
        self._always = always
        self._missed = 0.0
        """The running share that is compared with `WORTH`."""
        self._plan: _Plan | None = None
        self._launched: tuple[_Plan, Tensor] | None = None

    @property
    def is_launched(self) -> bool:
        return self._launched is not None

    def prepare(self, rows: Seq[BatchRow]) -> None:
        """Plan the step after the one whose `rows` are about to be drawn, while the device computes. No plan is made
        where a row has a draft or is long, or where the scheduler has more to decide."""
        self._plan = None
        if not self._is_on or not (self._always or self._missed < WORTH):
            return
        drawn: dict[Sequence, int] = {}
        for at, (sequence, _, count, _, drafted) in enumerate(rows):
            if drafted or count > SHORT:
                return
            ends = len(sequence.tokens) + 1 >= sequence.max_length
            if not ends and not isinstance(sequence.matcher, BackgroundMatcher):
                drawn[sequence] = at
        planned = self._scheduler.plan_continuation(drawn) if drawn else None
        if planned:
            ends_at = accumulate(row[2] for row in planned)
            found = [(end - 1, drawn[row[0]]) for row, end in zip(planned, ends_at, strict=True) if row[0] in drawn]
            missing, sources = np.array(found, np.int64).reshape(-1, 2).T
            self._plan = _Plan(planned, self._runner.inputs_of(planned), missing, sources)

    def launch(self, tokens: Seq[int]) -> None:
        """Launch the prepared step with the `tokens` just drawn, one per row; a token of -1 (not drawn) cancels it."""
        plan, self._plan = self._plan, None
        if plan is None or min(tokens) < 0 or self._all_end(plan, tokens):
            return
        plan.inputs.ids[plan.missing] = np.array(tokens, np.int64)[plan.sources]
        began = time.perf_counter()
        try:
            self._launched = plan, self._runner.compute(plan.inputs)
        except Exception as error:  # the next step computes the same rows, and finds out whose fault it is
            _LOG.debug("a step could not be launched ahead: %s", error)
        self._counters.forward_s += time.perf_counter() - began

    def take(self) -> tuple[Batch, Tensor] | None:
        """Return the still valid rows of the launched step, and the logits [R, V] of those sampled. None if no row can
        be sampled: schedule the next step instead."""
        if self._launched is None:
            return None
        (plan, logits), self._launched = self._launched, None
        rows, kept = self._true_rows(plan)
        batch = self._scheduler.commit_continuation(rows)
        if not kept:
            self._scheduler.computed(batch)
            return None
        self._counters.ahead += 1
        if len(kept) < len(plan.rows):
            logits = logits.index_select(0, to_device(torch.tensor(kept), logits.device))
        return batch, logits

    def note(self, rows: Seq[BatchRow]) -> None:
        """Update the share of `rows` that got more tokens than the one drawn, which launching ahead could not
        foresee."""
        running = [row[0] for row in rows if row[0].state is SequenceState.RUNNING]
        more = sum(len(sequence.tokens) - sequence.computed > 1 or bool(sequence.draft) for sequence in running)
        self._missed += _WEIGHT * (more / max(1, len(running)) - self._missed)

    def release(self) -> None:
        """Drop the plan and the launched step, and with them all references to sequences."""
        self._plan = self._launched = None

    def _all_end(self, plan: _Plan, tokens: Seq[int]) -> bool:
        if len(plan.sources) < len(plan.rows):
            return False
        ends, order = self._appender.ends, plan.sources.tolist()
        return all(ends(row[0], tokens[at]) for row, at in zip(plan.rows, order, strict=True))

    def _true_rows(self, plan: _Plan) -> tuple[list[BatchRow], list[int]]:
        """Return the launched rows that still match their sequences, and the indices of those to sample. Drops drafts
        made since the launch, which that pass did not compute."""
        rows: list[BatchRow] = []
        kept: list[int] = []
        ids, first = plan.inputs.ids.tolist(), 0
        for place, (sequence, start, count, _, _) in enumerate(plan.rows):
            end, tokens = start + count, sequence.tokens
            known = ids[first : first + count]
            first += count
            if sequence.computed == start and tokens[start:end] == known:  # whoever no longer runs has computed none
                is_last = len(tokens) == end
                rows.append(BatchRow(sequence, start, count, is_last))
                if is_last:
                    kept.append(place)
                    sequence.draft = []
        return rows, kept
