"""Helpers of the safety tests: ways to cut a text, and what a window makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st

from sluicegate.plugins import Caller, Message, OutputRail, Request
from sluicegate.safety import HoldbackWindow, Redaction, WindowLimits

REQUEST = Request(id="r", model="m", messages=(Message("user", "hi"),))
CALLER = Caller()


def by_character(text: str) -> list[str]:
    return list(text)


def cut(text: str, places: Sequence[int]) -> list[str]:
    bounds = [0, *sorted({p % (len(text) + 1) for p in places}), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


cuts = st.lists(st.integers(0, 10_000), max_size=12)


def cuttings(text: str, places: Sequence[int]) -> Iterator[list[str]]:
    yield [text]
    yield by_character(text)
    yield cut(text, places)


def window(*rails: OutputRail, limits: WindowLimits = WindowLimits()) -> HoldbackWindow:
    return HoldbackWindow(rails, REQUEST, CALLER, "content", limits)


def run(
    pieces: Sequence[str], *rails: OutputRail, limits: WindowLimits = WindowLimits()
) -> tuple[str, str | None, list[Redaction]]:
    """Return all that was released, the reason of the block, and the redactions."""
    at_work = window(*rails, limits=limits)
    out: list[str] = []
    redactions: list[Redaction] = []
    for step in (*map(at_work.feed, pieces), at_work.close()):
        out.append(step.text)
        redactions += step.redactions
    return "".join(out), at_work.blocked, redactions
