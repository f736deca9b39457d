"""A smaller model with the same tokenizer guesses for the larger one, all sequences of a step together.

It draws with the numbers and rules that the larger model will draw with at those places, under the same masks: two
models that agree on a distribution then choose the same token, not only when they are greedy. What the grammar forces
between two guesses costs nothing. Its keys and values are its own, and follow what was kept of its guesses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np

from engine.blocks import BlockPool, OutOfBlocks
from engine.masks import forbid, words_for
from engine.model import LoadedModel
from engine.runner import Runner
from engine.sampler import Drawn, MaskRows, Sampler
from engine.scheduler import Batch, Row
from engine.sequence import DrawRow, Sequence, State
from plugins import Matcher, TokenRejected

Wanted = tuple[Sequence, int]
"""A sequence, and how many tokens to guess for it."""


@dataclass(slots=True, eq=False)
class _Guessing:
    """One sequence in this round of guesses. The target's `draft` grows with `found`, so that its rows see it."""

    target: Sequence
    shadow: Sequence
    longest: int
    found: list[int] = field(default_factory=list)
    over: bool = False

    @property
    def row(self) -> Row:
        return Row(self.shadow, self.shadow.computed, self.shadow.pending)

    @property
    def draw(self) -> DrawRow:
        return DrawRow(self.target, len(self.found))


class ModelDrafter:
    """Used by the engine thread alone. `seconds_a_token`: what one round of guesses costs lately."""

    def __init__(self, model: LoadedModel, runner: Runner, pool: BlockPool, *, budget: int) -> None:
        """`budget`: new tokens of one forward pass; a prompt longer than that is caught up with over several steps."""
        self.seconds_a_token = 0.0
        self._model = model
        self._runner = runner
        self._pool = pool
        self._budget = budget
        self._sampler = Sampler(model.usable_vocab, model.eos_token_ids)
        self._shadows: dict[Sequence, Sequence] = {}

    def guess(self, wanted: Seq[Wanted]) -> list[list[int]]:
        """Up to so many guesses for each sequence, [] where there is no room or its prompt is not caught up with."""
        self._forget_the_ended()
        group = [_Guessing(target, self._shadow_of(target), longest) for target, longest in wanted]
        before = [guessing.target.draft for guessing in group]
        for guessing in group:
            guessing.target.draft = guessing.found
        try:
            self._catch_up(group)
            while live := [guessing for guessing in group if not guessing.over]:
                self._round(live)
        finally:
            for guessing, draft in zip(group, before, strict=True):
                guessing.target.draft = draft
                if guessing.target.matcher is not None and guessing.found:
                    guessing.target.matcher.rollback(len(guessing.found))
        return [guessing.found for guessing in group]

    def release(self) -> None:
        """Nothing runs: hold no blocks."""
        self._forget_the_ended()

    # --- rounds ------------------------------------------------------------------------------------------------

    def _catch_up(self, group: list[_Guessing]) -> None:
        """Compute all but the newest token of each; who does not get that far this time guesses nothing."""
        room = self._budget
        rows = []
        for guessing in group:
            behind = guessing.shadow.pending - 1
            count = min(behind, room)
            if not self._reserve(guessing.shadow):
                guessing.over = True
            elif count > 0:
                room -= count
                rows.append(Row(guessing.shadow, guessing.shadow.computed, count))
                guessing.over = count < behind
            else:
                guessing.over = behind > 0
        if rows:
            self._runner.run(Batch(sorted(rows, key=lambda row: row.count)))
            for row in rows:
                row.sequence.computed += row.count

    def _round(self, live: list[_Guessing]) -> None:
        """One more token for each, and what the grammar forces after it."""
        began = time.perf_counter()
        live.sort(key=lambda guessing: guessing.shadow.pending)
        logits = self._runner.run(Batch([guessing.row for guessing in live]))
        outcomes = self._sampler.draw(logits, [guessing.draw for guessing in live], self._masks(live))
        for guessing, outcome in zip(live, outcomes, strict=True):
            guessing.shadow.computed = len(guessing.shadow.tokens)
            if isinstance(outcome, Drawn) and self._accepts(guessing, outcome.token_id):
                self._follow_the_grammar(guessing)
            else:
                guessing.over = True
            if len(guessing.found) >= guessing.longest or not self._reserve(guessing.shadow):
                guessing.over = True
        self.seconds_a_token += 0.1 * (time.perf_counter() - began - self.seconds_a_token)

    def _masks(self, live: list[_Guessing]) -> MaskRows:
        bitmask = np.zeros((len(live), words_for(self._model.vocab_size)), np.int32)
        masked: list[int] = []
        free: set[int] = set()
        for index, guessing in enumerate(live):
            matcher = guessing.target.matcher
            if matcher is None:
                continue
            if not matcher.fill_mask(bitmask[len(masked)]):
                free.add(index)
                continue
            if not guessing.draw.may_end:
                forbid(bitmask[len(masked)], self._model.eos_token_ids)
            masked.append(index)
        unending = [i for i, guessing in enumerate(live) if not guessing.draw.may_end and i not in masked]
        return MaskRows(masked, bitmask[: len(masked)], frozenset(free), unending)

    def _follow_the_grammar(self, guessing: _Guessing) -> None:
        matcher = guessing.target.matcher
        if matcher is None:
            return
        while not guessing.over and not matcher.is_finished and (forced := matcher.forced_tokens()):
            for token in forced:
                if len(guessing.found) >= guessing.longest or not self._accepts(guessing, token):
                    return
        guessing.over = guessing.over or matcher.is_finished

    def _accepts(self, guessing: _Guessing, token: int) -> bool:
        if not _accepted(guessing.target.matcher, token):
            return False
        guessing.found.append(token)
        guessing.shadow.tokens.append(token)
        guessing.over = token in self._model.eos_token_ids and not guessing.target.sampling.ignore_eos
        return True

    # --- the small model's own sequences -----------------------------------------------------------------------

    def _shadow_of(self, target: Sequence) -> Sequence:
        """What of `target` is in the small model's cache: as far as its guesses came true."""
        shadow = self._shadows.get(target)
        if shadow is None:
            shadow = self._shadows[target] = _shadow(target)
        same = shadow.prompt_length  # tokens known to be the target's since the last time
        while same < min(shadow.computed, len(target.tokens)) and shadow.tokens[same] == target.tokens[same]:
            same += 1
        shadow.computed = min(shadow.computed, same, len(target.tokens) - 1)
        shadow.tokens = list(target.tokens)
        shadow.prompt_length = len(target.tokens)
        return shadow

    def _reserve(self, shadow: Sequence) -> bool:
        missing = self._pool.blocks_for(len(shadow.tokens)) - len(shadow.blocks)
        try:
            shadow.hold(self._pool.take(missing) if missing > 0 else [])
        except OutOfBlocks:
            return False
        return True

    def _forget_the_ended(self) -> None:
        for target in [target for target in self._shadows if target.state is not State.RUNNING]:
            self._pool.release(self._shadows.pop(target).blocks)


def _accepted(matcher: Matcher | None, token: int) -> bool:
    try:
        if matcher is not None:
            matcher.accept(token)
    except TokenRejected:
        return False
    return True


def _shadow(target: Sequence) -> Sequence:
    """A sequence of the small model: tokens and blocks, nothing else of it is used."""
    return Sequence(
        tokens=list(target.tokens),
        prompt_length=len(target.tokens),
        max_length=target.max_length,
        sampling=target.sampling,
        rule=target.rule,
        seed=target.seed,
        tenant=target.tenant,
        priority=target.priority,
        root=target.root,
        owner=target.owner,
        output=target.output,
    )
