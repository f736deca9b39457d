"""Cells and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell(text) for text in row)} |"
    yield ""


def cell(text: str) -> str:
    """Return `text` as one cell: on one line, and no bar that ends it."""
    return " ".join(text.split()).replace("|", "\\|")
