"""Implement the operations of the table; `engine.cpu.program` decides which thread computes which piece.

Each operation is compiled separately and called by its address in the table, so unused ones are never compiled.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluicegate.engine.cpu.kernels.attention import ROWS, attend_block
from sluicegate.engine.cpu.kernels.block_rows import read_block_row, read_half_row
from sluicegate.engine.cpu.kernels.lowrank import MOST_RANK, lower
from sluicegate.engine.cpu.kernels.machine import call_lift, call_product
from sluicegate.engine.cpu.kernels.products import WHOLE
from sluicegate.engine.cpu.kernels.rows import (
    FLOATS,
    GELU,
    add_products,
    add_row,
    doubles,
    floats,
    gate,
    gate_by_gelu,
    integers,
    keep,
    normalise,
    turn,
    unsigned,
)
from sluicegate.engine.cpu.kernels.small_products import shrink_groups
from sluicegate.engine.cpu.operation_table import COLUMNS, Cell, Column, Op
from sluicegate.engine.cpu.wanted_logits import allowed_in, sort_rows
from sluicegate.plugins.compiled.kernels import kernel

PIECES = 4
"""Pieces of an operation per thread: enough that no thread waits long for the last one."""

_TASKS = int(Cell.TASKS)
_IDS, _POSITIONS, _SLOTS, _WANTED = (
    int(Cell.IDS),
    int(Cell.POSITIONS),
    int(Cell.SLOTS),
    int(Cell.WANTED),
)
_TASK_LIST = int(Cell.TASK_LIST)
_LOGITS, _SCRATCH, _SCRATCH_BYTES = int(Cell.LOGITS), int(Cell.SCRATCH), int(Cell.SCRATCH_BYTES)
_SPANS, _SPAN_LIST, _LIFT = int(Cell.SPANS), int(Cell.SPAN_LIST), int(Cell.LIFT)
_TOLD, _WHOLE_ROWS, _ROW_ORDER, _MASKS = (int(x) for x in (Cell.TOLD, Cell.WHOLE_ROWS, Cell.ORDER, Cell.MASKS))
_LINEAR, _GATED, _PLACE, _ATTEND = int(Op.LINEAR), int(Op.GATED), int(Op.PLACE), int(Op.ATTEND)
_LOWER, _ORDER, _HEAD, _SEVERAL = int(Op.LOWER), int(Op.ORDER), int(Op.HEAD), int(Op.SEVERAL)
(
    _OP, _WAITS, _COUNT, _X, _LDX, _OUT, _LDO, _K, _N, _W, _BIAS, _ONTO, _W2, _PICKED, _HEADS, _KV_HEADS,
    _KEYS, _VALUES, _KEY_SCALES, _VALUE_SCALES, _FORM, _WINDOW, _BLOCK_SIZE, _ACTIVATION, _TURNS,
    _SMALL, _SCALES, _SCALES2, _XS, _LDXS, _LOW, _LDLOW, _FACTORS, _CODE, _PRODUCT, _ALONE, _PANEL, _REAL,
) = (int(column) for column in Column)  # fmt: skip


CELLS = len(Cell)
_SIGNATURE = f"void({', '.join(['int64'] * 6)})"
"""Address of the operation's row, of the reals and of the numbers of the step; thread, piece, pieces."""


@kernel()
def pieces_of(op, state, threads):  # type: ignore[no-untyped-def]
    """Return into how many pieces an operation is cut: columns of a product, rows or tasks of the others."""
    rows = state[op[_COUNT]]
    if rows == 0:
        return 0
    if threads == 1 or op[_OP] == _ORDER:
        return 1
    if op[_OP] == _LINEAR or op[_OP] == _GATED or op[_OP] == _HEAD:
        return min(PIECES * threads, (op[_N] + op[_PANEL] - 1) // op[_PANEL])
    if op[_OP] == _SEVERAL:
        return min(PIECES * threads, rows * ((op[_N] + op[_PANEL] - 1) // op[_PANEL]))
    if op[_OP] == _PLACE:
        return min(PIECES * threads, rows * op[_KV_HEADS])
    if op[_OP] == _LOWER:
        return min(PIECES * threads, rows)
    if op[_OP] == _ATTEND:  # tasks of very different lengths: long ones must not end up in one piece
        return min(4 * PIECES * threads, rows * op[_KV_HEADS])
    return min(PIECES * threads, (rows + 3) // 4)


@kernel(_SIGNATURE)
def embed(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, width, factor = state[op[_COUNT]], op[_N], np.float32(reals[op[_REAL]])
    ids = integers(state[_IDS], rows)
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        out = floats(op[_OUT] + row * op[_LDO], width)
        if op[_SMALL] == WHOLE:
            source = floats(op[_W] + 4 * width * ids[row], width)
            for i in range(width):
                out[i] = source[i] * factor
        else:
            small, unit = unsigned(op[_W] + op[_K] * ids[row], width), floats(op[_SCALES] + 4 * ids[row], 1)[0]
            for i in range(width):
                out[i] = (np.float32(small[i]) - np.float32(128)) * unit * factor


@kernel(_SIGNATURE)
def embed_blocks(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, factor = state[op[_COUNT]], np.float32(reals[op[_REAL]])
    ids = integers(state[_IDS], rows)
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        out = op[_OUT] + row * op[_LDO]
        read_block_row(op[_SMALL], op[_W], op[_SCALES], op[_K], ids[row], op[_N], factor, out)


@kernel(_SIGNATURE)
def embed_halves(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, factor = state[op[_COUNT]], np.float32(reals[op[_REAL]])
    ids = integers(state[_IDS], rows)
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        read_half_row(op[_SMALL], op[_W], ids[row], op[_N], factor, op[_OUT] + row * op[_LDO])


@kernel(_SIGNATURE)
def shrink(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    rows = state[op[_COUNT]]
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        x, out, scales = op[_X] + row * op[_LDX], op[_OUT] + row * op[_LDO], op[_XS] + row * op[_LDXS]
        shrink_groups(x, op[_K], op[_SMALL], out, scales)


@kernel(_SIGNATURE)
def norm(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, width = state[op[_COUNT]], op[_N]
    weight, epsilon = floats(op[_W], width), reals[op[_REAL]]
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        source = row
        if op[_PICKED]:
            source = integers(state[_WANTED], rows)[integers(state[_ROW_ORDER], rows)[row]]
        x, out = floats(op[_X] + source * op[_LDX], width), floats(op[_OUT] + row * op[_LDO], width)
        if op[_ONTO]:
            normalise(x, weight, epsilon, x)
            add_row(x, out)
        else:
            normalise(x, weight, epsilon, out)


@kernel(_SIGNATURE)
def probe(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, width, probes = state[op[_COUNT]], op[_K], op[_N]
    slots, weights = integers(state[_SLOTS], rows), floats(op[_W], probes * width)
    for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
        out = floats(op[_OUT] + slots[row] * op[_LDO], probes)
        if op[_BIAS]:
            out[:] = floats(op[_BIAS], probes)
        add_products(floats(op[_X] + row * op[_LDX], width), weights, reals[op[_REAL]], out)


@kernel()
def _share(columns, panel, piece, pieces):  # type: ignore[no-untyped-def]
    """Return columns [first, last) of a piece; borders are those of panels."""
    panels = (columns + panel - 1) // panel
    return panel * (panels * piece // pieces), min(columns, panel * (panels * (piece + 1) // pieces))


@kernel(_SIGNATURE)
def linear(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    rows = state[op[_COUNT]]
    first, last = _share(op[_N], op[_PANEL], piece, pieces)
    out, onto = op[_OUT] + 4 * first, op[_ONTO]
    if op[_BIAS]:
        bias = floats(op[_BIAS] + 4 * first, last - first)
        for row in range(rows):
            place = floats(out + row * op[_LDO], last - first)
            for i in range(last - first):
                place[i] = bias[i] + (place[i] if onto else np.float32(0))
        onto = 1
    _columns(op, 0, rows, op[_W], op[_SCALES], first, last - first, out, op[_LDO], onto)
    if op[_LOW] and state[_SPANS]:
        _lift(op, state, 0, first, last - first, out, op[_LDO])


@njit(nogil=True, inline="always")
def _columns(op, row, rows, w, scales, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Compute columns [first, first + count) of a product with a weight of any form, for `rows` rows from `row` on."""
    k, ldx, ldxs = op[_K], op[_LDX], op[_LDXS]
    x, xs = op[_X] + row * ldx, op[_XS] + row * ldxs
    call_product(op[_PRODUCT], (x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto))


@kernel(_SIGNATURE)
def several(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    """Compute some panels of the columns of several products, all of one shape."""
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    products, columns, panel = state[op[_COUNT]], op[_N], op[_PANEL]
    runs, panels = integers(op[_W], 4 * products), (columns + panel - 1) // panel
    at, end = products * panels * piece // pieces, products * panels * (piece + 1) // pieces
    while at < end:
        run, first = 4 * (at // panels), at % panels
        last = min(panels, first + end - at)
        low, high = panel * first, min(columns, panel * last)
        out = op[_OUT] + runs[run] * op[_LDO] + 4 * low
        _columns(op, runs[run], runs[run + 1], runs[run + 2], runs[run + 3], low, high - low, out, op[_LDO], 0)
        at += last - first


@kernel(_SIGNATURE)
def head(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    """Compute logits, a panel of columns at a time while its weights are in the cache: whole rows together, and of the
    other rows only the columns their masks allow."""
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    rows, whole = state[op[_COUNT]], state[_WHOLE_ROWS]
    first, last = _share(op[_N], op[_PANEL], piece, pieces)
    logits, ldo = state[_LOGITS], op[_LDO]
    if whole == rows:
        _columns(op, 0, rows, op[_W], op[_SCALES], first, last - first, logits + 4 * first, ldo, 0)
        return
    order, masks = integers(state[_ROW_ORDER], rows), integers(state[_MASKS], rows)
    room, stride = state[_SCRATCH] + thread * state[_SCRATCH_BYTES], 4 * op[_PANEL]
    for panel in range(first, last, op[_PANEL]):
        width = min(op[_PANEL], last - panel)
        if whole:
            _columns(op, 0, whole, op[_W], op[_SCALES], panel, width, room, stride, 0)
        for row in range(whole):
            made, out = floats(room + row * stride, width), floats(logits + order[row] * ldo + 4 * panel, width)
            for i in range(width):
                out[i] = made[i]
        for row in range(whole, rows):
            allowed = allowed_in(masks[row], panel, width)
            if allowed:
                _few_columns(op, row, panel, allowed, logits + order[row] * ldo)


@kernel()
def _few_columns(op, row, first, allowed, out):  # type: ignore[no-untyped-def]
    """Compute those of the columns from `first` on whose bits are set, one run of them after the other."""
    column, k, ldx, ldxs = first, op[_K], op[_LDX], op[_LDXS]
    x, xs, w, scales, ldo = op[_X] + row * ldx, op[_XS] + row * ldxs, op[_W], op[_SCALES], op[_LDO]
    while allowed:
        while allowed & 1 == 0:
            allowed, column = allowed >> 1, column + 1
        begin = column
        while allowed & 1:
            allowed, column = allowed >> 1, column + 1
        count, place = column - begin, out + 4 * begin
        call_product(op[_ALONE], (x, ldx, xs, ldxs, 1, w, scales, k, begin, count, place, ldo, 0))


@njit(nogil=True, inline="always")
def _lift(op, state, index, first, count, out, ldo):  # type: ignore[no-untyped-def]
    """Add adapters' products to columns [first, first + count) of this product, or of the one that goes with it."""
    low, spans, layer = op[_LOW] + 4 * MOST_RANK * index, state[_SPAN_LIST], op[_FACTORS] + index
    call_lift(state[_LIFT], (spans, state[_SPANS], layer, low, op[_LDLOW], first, count, op[_N], out, ldo))


@kernel(_SIGNATURE)
def gated(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    """Compute gate and up projections of a panel, then the activation, while both are in the cache."""
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    rows = state[op[_COUNT]]
    first, last = _share(op[_N], op[_PANEL], piece, pieces)
    gates = state[_SCRATCH] + thread * state[_SCRATCH_BYTES]
    stride = 4 * op[_PANEL]
    ups = gates + rows * stride
    for panel in range(first, last, op[_PANEL]):
        width = min(op[_PANEL], last - panel)
        _columns(op, 0, rows, op[_W], op[_SCALES], panel, width, gates, stride, 0)
        _columns(op, 0, rows, op[_W2], op[_SCALES2], panel, width, ups, stride, 0)
        if state[_SPANS]:
            _lift(op, state, 0, panel, width, gates, stride)
            _lift(op, state, 1, panel, width, ups, stride)
        for row in range(rows):
            out = floats(op[_OUT] + row * op[_LDO] + 4 * panel, width)
            if op[_ACTIVATION] == GELU:
                gate_by_gelu(floats(gates + row * stride, width), floats(ups + row * stride, width), out)
            else:
                gate(floats(gates + row * stride, width), floats(ups + row * stride, width), out)


@kernel(_SIGNATURE)
def place(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    """Give queries and keys their norms and positions; store keys and values in the pool. A row holds q, k and v."""
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    rows, dim, value_dim = state[op[_COUNT]], op[_K], op[_N]
    heads, kv_heads = op[_HEADS], op[_KV_HEADS]
    positions, slots = integers(state[_POSITIONS], rows), integers(state[_SLOTS], rows)
    items = rows * kv_heads
    group, size = heads // kv_heads, 4 if op[_FORM] == FLOATS else 1
    for item in range(items * piece // pieces, items * (piece + 1) // pieces):
        row, kv = item // kv_heads, item % kv_heads
        here = op[_X] + row * op[_LDX]
        cosines = floats(state[op[_TURNS]] + 4 * dim * positions[row], dim)
        sines = floats(state[op[_TURNS] + 1] + 4 * dim * positions[row], dim)
        for head in range(kv * group, (kv + 1) * group):
            query = floats(here + 4 * head * dim, dim)
            if op[_W]:
                normalise(query, floats(op[_W], dim), reals[op[_REAL]], query)
            turn(query, cosines, sines)
        key = floats(here + 4 * (heads + kv) * dim, dim)
        if op[_W2]:
            normalise(key, floats(op[_W2], dim), reals[op[_REAL]], key)
        turn(key, cosines, sines)
        value = floats(here + 4 * (heads + kv_heads) * dim + 4 * kv * value_dim, value_dim)
        place = slots[row] * kv_heads + kv
        keep(key, op[_KEYS] + size * place * dim, op[_KEY_SCALES] + 4 * place, op[_FORM])
        keep(value, op[_VALUES] + size * place * value_dim, op[_VALUE_SCALES] + 4 * place, op[_FORM])


@kernel(_SIGNATURE)
def attend(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    reals = doubles(reals_at, op[_REAL] + 2)
    dim, value_dim = op[_K], op[_N]
    heads, kv_heads = op[_HEADS], op[_KV_HEADS]
    group, scratch = heads // kv_heads, state[_SCRATCH] + thread * state[_SCRATCH_BYTES]
    tasks = integers(state[_TASK_LIST], 4 * state[_TASKS])
    items = state[_TASKS] * kv_heads
    for item in range(items * piece // pieces, items * (piece + 1) // pieces):
        task, kv = item // kv_heads, item % kv_heads
        token, tokens, start, blocks = tasks[4 * task], tasks[4 * task + 1], tasks[4 * task + 2], tasks[4 * task + 3]
        attend_block(
            op[_X] + token * op[_LDX] + 4 * kv * group * dim, op[_LDX], tokens, group, start,
            op[_KEYS], op[_VALUES], op[_KEY_SCALES], op[_VALUE_SCALES], op[_FORM],
            blocks, op[_BLOCK_SIZE], kv, kv_heads, dim, value_dim, op[_WINDOW], reals[op[_REAL]], reals[op[_REAL] + 1],
            op[_OUT] + token * op[_LDO] + 4 * kv * group * value_dim, op[_LDO], scratch,
        )  # fmt: skip


@kernel(_SIGNATURE)
def lower_rows(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    low, ldlow, spans = op[_LOW], op[_LDLOW], state[_SPAN_LIST]
    lower(spans, state[_SPANS], op[_X], op[_LDX], op[_K], op[_FACTORS], op[_N], low, ldlow, piece, pieces)


@kernel(_SIGNATURE)
def order(op_at, reals_at, state_at, thread, piece, pieces):  # type: ignore[no-untyped-def]
    op, state = integers(op_at, COLUMNS), integers(state_at, CELLS)
    state[_WHOLE_ROWS] = sort_rows(state[_TOLD], state[op[_COUNT]], state[_ROW_ORDER], state[_MASKS])


OPERATIONS = {
    Op.EMBED: embed, Op.NORM: norm, Op.LINEAR: linear, Op.GATED: gated, Op.PLACE: place, Op.ATTEND: attend,
    Op.SHRINK: shrink, Op.LOWER: lower_rows, Op.ORDER: order, Op.HEAD: head,
    Op.EMBED_BLOCKS: embed_blocks, Op.EMBED_HALVES: embed_halves, Op.SEVERAL: several,
    Op.PROBE: probe,
}  # fmt: skip


def tokens_a_task(heads: int, kv_heads: int) -> int:
    """Return how many consecutive tokens of a sequence have their queries attended to together."""
    return max(1, ROWS // (heads // kv_heads))
