"""Read the answers of a batch that has ended, line after line, from the two files that it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any

from sluicegate.gateway.batches.lines import lines_of
from sluicegate.plugins import exact_json

Row = tuple[int, str, dict[str, Any] | None]
"""(line number, its `custom_id`, its output row; None = the line was not run)."""


def merged(written: list[Path], asked: Path | None, endpoint: str) -> Iterator[Row]:
    """Yield a row for each line of the input `asked`, in its order; without one, for those that were answered."""
    answered = merge(*(_rows(path) for path in written))
    return answered if asked is None else _with_unasked(answered, asked, endpoint)


def _with_unasked(answered: Iterator[Row], asked: Path, endpoint: str) -> Iterator[Row]:
    following = next(answered, None)
    for line in lines_of(asked, endpoint):
        if following is not None and following[0] == line.number:
            yield following
            following = next(answered, None)
        else:
            yield line.number, line.custom_id, None
    yield from chain(() if following is None else (following,), answered)


def _rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as opened:
        for raw in opened:
            row = exact_json.read(raw)
            yield int(row["id"].rpartition("_")[2]), row["custom_id"], row


def count_unasked(written: Path) -> int:
    """Return how many lines of an error file were never asked: their time was over."""
    return sum(row is not None and row["response"] is None for _, _, row in _rows(written))
