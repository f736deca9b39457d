"""Schedule continuous batching: choose which tokens of which sequences the next forward pass computes.

    yield to the urgent -> secure blocks for what runs -> share the token budget -> admit what waits -> add drafts

In most steps every sequence advances by one token; `_plan_plain_decode` handles that case first.

`ServiceQueue` defines the order of service. When blocks run out, the running sequence that is last in that order gives
up its blocks and is computed again later. The first is never the victim, and each admitted sequence fits into the pool
alone, so some sequence always advances.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Container
from dataclasses import dataclass
from operator import itemgetter

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.prefill_chunking import SHORT
from sluicegate.engine.batching.service_queue import ServiceQueue
from sluicegate.engine.memory.blocks import BlockPool, Digest
from sluicegate.engine.sequences.sequence import Sequence, SequenceState

_COUNT = itemgetter(2)


@dataclass(slots=True)
class SchedulerCounters:
    preemptions: int = 0


class Scheduler:
    """Owns the waiting and the running sequences and their blocks. Used by the engine thread alone."""

    def __init__(self, pool: BlockPool, *, max_batch_size: int, max_batch_tokens: int) -> None:
        """Begin with empty queues. Raises `ValueError` where a full batch would leave no room for any prompt."""
        if max_batch_tokens <= max_batch_size:
            raise ValueError(
                f"max_batch_tokens ({max_batch_tokens}) must be greater than max_batch_size ({max_batch_size}), "
                "or a full batch would leave no room for any prompt"
            )
        self.pool = pool
        self.counters = SchedulerCounters()
        self.running: list[Sequence] = []
        self.max_batch_size = max_batch_size
        self.prompt_tokens: int | None = None
        """Most prompt tokens in a step that also decodes; None = limited by the budget alone."""
        self._prompt_left = 0
        self.max_batch_tokens = max_batch_tokens
        self._queue = ServiceQueue()
        self._blocked: tuple[Sequence, int] | None = None
        """The head of the queue when it last found no room, and the number of free blocks at that time."""
        self._free_state_slots = list(range(max_batch_size - 1, -1, -1))

    @property
    def waiting_count(self) -> int:
        return self._queue.waiting

    @property
    def waiting_behind(self) -> int:
        """Count the waiting sequences of batch priority, which every interactive request passes."""
        return self._queue.behind

    def add(self, sequence: Sequence) -> None:
        self.register(sequence)
        self._queue.push(sequence)

    def register(self, sequence: Sequence) -> None:
        """Assign a sequence its key in the service order and park it; it is not queued."""
        self._queue.assign_key(sequence, cost=1 + len(sequence.tokens) // self.max_batch_tokens)
        sequence.state = SequenceState.PARKED

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended, running or waiting: its blocks are free when this returns. Idempotent."""
        if sequence.state is SequenceState.RUNNING:
            self._stop(sequence)
        elif sequence.state is SequenceState.WAITING:
            self._queue.left()
        sequence.state = SequenceState.ENDED

    def park(self, sequence: Sequence) -> None:
        """Take a sequence out of batch and queue until `resume`; its blocks are freed."""
        if sequence.state is SequenceState.RUNNING:
            self._stop(sequence)
        elif sequence.state is SequenceState.WAITING:
            self._queue.left()
        sequence.state = SequenceState.PARKED

    def resume(self, sequence: Sequence, blocks: list[int], computed: int) -> None:
        """Run a parked sequence whose first `computed` tokens are in `blocks`; it takes over one reference to each. If
        the batch is full the sequence waits and the blocks are released."""
        if len(self.running) >= self.max_batch_size:
            self.pool.release(blocks)
            self._queue.push(sequence)
            return
        sequence.hold(blocks)
        sequence.computed, sequence.published = computed, computed // self.pool.block_size
        self._enter(sequence)

    def plan_continuation(self, drawn: Container[Sequence]) -> list[BatchRow] | None:
        """Return the rows of the step after the one being computed, in which `drawn` will each get a token not known
        yet.

        Takes their blocks, but counts nothing as computed: see `commit_continuation`. Returns None where the scheduler
        must decide more than one more token for everyone: admission, preemption, beams, probes, long rows or a lack of
        blocks."""
        if self._admits() or self._urgent() is not None:
            return None
        size, rows, budget = self.pool.block_size, [], self.max_batch_tokens
        for sequence in self.running:
            start, end = sequence.computed, len(sequence.tokens) + (sequence in drawn)
            if end - start > SHORT or sequence.is_beam or sequence.probed is not None:
                return None
            if end > size * len(sequence.blocks) and not self._reserve(sequence, ahead=end - len(sequence.tokens)):
                return None
            budget -= end - start
            if end > start:
                rows.append(BatchRow(sequence, start, end - start, True))
        return sorted(rows, key=_COUNT) if budget >= 0 else None

    def commit_continuation(self, rows: list[BatchRow]) -> Batch:
        """Count the rows of `plan_continuation` as computed, or sent to the device; return them as a batch, as
        `schedule` does."""
        return Batch(rows, self._advance(rows))

    def schedule(self) -> Batch:
        """Return the rows of the next step; empty only when nothing runs and nothing waits."""
        while not (batch := self._schedule()).rows and self.running and self._queue.head():
            self._preempt(self.running[-1])  # beams that wait for one that has no place
        return batch

    def _schedule(self) -> Batch:
        self._yield_to_urgent()
        rows = self._plan_plain_decode()
        if rows is None:
            self._secure_blocks()
            self._prompt_left = self._prompt_share()
            rows, budget = self._share_budget()
            budget = self._admit(rows, budget)
            rows = sorted(self._add_drafts(rows, budget), key=_COUNT)
        return Batch(rows, self._advance(rows))

    def _advance(self, rows: list[BatchRow]) -> list[Sequence]:
        """Mark the rows' tokens as computed and return the sequences that fill a block.

        Done before the pass: it evicts the sequences from the CPU's cache, and another look at each afterwards takes
        several times as long.
        """
        size, filling = self.pool.block_size, []
        for sequence, start, count, _, drafted in rows:
            sequence.computed = computed = start + count - drafted
            if computed // size != sequence.published:
                sequence.name_blocks(self.pool, computed)
                filling.append(sequence)
        return filling

    def computed(self, batch: Batch) -> None:
        """Publish the blocks that `batch` filled, once its step has run: other sequences may reuse them."""
        for sequence in batch.fills_blocks:
            if sequence.state is SequenceState.RUNNING:
                self._publish(sequence)
                if sequence.computed in sequence.state_ends:
                    self.pool.keep_state(sequence.digests[sequence.published - 1], sequence.state_slot)

    # --- the five parts of a step, in order --------------------------------------------------------------------

    def _yield_to_urgent(self) -> None:
        """Preempt running sequences of lower priority and later turn while the head of the queue does not fit."""
        while (last := self._urgent()) is not None:
            self._preempt(last)

    def _plan_plain_decode(self) -> list[BatchRow] | None:
        """Return one decode row per running sequence, the common case; None where anything else must be decided."""
        if self._queue.waiting and len(self.running) < self.max_batch_size:
            return None
        size, rows, new = self.pool.block_size, [], tuple.__new__
        for sequence in self.running:
            start = sequence.computed
            if len(sequence.tokens) - start != 1 or sequence.draft:
                return None
            if sequence.reads_rest:
                return None
            if start % size == 0 and not self._reserve(sequence):
                return None
            rows.append(new(BatchRow, (sequence, start, 1, True, 0)))
        return rows

    def _secure_blocks(self) -> None:
        """Take blocks for every pending token of running sequences; preempt the last in order where blocks run out."""
        size = self.pool.block_size
        short = [sequence for sequence in self.running if len(sequence.tokens) > size * len(sequence.blocks)]
        for sequence in short:
            while sequence.state is SequenceState.RUNNING and not self._reserve(sequence):
                self._preempt(self.running[-1])

    def _share_budget(self) -> tuple[list[BatchRow], int]:
        """Return decode rows, which never wait for a prompt, then prompt chunks in service order; and the rest of the
        budget."""
        rows, longer, budget, new = [], [], self.max_batch_tokens, tuple.__new__  # a third of the time
        for sequence in self.running:
            pending = len(sequence.tokens) - sequence.computed
            if pending > 1:
                longer.append(sequence)
            elif pending == 1:  # the budget holds one for each that runs
                rows.append(new(BatchRow, (sequence, sequence.computed, 1, not sequence.reads_rest, 0)))
        budget -= len(rows)
        for sequence in longer:
            budget = self._take_chunk(rows, sequence, budget)
        return rows, budget

    def _admit(self, rows: list[BatchRow], budget: int) -> int:
        while budget > 0 and (sequence := self._queue.head()) and self._make_room(sequence):
            self._queue.pop()
            self._start(sequence)
            budget = self._take_chunk(rows, sequence, budget)
        return budget

    def _take_chunk(self, rows: list[BatchRow], sequence: Sequence, budget: int) -> int:
        count = self._paced(sequence, min(sequence.pending, budget))
        if sequence.state_ends:
            left = (end - sequence.computed for end in sequence.state_ends if end > sequence.computed)
            count = min(count, next(left, count))
        if count:
            rows.append(BatchRow.of(sequence, count))
        return budget - count

    def _paced(self, sequence: Sequence, count: int) -> int:
        """Limit the chunk of a prompt that takes several steps anyway, so as not to delay decoding sequences.

        A short prompt is read at once: it delays them by one step, and limiting many short ones would make them wait
        very long.
        """
        if sequence.pending > SHORT and len(sequence.tokens) > self.max_batch_tokens:
            count = min(count, self._prompt_left)
            self._prompt_left -= count
        return count

    def _add_drafts(self, rows: list[BatchRow], budget: int) -> list[BatchRow]:
        """Add draft tokens to rows as far as budget and free blocks allow; drafts never preempt a sequence."""
        for at in [at for at, row in enumerate(rows) if row[0].draft and row[3]]:
            sequence, start, count, is_last, _ = rows[at]
            fitting = sequence.draft[:budget]
            sequence.draft = fitting if self._reserve(sequence, ahead=len(fitting)) else []
            budget -= len(sequence.draft)
            rows[at] = BatchRow(sequence, start, count + len(sequence.draft), is_last, len(sequence.draft))
        return rows

    def _prompt_share(self) -> int:
        """Return how many tokens of long prompts the step may read. Beside a short prompt it is half of the budget, or
        the short one would wait for all steps of a long one that came before it."""
        if self.prompt_tokens is not None and any(sequence.pending <= SHORT for sequence in self.running):
            return self.prompt_tokens
        return self.max_batch_tokens // 2 if self._reads_a_short_prompt() else self.max_batch_tokens

    def _reads_a_short_prompt(self) -> bool:
        """Return whether a prompt that fits into one step is being read, or may begin, and is as urgent as those that
        run."""
        most = self.max_batch_tokens
        if any(sequence.pending > 1 and len(sequence.tokens) <= most for sequence in self.running):
            return True
        head = self._queue.head() if self.running and self._admits() else None
        return head is not None and len(head.tokens) <= most and head.priority <= self.running[0].priority

    # --- below them --------------------------------------------------------------------------------------------

    def _urgent(self) -> Sequence | None:
        """Return the running sequence to preempt for the head of the queue, or None."""
        head = self._queue.head()
        if head is None or not self.running or self._fits(head):
            return None
        last = self.running[-1]
        return None if head.priority >= last.priority or head.key > last.key else last

    def _admits(self) -> bool:
        """Return whether the head of the queue might be admitted, judged without matching its prefix."""
        if not self._queue.waiting or len(self.running) >= self.max_batch_size:
            return False
        head, free = self._blocked or (None, 0)
        return head is not self._queue.head() or self.pool.free_count > free

    def _fits(self, sequence: Sequence) -> bool:
        needed = self.pool.blocks_for(len(sequence.tokens)) + len(self.running)
        return len(self.running) < self.max_batch_size and needed <= self.pool.free_count

    def _make_room(self, sequence: Sequence) -> bool:
        """Take references to the cached blocks of the sequence's prefix; return whether it can start.

        It can if the batch has a free place and one block is left for each running sequence. A smaller sequence never
        passes the head of the queue, which would then starve.
        """
        if len(self.running) >= self.max_batch_size:
            return False
        needed = self.pool.blocks_for(len(sequence.tokens))
        digests = sequence.name_blocks(self.pool, sequence.reusable)
        sequence.hold(self._going_on(sequence, digests, self.pool.match(digests, sequence.tokens)))
        if needed - len(sequence.blocks) + len(self.running) > self.pool.free_count:
            self._give_up_blocks(sequence)
            self._blocked = sequence, self.pool.free_count
            return False
        self._blocked = None
        sequence.hold(self.pool.restore(digests, sequence.tokens, len(sequence.blocks)))
        return True

    def _going_on(self, sequence: Sequence, digests: list[Digest], found: list[int]) -> list[int]:
        """Return the blocks of `found` to continue from: all, or with recurrent layers those up to a stored state.

        Sets `state_ends`: states will be stored at the end of the prompt and where it diverges from cached prefixes, so
        that later sequences with that prefix can continue there.
        """
        if (states := self.pool.states) is None:
            return found
        size, kept = self.pool.block_size, states.longest(digests[: len(found)])
        last = (sequence.prompt_length - 1) // size
        sequence.state_ends = tuple(sorted({size * end for end in (min(len(found), last), last) if end > kept}))
        self.pool.release(found[kept:])
        return found[:kept]

    def _start(self, sequence: Sequence) -> None:
        cached = len(sequence.blocks) * self.pool.block_size
        self._count_reuse(sequence, cached)
        sequence.computed, sequence.published = cached, len(sequence.blocks)
        assert self._reserve(sequence)
        self._enter(sequence)
        if cached and self.pool.states is not None:
            self.pool.states.restore(sequence.digests[sequence.published - 1], sequence.state_slot)

    def _enter(self, sequence: Sequence) -> None:
        sequence.state = SequenceState.RUNNING
        sequence.state_slot = self._free_state_slots.pop()
        sequence.timeline.start()
        if sequence.started_s is None:
            sequence.started_s = time.monotonic()
        insort(self.running, sequence, key=lambda s: s.key)

    def _count_reuse(self, sequence: Sequence, cached: int) -> None:
        """Count cached tokens at the first start only: after a preemption a sequence finds its own blocks."""
        if sequence.cached_tokens is None:
            self.pool.counters.asked += sequence.prompt_length
            self.pool.counters.found += (found := min(cached, sequence.prompt_length))
            sequence.cached_tokens = found

    def _reserve(self, sequence: Sequence, ahead: int = 0) -> bool:
        missing = self.pool.blocks_for(len(sequence.tokens) + ahead) - len(sequence.blocks)
        if missing <= 0:
            return True
        if missing > self.pool.free_count:
            return False
        sequence.hold(self.pool.take(missing))
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Return a running sequence to the queue, to be recomputed; it keeps its output and its key in the service
        order."""
        self.counters.preemptions += 1
        sequence.timeline.preempt()
        if sequence.pending == 0:
            self.park(sequence)
            return
        self._stop(sequence)
        self._queue.push(sequence)

    def _stop(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._free_state_slots.append(sequence.state_slot)
        sequence.state_slot = -1
        self._give_up_blocks(sequence)

    def _give_up_blocks(self, sequence: Sequence) -> None:
        if sequence.probed is not None:
            sequence.probed.collect(sequence.blocks, sequence.computed)
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = sequence.published = 0

    def _publish(self, sequence: Sequence) -> None:
        size = self.pool.block_size
        if sequence.computed // size == sequence.published:
            return
        digests = sequence.name_blocks(self.pool, sequence.computed)
        for at in range(sequence.published, len(digests)):
            self.pool.publish(sequence.blocks[at], digests[at], sequence.tokens[at * size : (at + 1) * size])
        sequence.published = sequence.computed // size
