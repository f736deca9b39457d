"""Compute products outside of compiled passes on as many threads as `torch` has: for layers whose model otherwise runs
its own code, and for all experts chosen in a step, in one call.

The number of threads changes no result: columns are divided among them, and each sum is computed by one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.cpu.kernels.machine import call_product
from sluicegate.engine.cpu.kernels.products_by_form import PRODUCTS, READ_AS_THEY_ARE, activation_group, panel_of
from sluicegate.engine.cpu.kernels.rows import integers
from sluicegate.engine.cpu.kernels.small_products import padded, scale_bytes, shrink_groups
from sluicegate.engine.cpu.operation_table import COLUMNS, Cell, Column, Op
from sluicegate.engine.cpu.operations import OPERATIONS
from sluicegate.engine.cpu.packing import Packed
from sluicegate.engine.cpu.threads import ThreadTeam
from sluicegate.plugins.compiled.kernels import address_of, kernel

I64 = npt.NDArray[np.int64]
WORTH_SHARING = 1 << 22
"""From this many multiplications on, a second thread saves more time than waking it costs."""
_READS = [Column.X, Column.LDX, Column.K, Column.SMALL, Column.OUT, Column.LDO, Column.XS, Column.LDXS]
_MAKES = [
    *(Column.X, Column.LDX, Column.XS, Column.LDXS, Column.K, Column.N),
    *(Column.W, Column.OUT, Column.LDO, Column.PRODUCT, Column.PANEL),
]


def multiply(rows: Tensor, weights: Sequence[Packed], counts: Sequence[int], out: Tensor) -> None:
    """Write products to `out` [S, n]: the first `counts[0]` of `rows` [S, k] float32 times `weights[0]`, the next
    `counts[1]` times `weights[1]`, and so on. Both arrays are contiguous; weights have one form and shape."""
    first = weights[0]
    k, n, form = first.k, first.n, first.form
    runs = np.empty((len(weights), 4), np.int64)
    at = 0
    for place, (packed, count) in enumerate(zip(weights, counts, strict=True)):
        runs[place] = at, count, packed.data.data_ptr(), packed.scales.data_ptr()
        at += count
    threads = torch.get_num_threads()
    if threads > 1 and len(rows) * n * k >= WORTH_SHARING:
        shared = _shared_by(threads)
        if shared.lock.acquire(blocking=False):  # two models may be computed at once
            try:
                shared.multiply(rows, form, k, n, runs, out)
            finally:
                shared.lock.release()
            return
    _alone(rows, form, k, n, runs, out)


class SharedProducts:
    """The calling thread, and helpers that sleep between calls."""

    def __init__(self, threads: int) -> None:
        self.lock = threading.Lock()
        self._table, self._state = np.zeros((2, COLUMNS), np.int64), np.zeros(len(Cell), np.int64)
        for row, op, count in ((0, Op.SHRINK, Cell.TOKENS), (1, Op.SEVERAL, Cell.TASKS)):
            self._table[row, [Column.OP, Column.COUNT]] = op, count
            self._table[row, Column.CODE] = address_of(OPERATIONS[op])
        self._table[1, Column.WAITS] = 1
        self._team = ThreadTeam(self._table, np.zeros(2), self._state, threads)

    def multiply(self, rows: Tensor, form: int, k: int, n: int, runs: I64, out: Tensor) -> None:
        self._state[Cell.TASKS] = len(runs)
        if form in READ_AS_THEY_ARE:
            self._state[Cell.TOKENS] = 0
            read = (rows.data_ptr(), 4 * k, 0, 0, k)
        else:
            rounded, scales, group = _room(len(rows), form, k)
            wide, stride = rounded.shape[1], scales.shape[1]
            read = (rounded.ctypes.data, wide, scales.ctypes.data, stride, wide)
            self._state[Cell.TOKENS] = len(rows)
            self._table[0, _READS] = rows.data_ptr(), 4 * k, k, group, read[0], wide, read[2], stride
        made = (n, runs.ctypes.data, out.data_ptr(), 4 * n, address_of(PRODUCTS[form]), panel_of(form))
        self._table[1, _MAKES] = *read, *made
        self._team.run()


@cache
def _shared_by(threads: int) -> SharedProducts:
    """Return the process-wide helper threads for products outside of compiled passes."""
    return SharedProducts(threads)


def _room(rows: int, form: int, k: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8], int]:
    """Return buffers for rounded activations and their scales, and the number of inputs per scale."""
    group = activation_group(form)
    return np.empty((rows, padded(k)), np.int8), np.empty((rows, scale_bytes(k, group)), np.int8), group


def _alone(rows: Tensor, form: int, k: int, n: int, runs: I64, out: Tensor) -> None:
    code, given = address_of(PRODUCTS[form]), (n, runs.ctypes.data, len(runs), out.data_ptr())
    if form in READ_AS_THEY_ARE:
        _several(rows.data_ptr(), 4 * k, 0, 0, k, *given, code)
        return
    rounded, scales, group = _room(len(rows), form, k)
    wide, stride = rounded.shape[1], scales.shape[1]
    _shrink(rows.data_ptr(), len(rows), k, group, rounded.ctypes.data, wide, scales.ctypes.data, stride)
    _several(rounded.ctypes.data, wide, scales.ctypes.data, stride, wide, *given, code)


@kernel(f"void({', '.join(['int64'] * 8)})")
def _shrink(x, rows, k, group, rounded, wide, scales, stride):  # type: ignore[no-untyped-def]
    for row in range(rows):
        shrink_groups(x + 4 * k * row, k, group, rounded + wide * row, scales + stride * row)


@kernel(f"void({', '.join(['int64'] * 10)})")
def _several(x, ldx, xs, ldxs, k, n, runs_at, count, out, product):  # type: ignore[no-untyped-def]
    runs = integers(runs_at, 4 * count)
    for run in range(0, 4 * count, 4):
        row, rows, w, scales = runs[run], runs[run + 1], runs[run + 2], runs[run + 3]
        where = out + 4 * n * row
        call_product(product, (x + ldx * row, ldx, xs + ldxs * row, ldxs, rows, w, scales, k, 0, n, where, 4 * n, 0))
