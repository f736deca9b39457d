"""Find how many bytes a text takes at least to its end."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.frames import ParseFrame, ParseFrames
from sluicegate.grammar.parsing.symbols import Suffix, Symbols

NEVER = 1 << 40
_KEPT = 50_000
_MOST_FRAMES = 200_000


def settled(symbols: Symbols, sizes: Mapping[int, int]) -> dict[int, int]:
    """Return the least bytes of each symbol that can be finished. `sizes`: those of terminals; others never end.

    The cheapest are settled first, once all symbols of a rule are known (Knuth, 1977)."""
    found = dict(sizes)
    rules = list(symbols.rules.rows())
    missing: list[int] = []
    users: dict[int, list[int]] = {}
    queue: list[tuple[int, int]] = []
    for number, (_, expansion) in enumerate(rules):
        unknown = {symbol for symbol in expansion if symbol not in found}
        missing.append(len(unknown))
        for symbol in unknown:
            users.setdefault(symbol, []).append(number)
        if not unknown:
            queue.append((_sum(found, expansion), number))
    heapify(queue)
    while queue:
        tick()
        cost, number = heappop(queue)
        symbol = rules[number][0]
        if symbol in found:
            continue
        found[symbol] = cost
        for user in users.get(symbol, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(queue, (_sum(found, rules[user][1]), user))
    return found


def _sum(sizes: Mapping[int, int], expansion: tuple[int, ...]) -> int:
    return min(sum(sizes[symbol] for symbol in expansion), NEVER)


class ParseCosts:
    """Costs in bytes of rests of rules and of frames. `sizes`: those of symbols, see `settled`."""

    def __init__(self, symbols: Symbols, sizes: Mapping[int, int]) -> None:
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
            self._suffixes.append(min(self._sizes.get(symbols.heads[next_one], NEVER) + tail, NEVER))
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
