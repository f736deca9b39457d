"""Append drawn tokens to sequences: check drafts, advance matchers, feed text, apply limits, jump forward."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq

from sluicegate.engine.loop.counters import CoreCounters
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sampling.outcomes import SampledToken
from sluicegate.engine.sequences.repetition import LoopDetector
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.engine.speculation.proposer import Proposer
from sluicegate.plugins import FinishReason, GrammarTooCostly, Piece, SluicegateError, TokenLogprob, TokenStep


class TokenAppender:
    """Appends tokens for all sequences of a core; used by the engine thread alone."""

    def __init__(self, model: LoadedModel, counters: CoreCounters, proposer: Proposer, *, jump_forward: bool) -> None:
        self._model = model
        self._eos = frozenset(model.eos_token_ids)
        self._counters = counters
        self._proposer = proposer
        self._jump_forward = jump_forward

    def take(self, sequence: Sequence, outcomes: Seq[SampledToken | SluicegateError]) -> FinishReason | None:
        """Append the tokens drawn for a sequence: the next one, and those after each accepted draft token.

        Stops at the first draft token that differs from the drawn one; later outcomes are discarded. Returns the reason
        if the sequence ends. Raises an outcome that is an error.
        """
        if len(outcomes) == 1 and not sequence.draft:
            return self._take_one(sequence, outcomes[0], 0)
        draft, right, reason = sequence.draft, 0, None
        sequence.draft = []
        while reason is None and right < len(outcomes):
            before = len(sequence.tokens)
            try:
                reason = self._take_one(sequence, outcomes[right], right)
            except GrammarTooCostly:
                if len(sequence.tokens) > before or not right:
                    raise
                sequence.computed -= 1  # the last token is read once more, and what was drawn after it drawn again
                break
            new = sequence.tokens[before:]
            matched = _common(new, draft[right:])
            right += matched
            if matched < len(new):
                break
        sequence.computed += right
        self._proposer.record(sequence, len(draft), right)
        self._counters.drafted += len(draft)
        self._counters.accepted += right
        sequence.timeline.drafted += len(draft)
        sequence.timeline.accepted += right
        return reason

    def pass_on(self, sequence: Sequence, token: int) -> Piece | None:
        """Append `token` to a plain sequence without a draft, and return its text: the fast path of `take`.

        Returns None, with nothing changed, for the first or last token or a token of -1 (not drawn): call `take` then.
        Touches little memory, since most of its time is cache misses after the forward pass.
        """
        tokens = sequence.tokens
        length = len(tokens)
        if token < 0 or token in self._eos or length == sequence.prompt_length or length + 1 >= sequence.max_length:
            return None
        piece = sequence.output.pass_on(token)
        tokens.append(token)
        self._counters.tokens += 1
        sequence.timeline.tokens += 1
        return piece

    def jump(self, sequence: Sequence) -> FinishReason | None:
        """Append the tokens the grammar forces; the next step computes them. Returns the reason if the sequence ends.

        Does nothing where logprobs are asked for (a forced token's logprob is known only after its own forward pass) or
        words are forbidden (only sampling looks for them).
        """
        if sequence.matcher is None or not self.jumps(sequence):
            return None
        for token in sequence.matcher.forced_tokens():
            try:
                reason = self._append(sequence, token, None)
            except GrammarTooCostly:  # more than a step has time for: it will be drawn
                break
            self._counters.forced_tokens += 1
            self._note(sequence, token)
            if reason:
                return reason
        if sequence.closer is not None:
            sequence.closer.moved()
        return None

    def ends(self, sequence: Sequence, token: int) -> bool:
        """Return whether `token` would end the answer without adding text."""
        if token in self._eos and not sequence.sampling.ignore_eos:
            return True
        return token in sequence.sampling.stop_token_ids and _ends_with(sequence)

    def jumps(self, sequence: Sequence) -> bool:
        return self._jump_forward and sequence.rule.logprobs is None and not sequence.rule.bad_words

    def _take_one(self, sequence: Sequence, drawn: SampledToken | SluicegateError, ahead: int) -> FinishReason | None:
        if not isinstance(drawn, SampledToken):
            raise drawn
        sequence.hidden_row, sequence.hidden_length = ahead, len(sequence.tokens)
        token = drawn.token_id
        if sequence.closer is not None and (reason := self._close(sequence, token)) is not None:
            return reason
        logprob = None if drawn.logprob is None else self._describe(sequence, drawn)
        reason = self._append(sequence, token, logprob)
        self._note(sequence, token, drawn, ahead)
        return self.jump(sequence) if reason is None and sequence.matcher is not None else reason

    def _append(self, sequence: Sequence, token: int, logprob: TokenLogprob | None) -> FinishReason | None:
        """Append one token to matcher, text and count; return the reason if the sequence ends."""
        matcher, tokens, asked = sequence.matcher, sequence.tokens, sequence.sampling
        if token in asked.stop_token_ids and _ends_with(sequence):
            return self._stop_at(sequence, token, logprob)
        if matcher is not None:
            matcher.accept(token)
        tokens.append(token)
        self._counters.tokens += 1
        if token in self._eos and not asked.ignore_eos:
            return _without_text(sequence)
        may_stop = not asked.min_tokens or sequence.generated >= asked.min_tokens
        if sequence.output.feed(token, logprob, may_stop=may_stop):
            sequence.stopped = True
            return "stop"
        if matcher is not None and matcher.is_finished:
            return "stop"
        if len(tokens) >= sequence.max_length:
            return _at_the_last_token(sequence)
        repetition = sequence.repetition
        if repetition is not None and repetition.closed_by(token) and may_stop:
            return self._end_repetition(sequence, repetition)
        return None

    def _stop_at(self, sequence: Sequence, token: int, logprob: TokenLogprob | None) -> FinishReason:
        """End at a token of `stop_token_ids`. Its text is never added to a constrained answer."""
        sequence.tokens.append(token)
        self._counters.tokens += 1
        if sequence.sampling.include_stop_str_in_output and sequence.matcher is None:
            sequence.stopped = sequence.output.feed(token, logprob)
            return "stop"
        return _without_text(sequence)

    def _close(self, sequence: Sequence, token: int) -> FinishReason | None:
        """Append the grammar's shortest completion instead of `token` if none would fit after `token`; return the
        reason if the sequence ends."""
        assert sequence.closer is not None
        way = sequence.closer.instead_of(token, sequence.max_length - len(sequence.tokens) - 1)
        if way is None:
            return None
        for forced in way:
            self._note(sequence, forced)
            self._append(sequence, forced, None)
        sequence.closed = "length"
        return "stop"

    def _end_repetition(self, sequence: Sequence, repetition: LoopDetector) -> FinishReason | None:
        """End a choice that repeats itself; a constrained one with the grammar's shortest completion, if that fits."""
        way = self._shortest_ending(sequence)
        if way is None and not repetition.asked:
            return None  # half a text, where nobody asked for an end, is worse than a long one
        if repetition.allows(sequence.tokens[: sequence.prompt_length], way or ()):
            return None
        sequence.repetition, sequence.closed = None, "repetition"
        sequence.timeline.repetitions_s.append(time.perf_counter())
        self._counters.repetitions += 1
        for forced in way or ():
            self._note(sequence, forced)
            self._append(sequence, forced, None)
        return "stop" if way is not None and sequence.closer is not None else "length"

    def _shortest_ending(self, sequence: Sequence) -> Seq[int] | None:
        """Return the grammar's shortest completion; None without a grammar, or where none fits."""
        found = None if sequence.matcher is None else sequence.matcher.shortest_completion()
        room = sequence.max_length - len(sequence.tokens)
        return None if found is None or len(found.tokens) > room else found.tokens

    def _describe(self, sequence: Sequence, drawn: SampledToken) -> TokenLogprob | None:
        if drawn.logprob is None or sequence.rule.logprobs is None:
            return None
        text, data = self._model.detokenizer.token_text, self._model.detokenizer.token_bytes
        top = tuple((token, text(token), data(token), logprob) for token, logprob in drawn.top)
        return TokenLogprob(drawn.token_id, text(drawn.token_id), data(drawn.token_id), drawn.logprob, top)

    def _note(self, sequence: Sequence, token: int, drawn: SampledToken | None = None, ahead: int = 0) -> None:
        """Count a token in the timeline, with details if it is explained; `drawn` None = the grammar forced it."""
        timeline, step = sequence.timeline, None
        if timeline.explain:
            text, now = self._model.detokenizer.token_text(token), time.perf_counter()
            share, logprob = (None, None) if drawn is None else (sequence.refused.get(ahead), drawn.logprob)
            data = self._model.detokenizer.token_bytes
            law, likely = (0.0, ()) if drawn is None else (drawn.law, drawn.likely)
            others = tuple((data(other), value) for other, value in likely)
            step = TokenStep(
                sequence.output.index, token, text, now, drawn is None, share, logprob, data(token), law, others
            )
        timeline.count(step, forced=drawn is None)


def _at_the_last_token(sequence: Sequence) -> FinishReason:
    """Return why a sequence ends whose tokens are used up. One that may end here is whole: `Closer` had nothing to
    write."""
    if sequence.closer is None or sequence.matcher is None or not sequence.matcher.can_stop:
        return "length"
    sequence.closed = "length"
    return "stop"


def _ends_with(sequence: Sequence) -> bool:
    """Return whether a token of `stop_token_ids` ends the answer here; otherwise it is text like any other."""
    enough = sequence.generated >= sequence.sampling.min_tokens
    return enough and (sequence.matcher is None or sequence.matcher.can_stop)


def _without_text(sequence: Sequence) -> FinishReason:
    """End a sequence with a token whose text is not part of the answer."""
    if sequence.probed is not None:
        sequence.probed.silent_end = 1
    return "stop"


def _common(left: list[int], right: list[int]) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
