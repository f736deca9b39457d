"""Blocks are held, shared, reused and evicted; none is ever lost."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch

from sluicegate.engine.memory.blocks import BlockPool, OutOfBlocks
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.engine.settings import KVKind
from sluicegate.plugins import ModelLoadError


def chain(pool: BlockPool, tokens: list[int], tenant: str = "a") -> list[bytes]:
    names, parent = [], pool.root("v1", tenant)
    for at in range(0, len(tokens) - pool.block_size + 1, pool.block_size):
        parent = pool.name(parent, tokens[at : at + pool.block_size])
        names.append(parent)
    return names


def publish(pool: BlockPool, tokens: list[int], tenant: str = "a") -> list[int]:
    names = chain(pool, tokens, tenant)
    blocks = pool.take(len(names))
    for at, (block, name) in enumerate(zip(blocks, names, strict=True)):
        pool.publish(block, name, tokens[at * pool.block_size : (at + 1) * pool.block_size])
    return blocks


def test_taking_more_than_is_free_takes_nothing() -> None:
    pool = BlockPool(3, 4)
    held = pool.take(2)
    with pytest.raises(OutOfBlocks, match="2 KV blocks asked for, 1 of 3 are free"):
        pool.take(2)
    pool.release(held)
    assert pool.free_count == 3


def test_a_released_prefix_is_found_again_and_counts_as_free() -> None:
    pool = BlockPool(4, 2)
    blocks = publish(pool, [1, 2, 3, 4])
    pool.release(blocks)
    assert pool.free_count == 4
    assert pool.match(chain(pool, [1, 2, 3, 4]), [1, 2, 3, 4]) == blocks
    assert pool.free_count == 2


def test_a_shared_block_is_free_only_when_its_last_holder_lets_go() -> None:
    pool = BlockPool(2, 2)
    blocks = publish(pool, [1, 2])
    assert pool.match(chain(pool, [1, 2]), [1, 2]) == blocks
    pool.release(blocks)
    assert pool.free_count == 1
    pool.release(blocks)
    assert pool.free_count == 2


def test_a_prefix_matches_only_up_to_the_first_difference() -> None:
    pool = BlockPool(8, 2)
    blocks = publish(pool, [1, 2, 3, 4, 5, 6])
    other = [1, 2, 3, 4, 9, 9]
    assert pool.match(chain(pool, other), other) == blocks[:2]
    shifted = [0, 1, 2, 3, 4, 5]
    assert pool.match(chain(pool, shifted), shifted) == []


def test_one_tenant_never_finds_the_blocks_of_another() -> None:
    pool = BlockPool(8, 2)
    publish(pool, [1, 2, 3, 4], tenant="a")
    assert pool.match(chain(pool, [1, 2, 3, 4], tenant="b"), [1, 2, 3, 4]) == []


def test_a_hash_collision_is_not_served() -> None:
    """The same name with other tokens: tokens are compared, so nothing matches."""
    pool = BlockPool(4, 2)
    publish(pool, [1, 2])
    assert pool.match(chain(pool, [1, 2]), [8, 9]) == []


def test_the_least_recently_used_prefix_is_evicted_first_and_tails_before_heads() -> None:
    pool = BlockPool(4, 2)
    old, new = [1, 2, 3, 4], [5, 6, 7, 8]
    pool.release(publish(pool, old))
    pool.release(publish(pool, new))
    pool.take(1)
    assert len(pool.match(chain(pool, old), old)) == 1
    assert len(pool.match(chain(pool, new), new)) == 2


def test_forgotten_blocks_are_not_reused() -> None:
    pool = BlockPool(4, 2)
    blocks = publish(pool, [1, 2])
    pool.forget(blocks)
    pool.release(blocks)
    assert pool.match(chain(pool, [1, 2]), [1, 2]) == []
    assert pool.free_count == 4


def test_forgetting_leaves_alone_what_others_share() -> None:
    pool = BlockPool(4, 2)
    blocks = publish(pool, [1, 2, 3, 4])
    pool.match(chain(pool, [1, 2]), [1, 2])
    assert pool.forget(blocks) == blocks[1:]
    assert len(pool.match(chain(pool, [1, 2, 3, 4]), [1, 2, 3, 4])) == 1


def test_without_reuse_nothing_is_kept() -> None:
    pool = BlockPool(4, 2, reuse=False)
    pool.release(publish(pool, [1, 2]))
    assert pool.match(chain(pool, [1, 2]), [1, 2]) == []


@pytest.mark.parametrize("kv", ["full", "int8", "fp8"])
def test_a_copied_block_reads_as_its_original(kv: KVKind) -> None:
    """Scales of rounded keys and values are copied with them."""
    pool = KVPool((LayerShape(2, 4, 6, 2),) * 2, 5, 4, torch.float32, torch.device("cpu"), kv=kv)
    generator = torch.Generator().manual_seed(0)
    for layer in range(2):
        key, value = (torch.randn(1, 2, 8, dim, generator=generator) for dim in (4, 6))
        pool.write(layer, torch.arange(4, 12), key, value)
    pool.copy([(1, 4), (2, 0)])
    for layer in range(2):
        originals, copies = pool.gather(layer, torch.tensor([[1, 2]])), pool.gather(layer, torch.tensor([[4, 0]]))
        for original, copy in zip(originals, copies, strict=True):
            assert original.abs().sum() > 0
            assert torch.equal(original, copy)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.parametrize("kv", ["full", "int8"])
def test_a_pool_takes_memory_only_where_blocks_are_written(kv: KVKind) -> None:
    """A pool of a GiB, of which two blocks are used: the rest is zero, and not resident."""
    before = resident()
    pool = KVPool((LayerShape(8, 64, 64, 8),) * 2, 16384, 16, torch.float32, torch.device("cpu"), kv=kv)
    new = torch.ones(1, 8, 16, 64)
    pool.write(1, torch.arange(16 * 9000, 16 * 9001), new, new)
    assert resident() - before < 64 << 20
    keys, _ = pool.gather(1, torch.tensor([[8999, 9000]]))
    assert torch.equal(keys[0, :, :16], torch.zeros(8, 16, 64))
    assert torch.allclose(keys[0, :, 16:], torch.ones(8, 16, 64))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE


def test_a_pool_beyond_all_memory_is_refused_by_the_setting_to_lower() -> None:
    with pytest.raises(ModelLoadError, match=r"does not give .*; lower kv_cache_bytes or num_blocks"):
        KVPool((LayerShape(8, 64, 64, 8),), 1 << 40, 16, torch.float32, torch.device("cpu"))
