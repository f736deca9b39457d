"""Run helper threads for a step. They sleep outside the interpreter, so waking one does not need Python's lock."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.engine.cpu.kernels.machine import CAN_SLEEP, wake_on
from sluicegate.engine.cpu.operation_table import Cell, Column, Op
from sluicegate.engine.cpu.program import help_out, run
from sluicegate.plugins.compiled.kernels import kernel

I64 = npt.NDArray[np.int64]
_SEMAPHORE_BYTES = 64


class ThreadTeam:
    """The thread that calls `run`, and `threads - 1` helpers, which stop at `close` or with the last reference."""

    def __init__(self, table: I64, reals: npt.NDArray[np.float64], state: I64, threads: int) -> None:
        helpers = threads - 1 if CAN_SLEEP else 0
        self._table, self._reals, self._state = table, reals, state
        self._marks = np.zeros((len(table), 3, 8), np.int64)
        bells = np.zeros((helpers, _SEMAPHORE_BYTES // 8), np.int64)
        self._bells = np.array([_semaphore(bell) for bell in bells], np.int64)
        self._helpers: list[threading.Thread] = []
        for helper in range(helpers):
            given = (table, reals, state, self._marks, helper + 1, int(self._bells[helper]))
            thread = threading.Thread(target=_live, args=(given, bells), name=f"forward-{helper + 1}", daemon=True)
            self._helpers.append(thread)
            thread.start()
        self._dismiss = weakref.finalize(self, _dismiss_helpers, state, self._bells)
        self._dismiss.atexit = False

    @property
    def size(self) -> int:
        return len(self._bells) + 1

    def put(self, op: Op, code: int) -> None:
        """Set the kernel address of an operation, from the next step on."""
        self._table[self._table[:, Column.OP] == op, Column.CODE] = code

    def run(self) -> None:
        """Compute one step, described by `state`, and return when it is done."""
        run(self._table, self._reals, self._state, self._marks, self._bells)

    def close(self) -> None:
        """Stop and join the helpers: a thread that leaves compiled code while the interpreter exits crashes the
        process. Afterwards `run` computes alone."""
        self._dismiss()
        for helper in self._helpers:
            helper.join()


def _semaphore(memory: npt.NDArray[np.int64]) -> int:
    """Make a POSIX semaphore in `memory` int64 [8], at 0; returns its address."""
    if ctypes.CDLL(None, use_errno=True).sem_init(ctypes.c_void_p(memory.ctypes.data), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no semaphore for a thread of the forward pass")
    return int(memory.ctypes.data)


def _live(given: tuple[Any, ...], memory: I64) -> None:
    """Run a helper thread. Holds a reference to the semaphores' `memory` until the thread ends."""
    help_out(*given)


def _dismiss_helpers(state: I64, bells: I64) -> None:
    state[Cell.RUN] = 0
    ring(bells)


@kernel("void(int64[::1])")
def ring(bells):  # type: ignore[no-untyped-def]
    for bell in bells:
        wake_on(bell)
