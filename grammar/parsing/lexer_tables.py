"""Compiled loops that make the table of all lexemes of a grammar."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

OVER = 0
"""The state in which a lexeme has ended and cannot continue."""


@kernel("(int32[:, ::1], int32[:, ::1], int32[:, ::1])", python=True)
def fill_in(table, edges, begins):  # type: ignore[no-untyped-def]
    """Write `edges` to `table` int32[S, 256]: rows (first place, how many bytes side by side, target); the place of a
    byte in a state is 256 times the state and the byte. `begins`: of each lexeme, where its edges end, and its first
    state in the table, as its own count from 0."""
    flat = table.reshape(-1)
    e = 0
    for lexeme in range(begins.shape[0]):
        begin = begins[lexeme, 1]
        while e < begins[lexeme, 0]:
            first = 256 * begin + edges[e, 0]
            for place in range(first, first + edges[e, 1]):
                flat[place] = begin + edges[e, 2]
            e += 1


@kernel("(int32[:, ::1],)", python=True)
def in_classes(table):  # type: ignore[no-untyped-def]
    """Return uint8[256], the class of each byte, and int32[S, C], the next state by class, for a table int32[S, 256] in
    which -1 means refused. Bytes that no state tells apart are one class; states that nothing leads on from are `OVER`.

    Classes are split by one state after the other, and numbered in the order of their first bytes.
    """
    size = table.shape[0]
    renamed = np.empty(size, np.int32)
    for state in range(size):
        renamed[state] = OVER
        for byte in range(256):
            if table[state, byte] >= 0:
                renamed[state] = state
                break
    block = np.zeros(256, np.int32)
    first = np.zeros(256, np.int32)  # of each block, the byte that stands for it
    split = np.empty((256, 3), np.int32)  # blocks made by this state: of which block, target, number
    count = 1
    for state in range(size):
        made = 0
        for byte in range(256):
            after = table[state, byte]
            old = block[byte]
            if after == table[state, first[old]]:
                continue
            place = 0
            while place < made and (split[place, 0] != old or split[place, 1] != after):
                place += 1
            if place == made:
                split[made, 0] = old
                split[made, 1] = after
                split[made, 2] = count
                first[count] = byte
                made += 1
                count += 1
            block[byte] = split[place, 2]
    number = np.full(count, -1, np.int32)
    classes = np.empty(256, np.uint8)
    columns = np.empty(count, np.int32)
    seen = 0
    for byte in range(256):
        if number[block[byte]] < 0:
            number[block[byte]] = seen
            columns[seen] = byte
            seen += 1
        classes[byte] = number[block[byte]]
    found = np.empty((size, count), np.int32)
    for state in range(size):
        for column in range(count):
            after = table[state, columns[column]]
            found[state, column] = renamed[after] if after >= 0 else -1
    return classes, found
