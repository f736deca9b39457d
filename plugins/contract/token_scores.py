"""The probes' scores of a text's tokens: a mapping for each token, or columns that are read as such mappings.

A mapping takes 232 bytes for one number. An engine that scores each token of each answer keeps them in columns; who
reads one token at a time sees no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

TokenLogOdds = Sequence[Mapping[str, float]]
"""For each token, the probes' log-odds by label."""


class TokenScores(Sequence[Mapping[str, float]]):
    """Scores of successive tokens in `columns`: for each label, the log-odds of all tokens. Read as a sequence, it
    makes the mapping of a token when asked for it. Nobody may change the columns."""

    __slots__ = ("_size", "columns")

    def __init__(self, columns: Mapping[str, Sequence[float]]) -> None:
        """Keep `columns`, without a copy. Raises `ValueError` if they are not equally long."""
        sizes = {len(column) for column in columns.values()}
        if len(sizes) > 1:
            found = ", ".join(f"{label!r} {len(column)}" for label, column in columns.items())
            raise ValueError(f"the columns of scores have different lengths ({found}); give one number for each token")
        self.columns = columns
        self._size = sizes.pop() if sizes else 0

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Mapping[str, float]: ...

    @overload
    def __getitem__(self, at: slice) -> TokenScores: ...

    def __getitem__(self, at: int | slice) -> Mapping[str, float] | TokenScores:
        if isinstance(at, slice):
            return TokenScores({label: column[at] for label, column in self.columns.items()})
        if not -self._size <= at < self._size:
            raise IndexError(f"token {at} of {self._size}")
        return {label: column[at] for label, column in self.columns.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != self._size:
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TokenScores({self.columns!r})"


def join_scores(parts: Sequence[TokenLogOdds]) -> TokenLogOdds:
    """Return the scores of successive texts as those of one: in columns where all of them are and have the same
    labels, else token by token."""
    parts = [part for part in parts if part]
    if len(parts) <= 1:
        return parts[0] if parts else ()
    columns = [part.columns for part in parts if isinstance(part, TokenScores)]
    if len(columns) == len(parts) and all(one.keys() == columns[0].keys() for one in columns):
        return TokenScores({label: [value for one in columns for value in one[label]] for label in columns[0]})
    return tuple([scores for part in parts for scores in part])
