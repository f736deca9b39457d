"""Evicted blocks come back as they were, or not at all."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import Engine, EngineSettings, LoadedModel
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.engine.memory.offload import OffloadStore
from sluicegate.plugins import ConfigurationError
from tests.altered import altered
from tests.engine.conftest import MakeModel
from tests.engine.driving import Result, a_job, prompts, run, serving

BLOCK, BLOCKS = 4, 14
ASKED = prompts((0, 40, 33, 41, 37))[1:]


@asynccontextmanager
async def spilling(model: LoadedModel, **settings: Any) -> AsyncIterator[Engine]:
    """Run an engine whose pool holds one of the prompts and a little more."""
    values = {"block_size": BLOCK, "num_blocks": BLOCKS, "offload_bytes": 1 << 20, **settings}
    async with serving(model, **values) as engine:
        yield engine


def offload_of(engine: Engine) -> OffloadStore:
    found = engine._registry.cores[0].scheduler.pool.offload
    assert isinstance(found, OffloadStore)
    return found


async def one_by_one(engine: Engine, model: LoadedModel, **fields: Any) -> list[Result]:
    fields = {"ignore_eos": True, "max_tokens": 8, "logprobs": 0, **fields}
    return [(await run(engine, a_job(model, prompt, **fields)))[0] for prompt in ASKED]


@pytest.mark.parametrize("family", ["llama", "gemma2", "bloom"])
@pytest.mark.parametrize("kv", ["full", "int8"])
@pytest.mark.parametrize("on_disk", [True, False])
async def test_a_prefix_that_was_evicted_comes_back(
    family: str, kv: str, on_disk: bool, tiny: MakeModel, tmp_path: Path
) -> None:
    """The second time nothing of the prompts is left in the pool, and all of them but the last block is restored; the
    answers are those that were computed from the beginning."""
    if (family, kv) == ("bloom", "int8"):
        pytest.skip("refused: positions in keys")
    model = tiny(family)
    async with spilling(model, kv=kv, offload_path=str(tmp_path) if on_disk else None) as engine:
        first = await one_by_one(engine, model)
        second = await one_by_one(engine, model)
        stats = engine.stats()
    assert [result.usage.cached_tokens for result in first] == [0] * len(ASKED)
    assert [result.usage.cached_tokens for result in second] == [(len(p) - 1) // BLOCK * BLOCK for p in ASKED]
    assert [result.tokens for result in second] == [result.tokens for result in first]
    for one, other in zip(first, second, strict=True):
        for left, right in zip(one.logprobs[0], other.logprobs[0], strict=True):
            assert left.logprob == pytest.approx(right.logprob, abs=1e-5 if kv == "full" else 0.2)
    assert stats["kv_blocks_restored_total"] >= sum((len(p) - 1) // BLOCK for p in ASKED)
    assert stats["kv_blocks_lost_total"] == stats["kv_cache_usage_ratio"] == 0
    assert os.listdir(tmp_path) == []  # the file has no name


async def test_the_file_keeps_to_its_bound_and_the_latest_blocks(tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    block = BLOCK * model.kv_bytes_per_token
    async with spilling(model, offload_bytes=12 * block + 5, offload_path=str(tmp_path)) as engine:
        await one_by_one(engine, model)
        again = await one_by_one(engine, model)
        offload = offload_of(engine)
        offload._writer.shutdown(wait=True)
        assert engine.stats()["kv_offload_bytes"] == offload.kept_bytes <= 12 * block
        assert os.fstat(offload._file.fileno()).st_size <= 12 * block
    assert [result.usage.cached_tokens for result in again] == [0] * len(ASKED)  # each was pushed out by the others
    async with spilling(model, offload_bytes=40 * block, offload_path=str(tmp_path)) as engine:
        await one_by_one(engine, model)
        latest = (await run(engine, a_job(model, ASKED[-2], max_tokens=1)))[0]
    assert latest.usage.cached_tokens == 40


def spoil(file: Any) -> None:
    for at in range(0, os.fstat(file.fileno()).st_size, 256):
        os.pwrite(file.fileno(), b"\x01\x02\x03", at)


def cut(file: Any) -> None:
    os.ftruncate(file.fileno(), 100)


def shut(file: Any) -> None:
    """Make reads and writes fail from now on, as they do where a disk is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


@pytest.mark.parametrize("harm", [spoil, cut, shut])
async def test_what_does_not_read_back_is_a_miss(harm: Any, tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    async with spilling(model, offload_path=str(tmp_path)) as engine:
        first = await one_by_one(engine, model)
        offload = offload_of(engine)
        offload._writer.submit(lambda: None).result()
        harm(offload._file)
        second = await one_by_one(engine, model)
        stats = engine.stats()
    assert [result.tokens for result in second] == [result.tokens for result in first]
    assert stats["kv_blocks_lost_total"] > 0
    assert stats["kv_cache_usage_ratio"] == 0


async def test_a_full_disk_costs_nothing_but_the_hits(
    tiny: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    model = tiny("llama")
    async with spilling(model, offload_path=str(tmp_path)) as engine:
        monkeypatch.setattr("sluicegate.engine.memory.offload.os", altered(os, pwrite=refuse))
        first = await one_by_one(engine, model)
        offload_of(engine)._writer.submit(lambda: None).result()
        second = await one_by_one(engine, model)
    assert [result.tokens for result in second] == [result.tokens for result in first]
    assert [result.usage.cached_tokens for result in second] == [0] * len(ASKED)


async def test_a_tenant_does_not_find_what_another_spilled(tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    async with spilling(model, offload_path=str(tmp_path)) as engine:
        await one_by_one(engine, model, tenant="a")
        theirs = await one_by_one(engine, model, tenant="b")
        mine = await one_by_one(engine, model, tenant="a")
    assert [result.usage.cached_tokens for result in theirs] == [0] * len(ASKED)
    assert all(result.usage.cached_tokens for result in mine)


def pool_of(spill_blocks: int) -> tuple[KVPool, BlockPool]:
    memory = KVPool([LayerShape(1, 2, 2, 1)], 4, 2, torch.float32, torch.device("cpu"))
    return memory, BlockPool(4, 2, offload=OffloadStore(memory, spill_blocks * memory.block_bytes))


def test_what_must_not_be_reused_is_not_restored_either() -> None:
    """A request that fails takes back what it published, and what of it was spilled before."""
    memory, pool = pool_of(8)
    name = pool.name(pool.root("v", "a"), [1, 2])
    (block,) = pool.take(1)
    memory.keys[0][block] = 7.0
    pool.publish(block, name, [1, 2])
    pool.release([block])
    pool.release(pool.take(4))
    (restored,) = pool.restore([name], [1, 2, 3], 0)
    assert float(memory.keys[0][restored].min()) == 7.0
    assert pool.forget([restored]) == [restored]
    pool.release([restored])
    assert pool.restore([name], [1, 2, 3], 0) == []
    assert pool.free_count == 4


def test_a_block_pushed_out_while_room_is_made_for_it_is_a_miss() -> None:
    """A store of one block: taking a block spills another, and that takes the place of the one looked for."""
    memory, pool = pool_of(1)
    names = [pool.name(pool.root("v", "a"), [token, token]) for token in range(5)]
    for token, name in enumerate(names):
        (block,) = pool.take(1)
        memory.keys[0][block] = float(token)
        pool.publish(block, name, [token, token])
        pool.release([block])
    assert pool.restore([names[0]], [0, 0, 9], 0) == []
    assert pool.free_count == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"offload_bytes": -1}, "offload_bytes is -1"),
        ({"offload_bytes": 10}, "one block has"),
        ({"offload_path": "/nowhere/at/all"}, "no file can be made in offload_path '/nowhere/at/all'"),
    ],
)
async def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str, tiny: MakeModel) -> None:
    with pytest.raises(ConfigurationError, match=message):
        async with spilling(tiny("llama"), **settings):
            pass


def test_keeping_blocks_needs_names_for_them() -> None:
    with pytest.raises(ConfigurationError, match="needs prefix_caching"):
        EngineSettings.of({"offload_bytes": 1 << 20, "prefix_caching": False})
    with pytest.raises(ConfigurationError, match="offload_bytes"):
        EngineSettings.of({"offload_bytes": -1})


def test_room_that_is_not_used_yet_costs_nothing(tmp_path: Path) -> None:
    """A list of all its places took 30 GB for a file of 10 TB."""
    memory, _ = pool_of(8)
    tracemalloc.start()
    try:
        OffloadStore(memory, 2**24 * memory.block_bytes, str(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_more_than_the_machines_memory_is_refused_in_memory(tmp_path: Path) -> None:
    memory, _ = pool_of(8)
    with pytest.raises(ConfigurationError, match=r"bytes of memory; lower it, or name a folder .*offload_path"):
        OffloadStore(memory, 2**50)
    OffloadStore(memory, 2**50, str(tmp_path))
