"""Run a forward pass, which is a table of operations, by a compiled loop on one or more threads.

A row of the table says what to do on which memory; the table is made once for a model and its KV pool, and only the
numbers of a step (`Cell`) change. Every operation is cut into pieces. Threads claim pieces with one atomic exchange,
so a thread that wakes late, or is suspended by the system, holds up nobody unless it has begun a piece; an operation
marked `WAITS` begins when all before it are done.
"""

from __future__ import annotations

from numba import njit

from sluicegate.engine.cpu.kernels.machine import (
    add_to,
    call_operation,
    give_way,
    read,
    sleep_on,
    swap_if,
    wake_on,
    write,
)
from sluicegate.engine.cpu.operation_table import COLUMNS, Cell, Column
from sluicegate.engine.cpu.operations import pieces_of
from sluicegate.plugins.compiled.kernels import kernel

_RUN, _WAITS, _CODE = int(Cell.RUN), int(Column.WAITS), int(Column.CODE)
_TABLES = "int64[:, ::1], float64[::1], int64[::1], int64[:, :, ::1]"


@kernel()
def open_step(table, state, marks, threads):  # type: ignore[no-untyped-def]
    """Start a step for all threads. `marks` int64 [operations, 3, 8]: claims, done, pieces, each in its own cache line.

    Claims are reset before the pieces are counted: a thread still in the last step finds either its exhausted count or
    a failing exchange.
    """
    number = state[_RUN] % (1 << 30) + 1
    for index in range(len(table)):
        write(_mark(marks, index, 1), number << 32)
        write(_mark(marks, index, 0), number << 32)
    for index in range(len(table)):
        write(_mark(marks, index, 2), pieces_of(table[index], state, threads))
    write(state.ctypes.data + 8 * _RUN, number)


@kernel(f"void({_TABLES}, int64[::1])")
def run(table, reals, state, marks, bells):  # type: ignore[no-untyped-def]
    """Compute a whole step together with the helpers; `bells` [helpers]: addresses of the semaphores they sleep on."""
    open_step(table, state, marks, len(bells) + 1)
    for bell in bells:
        wake_on(bell)
    work(table, reals, state, marks, 0)


@kernel()
def work(table, reals, state, marks, thread):  # type: ignore[no-untyped-def]
    """Compute pieces of the current step until none is left; return when all are done, or the step is over."""
    number, first = read(state.ctypes.data), 0
    for index in range(len(table)):
        if table[index, _WAITS]:
            while first < index:
                if not _finished(marks, first, number):
                    return
                first += 1
        pieces = read(_mark(marks, index, 2))
        while True:
            piece = _claim(_mark(marks, index, 0), number, pieces)
            if piece < 0:
                break
            operation = table.ctypes.data + 8 * COLUMNS * index
            given = (operation, reals.ctypes.data, state.ctypes.data, thread, piece, pieces)
            call_operation(table[index, _CODE], given)
            add_to(_mark(marks, index, 1), 1)
        if piece == -2:
            return
    for index in range(first, len(table)):
        if not _finished(marks, index, number):
            return


@kernel(f"void({_TABLES}, int64, int64)")
def help_out(table, reals, state, marks, thread, bell):  # type: ignore[no-untyped-def]
    """Run a helper thread: sleep until the semaphore at address `bell` is posted, help with a step, sleep again."""
    while True:
        sleep_on(bell)
        if read(state.ctypes.data) == 0:
            return
        work(table, reals, state, marks, thread)


@njit(nogil=True, inline="always")
def _mark(marks, index, which):  # type: ignore[no-untyped-def]
    return marks.ctypes.data + 8 * (24 * index + 8 * which)


@kernel()
def _claim(mark, number, pieces):  # type: ignore[no-untyped-def]
    """Claim the next unclaimed piece and return its number; -1 = none is left, -2 = the step is over."""
    while True:
        found = read(mark)
        if found >> 32 != number:
            return -2
        piece = found & 0xFFFFFFFF
        if piece >= pieces:
            return -1
        if swap_if(mark, found, found + 1) == found:
            return piece


@kernel()
def _finished(marks, index, number):  # type: ignore[no-untyped-def]
    """Wait until the operation is done; return False if the step is over."""
    turns = 0
    while True:
        found = read(_mark(marks, index, 1))
        if found >> 32 != number:
            return False
        if (found & 0xFFFFFFFF) >= read(_mark(marks, index, 2)):
            return True
        turns += 1
        if turns > 500:
            give_way(0)
