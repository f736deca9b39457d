"""Read words off a canonical table: the shortest, all of them, how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sluicegate.grammar.automata.tables.algebra import ranges_of
from sluicegate.grammar.automata.tables.table import Table
from sluicegate.grammar.budget.meter import charge

_LIMIT = 0x110000
_FAR, _LOOKED_AT = 65, 10_000
_OF_STATE = 2
_STATES_A_CHARGE = 3
"""Of a search for the longest word: a microsecond."""


def shortest(table: Table) -> str | None:
    """Return a shortest word, with the most readable character of each class; None for the empty language."""
    if table.is_empty():
        return None
    faces = _faces(table)
    came: dict[int, tuple[int, int]] = {}
    queue = [table.start]
    for state in queue:
        if table.accepting[state]:
            break
        for c, target in table.rows[state].items():
            if target not in came and target != table.start:
                came[target] = (state, c)
                queue.append(target)
    letters = []
    while state != table.start:
        state, c = came[state]
        letters.append(faces[c])
    return "".join(reversed(letters))


def _faces(table: Table) -> dict[int, str]:
    """Choose a character for every class: a lower-case letter if there is one, else a printable one, else the first."""
    preferences = [*range(0x61, 0x7B), *range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x21, 0x7F), 0x20]
    faces: dict[int, str] = {}
    for code_point in preferences:
        faces.setdefault(table.class_of(code_point), chr(code_point))
    for start, c in zip(table.starts, table.classes, strict=True):
        faces.setdefault(c, chr(start))
    return faces


def longest(table: Table) -> int | None:
    """Return the length of the longest word, None if there is no bound; 0 for the empty language."""
    charge(len(table.rows) / _STATES_A_CHARGE)
    depth: dict[int, int] = {}
    open_states: set[int] = set()
    stack = [(table.start, False)]
    while stack:
        state, done = stack.pop()
        if done:
            open_states.discard(state)
            depth[state] = max((depth[t] + 1 for t in set(table.rows[state].values())), default=0)
            continue
        if state in open_states:
            return None
        if state in depth:
            continue
        open_states.add(state)
        stack.append((state, True))
        for target in set(table.rows[state].values()):
            if target in open_states:
                return None
            if target not in depth:
                stack.append((target, False))
    return depth[table.start]


def length_range(table: Table) -> tuple[int, int | None] | None:
    """Return the lengths of the shortest and the longest word (None: no bound)."""
    first = _least(table)
    return None if first is None else (first, longest(table))


def _least(table: Table) -> int | None:
    """Return the length of the shortest word; None for the empty language."""
    seen = {table.start: None}
    level = [table.start]
    size = 0
    while level:
        if any(table.accepting[state] for state in level):
            return size
        level = [target for state in level for target in table.rows[state].values() if target not in seen]
        level = list(dict.fromkeys(level))
        seen.update(dict.fromkeys(level))
        size += 1
    return None


def count(table: Table, limit: int) -> int | None:
    """Count the words, None if there are more than `limit`."""
    if table.is_empty():
        return 0
    if longest(table) is None:
        return None
    sizes = class_sizes(table)
    ways: dict[int, int] = {}
    stack = [table.start]
    while stack:
        state = stack[-1]
        missing = [t for t in table.rows[state].values() if t not in ways]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        ways[state] = table.accepting[state] + sum(sizes[c] * ways[t] for c, t in table.rows[state].items())
        if ways[state] > limit:
            return None
    return ways[table.start]


def has_many(table: Table, state: int, high: int | None, limit: int) -> bool:
    """Return whether `state` accepts more than `limit` words of up to `high` symbols (None: no bound), as far as about
    ten thousand transitions and words of 64 symbols show. `state` -1: none."""
    sizes, found, looked = class_sizes(table), 0, 0
    ways = {state: 1} if state >= 0 else {}
    for _ in range(_FAR if high is None else min(high + 1, _FAR)):
        found += sum(many for at, many in ways.items() if table.accepting[at])
        if found > limit or not ways or looked > _LOOKED_AT:
            break
        after: dict[int, int] = {}
        for at, many in ways.items():
            looked += len(table.rows[at])
            for c, target in table.rows[at].items():
                after[target] = min(after.get(target, 0) + many * sizes[c], limit + 1)
        ways = after
    return found > limit


def has_more(
    table: Table,
    sizes: dict[int, int],
    state: int,
    bounds: tuple[int, int | None],
    limit: int,
    alive: Callable[[int], int],
) -> bool:
    """Return whether `state` accepts more than `limit` words within `bounds` on their length (None: no bound).

    `sizes`: `class_sizes` of the table. `alive(k)`: the bit set of states from which such a word can still be completed
    after k symbols. If ten thousand symbols do not decide it, the answer is True.
    """
    low, high = bounds
    ways = {state: 1} if alive(0) >> state & 1 else {}
    shorter = 0
    for size in range(_LOOKED_AT):
        if shorter + sum(ways.values()) > limit:  # each of these prefixes becomes a different word
            return True
        if not ways or size == high:
            return False
        if size >= low:
            shorter += sum(many for at, many in ways.items() if table.accepting[at])
        fitting = alive(size + 1)
        after: dict[int, int] = {}
        for at, many in ways.items():
            charge(_OF_STATE)
            for c, target in table.rows[at].items():
                if fitting >> target & 1:
                    after[target] = min(after.get(target, 0) + many * sizes[c], limit + 1)
        ways = after
    return True


def class_sizes(table: Table) -> dict[int, int]:
    """Return how many symbols each class has."""
    sizes: dict[int, int] = {}
    for low, end, c in zip(table.starts, [*table.starts[1:], _LIMIT], table.classes, strict=True):
        sizes[c] = sizes.get(c, 0) + end - low
    return sizes


def enumerate_words(table: Table, limit: int) -> Iterator[str]:
    """Yield words by length, then by code point. Only paths to a word of the wanted length are followed."""
    if limit <= 0 or table.is_empty():
        return
    given = 0
    longest_word = longest(table)
    ends_after = [{state for state, accepts in enumerate(table.accepting) if accepts}]
    while longest_word is None or len(ends_after) <= longest_word + 1:
        for word in _of_length(table, len(ends_after) - 1, ends_after):
            yield word
            given += 1
            if given >= limit:
                return
        next_ends = ends_after[-1]
        ends_after.append({s for s, row in enumerate(table.rows) if not next_ends.isdisjoint(row.values())})


def _of_length(table: Table, length: int, ends_after: list[set[int]]) -> Iterator[str]:
    """Yield the words of `length` characters, depth-first; `ends_after[k]` are the states from which some word of
    exactly `k` characters is left."""
    if table.start not in ends_after[length]:
        return
    if length == 0:
        yield ""
        return
    stack = [_letters(table, table.start, ends_after[length - 1])]
    word: list[str] = []
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            if word:
                word.pop()
            continue
        letter, target = step
        left = length - len(word) - 1
        if left == 0:
            yield "".join(word) + letter
        else:
            word.append(letter)
            stack.append(_letters(table, target, ends_after[left - 1]))


def _letters(table: Table, state: int, wanted: set[int]) -> Iterator[tuple[str, int]]:
    for low, high, target in ranges_of(table, state, _LIMIT):
        if target in wanted:
            for code_point in range(low, high + 1):
                yield chr(code_point), target
