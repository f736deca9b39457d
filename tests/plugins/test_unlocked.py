"""An attribute that is computed once holds nobody up who asks another object for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from sluicegate.plugins.concurrency.unlocked import cached_property


class Numbered:
    def __init__(self, number: int) -> None:
        self.number = number
        self.computed = 0
        self.begun, self.may_end = threading.Event(), threading.Event()

    @cached_property
    def doubled(self) -> int:
        """Return twice the number."""
        self.computed += 1
        self.begun.set()
        assert self.may_end.wait(60)
        return 2 * self.number


def test_one_that_computes_for_long_holds_no_other_object_up() -> None:
    slow, quick = Numbered(1), Numbered(2)
    quick.may_end.set()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: slow.doubled)
        assert slow.begun.wait(60)
        assert quick.doubled == 4
        slow.may_end.set()
        assert waiting.result(60) == 2


def test_a_value_is_computed_once_and_kept_in_its_object() -> None:
    one = Numbered(3)
    one.may_end.set()
    assert (one.doubled, one.doubled, one.computed) == (6, 6, 1)
    assert vars(one)["doubled"] == 6
    assert Numbered.doubled.__doc__ == "Return twice the number."
