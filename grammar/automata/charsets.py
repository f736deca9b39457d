"""Sets of Unicode scalar values (no surrogates) as sorted, disjoint, non-adjacent inclusive ranges."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
EVERY: Ranges = ((0, 0xD7FF), (0xE000, LAST))


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Unite `sets`, whose ranges may come in any order, overlap, and touch surrogates."""
    merged: list[list[int]] = []
    for low, high in sorted(pair for ranges in sets for pair in ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1][1] = high
        else:
            merged.append([low, high])
    return tuple(_without_surrogates(merged))


def _without_surrogates(merged: list[list[int]]) -> Iterable[tuple[int, int]]:
    for low, high in merged:
        if high < 0xD800 or low > 0xDFFF:
            yield (low, high)
            continue
        if low < 0xD800:
            yield (low, 0xD7FF)
        if high > 0xDFFF:
            yield (0xE000, high)


def negate(ranges: Ranges) -> Ranges:
    gaps = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return union(gaps)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    out = []
    i = j = 0
    while i < len(left) and j < len(right):
        low = max(left[i][0], right[j][0])
        high = min(left[i][1], right[j][1])
        if low <= high:
            out.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def single(code_point: int) -> Ranges:
    return ((code_point, code_point),)


def of_text(characters: str) -> Ranges:
    return union((ord(c), ord(c)) for c in characters)


def partition(sets: list[Ranges]) -> tuple[list[int], list[int], list[int]]:
    """Cut 0..LAST into intervals that no set splits, and number the intervals' classes.

    Returns `(starts, classes, members)`: interval `i` begins at `starts[i]` and has class `classes[i]`, -1 where it
    is in no set; `members[c]` has bit `k` set when class `c` lies in `sets[k]`. Classes are numbered by first code
    point.
    """
    toggles: dict[int, int] = {0: 0}
    for index, ranges in enumerate(sets):
        bit = 1 << index
        for low, high in ranges:
            toggles[low] = toggles.get(low, 0) ^ bit
            toggles[high + 1] = toggles.get(high + 1, 0) ^ bit
    toggles.pop(LAST + 1, None)
    starts = sorted(toggles)
    numbers: dict[int, int] = {0: -1}
    classes = []
    inside = 0
    for start in starts:
        inside ^= toggles[start]
        classes.append(numbers.setdefault(inside, len(numbers) - 1))
    return starts, classes, list(numbers)[1:]
