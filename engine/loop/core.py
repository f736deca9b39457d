"""Compute the steps of one model: schedule, run, sample, deliver. Everything here runs on the engine thread.

`engine.loop.requests` holds the requests, and says how they end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from itertools import accumulate

import torch
from torch import Tensor

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.prefill_chunking import PrefillChunker
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.batching.sample_rows import SampleRow, SampleRowCache
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.batching.trial import Expected
from sluicegate.engine.cpu import WantedLogits
from sluicegate.engine.cuda.memory import release_cached, using
from sluicegate.engine.failures import as_failure
from sluicegate.engine.loop.ahead import StepAhead
from sluicegate.engine.loop.append import TokenAppender
from sluicegate.engine.loop.background_matching import BackgroundMatcher, BackgroundMatching, PendingMatch
from sluicegate.engine.loop.counters import CoreCounters
from sluicegate.engine.loop.grammar_masks import Filled, MasksAhead, fill_masks, note_masks
from sluicegate.engine.loop.passes import ForwardPasses
from sluicegate.engine.loop.requests import Requests
from sluicegate.engine.loop.token_readings import TokenReadings
from sluicegate.engine.model.model import GuardModel, LoadedModel
from sluicegate.engine.sampling.outcomes import MaskRows, SampledToken
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.search.beam_search import BeamSearch
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.engine.settings import RepetitionSettings, StepsAheadKind
from sluicegate.engine.speculation.proposer import BatchDrafter, Proposer, Speculation
from sluicegate.plugins import GrammarTooCostly, SluicegateError


class EngineCore:
    def __init__(
        self,
        model: LoadedModel,
        runner: ModelRunner,
        scheduler: Scheduler,
        outbox: Outbox,
        *,
        jump_forward: bool = True,
        speculation: Speculation | None = None,
        batch_drafter: BatchDrafter | None = None,
        steps_ahead: StepsAheadKind = "auto",
        chunker: PrefillChunker | None = None,
        grammar_cpu_s: float = 1.0,
        grammar_request_s: float = 10.0,
        repetition: RepetitionSettings | None = None,
        is_compiled: bool = True,
        expected: Expected | None = None,
    ) -> None:
        """Build requests, sampler and drafting around `runner`.

        Not `is_compiled`: torch draws tokens too, and `expected` are reference logits for the compiled core that will
        replace this one (see `ModelRunner.expected`).
        """
        self.model = model
        self.is_compiled = is_compiled
        self.expected = expected
        self._chunker = chunker
        self.scheduler = scheduler
        self.counters = CoreCounters()
        self._runner = runner
        self._sampler = Sampler(model.usable_vocab, model.eos_token_ids, model.device, compiled=is_compiled)
        self._is_asynchronous = model.device.type == "cuda"
        """Whether a forward pass returns before it is computed. Its time then shows up where the draws wait for it."""
        self._clock = time.perf_counter if self._is_asynchronous else time.thread_time
        """Measures steps for prefill chunking. On CPUs this is the thread's own CPU time, which other processes do not
        affect."""
        self._proposer = Proposer(speculation or Speculation(), scheduler, batch_drafter)
        self._appender = TokenAppender(model, self.counters, self._proposer, jump_forward=jump_forward)
        self._sample_rows = SampleRowCache()
        self.readings: TokenReadings | None = None
        """Texts that the model judges, if it is a guard; a guard has no other requests."""
        if isinstance(model, GuardModel):
            self.readings = TokenReadings(model, runner, scheduler.pool, scheduler.max_batch_tokens)
        self._masks_ahead = MasksAhead(self._fill_masks)
        self._background = BackgroundMatching(model.vocab_size, grammar_cpu_s, grammar_request_s)
        self.requests = Requests(
            model,
            runner,
            scheduler,
            outbox,
            self._appender,
            self._proposer,
            self._background,
            self.forward,
            repetition,
        )
        self._passes = ForwardPasses(model, runner, self.requests, self._proposer, self.counters)
        can_go_ahead = batch_drafter is None and not model.states and not model.is_sharded
        self._ahead = StepAhead(
            runner,
            scheduler,
            self._appender,
            self.counters,
            is_on=can_go_ahead and (steps_ahead == "always" or (steps_ahead == "auto" and self._is_asynchronous)),
            always=steps_ahead == "always",
        )

    @property
    def forward(self) -> str:
        """Return the implementation of its forward pass: "compiled", or "transformers" (the model's own code)."""
        return "compiled" if self._runner.is_compiled else "transformers"

    @property
    def has_work(self) -> bool:
        return len(self.requests) > 0 or (self.readings is not None and self.readings.has_work)

    @property
    def is_ahead(self) -> bool:
        """Return whether the next step's forward pass is already launched."""
        return self._ahead.is_launched

    def end_all(self, error: SluicegateError) -> None:
        """Cancel all requests, and fail all questions to a guard with `error`."""
        self.requests.cancel_all()
        if self.readings is not None:
            self.readings.fail_all(error)

    def step(self) -> None:
        """Compute one batch and deliver its results. A request that breaks fails alone.

        Runs in torch's inference mode. The engine thread stays in it: entering and leaving takes a tenth of a small
        step.
        """
        if not torch.is_inference_mode_enabled():
            with torch.inference_mode():
                self.step()
        elif self._is_asynchronous:
            with using(self.model.device):
                self._step()
        else:
            self._step()

    def _step(self) -> None:
        began, spent = time.perf_counter(), self._clock()
        if self.readings is not None:
            self.counters.rows += self.readings.step()
            self.counters.steps += 1
            self.counters.step_s += time.perf_counter() - began
            return
        self.requests.expire()
        for waiting in self._background.take():
            if waiting.sequence.state is not SequenceState.ENDED:
                self.requests.guarded(waiting.sequence, self._go_on, waiting)
        if self._chunker is not None:
            self.scheduler.prompt_tokens = self._chunker.prompt_tokens
        launched = self._ahead.take()
        batch = self.scheduler.schedule() if launched is None else launched[0]
        if not batch.rows:
            assert self._background.waiting or not self.has_work, (
                "there is work, but the scheduler found nothing to run"
            )
            self._background.rest()
            return
        wanted = self._begin_masks(batch, is_launched=launched is not None)
        rows, logits = self._passes.run(batch, wanted) if launched is None else (batch.sampled, launched[1])
        self._ahead.prepare(rows)
        filled = self._masks_ahead.take()
        self.scheduler.computed(batch)
        if batch.fills_blocks:
            self.requests.bring_scores(batch.fills_blocks)
        if rows:
            self._try_sampling(rows, logits, filled)
            self._ahead.note(rows)
            if self._is_asynchronous:
                self._proposer.note_step(time.perf_counter() - began)
            self._proposer.improve(
                [row.sequence for row in rows if not isinstance(row.sequence.matcher, BackgroundMatcher)]
            )
        if self.requests.due:
            self.requests.deliver_scored()
        if not self.has_work:
            self._ahead.release()
            self._proposer.release()
            self._sampler.release()
            self._sample_rows.release()
        self.counters.steps += 1
        self.counters.rows += len(batch.rows)
        self.counters.step_s += time.perf_counter() - began
        if self._chunker is not None:
            self._chunker.record(batch.decoding, batch.prompt_tokens, self._clock() - spent)

    def give_up_device(self) -> None:
        """Free the KV pool on a CUDA device while the thread stepping this core hangs: a second pool would not fit."""
        if self.model.device.type == "cuda":
            self._runner.give_up()

    def close(self) -> None:
        """Stop this core's threads and join them. Do not call `step` afterwards."""
        self._masks_ahead.close()
        self._background.close()
        self._proposer.close()
        self._runner.close()

    # --- a step's parts ----------------------------------------------------------------------------------------

    def _begin_masks(self, batch: Batch, *, is_launched: bool) -> WantedLogits | None:
        """Start filling this step's masks while its forward pass runs; beam searches fill theirs later. Returns the
        object through which the pass learns which logits are allowed, None if it `is_launched`."""
        sampled = self._sample_rows.of(batch.sampled)
        if not sampled.is_constrained or any(row.sequence.is_beam for row in batch.rows):
            return None
        wanted = WantedLogits(len(sampled.draws)) if self._runner.can_leave_out and not is_launched else None
        self._masks_ahead.begin(sampled.draws, wanted)
        return wanted

    def _try_sampling(
        self, rows: list[BatchRow], logits: Tensor, filled: tuple[list[SampleRow], Filled] | None
    ) -> None:
        """Sample `logits` [R, V]; if the device is full, fail the requests of this step only."""
        try:
            self._sample(rows, logits, filled)
        except torch.OutOfMemoryError as error:
            release_cached()
            for row in rows:
                self.requests.fail(row.sequence.owner, as_failure(error, "drawing tokens"))

    def _sample(self, rows: list[BatchRow], logits: Tensor, filled: tuple[list[SampleRow], Filled] | None) -> None:
        """Draw, append and deliver a token for every row of `logits` [R, V], which is overwritten. A row that raises or
        cannot be sampled fails its request alone."""
        states = self._runner.states
        sampled = self._sample_rows.of(rows)
        if sampled.is_plain and states is None:
            self._draw_plain(rows, logits, sampled.draws)
            return
        if any(row.sequence.is_beam for row in rows):
            states = None  # rows of searches are taken out, and the others change their places
            rows, logits = self._search(rows, logits)
            if not rows:
                return
            sampled = self._sample_rows.of(rows)
        draws = sampled.draws
        masks, failures = self._masks(draws, filled)
        waiting = self._defer_slow_masks(draws, failures, logits) if failures else ()
        outcomes: list[SampledToken | SluicegateError] = list(self._sampler.draw(logits, draws, masks))
        for at, failure in failures.items():
            outcomes[at] = failure
        self._ahead.launch([drawn.token_id if isinstance(drawn, SampledToken) else -1 for drawn in outcomes])
        at = 0
        for row in rows:
            mine = outcomes[at : at + row.drafted + 1]
            if row.sequence.state is not SequenceState.ENDED and row.sequence not in waiting:
                try:
                    self._advance_or_defer(row.sequence, mine)
                except Exception as error:
                    self.requests.fail(row.sequence.owner, as_failure(error, "advancing the sequence"))
            row.sequence.hidden = None if states is None else states[at + row.sequence.hidden_row]
            at += len(mine)

    # --- grammars that take long -------------------------------------------------------------------------------

    def _defer_slow_masks(
        self, draws: list[SampleRow], failures: dict[int, SluicegateError], logits: Tensor
    ) -> set[Sequence]:
        """Move sequences whose masks took too long to the background; return them. Their rows of `logits` [R, V] are
        copied and drawn from once the masks are ready."""
        found: set[Sequence] = set()
        for at, failure in failures.items():
            sequence = draws[at].sequence
            if draws[at].ahead or not isinstance(failure, GrammarTooCostly) or sequence.state is SequenceState.ENDED:
                continue
            slow = self._background.move(sequence)
            if slow is not None:
                sequence.draft = []
                self._background.begin(sequence, slow, logits[at].clone(), None)
                found.add(sequence)
        return found

    def _advance_or_defer(self, sequence: Sequence, outcomes: list[SampledToken | SluicegateError]) -> None:
        """Append the outcomes, or have a slow matcher accept the token in the background first."""
        drawn, slow = outcomes[0], None
        if isinstance(drawn, SampledToken) and not sequence.draft and sequence.matcher is not None:
            slow = sequence.matcher if isinstance(sequence.matcher, BackgroundMatcher) else None
            if slow is None and self._background.takes_often(sequence):
                slow = self._background.move(sequence)
            if slow is not None and not self._appender.ends(sequence, drawn.token_id):
                self._background.begin(sequence, slow, None, drawn)
                return
        before = len(sequence.tokens)
        try:
            self._advance(sequence, outcomes)
        except GrammarTooCostly:
            if not isinstance(drawn, SampledToken) or before != len(sequence.tokens):
                raise
            slow = self._background.move(sequence)
            if slow is None:
                raise
            self._background.begin(sequence, slow, None, drawn)

    def _go_on(self, waiting: PendingMatch) -> None:
        """Continue a sequence whose matcher has finished in the background. Raises the matcher's error."""
        sequence = waiting.sequence
        if waiting.error is not None:
            raise waiting.error
        if waiting.drawn is None:
            assert waiting.logits is not None
            draws = [SampleRow(sequence)]
            masks, failures = self._masks(draws)
            outcome = failures.get(0) or self._sampler.draw(waiting.logits[None], draws, masks)[0]
            self._advance_or_defer(sequence, [outcome])
        else:
            self._advance(sequence, [waiting.drawn])
        waits = sequence in self._background.waiting  # its token was drawn, and is now accepted elsewhere
        if (
            sequence.state is SequenceState.PARKED and sequence.pending and not waits
        ):  # it made way for others meanwhile
            self.scheduler.resume(sequence, [], 0)

    def _draw_plain(self, rows: list[BatchRow], logits: Tensor, draws: list[SampleRow]) -> None:
        """Sample as `_sample` does, for rows that need no mask or logprobs. `logits` [R, V] is overwritten."""
        tokens, outcomes = self._sampler.tokens(logits, draws), None
        if tokens is None:
            outcomes = self._sampler.draw(logits, draws, MaskRows())
            tokens = [drawn.token_id if isinstance(drawn, SampledToken) else -1 for drawn in outcomes]
        self._ahead.launch(tokens)
        pass_on, deliver, ended = self._appender.pass_on, self.requests.outbox.add, SequenceState.ENDED
        held = self.requests.deliver
        looks_up = self._proposer.looks_up
        for at, (row, token) in enumerate(zip(rows, tokens, strict=True)):
            sequence = row[0]
            if sequence.state is ended:
                continue
            try:
                if (piece := pass_on(sequence, token)) is None:
                    self._advance(sequence, [SampledToken(token) if outcomes is None else outcomes[at]])
                    continue
                if (sizes := sequence.sizes_behind) is not None:
                    sizes.append(len(piece.text))
                    deliver(sequence.owner, piece)
                elif sequence.probed is None:
                    deliver(sequence.owner, piece)
                else:
                    held(sequence, piece)
                if looks_up:
                    sequence.draft = self._proposer.look_up(sequence, jumped=True)
            except Exception as error:
                self.requests.fail(sequence.owner, as_failure(error, "advancing the sequence"))

    def _search(self, rows: list[BatchRow], logits: Tensor) -> tuple[list[BatchRow], Tensor]:
        """Pass beam searches the logprobs of their rows of `logits` [R, V]; return the other rows and their logits."""
        places = list(accumulate((row.drafted + 1 for row in rows), initial=0))
        beams = [at for at, row in enumerate(rows) if row.sequence.is_beam]
        draws = [SampleRow(rows[at].sequence) for at in beams]
        masks, failures = self._masks(draws)
        scores, raw, unscored = self._sampler.score(logits[[places[at] for at in beams]], draws, masks)
        searches = self.requests.searches
        for index, draw in enumerate(draws):
            if failure := failures.get(index) or unscored.get(index):
                self.requests.fail(draw.sequence.owner, failure)
            elif (search := searches.of(draw.sequence.owner)) is not None:
                search.take(draw.sequence, scores[index], raw[index])
        for owner in dict.fromkeys(draw.sequence.owner for draw in draws):
            if (search := searches.of(owner)) is not None and search.is_ready:
                self.requests.guarded(search.slots[0], self._branch, search)
        others = [at for at, row in enumerate(rows) if not row.sequence.is_beam]
        kept = [place for at in others for place in range(places[at], places[at + 1])]
        return [rows[at] for at in others], logits[kept]

    def _branch(self, search: BeamSearch) -> None:
        self._background.check(search.slots)
        self._runner.copy(search.advance(self.scheduler, self.requests.searches.finish_of))
        if search.is_done:
            self.requests.end_search(search, self.requests.searches.pieces(search))

    def _masks(
        self, draws: list[SampleRow], filled: tuple[list[SampleRow], Filled] | None = None
    ) -> tuple[MaskRows, dict[int, SluicegateError]]:
        """Return the masks filled during the forward pass if they are for `draws`; else fill them now."""
        ready = filled is not None and filled[0] == draws
        masks, failures, seconds = filled[1] if filled is not None and ready else self._fill_masks(draws)
        note_masks(draws, masks, self.model.vocab_size, seconds)
        self.counters.masks += len(masks.masked)
        self.counters.mask_s += seconds
        return masks, failures

    def _fill_masks(self, draws: Seq[SampleRow]) -> Filled:
        began = time.perf_counter()
        masks, failures = fill_masks(draws, self.model.vocab_size, self.model.eos_token_ids, self._sampler.room)
        return masks, failures, time.perf_counter() - began

    def _advance(self, sequence: Sequence, outcomes: list[SampledToken | SluicegateError]) -> None:
        if sequence.matcher is not None and self._background.is_expensive(sequence):
            self._background.check(self.requests.sequences(sequence.owner))
        reason = self._appender.take(sequence, outcomes)
        if sequence.refused:
            sequence.refused.clear()
        self.requests.advanced(sequence, reason)
