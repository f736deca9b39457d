"""Interrupt a library that never looks at our clock, at its calls of Python functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sluicegate.grammar.budget.meter import tick


class _Stopped(BaseException):
    """Wraps an exception as a `BaseException`, so that a library's `except Exception` does not catch it. `why`: the
    exception to raise instead."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@contextmanager
def interrupted() -> Iterator[None]:
    """Count each call inside, by this thread, as a small step of the work at hand (see `meter.allowed`): it raises that
    work's error past its time, and pauses where it pauses.

    Doubles the time of code that calls much. Not covered: one call of a C function, such as a regular expression.
    """
    before = sys.getprofile()
    sys.setprofile(_look)
    try:
        yield
    except _Stopped as stopped:
        raise stopped.why from None
    finally:
        sys.setprofile(before)


def _look(frame: FrameType, event: str, argument: Any) -> None:
    if event == "call":
        try:
            tick()
        except RecursionError:  # the library's own
            raise
        except Exception as why:
            raise _Stopped(why) from None
