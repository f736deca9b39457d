"""Answer questions to guards with token heads: many texts in one pass, each computed from its new tokens on.

Every step takes the questions asked so far, up to the engine's token budget; a long new text leaves room for the few
tokens of others. The KV blocks of a text are kept between calls, so each of its tokens is computed once. Where blocks
run out, younger texts lose theirs to older ones, so that texts far advanced can finish; idle texts lose theirs first.
Evicted texts are recomputed when they are next asked about.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.failures import as_failure
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.model.model import GuardModel
from sluicegate.engine.sequences.growing_text import GrowingText
from sluicegate.plugins import GenerationFailed, Overloaded, TokenJudgement

SHORT = 16
"""A text with at most this many new tokens counts as a continuation, not as a new text."""
IDLE_S = 1.0
"""A text without a question for this long gives up its blocks to any other text."""
REST_S = 0.001
"""Pause between two attempts to get blocks while other texts hold all of them."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class TokenQuestion:
    """A request to judge the `last` tokens of a text after `new` ones are added. A `Waiter`."""

    text: GrowingText
    new: Seq[int]
    last: int
    asked: bool
    """Whether the heads for questions judge the text, instead of those for answers."""
    future: asyncio.Future[list[TokenJudgement]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    found: list[TokenJudgement] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.text.closed or self.future.done()

    @property
    def first(self) -> int:
        """Return the index in the text of the first token still to judge. Recomputed tokens before it are not judged
        again."""
        return len(self.text.tokens) - self.last + len(self.found)

    def answer(self) -> None:
        self._settle(lambda: self.future.set_result(self.found))

    def fail(self, error: Exception) -> None:
        self._settle(lambda: self.future.set_exception(error))

    def _settle(self, act: Callable[[], None]) -> None:
        def settle() -> None:
            if not self.future.done():
                act()

        loop = self.future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)


@dataclass(frozen=True, slots=True)
class _TextRow:
    """Tokens [start, start + count) of a question's text. `wanted` is valid before the pass only: it follows
    `question.found`."""

    question: TokenQuestion
    start: int
    count: int

    @property
    def wanted(self) -> int:
        """Return how many tokens, the last of the row, are to be judged."""
        return max(0, self.start + self.count - max(self.start, self.question.first))


class TokenReadings:
    """All texts of one guard. Used by the engine thread alone, under `torch.inference_mode`."""

    def __init__(self, model: GuardModel, runner: ModelRunner, pool: BlockPool, budget: int) -> None:
        """Begin without texts. `budget`: most new tokens of a step."""
        self._model = model
        self._runner = runner
        self._pool = pool
        self._budget = budget
        self._waiting: list[TokenQuestion] = []
        self._texts: set[GrowingText] = set()
        self._born = 0

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def add(self, question: TokenQuestion) -> None:
        question.text.tokens += question.new
        if not question.text.born:
            self._born += 1
            question.text.born = self._born
        self._waiting.append(question)

    def close(self, text: GrowingText) -> None:
        """Free a text's blocks and end it. Idempotent."""
        text.closed = True
        self._give_up(text)

    def fail_all(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            question.fail(error)

    def step(self) -> int:
        """Compute one pass and answer finished questions; return the number of tokens computed."""
        self._waiting = [question for question in self._waiting if not question.is_over]
        rows = self._rows()
        if rows:
            self._compute(rows)
        elif self._waiting:
            time.sleep(REST_S)
        for row in rows:
            if row.question.text.pending == 0 and not row.question.is_over:
                row.question.answer()
                self._waiting.remove(row.question)
        return sum(row.count for row in rows)

    # --- which tokens ------------------------------------------------------------------------------------------

    def _rows(self) -> list[_TextRow]:
        """Return the rows of the next pass, shortest first; [] where no question can advance."""
        for question in self._waiting:
            question.text.find(self._pool, question.first)
            if question.text.blocks:
                self._texts.add(question.text)
        rows: list[_TextRow] = []
        pending = {question: question.text.pending for question in self._waiting}
        budget = self._budget
        long_budget = max(1, budget - sum(size for size in pending.values() if size <= SHORT))
        for question in sorted(self._waiting, key=lambda one: one.text.born):
            count = min(pending[question], budget if pending[question] <= SHORT else min(budget, long_budget))
            if count and self._secure(question, count, rows):
                rows.append(_TextRow(question, question.text.computed, count))
                budget -= count
                long_budget -= count if pending[question] > SHORT else 0
        return sorted(rows, key=lambda row: row.count)

    def _secure(self, question: TokenQuestion, count: int, rows: Seq[_TextRow]) -> bool:
        """Take blocks for `count` more tokens, evicting texts that are not in this pass if needed. Returns False if the
        question must wait for the next pass, or has failed because the pool is too small for its text alone."""
        text, pool = question.text, self._pool
        busy = {row.question.text for row in rows} | {text}
        while (missing := text.lacks(pool, count)) > pool.free_count:
            others = self._texts - busy
            if (victim := _victim(text, others, {one.text for one in self._waiting})) is None:
                if not rows and not others:
                    self._refuse(question)
                return False
            self._give_up(victim)
        text.take(pool, missing)
        self._texts.add(text)
        return True

    def _refuse(self, question: TokenQuestion) -> None:
        room = self._pool.num_blocks * self._pool.block_size
        self._waiting.remove(question)
        self._give_up(question.text)
        question.fail(
            Overloaded(
                f"guard {self._model.name!r} has {room} places for tokens, too few for this text; give it more with "
                "kv_cache_bytes or num_blocks",
                retry_after_s=1.0,
            )
        )

    def _give_up(self, text: GrowingText) -> None:
        text.give_up(self._pool)
        self._texts.discard(text)

    # --- the pass ----------------------------------------------------------------------------------------------

    def _compute(self, rows: Seq[_TextRow]) -> None:
        """Run a pass; if it raises, run each row alone and fail only those that raise again."""
        try:
            self._take(rows, self._runner.features(self._inputs(rows)))
        except Exception as error:
            if len(rows) == 1:
                self._broken(rows[0].question, as_failure(error, "the guard's forward pass"))
                return
            for row in rows:
                if row.question.text.computed == row.start and not row.question.text.closed:
                    self._compute([row])

    def _inputs(self, rows: Seq[_TextRow]) -> StepInputs:
        ids = np.concatenate([np.array(r.question.text.tokens[r.start : r.start + r.count], np.int64) for r in rows])
        positions = np.concatenate([np.arange(row.start, row.start + row.count) for row in rows])
        size = self._pool.block_size
        slots = [
            row.question.text.table[at // size] * size + at % size
            for row in rows
            for at in range(row.start, row.start + row.count)
        ]
        ends = np.cumsum([row.count for row in rows])
        wanted = [np.arange(end - row.wanted, end) for row, end in zip(rows, ends, strict=True)]
        stretches = [TokenSpan(row.start, row.count, row.question.text.table) for row in rows]
        return StepInputs(ids, positions, np.array(slots, np.int64), np.concatenate(wanted), stretches)

    def _take(self, rows: Seq[_TextRow], features: Tensor) -> None:
        """Judge the wanted tokens from `features` [R, 2 i], row by row."""
        heads, at = self._model.guard_heads, 0
        for row in rows:
            question, wanted = row.question, row.wanted
            mine = features[at : at + wanted]
            at += wanted
            if not bool(torch.isfinite(mine).all()):
                self._broken(question, GenerationFailed("the guard's numbers are none (NaN or infinite)"))
                continue
            if len(mine):
                question.found += heads.judge_question(mine) if question.asked else heads.judge_answer(mine)
            question.text.advance(self._pool, row.count)
            question.text.used_s = time.monotonic()

    def _broken(self, question: TokenQuestion, error: Exception) -> None:
        """End a text whose blocks may contain NaN: they are zeroed, and not reused."""
        text = question.text
        self._runner.scrub(self._pool.forget(text.blocks))
        text.closed = True
        self._give_up(text)
        if question in self._waiting:
            self._waiting.remove(question)
        question.fail(error)


def _victim(text: GrowingText, others: Iterable[GrowingText], asked: AbstractSet[GrowingText]) -> GrowingText | None:
    """Choose the text to evict for `text`: the one idle longest, else the youngest of those younger than it; None if
    there is none."""
    since = time.monotonic() - IDLE_S
    if idle := [one for one in others if one not in asked and one.used_s < since]:
        return min(idle, key=lambda one: one.used_s)
    return max((one for one in others if one.born > text.born), key=lambda one: one.born, default=None)
