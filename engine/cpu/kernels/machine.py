"""What compiled loops need and Python cannot say: vectors, memory by address, atomics, and sleeping on a semaphore.

Each function here is a numba intrinsic: a few LLVM instructions put in place of the call. Addresses are int64.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I64, I32, I8, F32 = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.FloatType()


@cache
def host_features() -> frozenset[str]:
    """Return the names of the instruction sets of this machine, as LLVM calls them."""
    return frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)


LANES = 16 if "avx512f" in host_features() else 8
"""float32 numbers per vector register."""
HAS_VNNI = "avx512vnni" in host_features() and LANES == 16
_LACKS_HALVES = platform.machine().lower() in ("x86_64", "amd64") and "f16c" not in host_features()
CAN_SLEEP = sys.platform == "linux"
"""Whether threads can wait on POSIX semaphores, outside the interpreter."""


def at(builder: Any, address: Any, kind: Any) -> Any:
    """Return `address` as a pointer to `kind`."""
    return builder.inttoptr(address, kind.as_pointer())


def load(builder: Any, address: Any, kind: Any, align: int = 4) -> Any:
    value = builder.load(at(builder, address, kind))
    value.align = align
    return value


def store(builder: Any, value: Any, address: Any, align: int = 4) -> None:
    builder.store(value, at(builder, address, value.type)).align = align


def half_as_float(builder: Any, values: Any) -> Any:
    """Widen float16 numbers that are finite, one or a vector of them. Where the machine has no instruction for it their
    bits are shifted into place, and the exponent is made right by a product with 2^112."""
    if not _LACKS_HALVES:
        kind = F32 if isinstance(values.type, ir.HalfType) else ir.VectorType(F32, values.type.count)
        return builder.fpext(values, kind)
    count = getattr(values.type, "count", 0)
    bits, wide, reals = (ir.VectorType(one, count) if count else one for one in (ir.IntType(16), I32, F32))

    def same(value: int | float, kind: Any) -> Any:
        return ir.Constant(kind, [value] * count if count else value)

    whole = builder.zext(builder.bitcast(values, bits), wide)
    sign = builder.shl(builder.and_(whole, same(0x8000, wide)), same(16, wide))
    rest = builder.shl(builder.and_(whole, same(0x7FFF, wide)), same(13, wide))
    found = builder.fmul(builder.bitcast(rest, reals), same(2.0**112, reals))
    return builder.bitcast(builder.or_(builder.bitcast(found, wide), sign), reals)


def foreign(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Declare a function of LLVM or of the C library."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def number(value: int) -> Any:
    return ir.Constant(I64, value)


@intrinsic
def pointer_to(typing_context: Any, address: Any) -> Any:
    """Return `address` as what `numba.carray` takes."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], I8.as_pointer())

    return types.voidptr(types.int64), code


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 whose 32 bits are those of the int32 `bits`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F32)

    return types.float32(types.int32), code


@intrinsic
def bits_of_float(typing_context: Any, value: Any) -> Any:
    """Return the bits of a float32 as int32: the inverse of `float_of_bits`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], I32)

    return types.int32(types.float32), code


@intrinsic
def read(typing_context: Any, address: Any) -> Any:
    """Read the int64 at `address`; nothing written before it by the thread that wrote it is missed."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(at(builder, arguments[0], I64), "seq_cst", 8)

    return types.int64(types.int64), code


@intrinsic
def write(typing_context: Any, address: Any, value: Any) -> Any:
    """Set the int64 at `address`, after everything this thread wrote before."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], at(builder, arguments[0], I64), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def add_to(typing_context: Any, address: Any, value: Any) -> Any:
    """Add to the int64 at `address`; returns what was there."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", at(builder, arguments[0], I64), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def swap_if(typing_context: Any, address: Any, expected: Any, value: Any) -> Any:
    """Set the int64 at `address` to `value` if it is `expected`; returns what was there."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, expected, value = arguments
        found = builder.cmpxchg(at(builder, address, I64), expected, value, "seq_cst", "seq_cst")
        return builder.extract_value(found, 0)

    return types.int64(types.int64, types.int64, types.int64), code


def _call_of(count: int) -> Any:
    """Make `call(address, a, b, ...)`: it calls the compiled function at an address with so many int64, and returns
    nothing; see `sluicegate.plugins.compiled.kernels.Kernel.address`."""

    @intrinsic
    def call(typing_context: Any, address: Any, arguments: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            place, packed = given
            kind = ir.FunctionType(I8.as_pointer(), [I64] * count)
            function = builder.inttoptr(place, kind.as_pointer())
            builder.call(function, [builder.extract_value(packed, index) for index in range(count)])
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.int64, count)), code

    return call


call_operation = _call_of(6)
"""Calls an operation of the forward pass. Arguments: its row, the reals, the numbers of the step, thread, piece,
pieces."""
call_product = _call_of(13)
"""Calls a product of `sluicegate.engine.cpu.kernels.products_by_form`."""
call_lift = _call_of(10)
"""Calls `sluicegate.engine.cpu.kernels.lowrank.lift`."""


def _system_call(name: str) -> Any:
    """Make an intrinsic of `name(address)` of the C library; its result is dropped."""

    @intrinsic
    def call(typing_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = foreign(builder, name, I32, [I8.as_pointer()])
            return builder.call(function, [builder.inttoptr(arguments[0], I8.as_pointer())])

        return types.int32(types.int64), code

    return call


sleep_on = _system_call("sem_wait")
"""Waits until the POSIX semaphore at an address can be taken."""
wake_on = _system_call("sem_post")
give_way = _system_call("sched_yield")
"""Lets other threads run. The argument is ignored."""
