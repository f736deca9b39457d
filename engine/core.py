"""The engine of one model: a step schedules, runs, samples and delivers. Everything here runs on the engine thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from engine.beam_search import BeamSearch
from engine.beside import Adapter
from engine.closing import closer_for
from engine.constraints import Filled, MasksAhead, fill_masks, note_masks
from engine.counters import CoreCounters
from engine.cpu import WantedLogits
from engine.cuda.memory import release_cached, using
from engine.deadlines import Deadlines
from engine.delivery import LiveGeneration, Outbox, as_failure
from engine.drafting import PromptLookup
from engine.guesser import GroupDrafter, Guesser, Speculation
from engine.lineup import Lineups
from engine.model import LoadedModel
from engine.noise import seed_of_choice
from engine.output import ChoiceText
from engine.pacing import Pacer
from engine.params import DrawRule, beam_count
from engine.runner import Runner
from engine.sampler import Drawn, MaskRows, Sampler
from engine.scheduler import Batch, Row, Scheduler
from engine.searches import Searches
from engine.sequence import DrawRow, Sequence, State
from engine.stopping import StopWatch
from engine.turnover import Turnover
from engine.writing import Writer
from plugins import DeadlineExceeded, FinishReason, Job, Piece, SluicegateError


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, with everything that could be checked before it reaches the engine thread."""

    generation: LiveGeneration
    rule: DrawRule
    seed: int
    max_length: int
    deadline: float | None = None
    """On the monotonic clock."""
    adapter: Adapter | None = None


class EngineCore:
    def __init__(
        self,
        model: LoadedModel,
        runner: Runner,
        scheduler: Scheduler,
        outbox: Outbox,
        *,
        jump_forward: bool = True,
        speculation: Speculation | None = None,
        group_drafter: GroupDrafter | None = None,
        pacer: Pacer | None = None,
    ) -> None:
        self.model = model
        self._pacer = pacer
        self.scheduler = scheduler
        self.counters = CoreCounters()
        self.turnover = Turnover()
        self._runner = runner
        self._sampler = Sampler(model.usable_vocab, model.eos_token_ids, model.device)
        self._is_asynchronous = model.device.type == "cuda"
        """A forward pass returns before it is computed; its time shows where the draws are waited for."""
        self._clock = time.perf_counter if self._is_asynchronous else time.thread_time
        """What a step costs. On CPUs in this thread's own time, which others who use the machine do not stretch."""
        self.outbox = outbox
        """Of the thread that steps this core."""
        self._guesser = Guesser(speculation or Speculation(), scheduler, group_drafter)
        self._writer = Writer(model, self.counters, self._guesser, jump_forward=jump_forward)
        self._deadlines = Deadlines()
        self._searches = Searches(model)
        self._lineups = Lineups()
        self._masks_ahead = MasksAhead(self._fill_masks)
        self._live: dict[LiveGeneration, list[Sequence]] = {}
        self._followers: dict[Sequence, list[Sequence]] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    def step(self) -> None:
        """Compute one batch and deliver what it brought. A request that breaks fails alone. Runs in torch's inference
        mode; the engine thread is in it for good, since going in and out takes a tenth of a small step's own time."""
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
        self._expire()
        if self._pacer is not None:
            self.scheduler.prompt_tokens = self._pacer.prompt_tokens
        batch = self.scheduler.schedule()
        assert batch.rows or not self.has_work, "there is work, but the scheduler found nothing to run"
        if not batch.rows:
            return
        rows, logits = self._run(batch, self._begin_masks(batch))
        filled = self._masks_ahead.take()
        self.scheduler.computed(batch)
        if rows:
            self._try_sampling(rows, logits, filled)
            if self._is_asynchronous:
                self._guesser.note_step(time.perf_counter() - began)
            self._guesser.improve([row.sequence for row in rows])
        if not self.has_work:
            self._guesser.release()
            self._sampler.release()
            self._lineups.release()
        self.counters.steps += 1
        self.counters.rows += len(batch.rows)
        self.counters.step_s += time.perf_counter() - began
        if self._pacer is not None:
            self._pacer.record(batch.decoding, batch.prompt_tokens, self._clock() - spent)

    def give_up_device(self) -> None:
        """The thread that steps this core hangs and is given up. A CUDA device has no room for a second KV pool."""
        if self.model.device.type == "cuda":
            self._runner.give_up()

    # --- requests come and go ----------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        generation, beams = submission.generation, beam_count(submission.generation.job)
        try:
            sequences = [self._sequence(submission, index) for index in range(beams or generation.job.n)]
        except Exception as error:
            self.outbox.fail(generation, as_failure(error, "opening the grammar's matcher"))
            return
        self._live[generation] = sequences
        if submission.deadline is not None:
            self._deadlines.add(generation, submission.deadline)
        if beams:
            self._searches.begin(generation, sequences)
            for sequence in sequences[1:]:
                self.scheduler.register(sequence)
            self.scheduler.add(sequences[0])
            return
        self._followers[sequences[0]] = sequences[1:]
        for sequence in sequences:
            self._guarded(sequence, partial(self._open, sequence))
        if sequences[0].state is State.NEW:
            self.scheduler.add(sequences[0])

    def cancel(self, generation: LiveGeneration) -> None:
        sequences = list(self._live.get(generation, ()))
        if sequences and sequences[0].search is not None:
            self._end_search(
                sequences[0].search, [Piece(i, finish_reason="cancelled") for i in range(generation.job.n)]
            )
            return
        for sequence in sequences:
            self._end(sequence, "cancelled")

    def cancel_all(self) -> None:
        for generation in list(self._live):
            self.cancel(generation)

    def fail_all(self, error: SluicegateError) -> None:
        for generation in list(self._live):
            self._fail(generation, error)

    def _sequence(self, submission: Submission, index: int) -> Sequence:
        job = submission.generation.job
        matcher = None if job.grammar is None else job.grammar.matcher()
        return Sequence(
            tokens=list(job.prompt.token_ids),
            prompt_length=len(job.prompt.token_ids),
            max_length=submission.max_length,
            sampling=job.sampling,
            rule=submission.rule,
            seed=seed_of_choice(submission.seed, index),
            tenant=job.tenant,
            priority=job.priority,
            root=self.scheduler.pool.root((submission.adapter or self.model).version, job.tenant),
            owner=submission.generation,
            adapter=submission.adapter,
            output=ChoiceText(index, self.model.detokenizer.stream(), StopWatch(job.sampling.stop)),
            matcher=matcher,
            closer=closer_for(matcher, wanted=job.sampling.close_on_length),
            drafter=PromptLookup() if self._looks_up(job) else None,
            timeline=submission.generation.timeline,
        )

    def _looks_up(self, job: Job) -> bool:
        wanted = self._guesser.speculation
        return wanted.longest > 0 and wanted.look_up and not job.sampling.use_beam_search

    def _open(self, sequence: Sequence) -> None:
        """What a grammar forces from the first byte on is there before anything was computed."""
        self._conclude(sequence, self._writer.jump(sequence))

    def _release_followers(self, leader: Sequence) -> None:
        """The other choices of a prompt start when the first has computed it: they find its blocks."""
        for follower in self._followers.pop(leader, ()):
            if follower.state is State.NEW:
                self.scheduler.add(follower)

    # --- a step's parts ----------------------------------------------------------------------------------------

    def _run(self, batch: Batch, wanted: WantedLogits | None) -> tuple[list[Row], Tensor]:
        """The sampled rows and their logits; requests whose forward pass throws fail, and their rows are left out."""
        began = time.perf_counter()
        try:
            return batch.sampled, self._runner.run(batch, wanted)
        except Exception:
            return self._run_alone(batch)
        finally:
            self.counters.forward_s += (took := time.perf_counter() - began)
            if not self._is_asynchronous:
                self._guesser.note_step(took)

    def _run_alone(self, batch: Batch) -> tuple[list[Row], Tensor]:
        """Find the culprit: every row in a pass of its own."""
        release_cached()
        rows: list[Row] = []
        logits = [torch.empty(0, self.model.vocab_size, device=self.model.device)]
        for row in batch.rows:
            try:
                logits.append(self._runner.run(Batch([row])).clone())
            except Exception as error:
                self._fail(row.sequence.owner, as_failure(error, "the forward pass"))
            else:
                rows += [row] if row.is_last else []
        return rows, torch.cat(logits)

    def _begin_masks(self, batch: Batch) -> WantedLogits | None:
        """Have the masks of this step filled while its forward pass runs; beam searches ask for theirs later. Returns
        what the pass is told of them."""
        lineup = self._lineups.of(batch.sampled)
        if not lineup.is_constrained or any(row.sequence.search is not None for row in batch.rows):
            return None
        wanted = WantedLogits(len(lineup.draws)) if self._runner.can_leave_out else None
        self._masks_ahead.begin(lineup.draws, wanted)
        return wanted

    def _try_sampling(self, rows: list[Row], logits: Tensor, filled: tuple[list[DrawRow], Filled] | None) -> None:
        """A device that is full fails the requests of this step; those that wait go on."""
        try:
            self._sample(rows, logits, filled)
        except torch.OutOfMemoryError as error:
            release_cached()
            for row in rows:
                self._fail(row.sequence.owner, as_failure(error, "drawing tokens"))

    def _sample(self, rows: list[Row], logits: Tensor, filled: tuple[list[DrawRow], Filled] | None) -> None:
        """Draw, advance and deliver every row; what throws, or cannot be sampled, fails its request alone."""
        states = self._runner.states
        lineup = self._lineups.of(rows)
        if lineup.is_plain and states is None:
            self._draw_plain(rows, logits, lineup.draws)
            return
        if any(row.sequence.search is not None for row in rows):
            states = None  # rows of searches are taken out, and the others change their places
            rows, logits = self._search(rows, logits)
            if not rows:
                return
            lineup = self._lineups.of(rows)
        draws = lineup.draws
        masks, failures = self._masks(draws, filled)
        outcomes: list[Drawn | SluicegateError] = list(self._sampler.draw(logits, draws, masks))
        for at, failure in failures.items():
            outcomes[at] = failure
        at = 0
        for row in rows:
            mine = outcomes[at : at + row.drafted + 1]
            if row.sequence.state is not State.ENDED:
                try:
                    self._advance(row.sequence, mine)
                except Exception as error:
                    self._fail(row.sequence.owner, as_failure(error, "advancing the sequence"))
            row.sequence.hidden = None if states is None else states[at + row.sequence.hidden_row]
            at += len(mine)

    def _draw_plain(self, rows: list[Row], logits: Tensor, draws: list[DrawRow]) -> None:
        """`_sample` for rows that want no more than text, of which most only add a word to theirs."""
        tokens, outcomes = self._sampler.tokens(logits, draws), None
        if tokens is None:
            outcomes = self._sampler.draw(logits, draws, MaskRows())
            tokens = [drawn.token_id if isinstance(drawn, Drawn) else -1 for drawn in outcomes]
        pass_on, deliver, ended = self._writer.pass_on, self.outbox.add, State.ENDED
        looks_up = self._guesser.looks_up
        for at, (row, token) in enumerate(zip(rows, tokens, strict=True)):
            sequence = row[0]
            if sequence.state is ended:
                continue
            try:
                if (piece := pass_on(sequence, token)) is None:
                    self._advance(sequence, [Drawn(token) if outcomes is None else outcomes[at]])
                    continue
                deliver(sequence.owner, piece)
                if looks_up:
                    sequence.draft = self._guesser.look_up(sequence, jumped=True)
            except Exception as error:
                self._fail(sequence.owner, as_failure(error, "advancing the sequence"))

    def _search(self, rows: list[Row], logits: Tensor) -> tuple[list[Row], Tensor]:
        """Give beam searches the logprobs of their rows; what is left is drawn from."""
        places = list(accumulate((row.drafted + 1 for row in rows), initial=0))
        beams = [at for at, row in enumerate(rows) if row.sequence.search is not None]
        draws = [DrawRow(rows[at].sequence) for at in beams]
        masks, failures = self._masks(draws)
        scores, raw, unscored = self._sampler.score(logits[[places[at] for at in beams]], draws, masks)
        for index, draw in enumerate(draws):
            if failure := failures.get(index) or unscored.get(index):
                self._fail(draw.sequence.owner, failure)
            elif draw.sequence.search is not None and draw.sequence.state is not State.ENDED:
                draw.sequence.search.take(draw.sequence, scores[index], raw[index])
        for search in dict.fromkeys(draw.sequence.search for draw in draws):
            if search is not None and search.slots[0].state is not State.ENDED and search.is_ready:
                self._guarded(search.slots[0], partial(self._branch, search))
        others = [at for at, row in enumerate(rows) if row.sequence.search is None]
        kept = [place for at in others for place in range(places[at], places[at + 1])]
        return [rows[at] for at in others], logits[kept]

    def _branch(self, search: BeamSearch) -> None:
        self._runner.copy(search.advance(self.scheduler, self._searches.finish_of))
        if search.is_done:
            self._end_search(search, self._searches.pieces(search))

    def _end_search(self, search: BeamSearch, pieces: list[Piece]) -> None:
        owner = search.slots[0].owner
        for slot in search.slots:
            self.scheduler.remove(slot)
        owner.timeline.ended_s = time.perf_counter()
        self._forget(owner)
        for piece in pieces:
            self.outbox.add(owner, piece)

    def _masks(
        self, draws: list[DrawRow], filled: tuple[list[DrawRow], Filled] | None = None
    ) -> tuple[MaskRows, dict[int, SluicegateError]]:
        """The masks filled during the forward pass, if they are of these draws; else filled now."""
        ready = filled is not None and filled[0] == draws
        masks, failures, seconds = filled[1] if filled is not None and ready else self._fill_masks(draws)
        note_masks(draws, masks, self.model.vocab_size, seconds)
        self.counters.masks += len(masks.masked)
        self.counters.mask_s += seconds
        return masks, failures

    def _fill_masks(self, draws: Seq[DrawRow]) -> Filled:
        began = time.perf_counter()
        masks, failures = fill_masks(draws, self.model.vocab_size, self.model.eos_token_ids, self._sampler.room)
        return masks, failures, time.perf_counter() - began

    def _advance(self, sequence: Sequence, outcomes: list[Drawn | SluicegateError]) -> None:
        reason = self._writer.take(sequence, outcomes)
        if sequence.refused:
            sequence.refused.clear()
        self._conclude(sequence, reason)
        if self._followers:
            self._release_followers(sequence)

    # --- ends --------------------------------------------------------------------------------------------------

    def _conclude(self, sequence: Sequence, reason: FinishReason | None) -> None:
        """Deliver what became final; end the sequence if there is a reason to."""
        owner = sequence.owner
        if sequence.cached_tokens and sequence.cached_tokens > owner.cached_tokens:
            owner.cached_tokens = sequence.cached_tokens
        if reason is not None:
            self._end(sequence, reason)
            return
        if piece := sequence.output.piece():
            self.outbox.add(owner, piece)
        if sequence.drafter is not None:
            sequence.draft = self._guesser.look_up(sequence, jumped=self._writer.jumps(sequence))

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.state is not State.ENDED:
            self._retire(sequence)
            sequence.timeline.ended_s = time.perf_counter()
            self.outbox.add(
                sequence.owner, sequence.output.last_piece(reason, stopped=sequence.stopped, closed=sequence.closed)
            )

    def _retire(self, sequence: Sequence) -> None:
        """Blocks are free when this returns."""
        self.scheduler.remove(sequence)
        if sequence.started_s is not None:
            self.turnover.record(time.monotonic() - sequence.started_s)
        self._release_followers(sequence)
        siblings = self._live.get(sequence.owner, [])
        if all(sibling.state is State.ENDED for sibling in siblings):
            self._forget(sequence.owner)

    def _expire(self) -> None:
        for generation in self._deadlines.due(time.monotonic()):
            waited = "while it ran" if generation.completion_tokens else "before its first token"
            message = f"the request's time ran out {waited}; allow more, or ask for fewer tokens"
            self._break_off(generation, DeadlineExceeded(message))

    def _fail(self, generation: LiveGeneration, error: SluicegateError) -> None:
        """End all choices of a request with an error. Blocks of its own may hold NaN: they are cleaned, not reused."""
        for sequence in self._live.get(generation, []):
            self._runner.scrub(self.scheduler.pool.forget(sequence.blocks))
        self._break_off(generation, error)

    def _break_off(self, generation: LiveGeneration, error: SluicegateError) -> None:
        for sequence in self._live.get(generation, []):
            self._followers.pop(sequence, None)
            self.scheduler.remove(sequence)
        if generation in self._live:
            self._forget(generation)
            self.outbox.fail(generation, error)

    def _forget(self, generation: LiveGeneration) -> None:
        self._live.pop(generation, None)
        self._deadlines.remove(generation)

    def _guarded(self, sequence: Sequence, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._fail(sequence.owner, as_failure(error, "advancing the sequence"))
