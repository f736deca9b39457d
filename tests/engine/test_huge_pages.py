"""Weights lie in huge pages once a model is loaded, where the system has them, and are the same numbers."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from sluicegate.engine.cpu import settle, settle_beside, weight_tensors
from sluicegate.engine.cpu.huge_pages import blocks
from sluicegate.engine.model.loading import load_model
from sluicegate.plugins.memory.huge_pages import BLOCK


def huge_kib(tensors: Sequence[torch.Tensor]) -> int:
    """Return the KiB in huge pages of the mappings that tensors lie in; others of the process come and go."""
    ranges = [(one.data_ptr(), one.data_ptr() + one.nbytes) for one in tensors]
    found, is_theirs = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            start, end = int(mapping[1], 16), int(mapping[2], 16)
            is_theirs = any(low < end and start < high for low, high in ranges)
        elif is_theirs and line.startswith("AnonHugePages:"):
            found += int(line.split()[1])
    return found


def test_a_block_is_found_that_ranges_cover_to_more_than_a_half_together() -> None:
    half = BLOCK // 2
    assert blocks([(0, BLOCK)]) == [0]
    assert blocks([(0, half)]) == []
    assert blocks([(0, half), (half, 64)]) == [0], "two tensors share it"
    assert blocks([(0, half), (0, half)]) == [], "a tensor under two names counts once"
    assert blocks([(half, 3 * BLOCK)]) == [1, 2], "halves at both ends stay"
    assert blocks([(half - 64, 3 * BLOCK)]) == [0, 1, 2]
    assert blocks([(5 * BLOCK, 0)]) == []


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages of Linux")
def test_tensors_are_moved_with_what_they_hold_and_views_of_them_see_it() -> None:
    tensors = [torch.arange(BLOCK, dtype=torch.float32) + at for at in range(3)]  # 4 blocks each
    view, places = tensors[1][7:9], [one.data_ptr() for one in tensors]
    moved = settle([*tensors, torch.empty(0), torch.empty(9, device="meta")])
    if not moved:
        pytest.skip("this system has no huge pages, or a kernel before 6.1")
    assert moved <= len(blocks((one.data_ptr(), one.nbytes) for one in tensors))
    assert huge_kib(tensors) >= moved * BLOCK // 1024 * 3 // 4, "the kernel splits some again where memory is short"
    assert [one.data_ptr() for one in tensors] == places
    assert all(torch.equal(one, torch.arange(BLOCK, dtype=torch.float32) + at) for at, one in enumerate(tensors))
    view += 1
    assert tensors[1][7:9].tolist() == [9.0, 10.0]


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages of Linux")
def test_weights_of_a_loaded_model_come_to_lie_in_huge_pages() -> None:
    if not settle([torch.ones(2 * BLOCK)]):
        pytest.skip("this system has no huge pages, or a kernel before 6.1")
    model = load_model("bundled")
    weights = list(weight_tensors(model.module))
    expected = len(blocks((one.data_ptr(), one.nbytes) for one in weights))
    assert expected >= 1
    until = time.monotonic() + 60
    while huge_kib(weights) < expected * BLOCK // 1024 // 2:
        assert time.monotonic() < until, "weights stayed in small pages"
        time.sleep(0.05)


def test_nothing_is_begun_where_there_is_nothing_to_move() -> None:
    assert settle_beside([torch.empty(9), torch.empty(0)]) is None
