"""Room for Python's calls, so that no loop stands at the end of a piece of the interpreter's stack.

CPython keeps frames in pieces of 16 KiB. A call that finds no room takes a new piece from the system, and gives it back
on its return: some 4 us in place of 0.05. Where the frames below a busy loop happen to fill their piece, a request pays
that for hundreds of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SLOTS = 66_000
"""Slots of eight bytes. Such a frame gets a stack segment of 1 MiB, of which it leaves half."""


def with_room(call: Callable[[], T]) -> T:
    """Run `call` at the beginning of a large chunk of the interpreter's stack. Untouched memory of it is never
    allocated."""
    return call()


with_room.__code__ = with_room.__code__.replace(co_stacksize=SLOTS)
