"""Top-k, top-p and min-p without sorting a vocabulary: a border is found by halving the weights it may lie at.

Sorted order is heaviest first, lower places first among equals. A search keeps two thresholds: everything from the
upper one on lies before the border, not everything from the lower one on does. A sample of the row says where to begin,
which saves most of the passes over it and cannot change what is found. What is left between the thresholds is copied
together, and when few tokens are left, those are sorted. Where all that can be drawn is not much, it is copied first.
"""

from __future__ import annotations

import numpy as np

from sluicegate.engine.cpu.kernels.long_rows import above, above_both, padded, places_within
from sluicegate.engine.cpu.kernels.machine import bits_of_float, float_of_bits
from sluicegate.engine.cpu.kernels.rows import floats
from sluicegate.plugins.compiled.kernels import kernel

_FEW = 128
"""Most tokens that are sorted."""
_SOME = 8192
"""Most tokens between two thresholds that are copied together; a row of at most this size is not sampled."""
_MUCH = 32768
"""Most tokens that are copied together as all that can be drawn."""
_RUN, _EVERY = 64, 32
"""A sample takes one run of `_RUN` tokens out of every `_EVERY` runs."""
_NEAR = 1 << 19
"""Least distance of the thresholds around a guessed border: a sixteenth of the weight."""
_CLOSE = 64
"""The row's border is looked for within this many tokens of the sample on either side of the sample's border. With a
sample of 4,000 tokens it lies there 19 times out of 20."""
_LIGHTEST = np.float32(1e-37)
"""Below every weight except 0."""
_ABOVE = np.float32(2)
"""Above every weight."""
_TOP = 0x3F800001
"""Bits of the float32 just above 1, the largest weight."""


@kernel()
def draw_cut(weights, count, total, top_k, top_p, min_p, share):  # type: ignore[no-untyped-def]
    """Draw among the likeliest, in sorted order: rank < top_k (0: no limit), mass before < top_p of what top_k leaves,
    weight >= min_p. `weights`: address of `count` weights, the largest 1, with room and zeros up to `padded(count)`;
    `total`: their sum; `share` in [0, 1). Returns the place of the drawn token."""
    room = padded(count)
    sample, part = _sample(weights, room)
    least, last, many, border = _LIGHTEST, -1, count, (-1, -1)
    if top_k > 0:
        guess = _guess(sample, 1.0 * top_k / _EVERY, np.inf)
        total, least, last = _kept(weights, room, top_k, np.inf, _LIGHTEST, guess)
        many = above(weights, room, least)[1]
    elif room > _SOME:
        border = _guess(sample, np.inf, top_p * part)
        least, many = _least(weights, room, total, top_p, min_p, sample, border)
    if many > _MUCH or (room <= _SOME and top_k == 0):
        return _draw(weights, room, total, top_k if top_k > 0 else count, top_p, min_p, share, sample, part, border)
    places = places_within(weights, room, least, _ABOVE, many)
    packed, kept = np.zeros(padded(many), np.float32), 0
    row = floats(weights, count)
    for place in places:
        weight = row[place]
        if last < 0 or place <= last or weight > least:
            packed[kept] = weight
            places[kept] = place
            kept += 1
    sample, part = _sample(packed.ctypes.data, len(packed))
    return places[_draw(packed.ctypes.data, len(packed), total, kept, top_p, min_p, share, sample, part, (-1, -1))]


@kernel()
def _least(weights, count, total, top_p, min_p, sample, guess):  # type: ignore[no-untyped-def]
    """Return (a weight from which on lies all that top-p and min-p leave, how many weigh as much); more than `_MUCH`
    where that would be too many, or none was found."""
    lowest = max(np.float32(min_p), _LIGHTEST)
    if _EVERY * above(sample.ctypes.data, len(sample), max(lowest, _number(guess[0])))[1] > 2 * _MUCH:
        return lowest, _MUCH + 1
    for away in (0, 1 << 24):
        least = max(lowest, _number(max(_bits(_LIGHTEST), guess[0] - away)))
        mass, many = above(weights, count, least)
        if many > _MUCH or mass >= top_p * total or least == lowest:
            return least, many
    return least, _MUCH + 1


@kernel()
def _draw(weights, count, total, ranks, top_p, min_p, share, sample, part, border):  # type: ignore[no-untyped-def]
    """Draw a token. `border`: where that of top-p is by the sample, (-1, -1) = not looked for yet."""
    limit, lowest = top_p * total, max(np.float32(min_p), _LIGHTEST)
    if border[0] < 0:
        border = _guess(sample, np.inf, part * limit / total)
    mass, lightest, last = _kept(weights, count, ranks, limit, lowest, border)
    guess = _guess(sample, np.inf, part * share * mass / total)
    place = _place_of(weights, count, share * mass, lightest, guess)
    if last >= 0 and place > last and floats(weights, count)[place] == lightest:
        return last
    return place


@kernel()
def _sample(weights, count):  # type: ignore[no-untyped-def]
    """Return every `_EVERY`-th run of the row, and their sum; nothing of a short row."""
    if count <= _SOME:
        return np.empty(0, np.float32), 0.0
    runs, row = count // (_RUN * _EVERY), floats(weights, count)
    found = np.empty(runs * _RUN, np.float32)
    for run in range(runs):
        begin = run * _RUN * _EVERY
        for at in range(_RUN):  # a loop: assignments of slices take seconds to compile
            found[run * _RUN + at] = row[begin + at]
    return found, above(found.ctypes.data, len(found), _LIGHTEST)[0]


@kernel()
def _guess(sample, ranks, limit):  # type: ignore[no-untyped-def]
    """Guess from the sample between which two weights the border probably lies: their bits, the smaller first; (0, 0) =
    cannot be told."""
    if len(sample) == 0:
        return 0, 0
    here, bottom = sample.ctypes.data, _bits(_LIGHTEST)
    low, high, mass, many, all_of_them = _bracket(here, len(sample), ranks, limit, _LIGHTEST, (0, 0))
    if low == 0:
        return bottom, bottom + _NEAR
    low, high, _, _, _ = _halve(here, len(sample), ranks, limit, low, high, mass, many, all_of_them, _CLOSE)
    width = high - low
    return max(bottom, low - width), min(_TOP, high + width)


@kernel()
def _bracket(weights, count, ranks, limit, lowest, guess):  # type: ignore[no-untyped-def]
    """Find (lower, upper threshold, mass and count from the upper on, count from the lower on), thresholds as bits:
    from the upper on there are at most `ranks` tokens of at most `limit` together, from the lower on there are more.
    Lower 0: the border is at `lowest`. The search begins between the two of a `guess` and goes on around them, (0, 0) =
    from above."""
    high, mass, many, step, bottom = _TOP, 0.0, 0, 1 << 23, _bits(lowest)
    if guess[1] > 0:
        low, high = max(bottom, guess[0]), max(bottom, guess[1])
        step = max(_NEAR, high - low)
        found, all_of_them, mass, many = above_both(weights, count, _number(low), _number(high))
        while mass > limit or many > ranks:  # it lies above
            low, all_of_them = high, many
            high = min(_TOP, low + step)
            mass, many = above(weights, count, _number(high))
            step *= 2
            if mass <= limit and many <= ranks:
                return low, high, mass, many, all_of_them
        if found > limit or all_of_them > ranks:
            return low, high, mass, many, all_of_them
        if low == bottom:
            return 0, bottom, found, all_of_them, all_of_them
        high, mass, many = low, found, all_of_them
    while True:  # down by steps that double, since the border is seldom far below
        low = max(bottom, high - step)
        found, all_of_them = above(weights, count, _number(low))
        if all_of_them > ranks or found > limit:
            return low, high, mass, many, all_of_them
        if low == bottom:
            return 0, bottom, found, all_of_them, all_of_them
        high, mass, many, step = low, found, all_of_them, 2 * step


@kernel()
def _halve(weights, count, ranks, limit, low, high, mass, many, all_of_them, few):  # type: ignore[no-untyped-def]
    """Halve a bracket until at most `few` tokens, or one weight, lie between its thresholds."""
    while all_of_them - many > few and high - low > 1:
        middle = (low + high) // 2
        found, found_many = above(weights, count, _number(middle))
        if found_many <= ranks and found <= limit:
            high, mass, many = middle, found, found_many
        else:
            low, all_of_them = middle, found_many
    return low, high, mass, many, all_of_them


@kernel()
def _around(weights, count, ranks, limit, lowest, guess):  # type: ignore[no-untyped-def]
    """Find (lower, upper threshold as bits, mass and count from the upper on, places between them in sorted order); the
    places are few, or weigh all the same. Lower 0: the border is at `lowest`, and there are none."""
    low, high, mass, many, found = _bracket(weights, count, ranks, limit, lowest, guess)
    if low == 0:
        return low, high, mass, many, np.empty(0, np.int32)
    few = _FEW if count <= _SOME else _SOME
    low, high, mass, many, found = _halve(weights, count, ranks, limit, low, high, mass, many, found, few)
    places = places_within(weights, count, _number(low), _number(high), found - many)
    values = np.zeros(padded(len(places)), np.float32)
    row = floats(weights, count)
    for at in range(len(places)):
        values[at] = row[places[at]]
    if len(places) > _FEW and high - low > 1:
        here = values.ctypes.data
        low, high, more, more_of_them, found = _halve(
            here, len(values), ranks - many, limit - mass, low, high, 0.0, 0, len(places), _FEW
        )
        inner = places_within(here, len(values), _number(low), _number(high), found - more_of_them)
        mass, many, places, values = mass + more, many + more_of_them, places[inner], values[inner]
    if high - low > 1:
        _sort(places, values)
    return low, high, mass, many, places


@kernel()
def _sort(places, values):  # type: ignore[no-untyped-def]
    """Put at most `_FEW` places in the order of their `values`, heaviest first, equals as they were. A sort of the
    library's takes longer to compile than all searches."""
    for at in range(1, len(places)):
        place, value, to = places[at], values[at], at
        while to > 0 and values[to - 1] < value:
            places[to], values[to] = places[to - 1], values[to - 1]
            to -= 1
        places[to], values[to] = place, value


@kernel()
def _kept(weights, count, ranks, limit, lowest, guess):  # type: ignore[no-untyped-def]
    """Find the longest beginning of the sorted order in which every token has a rank < `ranks`, less than `limit`
    before it, and weighs at least `lowest`; the first token always counts. Return its mass, a weight that is no more
    than that of its lightest token, and the place of its last token, -1 where that is the last of those that weigh
    enough."""
    low, high, mass, kept, places = _around(weights, count, np.float64(ranks), np.float64(limit), lowest, guess)
    if low == 0:
        return mass, lowest, -1
    last, row = -1, floats(weights, count)
    for place in places:
        if kept > 0 and (kept >= ranks or mass >= limit):
            break
        kept += 1
        mass += row[place]
        last = place
    return mass, (row[last] if last >= 0 else _number(high)), last


@kernel()
def _place_of(weights, count, target, lowest, guess):  # type: ignore[no-untyped-def]
    """Find the first token of the sorted order at which the mass exceeds `target`; the last that weighs at least
    `lowest` if none does, which is due to sums that were rounded differently."""
    low, _, mass, _, places = _around(weights, count, np.float64(count), np.float64(target), lowest, guess)
    row = floats(weights, count)
    if low == 0:
        last, lightest = 0, np.float32(2)
        for at in range(count):
            if lowest <= row[at] <= lightest:
                lightest, last = row[at], at
        return last
    last = -1
    for place in places:
        mass += row[place]
        last = place
        if mass > target:
            break
    return last


@kernel()
def _bits(value):  # type: ignore[no-untyped-def]
    """Return a weight's bits, which have the order of the weights."""
    return np.int64(bits_of_float(np.float32(value)))


@kernel()
def _number(bits):  # type: ignore[no-untyped-def]
    return float_of_bits(np.int32(bits))
