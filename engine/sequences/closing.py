"""End a constrained answer validly before its tokens run out, where the request asks for it.

A token is refused if the grammar's shortest completion would not fit after it; the completion from before the token is
written instead. This is checked only near the end, or near the longest completion seen so far times `MARGIN`.

Not covered: a grammar whose search for a completion gives up, and a single token far from the end after which the
completion is longer than `MARGIN` foresaw. Such an answer ends with `length`, as it would have without this.
"""

from __future__ import annotations

from sluicegate.plugins import Matcher

NEAR = 128
"""With at most this many tokens left, every token is checked."""
MARGIN = 4


class Closer:
    """Decides when to complete one sequence. Moves its matcher and rolls it back."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._way: tuple[int, ...] | None = self._found()
        self._longest = len(self._way or ())

    def instead_of(self, token_id: int, room: int) -> tuple[int, ...] | None:
        """Return the completion to write instead of `token_id`, after which `room` tokens would be left; None = accept
        the token. () = the answer may end here."""
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
        """Forget the cached completion, after tokens were accepted without calling `instead_of`."""
        self._way = None

    def _found(self) -> tuple[int, ...] | None:
        way = self._matcher.shortest_completion()
        return None if way is None else tuple(way.tokens)


def closer_for(matcher: Matcher | None, *, wanted: bool) -> Closer | None:
    """Return a closer for `matcher`; None without a grammar, or if not `wanted`."""
    return Closer(matcher) if wanted and matcher is not None else None
