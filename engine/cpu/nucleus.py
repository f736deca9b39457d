"""Top-k, top-p and min-p without sorting a vocabulary: a border is found by halving the weights it may lie at.

Sorted order is heaviest first, lower places first among equals. A search keeps two thresholds: everything from the
upper one on lies before the border, not everything from the lower one on does. When few tokens are left between them,
those are sorted. Where most tokens weigh next to nothing, the others are first copied together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.cpu.long_rows import above, padded, places_within
from engine.cpu.rows import floats

_FEW = 128
"""Tokens that are sorted."""
_HEAVY = np.float32(2.0**-12)
_PACKED = 4096
"""Most tokens that are copied together."""
_LIGHTEST = np.float32(1e-37)
"""Below every weight but 0."""
_ABOVE = np.float32(2)
"""Above every weight."""
_TOP = 0x3F800001
"""Bits of the float32 after 1, the largest weight."""


@njit(nogil=True, cache=True)
def draw_cut(weights, count, total, top_k, top_p, min_p, share):  # type: ignore[no-untyped-def]
    """Draw among the likeliest, in sorted order: rank < top_k (0: no limit), mass before < top_p of what top_k leaves,
    weight >= min_p. `weights`: address of `count` weights, the largest 1, with room and zeros up to `padded(count)`;
    `total`: their sum; `share` in [0, 1). Returns the place of the drawn token."""
    room = padded(count)
    if top_k > 0:
        total, least, last = _kept(weights, room, top_k, np.inf, _LIGHTEST)
        many = above(weights, room, least)[1]
    else:
        least, last = _HEAVY, -1
        mass, many = above(weights, room, least)
        if mass < top_p * total and min_p < _HEAVY:
            many = count
    if many > _PACKED:
        return _draw(weights, room, total, top_k if top_k > 0 else count, top_p, min_p, share)
    places = places_within(weights, room, least, _ABOVE, many)
    packed, kept = np.zeros(padded(many), np.float32), 0
    for place in places:
        weight = floats(weights, count)[place]
        if last < 0 or place <= last or weight > least:
            packed[kept] = weight
            places[kept] = place
            kept += 1
    return places[_draw(packed.ctypes.data, len(packed), total, kept, top_p, min_p, share)]


@njit(nogil=True, cache=True)
def _draw(weights, count, total, ranks, top_p, min_p, share):  # type: ignore[no-untyped-def]
    mass, lightest, last = _kept(weights, count, ranks, top_p * total, max(np.float32(min_p), _LIGHTEST))
    place = _place_of(weights, count, share * mass, lightest)
    if last >= 0 and place > last and floats(weights, count)[place] == lightest:
        return last
    return place


@njit(nogil=True, cache=True)
def _bracket(weights, count, ranks, limit, lowest):  # type: ignore[no-untyped-def]
    """(lower, upper threshold, mass and count from the upper on, count between): from the upper on there are at most
    `ranks` tokens of at most `limit` together, from the lower on there are more. Lower 0: the border is at `lowest`."""
    high, mass, many, octaves, bottom = _TOP, 0.0, 0, 1, _bits(lowest)
    while True:  # down by steps that double, since the border is seldom far below the top
        low = max(bottom, high - (octaves << 23))
        found, all_of_them = above(weights, count, _number(low))
        if all_of_them > ranks or found > limit:
            break
        if low == bottom:
            return np.float32(0), lowest, found, all_of_them, 0
        high, mass, many, octaves = low, found, all_of_them, 2 * octaves
    while all_of_them - many > _FEW and high - low > 1:
        middle = (low + high) // 2
        found, found_many = above(weights, count, _number(middle))
        if found_many <= ranks and found <= limit:
            high, mass, many = middle, found, found_many
        else:
            low, all_of_them = middle, found_many
    return _number(low), _number(high), mass, many, all_of_them - many


@njit(nogil=True, cache=True)
def _between(weights, count, low, high, many):  # type: ignore[no-untyped-def]
    """Places of the weights in [low, high), heaviest first, lower places first among equals."""
    places = places_within(weights, count, low, high, many)
    if many > _FEW:  # all weigh the same
        return places
    values = np.empty(len(places), np.float32)
    for at in range(len(places)):
        values[at] = -floats(weights, count)[places[at]]
    return places[np.argsort(values, kind="mergesort")]


@njit(nogil=True, cache=True)
def _kept(weights, count, ranks, limit, lowest):  # type: ignore[no-untyped-def]
    """The longest beginning of the sorted order in which every token has a rank < `ranks`, less than `limit` before it,
    and weighs at least `lowest`; the first token always counts. Returns its mass, no more than the weight of its
    lightest token, and the place of its last, -1 where that is the last of those that weigh enough."""
    low, high, mass, kept, between = _bracket(weights, count, ranks, limit, lowest)
    if low == 0:
        return mass, lowest, -1
    last = -1
    for place in _between(weights, count, low, high, between):
        if kept > 0 and (kept >= ranks or mass >= limit):
            break
        kept += 1
        mass += floats(weights, count)[place]
        last = place
    return mass, (floats(weights, count)[last] if last >= 0 else high), last


@njit(nogil=True, cache=True)
def _place_of(weights, count, target, lowest):  # type: ignore[no-untyped-def]
    """The first token of the sorted order at which the mass exceeds `target`; the last that weighs at least `lowest` if
    none does, which is due to sums that were rounded differently."""
    low, high, mass, _, between = _bracket(weights, count, count, target, lowest)
    if low == 0:
        row, last = floats(weights, count), 0
        lightest = np.float32(2)
        for at in range(count):
            if lowest <= row[at] <= lightest:
                lightest, last = row[at], at
        return last
    last = -1
    for place in _between(weights, count, low, high, between):
        mass += floats(weights, count)[place]
        last = place
        if mass > target:
            break
    return last


@njit(nogil=True, cache=True)
def _bits(value):  # type: ignore[no-untyped-def]
    """A weight's bits are in the order of the weights."""
    return np.int64(np.array([value], np.float32).view(np.int32)[0])


@njit(nogil=True, cache=True)
def _number(bits):  # type: ignore[no-untyped-def]
    return np.array([bits], np.int32).view(np.float32)[0]
