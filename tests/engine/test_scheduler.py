"""Nobody starves, no block leaks, every request ends, and what a row reads is what was written for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.prefill_chunking import SHORT
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from tests.engine.rows import a_sequence

BLOCK, BLOCKS = 4, 12
SIZE, BUDGET = 3, 7


@dataclass
class World:
    """A scheduler whose model is a memory: a slot holds the whole beginning that ends there, which is what keys and
    values depend on."""

    scheduler: Scheduler = field(
        default_factory=lambda: Scheduler(BlockPool(BLOCKS, BLOCK), max_batch_size=SIZE, max_batch_tokens=BUDGET)
    )
    memory: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ended: list[Sequence] = field(default_factory=list)

    def step(self) -> Batch:
        batch = self.scheduler.schedule()
        assert sum(row.count for row in batch.rows) <= BUDGET
        assert len(self.scheduler.running) <= SIZE
        assert [row.count for row in batch.rows] == sorted(row.count for row in batch.rows)
        for row in batch.rows:
            self._write(row.sequence, row.start, row.count)
        for row in batch.rows:
            self._read(row.sequence, row.start + row.count)
        self.scheduler.computed(batch)
        for row in batch.sampled:
            self._append(row.sequence)
        return batch

    def _slot(self, sequence: Sequence, position: int) -> int:
        assert list(sequence.table[: len(sequence.blocks)]) == sequence.blocks
        return sequence.blocks[position // BLOCK] * BLOCK + position % BLOCK

    def _write(self, sequence: Sequence, start: int, count: int) -> None:
        assert sequence.state is SequenceState.RUNNING
        for position in range(start, start + count):
            self.memory[self._slot(sequence, position)] = tuple(sequence.tokens[: position + 1])

    def _read(self, sequence: Sequence, end: int) -> None:
        for position in range(end):
            assert self.memory[self._slot(sequence, position)] == tuple(sequence.tokens[: position + 1])

    def _append(self, sequence: Sequence) -> None:
        sequence.tokens.append((sequence.tokens[-1] * 5 + len(sequence.tokens)) % 3)
        if len(sequence.tokens) >= sequence.max_length:
            self.end(sequence)

    def end(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        self.ended.append(sequence)


Arrival = tuple[int, int, int, int, str, int]
arrivals = st.lists(
    st.tuples(
        st.integers(0, 12),  # at which step it arrives
        st.integers(1, 30),  # prompt
        st.integers(1, 17),  # tokens to generate
        st.integers(0, 3),  # which of a few prompts it shares a beginning with
        st.sampled_from("abc"),
        st.sampled_from([0, 0, 5, 10]),
    ),
    min_size=1,
    max_size=14,
)


def arrive(world: World, arrival: Arrival) -> Sequence:
    _, prompt, output, kind, tenant, priority = arrival
    tokens = [(kind + at // 9) % 3 for at in range(prompt)]
    sequence = a_sequence(
        tokens,
        max_length=min(prompt + output, BLOCKS * BLOCK),
        tenant=tenant,
        priority=priority,
        root=world.scheduler.pool.root("v", tenant),
    )
    world.scheduler.add(sequence)
    return sequence


@settings(max_examples=150, deadline=None)
@given(arrivals, st.lists(st.tuples(st.integers(1, 40), st.integers(0, 13)), max_size=5))
def test_random_traffic_on_a_tiny_pool_always_comes_to_an_end(
    coming: list[Arrival], cancels: list[tuple[int, int]]
) -> None:
    world, everyone = World(), []
    for step in range(2000):
        everyone += [arrive(world, arrival) for arrival in coming if arrival[0] == step]
        for when, who in cancels:
            if when == step and who < len(everyone) and everyone[who].state is not SequenceState.ENDED:
                world.end(everyone[who])
        if step > 12 and all(sequence.state is SequenceState.ENDED for sequence in everyone):
            break
        if any(sequence.state is not SequenceState.ENDED for sequence in everyone):
            assert world.step().rows, "there is work, but nothing was scheduled"
    assert all(sequence.state is SequenceState.ENDED for sequence in everyone)
    assert world.scheduler.pool.free_count == BLOCKS
    assert (world.scheduler.waiting_count, world.scheduler.running) == (0, [])


def test_a_batch_request_is_served_though_interactive_ones_never_stop_coming() -> None:
    world = World()
    batch = arrive(world, (0, 4, 3, 0, "a", 10))
    for _ in range(3000):
        if batch.state is SequenceState.ENDED:
            break
        while world.scheduler.waiting_count < 6:
            arrive(world, (0, 4, 4, 1, "b", 0))
        world.step()
    assert batch.state is SequenceState.ENDED


def test_an_interactive_request_takes_the_place_of_a_running_batch_request() -> None:
    world = World()
    slow = [arrive(world, (0, 4, 17, 0, "a", 10)) for _ in range(SIZE)]
    world.step()
    assert [sequence.state for sequence in slow].count(SequenceState.RUNNING) > 0
    while any(sequence.state is SequenceState.WAITING for sequence in slow):
        world.step()
    urgent = arrive(world, (0, 4, 2, 1, "b", 0))
    world.step()
    assert urgent.state is SequenceState.RUNNING


def test_tenants_take_turns() -> None:
    """Ten requests of one tenant do not delay another tenant's first by more than one turn."""
    world = World()
    many = [arrive(world, (0, 8, 4, 0, "a", 0)) for _ in range(10)]
    one = arrive(world, (0, 8, 4, 1, "b", 0))
    while one.state is not SequenceState.ENDED:
        world.step()
    assert sum(sequence.state is SequenceState.ENDED for sequence in many) <= SIZE


def test_decode_rows_never_wait_for_a_long_prompt() -> None:
    world = World()
    talking = arrive(world, (0, 2, 17, 0, "a", 0))
    world.step()
    arrive(world, (0, 30, 2, 1, "b", 0))
    for _ in range(5):
        before = len(talking.tokens)
        world.step()
        assert len(talking.tokens) == before + 1


@pytest.mark.parametrize(("length", "priority", "steps"), [(30, 0, 2), (40, 0, 2), (41, 0, 11), (30, 10, 10)])
def test_a_short_prompt_does_not_wait_for_all_of_a_long_one(length: int, priority: int, steps: int) -> None:
    """The long one of 400 tokens takes 10 steps alone. A prompt of more than one step's tokens, and a less urgent one,
    wait for it; with a short one beside it the long one still goes on."""
    scheduler = Scheduler(BlockPool(200, BLOCK), max_batch_size=SIZE, max_batch_tokens=40)
    long, other = a_sequence(list(range(400))), a_sequence(list(range(500, 500 + length)), priority=priority)
    scheduler.add(long)
    scheduler.computed(scheduler.schedule())
    scheduler.add(other)
    taken = 0
    while other.pending > 0:
        before = long.computed
        scheduler.computed(scheduler.schedule())
        assert long.computed > before or long.pending == 0
        taken += 1
    assert taken == steps


def test_a_preempted_sequence_keeps_what_it_generated() -> None:
    world = World()
    first, second = (arrive(world, (0, 8, 17, kind, "a", 0)) for kind in (0, 1))
    second.max_length = first.max_length = 40
    while first.state is not SequenceState.ENDED or second.state is not SequenceState.ENDED:
        world.step()
    assert world.scheduler.counters.preemptions > 0
    assert (len(first.tokens), len(second.tokens)) == (40, 40)


def test_a_block_that_a_step_fills_is_offered_only_when_the_step_was_run() -> None:
    """What a step will have computed is counted when it is planned; nobody may read it before it is there."""
    scheduler = Scheduler(BlockPool(BLOCKS, BLOCK), max_batch_size=SIZE, max_batch_tokens=BUDGET)
    sequence = a_sequence([1, 2, 3])
    scheduler.add(sequence)
    scheduler.computed(scheduler.schedule())
    sequence.tokens.append(4)
    batch = scheduler.schedule()
    names = sequence.name_blocks(scheduler.pool, BLOCK)
    assert (sequence.computed, sequence.pending, sequence.published) == (4, 0, 0)
    assert scheduler.pool.match(names, [1, 2, 3, 4]) == []
    scheduler.computed(batch)
    assert scheduler.pool.match(names, [1, 2, 3, 4]) == sequence.blocks


def test_blocks_have_no_names_where_none_is_found_again() -> None:
    scheduler = Scheduler(BlockPool(BLOCKS, BLOCK, reuse=False), max_batch_size=SIZE, max_batch_tokens=BUDGET)
    sequence = a_sequence([1, 2, 3])
    scheduler.add(sequence)
    for token in range(10):
        batch = scheduler.schedule()
        scheduler.computed(batch)
        assert (batch.fills_blocks == [sequence]) is (len(sequence.tokens) % BLOCK == 0)
        sequence.tokens.append(token)
    assert (sequence.digests, sequence.published) == ([], 3)


def test_a_row_is_a_step_of_an_answer_if_it_is_the_last_and_short_without_its_draft() -> None:
    sequence = a_sequence([1, 2, 3])
    assert BatchRow.of(sequence, 3).is_last
    assert not BatchRow.of(sequence, 2).is_last
    for count, drafted, decodes in ((1, 0, True), (SHORT, 0, True), (SHORT + 1, 0, False), (SHORT + 4, 4, True)):
        assert BatchRow(sequence, 0, count, True, drafted).decodes is decodes
        assert not BatchRow(sequence, 0, count, False, drafted).decodes
