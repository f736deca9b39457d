"""Hold the requests of one core: submit them, deliver their pieces, end them."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.failures import as_failure
from sluicegate.engine.loop.append import TokenAppender
from sluicegate.engine.loop.background_matching import BackgroundMatching
from sluicegate.engine.loop.deadlines import Deadlines
from sluicegate.engine.loop.wait_estimate import WaitEstimate
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.probes.reading import ProbedReading
from sluicegate.engine.sampling.params import DrawRule, beam_count
from sluicegate.engine.sampling.rng import seed_of_choice
from sluicegate.engine.search.beam_answers import BeamSearches
from sluicegate.engine.search.beam_search import BeamSearch
from sluicegate.engine.sequences.closing import closer_for
from sluicegate.engine.sequences.delivery import LiveGeneration, Outbox
from sluicegate.engine.sequences.repetition import detector_of
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.engine.settings import RepetitionSettings
from sluicegate.engine.speculation.prompt_lookup import PromptLookup
from sluicegate.engine.speculation.proposer import Proposer
from sluicegate.engine.text.choice_text import ChoiceText
from sluicegate.engine.text.stopping import stop_checker
from sluicegate.plugins import DeadlineExceeded, FinishReason, Job, Piece, SluicegateError


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked job on its way to the engine thread."""

    generation: LiveGeneration
    rule: DrawRule
    seed: int
    max_length: int
    deadline: float | None = None
    """On the monotonic clock."""
    adapter: Adapter | None = None


class Requests:
    """The live requests of one core. Used by the engine thread alone."""

    def __init__(
        self,
        model: LoadedModel,
        runner: ModelRunner,
        scheduler: Scheduler,
        outbox: Outbox,
        appender: TokenAppender,
        proposer: Proposer,
        background: BackgroundMatching,
        forward: str,
        repetition: RepetitionSettings | None = None,
    ) -> None:
        """Begin without requests. `forward`: the implementation of the forward pass, for timelines."""
        self.outbox = outbox
        """The outbox of the thread that steps the core."""
        self.wait_estimate = WaitEstimate()
        self.searches = BeamSearches(model)
        self._model = model
        self._runner = runner
        self._scheduler = scheduler
        self._appender = appender
        self._proposer = proposer
        self._background = background
        self._forward = forward
        self._repetition = repetition or RepetitionSettings()
        self._deadlines = Deadlines()
        self._live: dict[LiveGeneration, list[Sequence]] = {}
        self._followers: dict[Sequence, list[Sequence]] = {}
        self.due: dict[Sequence, None] = {}
        """Probed sequences whose pieces, or whose end, wait for the scores of their last tokens."""

    def __len__(self) -> int:
        return len(self._live)

    def sequences(self, generation: LiveGeneration) -> Seq[Sequence]:
        """Return the sequences of a live generation; () for one that has ended."""
        return self._live.get(generation, ())

    # --- they come ---------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Queue the request's sequences. Fails the request if its matcher cannot be opened."""
        generation, beams = submission.generation, beam_count(submission.generation.job)
        try:
            sequences = [self._sequence(submission, index) for index in range(beams or generation.job.n)]
        except Exception as error:
            self.outbox.fail(generation, as_failure(error, "opening the grammar's matcher"))
            return
        self._live[generation] = sequences
        generation.timeline.forward = self._forward
        if submission.deadline is not None:
            self._deadlines.add(generation, submission.deadline)
        if beams:
            self.searches.begin(generation, sequences)
            for sequence in sequences[1:]:
                self._scheduler.register(sequence)
            self._scheduler.add(sequences[0])
            return
        self._followers[sequences[0]] = sequences[1:]
        for sequence in sequences:
            self.guarded(sequence, self._open, sequence)
        if sequences[0].state is SequenceState.NEW:
            self._scheduler.add(sequences[0])

    def cancel(self, generation: LiveGeneration) -> None:
        """End a request's choices with `finish_reason="cancelled"`; its blocks are free when this returns.
        Idempotent."""
        if (search := self.searches.of(generation)) is not None:
            self.end_search(search, [Piece(i, finish_reason="cancelled") for i in range(generation.job.n)])
            return
        for sequence in list(self._live.get(generation, ())):
            self._end(sequence, "cancelled")

    def cancel_all(self) -> None:
        for generation in list(self._live):
            self.cancel(generation)

    def fail_all(self, error: SluicegateError) -> None:
        for generation in list(self._live):
            self.fail(generation, error)

    def _sequence(self, submission: Submission, index: int) -> Sequence:
        job = submission.generation.job
        matcher = None if job.grammar is None else job.grammar.matcher()
        if matcher is not None and job.grammar is not None:
            movable = not (job.sampling.use_beam_search or job.sampling.close_on_length)
            matcher = self._background.open(matcher, job.grammar, movable=movable)
        probed = self._probed(submission)
        return Sequence(
            tokens=list(job.prompt.token_ids),
            prompt_length=len(job.prompt.token_ids),
            max_length=submission.max_length,
            sampling=job.sampling,
            rule=submission.rule,
            seed=seed_of_choice(submission.seed, index),
            tenant=job.tenant,
            priority=job.priority,
            root=self._scheduler.pool.root((submission.adapter or self._model).version, job.tenant),
            owner=submission.generation,
            adapter=submission.adapter,
            output=ChoiceText(
                index,
                self._model.detokenizer.stream(),
                stop_checker(job.sampling),
                by_token=probed is not None,
            ),
            matcher=matcher,
            repetition=detector_of(job, self._repetition),
            closer=closer_for(matcher, wanted=job.sampling.close_on_length),
            drafter=PromptLookup() if self._looks_up(job) else None,
            timeline=submission.generation.timeline,
            probed=probed,
            sizes_behind=probed.sizes if probed is not None and probed.behind else None,
        )

    def _probed(self, submission: Submission) -> ProbedReading | None:
        """Return the state for probing a request's tokens; None where it is not asked for, or the request uses an
        adapter, for whose hidden states probes are not trained."""
        job = submission.generation.job
        if not job.probed or self._runner.scores is None or submission.adapter is not None:
            return None
        known = len(job.prompt.token_ids)
        return ProbedReading(self._runner.scores, known, job.by_sentence, job.scores_behind)

    def _looks_up(self, job: Job) -> bool:
        wanted = self._proposer.speculation
        return wanted.longest > 0 and wanted.look_up and not job.sampling.use_beam_search

    def _open(self, sequence: Sequence) -> None:
        """Append the tokens that a grammar forces at the beginning."""
        self._conclude(sequence, self._appender.jump(sequence))

    def _release_followers(self, leader: Sequence) -> None:
        """Queue the other choices of a prompt once the first has computed it: they reuse its blocks."""
        for follower in self._followers.pop(leader, ()):
            if follower.state is SequenceState.NEW:
                self._scheduler.add(follower)

    # --- what is delivered, and how they end -------------------------------------------------------------------

    def advanced(self, sequence: Sequence, reason: FinishReason | None) -> None:
        """Deliver new text of a sequence or end it, and queue its followers, which can now reuse the prompt's
        blocks."""
        self._conclude(sequence, reason)
        if self._followers:
            self._release_followers(sequence)

    def _conclude(self, sequence: Sequence, reason: FinishReason | None) -> None:
        """Deliver the text that became final; end the sequence if there is a `reason`."""
        owner = sequence.owner
        if reason is not None and sequence.probed is not None and self._reads_rest(sequence, sequence.probed, reason):
            reason = None
        if sequence.cached_tokens and sequence.cached_tokens > owner.cached_tokens:
            owner.cached_tokens = sequence.cached_tokens
        if reason is not None:
            self._end(sequence, reason)
            return
        if piece := sequence.output.piece():
            self.deliver(sequence, piece)
        if sequence.drafter is not None:
            sequence.draft = self._proposer.look_up(sequence, jumped=self._appender.jumps(sequence))

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.state is not SequenceState.ENDED:
            self._retire(sequence)
            sequence.timeline.ended_s = time.perf_counter()
            last = sequence.output.last_piece(reason, stopped=sequence.stopped, closed=sequence.closed)
            if sequence.probed is None:
                self.outbox.add(sequence.owner, last)
            elif reason == "cancelled" and not sequence.probed.behind:
                sequence.probed.drop()
                self.outbox.add(sequence.owner, Piece(last.index, finish_reason=reason))
            else:
                sequence.probed.hold(last, len(sequence.tokens) - sequence.probed.silent_end)
                self._release(sequence, sequence.probed)

    def deliver(self, sequence: Sequence, piece: Piece) -> None:
        """Deliver a piece; of a probed sequence only after all its tokens are scored, unless scores come behind."""
        probed = sequence.probed
        if probed is None:
            self.outbox.add(sequence.owner, piece)
        elif probed.behind:
            probed.note(piece, _spoken(sequence, probed))
            self.outbox.add(sequence.owner, piece)
        elif probed.hold(piece, _spoken(sequence, probed)):
            self.due[sequence] = None

    def _reads_rest(self, sequence: Sequence, probed: ProbedReading, reason: FinishReason) -> bool:
        """Return whether an ending sequence needs one more step, since probes have not seen all its tokens. Records
        `reason` for then."""
        if reason == "cancelled" or sequence.state is SequenceState.ENDED or probed.ending is not None:
            return False
        if sequence.computed >= len(sequence.tokens) - probed.silent_end:
            return False
        probed.ending, sequence.reads_rest = reason, True
        self.due[sequence] = None
        sequence.draft, sequence.drafter = [], None
        return True

    def deliver_scored(self) -> None:
        """Deliver the pieces of `due` sequences whose tokens are scored by now, and end those that waited for it. A
        sequence that raises fails its request alone."""
        waiting, self.due = self.due, {}
        for sequence in waiting:
            if sequence.probed is not None and sequence.state is not SequenceState.ENDED:
                self.guarded(sequence, self._deliver_scored, sequence, sequence.probed)

    def bring_scores(self, sequences: Seq[Sequence]) -> None:
        """Deliver the scores of texts of `sequences` that have left before them, where there are enough. A sequence
        that raises fails its request alone."""
        for sequence in sequences:
            if sequence.probed is not None and sequence.state is not SequenceState.ENDED:
                self.guarded(sequence, self._bring_scores, sequence, sequence.probed)

    def _bring_scores(self, sequence: Sequence, probed: ProbedReading) -> None:
        if (piece := probed.bring(sequence.output.index, sequence.blocks, sequence.computed)) is not None:
            self.outbox.add(sequence.owner, piece)

    def _deliver_scored(self, sequence: Sequence, probed: ProbedReading) -> None:
        if probed.ending is not None and sequence.computed >= len(sequence.tokens) - probed.silent_end:
            self._end(sequence, probed.ending)
            return
        if not probed.behind:
            probed.collect(sequence.blocks, sequence.computed)
            self._release(sequence, probed)
        if probed.is_due or probed.ending is not None:
            self.due[sequence] = None

    def _release(self, sequence: Sequence, probed: ProbedReading) -> None:
        if (piece := probed.release()) is not None:
            self.outbox.add(sequence.owner, piece)

    def _retire(self, sequence: Sequence) -> None:
        """Free a sequence's blocks, and forget the request if this was its last choice."""
        self._scheduler.remove(sequence)
        self.due.pop(sequence, None)
        if sequence.started_s is not None:
            self.wait_estimate.record(time.monotonic() - sequence.started_s)
        self._release_followers(sequence)
        siblings = self._live.get(sequence.owner, [])
        if all(sibling.state is SequenceState.ENDED for sibling in siblings):
            self._forget(sequence.owner)

    def expire(self) -> None:
        """End requests whose deadline has passed."""
        for generation in self._deadlines.due(time.monotonic()):
            waited = "while it ran" if generation.completion_tokens else "before its first token"
            message = f"the request's time ran out {waited}; allow more, or ask for fewer tokens"
            self._break_off(generation, DeadlineExceeded(message))

    def fail(self, generation: LiveGeneration, error: SluicegateError) -> None:
        """End all choices of a request with an error. Blocks that only it holds may contain NaN: they are zeroed, and
        not reused."""
        for sequence in self._live.get(generation, []):
            self._runner.scrub(self._scheduler.pool.forget(sequence.blocks))
        self._break_off(generation, error)

    def _break_off(self, generation: LiveGeneration, error: SluicegateError) -> None:
        for sequence in self._live.get(generation, []):
            self._followers.pop(sequence, None)
            self.due.pop(sequence, None)
            self._scheduler.remove(sequence)
        if generation in self._live:
            self._forget(generation)
            self.outbox.fail(generation, error)

    def _forget(self, generation: LiveGeneration) -> None:
        self._live.pop(generation, None)
        self._deadlines.remove(generation)
        self.searches.forget(generation)

    def guarded(self, sequence: Sequence, act: Callable[..., None], *arguments: Any) -> None:
        """Call `act(*arguments)`; if it raises, fail the sequence's request."""
        try:
            act(*arguments)
        except Exception as error:
            self.fail(sequence.owner, as_failure(error, "advancing the sequence"))

    def end_search(self, search: BeamSearch, pieces: list[Piece]) -> None:
        """End all beams of a search, and deliver `pieces`."""
        owner = search.slots[0].owner
        for slot in search.slots:
            self._scheduler.remove(slot)
        owner.timeline.ended_s = time.perf_counter()
        self._forget(owner)
        for piece in pieces:
            self.outbox.add(owner, piece)


def _spoken(sequence: Sequence, probed: ProbedReading) -> int:
    """Return how many tokens of a sequence have their text in the pieces so far."""
    return len(sequence.tokens) - probed.silent_end - sequence.output.waiting
