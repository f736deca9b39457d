"""Find how many bytes a text takes at least to its end."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

import numpy as np

from sluicegate.grammar.budget.meter import look, tick
from sluicegate.grammar.parsing.following import least_sizes
from sluicegate.grammar.parsing.frames import ParseFrame, ParseFrames
from sluicegate.grammar.parsing.symbols import Suffix, Symbols

NEVER = 1 << 40
_KEPT = 50_000
_MOST_FRAMES = 200_000


def settled(symbols: Symbols, sizes: Mapping[int, int]) -> list[int]:
    """Return the least bytes of each symbol, `NEVER` for those that cannot be finished. `sizes`: those of terminals."""
    rules = symbols.rules
    found = np.full(symbols.size, NEVER, np.int64)
    found[list(sizes)] = list(sizes.values())
    look()
    least_sizes(found, rules.origins, rules.first, rules.symbols)
    least: list[int] = found.tolist()
    return least


class ParseCosts:
    """Costs in bytes of rests of rules and of frames. `sizes`: those of symbols, see `settled`."""

    def __init__(self, symbols: Symbols, sizes: list[int]) -> None:
        self._symbols = symbols
        self._sizes = sizes
        self._suffixes: list[int] = [0]
        self._known: dict[ParseFrame, int] = {}

    def _of_suffix(self, suffix: Suffix) -> int:
        """Return the cost of a rest of a rule; those that are longer have greater numbers."""
        symbols = self._symbols
        while len(self._suffixes) <= suffix:
            next_one = len(self._suffixes)
            tail = self._suffixes[symbols.tails[next_one]]
            self._suffixes.append(min(self._sizes[symbols.heads[next_one]] + tail, NEVER))
        return self._suffixes[suffix]

    def of_frame(self, frames: ParseFrames, frame: ParseFrame) -> int:
        """Return the cost of the cheapest way from `frame` to the end (Dijkstra, 1959)."""
        if frames.opened(frame).is_whole:
            return 0
        known = self._known.get(frame)
        if known is not None:
            return known
        if len(self._known) > _KEPT:
            self._known.clear()
        return self._search(frames, frame)

    def _search(self, frames: ParseFrames, first: ParseFrame) -> int:
        queue: list[tuple[int, int, ParseFrame]] = [(0, first.number, first)]
        best: dict[ParseFrame, int] = {first: 0}
        before: dict[ParseFrame, ParseFrame] = {}
        done: set[ParseFrame] = set()
        whole: tuple[int, ParseFrame] | None = None
        while queue and len(done) < _MOST_FRAMES:
            tick()
            cost, _, frame = heappop(queue)
            if whole is not None and cost >= whole[0]:
                break
            if frame in done:
                continue
            done.add(frame)
            rest = 0 if frame is frames.end else self._known.get(frame)
            if rest is not None and (whole is None or cost + rest < whole[0]):
                whole = cost + rest, frame
            if rest is not None:
                continue
            for suffix, follow in frame.items:
                further = cost + self._of_suffix(suffix)
                if further < best.get(follow, NEVER):
                    best[follow] = further
                    before[follow] = frame
                    heappush(queue, (further, follow.number, follow))
        return self._keep(first, whole, best, before)

    def _keep(
        self,
        first: ParseFrame,
        whole: tuple[int, ParseFrame] | None,
        best: dict[ParseFrame, int],
        before: dict[ParseFrame, ParseFrame],
    ) -> int:
        """Remember the costs of all frames on the cheapest way."""
        if whole is None:
            self._known[first] = NEVER
            return NEVER
        total, frame = whole
        self._known[frame] = total - best[frame]
        while frame is not first:
            frame = before[frame]
            self._known[frame] = total - best[frame]
        return total
