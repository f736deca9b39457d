"""Work of a library that never looks at our clock: its calls of Python functions are where it is interrupted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sluicegate.grammar.budget.meter import tick


class _Stopped(BaseException):
    """Passes what a library catches. `why`: what is to be raised instead."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@contextmanager
def interrupted() -> Iterator[None]:
    """What is done inside, by this thread, counts as many small steps of the work at hand (see `budget.allowed`): it
    raises that work's error past its time, and rests where it rests. Doubles the time of what calls much; one call
    of a C function (a regular expression at work, a sort) is not interrupted."""
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
