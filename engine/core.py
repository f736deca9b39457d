"""The engine of one model: a step schedules, runs, samples and delivers. Everything here runs on the engine thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.constraints import fill_masks
from engine.delivery import LiveGeneration, Outbox, as_failure
from engine.model import LoadedModel
from engine.noise import seed_of_choice
from engine.output import ChoiceText
from engine.params import DrawRule
from engine.runner import Runner
from engine.sampler import Drawn, Sampler
from engine.scheduler import Batch, Row, Scheduler
from engine.sequence import Sequence, State
from engine.stopping import StopWatch
from plugins import FinishReason, SluicegateError, TokenLogprob


@dataclass(slots=True)
class CoreCounters:
    """Totals since the start. `step_s` and `forward_s` are seconds; their difference is the engine's own overhead."""

    steps: int = 0
    step_s: float = 0.0
    forward_s: float = 0.0
    tokens: int = 0
    forced_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, with everything that could be checked before it reaches the engine thread."""

    generation: LiveGeneration
    rule: DrawRule
    seed: int
    max_length: int


class EngineCore:
    def __init__(
        self, model: LoadedModel, runner: Runner, scheduler: Scheduler, outbox: Outbox, *, jump_forward: bool = True
    ) -> None:
        self.model = model
        self.scheduler = scheduler
        self.counters = CoreCounters()
        self._runner = runner
        self._sampler = Sampler(model.usable_vocab, model.eos_token_ids)
        self._outbox = outbox
        self._jump_forward = jump_forward
        self._live: dict[LiveGeneration, list[Sequence]] = {}
        self._followers: dict[Sequence, list[Sequence]] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @torch.inference_mode()
    def step(self) -> None:
        """Compute one batch and deliver what it brought. A request that breaks fails alone."""
        began = time.perf_counter()
        batch = self.scheduler.schedule()
        assert batch.rows, "there is work, but the scheduler found nothing to run"
        rows, logits = self._run(batch)
        self.scheduler.computed(batch)
        if rows:
            self._sample(rows, logits)
        self.counters.steps += 1
        self.counters.step_s += time.perf_counter() - began

    # --- requests come and go ----------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        generation = submission.generation
        try:
            sequences = [self._sequence(submission, index) for index in range(generation.job.n)]
        except Exception as error:
            self._outbox.fail(generation, as_failure(error, "opening the grammar's matcher"))
            return
        self._live[generation] = sequences
        self._followers[sequences[0]] = sequences[1:]
        for sequence in sequences:
            self._guarded(sequence, partial(self._open, sequence))
        if sequences[0].state is State.NEW:
            self.scheduler.add(sequences[0])

    def cancel(self, generation: LiveGeneration) -> None:
        for sequence in list(self._live.get(generation, ())):
            self._end(sequence, "cancelled")

    def cancel_all(self) -> None:
        for generation in list(self._live):
            self.cancel(generation)

    def fail_all(self, error: SluicegateError) -> None:
        for generation in list(self._live):
            self._fail(generation, error)

    def _sequence(self, submission: Submission, index: int) -> Sequence:
        job = submission.generation.job
        return Sequence(
            tokens=list(job.prompt.token_ids),
            prompt_length=len(job.prompt.token_ids),
            max_length=submission.max_length,
            sampling=job.sampling,
            rule=submission.rule,
            seed=seed_of_choice(submission.seed, index),
            tenant=job.tenant,
            priority=job.priority,
            root=self.scheduler.pool.root(self.model.version, job.tenant),
            owner=submission.generation,
            output=ChoiceText(index, self.model.detokenizer.stream(), StopWatch(job.sampling.stop)),
            matcher=None if job.grammar is None else job.grammar.matcher(),
        )

    def _open(self, sequence: Sequence) -> None:
        """What a grammar forces from the first byte on is there before anything was computed."""
        self._conclude(sequence, self._jump(sequence))

    def _release_followers(self, leader: Sequence) -> None:
        """The other choices of a prompt start when the first has computed it: they find its blocks."""
        for follower in self._followers.pop(leader, ()):
            if follower.state is State.NEW:
                self.scheduler.add(follower)

    # --- a step's parts ----------------------------------------------------------------------------------------

    def _run(self, batch: Batch) -> tuple[list[Row], Tensor]:
        """The sampled rows and their logits; requests whose forward pass throws fail, and their rows are left out."""
        began = time.perf_counter()
        try:
            return batch.sampled, self._runner.run(batch)
        except Exception:
            return self._run_alone(batch)
        finally:
            self.counters.forward_s += time.perf_counter() - began

    def _run_alone(self, batch: Batch) -> tuple[list[Row], Tensor]:
        """Find the culprit: every row in a pass of its own."""
        rows: list[Row] = []
        logits = [torch.empty(0, self.model.vocab_size, device=self.model.device)]
        for row in batch.rows:
            try:
                logits.append(self._runner.run(Batch([row])))
            except Exception as error:
                self._fail(row.sequence.owner, as_failure(error, "the forward pass"))
            else:
                rows += [row] if row.is_last else []
        return rows, torch.cat(logits)

    def _sample(self, rows: list[Row], logits: Tensor) -> None:
        """Draw, advance and deliver every row; what throws, or cannot be sampled, fails its request alone."""
        sequences = [row.sequence for row in rows]
        masks, failures = fill_masks(sequences, self.model.vocab_size, self.model.eos_token_ids)
        outcomes = self._sampler.draw(logits, sequences, masks)
        for index, (sequence, outcome) in enumerate(zip(sequences, outcomes, strict=True)):
            if index in failures:
                self._fail(sequence.owner, failures[index])
            elif not isinstance(outcome, Drawn):
                self._fail(sequence.owner, outcome)
            elif sequence.state is not State.ENDED:
                self._guarded(sequence, partial(self._advance, sequence, outcome))

    def _advance(self, sequence: Sequence, drawn: Drawn) -> None:
        reason = self._append(sequence, drawn.token_id, self._describe(drawn))
        self._conclude(sequence, reason or self._jump(sequence))
        self._release_followers(sequence)

    def _append(self, sequence: Sequence, token: int, logprob: TokenLogprob | None) -> FinishReason | None:
        """One more token: matcher, text and limits; why the sequence ends with it, if it does."""
        if sequence.matcher is not None:
            sequence.matcher.accept(token)
        sequence.tokens.append(token)
        sequence.owner.completion_tokens += 1
        self.counters.tokens += 1
        if token in self.model.eos_token_ids and not sequence.sampling.ignore_eos:
            return "stop"
        may_stop = sequence.generated >= sequence.sampling.min_tokens
        if sequence.output.feed(token, logprob, may_stop=may_stop):
            sequence.stopped = True
            return "stop"
        if sequence.matcher is not None and sequence.matcher.is_finished:
            return "stop"
        return "length" if len(sequence.tokens) >= sequence.max_length else None

    def _jump(self, sequence: Sequence) -> FinishReason | None:
        """Append the tokens the grammar leaves no choice about; they are computed together with the next step.

        Not where logprobs are asked for: a forced token's logprob is known only after its own forward pass.
        """
        if sequence.matcher is None or not self._jump_forward or sequence.rule.logprobs is not None:
            return None
        for token in sequence.matcher.forced_tokens():
            self.counters.forced_tokens += 1
            if reason := self._append(sequence, token, None):
                return reason
        return None

    def _describe(self, drawn: Drawn) -> TokenLogprob | None:
        if drawn.logprob is None:
            return None
        text, data = self.model.detokenizer.token_text, self.model.detokenizer.token_bytes
        top = tuple((token, text(token), data(token), logprob) for token, logprob in drawn.top)
        return TokenLogprob(drawn.token_id, text(drawn.token_id), data(drawn.token_id), drawn.logprob, top)

    # --- ends --------------------------------------------------------------------------------------------------

    def _conclude(self, sequence: Sequence, reason: FinishReason | None) -> None:
        """Deliver what became final; end the sequence if there is a reason to."""
        sequence.owner.cached_tokens = max(sequence.owner.cached_tokens, sequence.cached_tokens or 0)
        if reason is not None:
            self._end(sequence, reason)
        elif piece := sequence.output.piece():
            self._outbox.add(sequence.owner, piece)

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.state is not State.ENDED:
            self._retire(sequence)
            self._outbox.add(sequence.owner, sequence.output.last_piece(reason, stopped=sequence.stopped))

    def _retire(self, sequence: Sequence) -> None:
        """Blocks are free when this returns."""
        self.scheduler.remove(sequence)
        self._release_followers(sequence)
        siblings = self._live.get(sequence.owner, [])
        if all(sibling.state is State.ENDED for sibling in siblings):
            self._live.pop(sequence.owner, None)

    def _fail(self, generation: LiveGeneration, error: SluicegateError) -> None:
        """End all choices of a request with an error. Its blocks may hold NaN, so they are cleaned and not reused."""
        for sequence in self._live.get(generation, []):
            self._followers.pop(sequence, None)
            self.scheduler.pool.forget(sequence.blocks)
            self._runner.scrub(sequence.blocks)
            self.scheduler.remove(sequence)
        if self._live.pop(generation, None) is not None:
            self._outbox.fail(generation, error)

    def _guarded(self, sequence: Sequence, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._fail(sequence.owner, as_failure(error, "advancing the sequence"))
