"""States of recurrent layers that are kept at borders of blocks: prompts that begin alike go on there, and answer as if
they had been read whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.construction import make_core
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.memory.kept_states import KeptStates
from sluicegate.engine.memory.states import StateKey, StatePool, StateShape
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.plugins import GenerationFailed
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, greedy_by_transformers, prompts, run, serving

BLOCK = 4
KEY = StateKey(0, "recurrent")
Folder = Callable[..., Path]


@pytest.fixture
def model(tiny: MakeModel) -> LoadedModel:
    return tiny("qwen3_next")


def found(engine: Engine) -> float:
    return engine.stats()["prefix_cache_hit_tokens_total"]


# --- what is reused -------------------------------------------------------------------------------------------------


async def test_a_prompt_that_comes_again_goes_on_before_its_end(model: LoadedModel, tiny_folder: Folder) -> None:
    """Of 22 tokens the first 20 are five blocks: their states were kept, though no chunk of the budget ended there."""
    prompt = prompts([22])[0]
    expected = greedy_by_transformers(tiny_folder("qwen3_next"), prompt, 12)
    async with serving(model) as engine:
        for times in range(3):
            assert (await run(engine, a_job(model, prompt)))[0].tokens == [expected]
            assert found(engine) == 20 * times


async def test_a_conversation_goes_on_behind_its_last_prompt(model: LoadedModel, tiny_folder: Folder) -> None:
    """Each turn reads what the one before has answered, and what is new."""
    asked = prompts([18])[0]
    async with serving(model) as engine:
        for hits in (0, 16, 32):  # of 18, 33 and 48 tokens
            before = found(engine)
            answer = (await run(engine, a_job(model, asked, ignore_eos=True)))[0].tokens[0]
            expected = greedy_by_transformers(tiny_folder("qwen3_next"), asked, 12)
            assert answer[: len(expected)] == expected
            assert found(engine) - before == hits
            asked = [*asked, *answer, 7, 8, 9]


async def test_the_third_prompt_goes_on_where_two_parted(model: LoadedModel, tiny_folder: Folder) -> None:
    """A common beginning of 17 tokens: the second finds blocks without a state and leaves one, the third goes on from
    it. Another tenant finds neither."""
    common = prompts([17])[0]
    asked = [[*common, *range(first, first + 9)] for first in (100, 120, 140)]
    async with serving(model) as engine:
        for prompt, hits in zip(asked, (0, 0, 16), strict=True):
            before = found(engine)
            expected = greedy_by_transformers(tiny_folder("qwen3_next"), prompt, 12)
            assert (await run(engine, a_job(model, prompt)))[0].tokens == [expected]
            assert found(engine) - before == hits
        before = found(engine)
        await run(engine, a_job(model, asked[2], tenant="another"))
        assert found(engine) == before


@pytest.mark.parametrize("family", ["qwen3_next", "falcon_h1", "zamba"])
async def test_prompts_that_share_beginnings_answer_as_alone(family: str, tiny: MakeModel, tiny_folder: Folder) -> None:
    """At random lengths, many at once, in small chunks, in so few blocks that some are evicted, states with them."""
    model, random = tiny(family), Random(3)
    base = prompts([30, 41])
    asked = []
    for _ in range(14):
        begin = random.choice(base)[: random.randrange(1, 30)]
        asked.append([*begin, *(random.randrange(250) for _ in range(random.randrange(1, 12)))])
    expected = [[greedy_by_transformers(tiny_folder(family), prompt, 8)] for prompt in asked]
    blocks = max(24, 12 * model.state_bytes // (BLOCK * model.kv_bytes_per_token))  # a quarter are three states
    async with serving(model, max_batch_size=6, max_batch_tokens=11, num_blocks=blocks) as engine:
        for _ in range(3):
            results = await run(engine, *(a_job(model, prompt, max_tokens=8) for prompt in asked))
            assert [one.tokens for one in results] == expected
        assert found(engine) > 0
        assert engine.stats()["kv_cache_usage_ratio"] == 0


async def test_what_a_failed_request_left_is_not_gone_on_from(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits that are not numbers end a request; its blocks lose their names, and the states under them go."""
    job = a_job(model, prompts([22])[0])
    async with serving(model) as engine:
        expected = (await run(engine, job))[0].tokens
        core = next(iter(engine._registry.cores))
        states = core.scheduler.pool.states
        assert isinstance(states, KeptStates)
        assert len(states) == 1
        broken = core._runner.run
        monkeypatch.setattr(core._runner, "run", lambda *given: broken(*given).fill_(float("nan")))
        with pytest.raises(GenerationFailed):
            await run(engine, job)
        monkeypatch.setattr(core._runner, "run", broken)
        assert len(states) == 0
        assert (await run(engine, job))[0].tokens == expected


# --- how much is kept -----------------------------------------------------------------------------------------------


def _kept(count: int, blocks: int = 4) -> tuple[StatePool, BlockPool]:
    pool = StatePool([StateShape(KEY, (2,), torch.float32)], 2 + count, torch.device("cpu"))
    return pool, BlockPool(blocks, BLOCK, states=KeptStates(pool, 2, count))


def _fill(blocks: BlockPool, pool: StatePool, number: int) -> bytes:
    """Let a block of tokens `number` be computed and its state kept."""
    tokens = [number] * BLOCK
    digest = blocks.name(b"root", tokens)
    (index,) = blocks.take(1)
    blocks.publish(index, digest, tokens)
    pool.write(KEY, torch.tensor([0]), torch.full((1, 2), float(number)))
    pool.reach(0, BLOCK)
    blocks.keep_state(digest, 0)
    blocks.release([index])
    return digest


def test_the_state_that_was_not_used_for_longest_makes_room() -> None:
    pool, blocks = _kept(2)
    assert blocks.states is not None
    first, second = _fill(blocks, pool, 1), _fill(blocks, pool, 2)
    blocks.states.restore(first, 1)
    assert pool.read(KEY, torch.tensor([1]), torch.tensor([False])).tolist() == [[1.0, 1.0]]
    pool.check(1, BLOCK)
    third = _fill(blocks, pool, 3)
    assert [blocks.states.longest([one]) for one in (first, second, third)] == [1, 0, 1]
    assert blocks.states.longest([third, second, first, second]) == 3


def test_a_state_goes_with_the_name_of_its_block() -> None:
    """One block: the second evicts the first, and its state is not found any more."""
    pool, blocks = _kept(2, blocks=1)
    assert blocks.states is not None
    first = _fill(blocks, pool, 1)
    assert blocks.states.longest([first]) == 1
    second = _fill(blocks, pool, 2)
    assert [blocks.states.longest([one]) for one in (first, second)] == [0, 1]


def test_a_state_without_a_named_block_is_not_kept() -> None:
    _, blocks = _kept(2)
    assert blocks.states is not None
    blocks.keep_state(b"unknown", 0)
    assert blocks.states.longest([b"unknown"]) == 0


def test_kept_states_are_counted_against_the_cache(model: LoadedModel) -> None:
    """A quarter of what a full batch's states leave, whole states; blocks have the rest."""
    block = BLOCK * model.kv_bytes_per_token
    room = 9 * model.state_bytes
    settings = EngineSettings(
        block_size=BLOCK, max_batch_size=3, max_batch_tokens=64, kv_cache_bytes=3 * model.state_bytes + room
    )
    core = make_core(model, settings, Outbox())
    assert core._runner.recurrent is not None
    assert core._runner.recurrent.nbytes == (3 + 2) * model.state_bytes
    assert core.scheduler.pool.num_blocks == 7 * model.state_bytes // block
    core.close()
    core = make_core(model, replace(settings, prefix_caching=False), Outbox())
    assert core.scheduler.pool.num_blocks == 9 * model.state_bytes // block
    assert core.scheduler.pool.states is None
    core.close()
