"""Bringing a constrained answer to a valid end before its tokens run out, where the request asks for it.

A token is not taken if, after it, the grammar's shortest way to the end no longer fits; then that way is written
instead, as it was before the token. Looked at only near the end, or near the longest way seen so far times `MARGIN`.

Not covered: a grammar whose search for a way gives up, and a single token far from the end after which the way is
longer than `MARGIN` foresaw. Such an answer ends with `length`, as it would have without this.
"""

from __future__ import annotations

from sluicegate.plugins import Matcher

NEAR = 128
"""Tokens left from which on every token is looked at."""
MARGIN = 4


class Closer:
    """For one sequence. Mutable; the matcher is moved and moved back."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._way: tuple[int, ...] | None = self._found()
        self._longest = len(self._way or ())

    def instead_of(self, token_id: int, room: int) -> tuple[int, ...] | None:
        """What to write instead of `token_id`, after which `room` tokens would be left; None: take it. Empty where
        the text may just end."""
        if room > max(NEAR, MARGIN * self._longest):
            self._way = None
            return None
        before = self._way if self._way is not None else self._found()
        self._matcher.accept(token_id)
        after = () if self._matcher.is_finished else self._found()
        self._matcher.rollback(1)
        if before is not None and after is not None and len(after) > room >= len(before) - 1:
            return before
        self._way = after
        self._longest = max(self._longest, len(after or ()))
        return None

    def moved(self) -> None:
        """Tokens were accepted that `instead_of` was not asked about."""
        self._way = None

    def _found(self) -> tuple[int, ...] | None:
        way = self._matcher.shortest_completion()
        return None if way is None else tuple(way.tokens)


def closer_for(matcher: Matcher | None, *, wanted: bool) -> Closer | None:
    """None where it is not wanted, or there is no grammar."""
    return Closer(matcher) if wanted and matcher is not None else None
