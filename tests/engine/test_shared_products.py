"""Products outside of the compiled pass: shared among threads, and of several weights in one call, to the last bit
those of one thread and of each weight by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from sluicegate.engine.cpu import CpuSmallLinear, Packed, keep_halves
from sluicegate.engine.cpu import shared_products as products
from sluicegate.engine.cpu.kernels.small_products import Q4_0
from sluicegate.engine.cpu.packing import EIGHT, pack


@pytest.fixture(autouse=True)
def everything_is_worth_sharing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(products, "WORTH_SHARING", 0)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def kept(form: str, n: int, k: int) -> Packed:
    weight = torch.randn(n, k)
    return keep_halves(weight.bfloat16()) if form == "halves" else pack(weight, {"int8": EIGHT, "int4": Q4_0}[form])


def by_threads(threads: int, rows: torch.Tensor, weights: list[Packed], counts: list[int]) -> torch.Tensor:
    torch.set_num_threads(threads)
    out = torch.full((len(rows), weights[0].n), torch.nan)
    products.multiply(rows, weights, counts, out)
    return out


@pytest.mark.parametrize("form", ["halves", "int8", "int4"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_show_in_a_product(form: str, threads: int) -> None:
    """One panel and many, the last one narrow, one row and more."""
    torch.manual_seed(threads)
    for n in (5, 24, 61, 400):
        weight = kept(form, n, 160)
        for rows in (1, 3, 70):
            x = torch.randn(rows, 160)
            shared = by_threads(threads, x, [weight], [rows])
            assert torch.equal(shared, by_threads(1, x, [weight], [rows]))
    bias = torch.randn(400)
    assert torch.equal(CpuSmallLinear(weight, bias)(x[None]), shared[None] + bias)


@pytest.mark.parametrize("form", ["halves", "int8", "int4"])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_several_weights_are_those_of_each_by_itself(form: str, threads: int) -> None:
    torch.manual_seed(1)
    counts, weights = [1, 7, 2, 30], [kept(form, 61, 160) for _ in range(4)]
    x = torch.randn(sum(counts), 160)
    together = by_threads(threads, x, weights, counts)
    apart = [by_threads(1, rows, [weight], [len(rows)]) for rows, weight in zip(x.split(counts), weights, strict=True)]
    assert torch.equal(together, torch.cat(apart))


def test_a_product_while_the_threads_are_busy_is_computed_by_its_own_thread() -> None:
    weight, x = kept("int8", 400, 160), torch.randn(2, 160)
    expected = by_threads(2, x, [weight], [2])
    with products._shared_by(2).lock:
        assert torch.equal(by_threads(2, x, [weight], [2]), expected)


def test_several_threads_may_ask_at_once() -> None:
    weights = [kept("int8", 400, 160) for _ in range(4)]
    x, found = torch.randn(8, 160), dict[int, torch.Tensor]()
    expected = [by_threads(1, x, [weight], [8]) for weight in weights]

    def ask(which: int) -> None:
        torch.set_num_threads(2)
        for _ in range(50):
            found[which] = by_threads(2, x, [weights[which]], [8])
            assert torch.equal(found[which], expected[which])

    asking = [threading.Thread(target=ask, args=(which,)) for which in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert all(torch.equal(found[which], expected[which]) for which in range(4))


def test_no_row_is_no_product() -> None:
    assert by_threads(2, torch.empty(0, 160), [kept("int8", 61, 160)], [0]).shape == (0, 61)
