"""A progress line on standard error, only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable

WIDTH = 28


def bar(name: str) -> Callable[[int, int], None]:
    """Make a function of (done, all) that draws the line."""
    watched = sys.stderr.isatty()

    def show(done: int, of: int) -> None:
        if watched:
            full = WIDTH * done // of
            end = "\n" if done == of else ""
            print(
                f"\r{name:>14} [{'#' * full}{'.' * (WIDTH - full)}] {done}/{of}", end=end, file=sys.stderr, flush=True
            )

    return show
