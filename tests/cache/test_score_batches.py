"""Pairs that wait at once are scored in one pass, in a thread of one core."""

from __future__ import annotations

import asyncio
import threading

import pytest
import torch

from sluicegate.cache.semantic.judged.score_batches import MOST_AT_ONCE, Pair, ScoreBatches


class Scorer:
    """Scores a pair by the number that its first question is."""

    def __init__(self) -> None:
        self.passes: list[int] = []
        self.threads: set[tuple[str, int]] = set()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, pairs: list[Pair]) -> list[float]:
        self.goes_on.wait(60)
        self.passes.append(len(pairs))
        self.threads.add((threading.current_thread().name, torch.get_num_threads()))
        return [float(one) for one, _ in pairs]


async def test_each_asker_gets_its_own_score_and_those_that_wait_share_a_pass() -> None:
    scorer = Scorer()
    batches = ScoreBatches(scorer)
    numbers = range(3 * MOST_AT_ONCE)
    assert await asyncio.gather(*(batches.score((str(at), "")) for at in numbers)) == list(numbers)
    assert scorer.passes == [MOST_AT_ONCE] * 3
    assert await batches.score(("7", "")) == 7
    await batches.close()


async def test_it_runs_on_one_core_and_others_keep_theirs() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    scorer = Scorer()
    batches = ScoreBatches(scorer)
    for _ in range(3):
        await asyncio.gather(*(batches.score(("1", "")) for _ in range(3)))
    others = await asyncio.to_thread(torch.get_num_threads)
    await batches.close()
    assert scorer.threads == {("sameness_0", 1)}
    assert others == torch.get_num_threads() == 2
    torch.set_num_threads(before)


async def test_an_error_reaches_those_of_its_pass_and_the_next_pass_runs() -> None:
    batches = ScoreBatches(Scorer())
    found = await asyncio.gather(batches.score(("1", "")), batches.score(("no number", "")), return_exceptions=True)
    assert [type(one) for one in found] == [ValueError, ValueError]
    assert await batches.score(("2", "")) == 2
    await batches.close()


async def test_what_nobody_waits_for_is_not_scored() -> None:
    scorer = Scorer()
    scorer.goes_on.clear()
    batches = ScoreBatches(scorer)
    asking = [asyncio.create_task(batches.score((str(at), ""))) for at in range(MOST_AT_ONCE + 2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking[-1].cancel()
    scorer.goes_on.set()
    await asyncio.wait(asking)
    assert scorer.passes == [MOST_AT_ONCE, 1]
    await batches.close()


async def test_closing_ends_those_that_wait() -> None:
    scorer = Scorer()
    scorer.goes_on.clear()
    batches = ScoreBatches(scorer)
    asking = [asyncio.create_task(batches.score((str(at), ""))) for at in range(2 * MOST_AT_ONCE)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await batches.close()
    await asyncio.wait(asking)
    assert all(task.cancelled() for task in asking)
    scorer.goes_on.set()
    with pytest.raises(RuntimeError):
        await batches.score(("1", ""))
