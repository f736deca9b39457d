"""What is done to one row at a time: norms, activations, rotary positions, and storing keys and values.

Addresses are int64, strides bytes; widths count float32.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from sluicegate.engine.attention.in_place import FASTMATH
from sluicegate.engine.cpu.kernels.machine import bits_of_float, float_of_bits, pointer_to
from sluicegate.plugins.compiled.kernels import kernel

FLOATS, INT8, FP8 = 0, 1, 2
"""Number formats of the KV pool."""
SILU, GELU = 0, 1
"""Activations of gated products."""


@njit(nogil=True, inline="always")
def floats(address, count):  # type: ignore[no-untyped-def]
    """View the float32 numbers at an address as an array."""
    return carray(pointer_to(address), count, np.float32)


@njit(nogil=True, inline="always")
def doubles(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.float64)


@njit(nogil=True, inline="always")
def bytes_at(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.int8)


@njit(nogil=True, inline="always")
def unsigned(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.uint8)


@njit(nogil=True, inline="always")
def shorts(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.int16)


@njit(nogil=True, inline="always")
def words(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.int32)


@njit(nogil=True, inline="always")
def integers(address, count):  # type: ignore[no-untyped-def]
    return carray(pointer_to(address), count, np.int64)


@kernel(fastmath=FASTMATH)
def normalise(x, weight, epsilon, out):  # type: ignore[no-untyped-def]
    """Compute the RMS norm of one row, `weight` included. `out` may be `x`."""
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    factor = np.float32(1) / np.sqrt(total / np.float32(len(x)) + np.float32(epsilon))
    for i in range(len(x)):
        out[i] = weight[i] * (x[i] * factor)


@kernel(fastmath=FASTMATH)
def add_row(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] += x[i]


@kernel(fastmath=FASTMATH)
def add_products(x, weights, epsilon, out):  # type: ignore[no-untyped-def]
    """Add to each of `out` [P] the product of its row of `weights` [P * d] with `x` [d], scaled to root mean square
    1."""
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    factor = np.float32(1) / np.sqrt(total / np.float32(len(x)) + np.float32(epsilon))
    for at in range(len(out)):
        product = np.float32(0)
        for i in range(len(x)):
            product += x[i] * weights[at * len(x) + i]
        out[at] += product * factor


@njit(nogil=True, inline="always")
def small_exp(value):  # type: ignore[no-untyped-def]
    """Return e to the power of a float32 <= 0, as `engine.attention.in_place.exponentiate`, for loops that become
    vector code."""
    x = max(value, np.float32(-87.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    return (p * r * r + r + np.float32(1)) * float_of_bits(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@kernel(fastmath=FASTMATH)
def gate(gates, ups, out):  # type: ignore[no-untyped-def]
    """Compute `silu(gates) * ups` for one row. NaN stays NaN."""
    one = np.float32(1)
    for i in range(len(gates)):
        x = gates[i]
        e = small_exp(-abs(x))
        out[i] = x * ((one if x >= 0 else e) / (one + e)) * ups[i]


@kernel(fastmath=FASTMATH)
def gate_by_gelu(gates, ups, out):  # type: ignore[no-untyped-def]
    """Compute `gelu(gates) * ups` for one row, in the form with a tanh: x (1 + tanh z) / 2 is x / (1 + e^-2z)."""
    one = np.float32(1)
    for i in range(len(gates)):
        x = gates[i]
        z = np.float32(1.5957691216) * (x + np.float32(0.044715) * x * x * x)  # 2 sqrt(2 / pi)
        e = small_exp(-abs(z))
        out[i] = x * ((one if z >= 0 else e) / (one + e)) * ups[i]


@kernel(fastmath=FASTMATH)
def turn(head, cosines, sines):  # type: ignore[no-untyped-def]
    """Turn one head by its rotary position, in place: the first half of the dimensions is paired with the second."""
    half = len(head) // 2
    for i in range(half):
        low, high = head[i], head[i + half]
        head[i] = low * cosines[i] - high * sines[i]
        head[i + half] = high * cosines[i + half] + low * sines[i + half]


@kernel(fastmath=FASTMATH)
def keep(row, address, scale, form):  # type: ignore[no-untyped-def]
    """Store one head of a key or a value in the pool, as it is or in 8 bits (int8 or e4m3) with one scale."""
    if form == FLOATS:
        out = floats(address, len(row))
        for i in range(len(row)):
            out[i] = row[i]
        return
    small = bytes_at(address, len(row))
    floats(scale, 1)[0] = shrink(row, small) if form == INT8 else shrink_to_e4m3(row, small)


@kernel(fastmath=FASTMATH)
def shrink(row, out):  # type: ignore[no-untyped-def]
    """Round `row` to int8 in [-127, 127]; returns what one unit is worth. A row with a NaN is worth NaN."""
    largest = np.float32(0)
    total = np.float32(0)
    for i in range(len(row)):
        largest = max(largest, abs(row[i]))
        total += row[i]
    unit = largest / np.float32(127)
    inverse = np.float32(1) / unit if unit > 0 else np.float32(0)
    for i in range(len(row)):
        out[i] = np.int8(np.int32(np.rint(row[i] * inverse)))
    return unit if total == total else total


@kernel(fastmath=FASTMATH)
def shrink_to_e4m3(row, out):  # type: ignore[no-untyped-def]
    """Round as `shrink` does, to floats of 8 bits: sign, 4 bits of exponent (bias 7), 3 of fraction; the largest
    becomes 448."""
    largest = np.float32(0)
    total = np.float32(0)
    for i in range(len(row)):
        largest = max(largest, abs(row[i]))
        total += row[i]
    unit = largest / np.float32(448)
    inverse = np.float32(1) / unit if unit > 0 else np.float32(0)
    for i in range(len(row)):
        value = row[i] * inverse
        bits = bits_of_float(value)
        size = bits & np.int32(0x7FFFFFFF)
        normal = ((size + np.int32(0x7FFFF) + ((size >> np.int32(20)) & np.int32(1))) >> np.int32(20)) - np.int32(960)
        tiny = np.int32(np.rint(abs(value) * np.float32(512)))  # below 2**-6 steps are 2**-9
        code = tiny if size < np.int32(121 << 23) else normal
        out[i] = np.int8(code | ((bits >> np.int32(24)) & np.int32(-128)))
    return unit if total == total else total


@kernel(fastmath=FASTMATH)
def widen(address, scale, width, form, out):  # type: ignore[no-untyped-def]
    """Undo `shrink`, or `shrink_to_e4m3`."""
    small, unit = bytes_at(address, width), floats(scale, 1)[0]
    if form == INT8:
        for i in range(width):
            out[i] = np.float32(small[i]) * unit
        return
    for i in range(width):
        code = np.int32(small[i])
        size = code & np.int32(127)
        normal = float_of_bits((size << np.int32(20)) + np.int32(120 << 23))
        value = normal if size >= np.int32(8) else np.float32(size) * np.float32(1 / 512)
        out[i] = (value if code >= np.int32(0) else -value) * unit
