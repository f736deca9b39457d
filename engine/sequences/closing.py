"""End a constrained answer validly before its tokens run out, where the request asks for it.

A token is refused if the grammar's shortest completion would not fit after it; the completion from before the token is
written instead. This is checked only near the end, or near the longest completion seen so far times `MARGIN`, and less
often where the search gives up.

Not covered: a grammar whose search for a completion gives up, and a single token far from the end after which the
completion is longer than `MARGIN` foresaw. Such an answer ends with `length`, as it would have without this.
"""

from __future__ import annotations

from sluicegate.plugins import Matcher

NEAR = 128
"""With at most this many tokens left, every token is checked."""
MARGIN = 4
_LONGEST_REST = 8
"""Most tokens that are not checked after searches that gave up: each may take as long as a step."""


class Closer:
    """Decides when to complete one sequence. Moves its matcher and rolls it back."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._way: tuple[int, ...] | None = self._found()
        self._known = True
        """Whether `_way` is what the search returns where the matcher stands."""
        self._longest = len(self._way or ())
        self._given_up = self._rest = 0

    def instead_of(self, token_id: int, room: int) -> tuple[int, ...] | None:
        """Return the completion to write instead of `token_id`, after which `room` tokens would be left; None = accept
        the token. () = the answer may end here."""
        if room > max(NEAR, MARGIN * self._longest) or self._rest > 0:
            self._known, self._rest = False, max(self._rest - 1, 0)
            return None
        before = self._way if self._known else self._found()
        self._matcher.accept(token_id)
        after = () if self._matcher.is_finished else self._found()
        self._matcher.rollback(1)
        if before is not None and after is not None and len(after) > room >= len(before) - 1:
            return before
        self._way, self._known = after, True
        self._longest = max(self._longest, len(after or ()))
        self._given_up = self._given_up + 1 if before is None and after is None else 0
        self._rest = min(2**self._given_up - 1, _LONGEST_REST)
        return None

    def moved(self) -> None:
        """Forget the cached completion, after tokens were accepted without calling `instead_of`."""
        self._known = False

    def _found(self) -> tuple[int, ...] | None:
        way = self._matcher.shortest_completion()
        return None if way is None else tuple(way.tokens)


def closer_for(matcher: Matcher | None, *, wanted: bool) -> Closer | None:
    """Return a closer for `matcher`; None without a grammar, or if not `wanted`."""
    return Closer(matcher) if wanted and matcher is not None else None
