"""Start beam searches, detect where their answers end, and convert these to pieces."""

from __future__ import annotations

from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sampling.params import beam_count
from sluicegate.engine.search.beam_search import BeamSearch
from sluicegate.engine.search.beams import BeamGroup, FinishedBeam, Top
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.engine.text.choice_text import ChoiceText
from sluicegate.engine.text.stopping import stop_checker
from sluicegate.plugins import FinishReason, Piece, TokenLogprob


class BeamSearches:
    """The beam searches of one core, by generation. Used by the engine thread alone."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._running: dict[LiveGeneration, BeamSearch] = {}

    def of(self, generation: LiveGeneration) -> BeamSearch | None:
        """Return the running search of a generation, or None."""
        return self._running.get(generation)

    def forget(self, generation: LiveGeneration) -> None:
        self._running.pop(generation, None)

    def begin(self, generation: LiveGeneration, slots: list[Sequence]) -> BeamSearch:
        """Start a search over `slots`; the first of them computes the prompt."""
        job, first = generation.job, slots[0]
        width = beam_count(job) // job.sampling.beam_groups
        longest, ends = first.max_length - first.prompt_length, len(self._model.eos_token_ids)
        groups = [BeamGroup(width, job.sampling, longest, ends) for _ in range(job.sampling.beam_groups)]
        for slot in slots:
            slot.is_beam = True
        self._running[generation] = search = BeamSearch(slots, groups, job.n)
        return search

    def finish_of(self, sequence: Sequence, generated: list[int]) -> FinishReason | None:
        """Return the reason if an answer of the tokens `generated` ends here. The matcher must have accepted them
        all."""
        asked = sequence.sampling
        if generated[-1] in self._model.eos_token_ids and not asked.ignore_eos:
            return "stop"
        if sequence.matcher is not None and sequence.matcher.is_finished:
            return "stop"
        if asked.stop and len(generated) >= asked.min_tokens and self._stops(asked.stop, generated):
            return "stop"
        return "length" if sequence.prompt_length + len(generated) >= sequence.max_length else None

    def pieces(self, search: BeamSearch) -> list[Piece]:
        """Return one piece per choice, best first. Raises `GenerationFailed` if there are fewer answers than
        choices."""
        owner = search.slots[0].owner
        answers = search.answers()
        for answer in answers:
            for _ in answer.tokens:
                owner.timeline.count(None)
        return [self._piece(search.slots[0], index, answer) for index, answer in enumerate(answers)]

    def _piece(self, sequence: Sequence, index: int, answer: FinishedBeam) -> Piece:
        asked, stopped = sequence.sampling, False
        output = ChoiceText(index, self._model.detokenizer.stream(), stop_checker(asked))
        places = zip(answer.tokens, answer.logprobs, answer.tops, strict=True)
        for count, (token, logprob, top) in enumerate(places, start=1):
            if token in self._model.eos_token_ids and not asked.ignore_eos:
                break
            described = self._describe(token, logprob, top) if asked.logprobs is not None else None
            stopped = output.feed(token, described, may_stop=count >= asked.min_tokens)
        return output.last_piece(answer.reason, stopped=stopped)

    def _stops(self, stops: tuple[str, ...], generated: list[int]) -> bool:
        text = self._model.tokenizer.decode(generated, skip_special_tokens=True)
        return any(stop in text for stop in stops)

    def _describe(self, token: int, logprob: float, top: Top) -> TokenLogprob:
        text, data = self._model.detokenizer.token_text, self._model.detokenizer.token_bytes
        others = tuple((other, text(other), data(other), value) for other, value in top)
        return TokenLogprob(token, text(token), data(token), logprob, others)
