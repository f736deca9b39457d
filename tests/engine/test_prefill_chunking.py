"""A long prompt beside those who decode: how much of it a step takes."""

from __future__ import annotations

import pytest

from sluicegate.engine import EngineSettings
from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.prefill_chunking import PrefillChunker
from sluicegate.plugins import ConfigurationError
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, prompts, run, run_from_one_step, serving
from tests.engine.rows import a_sequence


def learned(slowdown: float, plain_s: float, token_s: float) -> PrefillChunker:
    chunker = PrefillChunker(slowdown, 512)
    for _ in range(50):
        chunker.record(8, 0, plain_s)
        chunker.record(8, 40, plain_s + 40 * token_s)
    return chunker


@pytest.mark.parametrize(("slowdown", "tokens"), [(2.0, 40), (1.5, 20), (1.01, 8), (100.0, 512)])
def test_a_step_takes_as_much_of_a_prompt_as_the_slowdown_allows(slowdown: float, tokens: int) -> None:
    """10 ms for a plain step, 0.25 ms for a prompt's token: whole fours, two of them at least, at most the budget."""
    assert learned(slowdown, 0.010, 0.00025).prompt_tokens == tokens


def test_few_tokens_are_taken_as_long_as_nothing_is_known() -> None:
    chunker = PrefillChunker(2.0, 512)
    assert chunker.prompt_tokens == 8
    chunker.record(0, 512, 1.0)  # nobody decoded: says nothing about what a prompt adds
    assert chunker.prompt_tokens == 8


def test_chunks_become_shorter_along_a_prompt_and_steps_stay_within_the_slowdown() -> None:
    """A token adds more the more stands before it, and reading that costs something for any chunk."""
    chunker, plain_s, taken, at = PrefillChunker(1.8, 512), 0.030, [], 0
    chunker.record(8, 0, plain_s)
    while at < 4000:
        count = chunker.prompt_tokens
        seconds = plain_s + count * 0.001 + at * (2.5e-6 + count * 2.5e-7)
        chunker.record(8, count, seconds)
        taken.append((count, seconds))
        at += count
    settled = taken[20:]
    assert max(count for count, _ in settled) >= 16
    assert settled[-1][0] == 8
    assert all(seconds <= 2 * plain_s for _, seconds in settled)


def test_one_slow_step_changes_little() -> None:
    chunker = learned(2.0, 0.010, 0.00025)
    chunker.record(8, 0, 5.0)
    assert chunker.prompt_tokens <= 64


async def test_prompts_are_read_whole_where_nobody_decodes_and_in_pieces_beside_others(tiny: MakeModel) -> None:
    """And the answers are the same either way."""
    model = tiny("llama")
    short = a_job(model, prompts([3])[0], max_tokens=30, ignore_eos=True)
    long = a_job(model, prompts([120])[0], max_tokens=40, ignore_eos=True)
    counted, answers = [], []
    for slowdown in (0, 1.01):
        async with serving(model, prefill_slowdown=slowdown, max_batch_tokens=64, draft_tokens=0) as engine:
            answers.append([result.tokens for result in await run_from_one_step(engine, model, short, long)])
            counted.append(engine.stats()["steps_total"])
            alone = (await run(engine, long))[0].tokens
            assert alone == answers[-1][1]
    assert answers[0] == answers[1]
    assert counted[0] < counted[1], counted


async def test_the_pace_is_learned_from_steps_that_others_decode_in(tiny: MakeModel) -> None:
    model = tiny("llama")
    short = a_job(model, prompts([3])[0], max_tokens=30, ignore_eos=True)
    first, second = (a_job(model, prompt, max_tokens=40, ignore_eos=True) for prompt in prompts([120, 121]))
    counted = []
    for slowdown in (1.01, 1e6):
        async with serving(
            model, prefill_slowdown=slowdown, max_batch_tokens=64, draft_tokens=0, prefix_caching=False
        ) as engine:
            await run(engine, short)
            await run_from_one_step(engine, model, short, first)
            before = engine.stats()["steps_total"]
            await run_from_one_step(engine, model, short, second)
            counted.append(engine.stats()["steps_total"] - before)
    assert counted[1] < counted[0], counted


def test_what_a_row_is_stays_as_it_was_told_when_the_step_was_planned() -> None:
    """A token is appended before the step is recorded: a decoding row must not look like a part of a prompt then."""
    decoding, reading = a_sequence([5, 6, 7]), a_sequence(list(range(5, 65)))
    decoding.computed = 2
    batch = Batch([BatchRow.of(decoding, 1), BatchRow.of(reading, 40)])
    decoding.tokens.append(8)
    assert (batch.decoding, batch.prompt_tokens) == (1, 40)
    assert [row.is_last for row in batch.rows] == [True, False]


def test_guesses_are_no_prompt() -> None:
    guessed, forced = a_sequence([5, 6, 7]), a_sequence(list(range(5, 17)))
    guessed.computed = 2
    batch = Batch([BatchRow(guessed, 2, 7, is_last=True, drafted=6), BatchRow.of(forced, 12)])
    assert (batch.decoding, batch.prompt_tokens) == (2, 0)


async def test_a_prompt_of_one_step_is_read_at_once_beside_others(tiny: MakeModel) -> None:
    """It holds the others up for a step; many that wait would else wait for each other."""
    model = tiny("llama")
    jobs = [a_job(model, prompts([3])[0], max_tokens=60, ignore_eos=True), a_job(model, prompts([120])[0])]
    counted = []
    for slowdown in (0, 1.01):
        async with serving(model, prefill_slowdown=slowdown, max_batch_tokens=256, draft_tokens=0) as engine:
            await run_from_one_step(engine, model, *jobs)
            counted.append(engine.stats()["steps_total"])
    assert counted[0] == counted[1]


def test_a_slowdown_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prefill_slowdown is 1; give more than 1"):
        EngineSettings.of({"prefill_slowdown": 1})
