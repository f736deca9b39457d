"""Kernels for tests of how kernels are compiled; each is compiled by one test."""

from __future__ import annotations

from sluicegate.plugins.compiled.kernels import Kernel, kernel


def _squares(numbers):  # type: ignore[no-untyped-def]
    total = 0
    for number in numbers:
        total += number * number
    return total


def fresh() -> Kernel:
    """Return a kernel of which this process has no code yet; each of them has the same key."""
    made: Kernel = kernel("int64(int64[::1])", python=True)(_squares)
    return made


squares = kernel("int64(int64[::1])", python=True, name="squares")(_squares)
slow = kernel("int64(int64[::1])", python=True, name="slow")(_squares)
counted = kernel("int64(int64[::1])", python=True, name="counted")(_squares)
once = kernel("int64(int64[::1])", python=True, name="once")(_squares)


@kernel("int64(int64[::1])", python=True)
def cubes(numbers):  # type: ignore[no-untyped-def]
    total = 0
    for number in numbers:
        total += number * number * number
    return total


@kernel("int64(int64[::1])", python=True)
def halves(numbers):  # type: ignore[no-untyped-def]
    total = 0
    for number in numbers:
        total += number
    return total // 2


@kernel("int64(int64[::1])", python=True)
def thirds(numbers):  # type: ignore[no-untyped-def]
    total = 0
    for number in numbers:
        total += number
    return total // 3


@kernel("int64(int64[::1])", python=True)
def fifths(numbers):  # type: ignore[no-untyped-def]
    return len(numbers) // 5


@kernel("int64(int64[::1])", python=True)
def sevenths(numbers):  # type: ignore[no-untyped-def]
    return len(numbers) // 7


@kernel("int64(int64[::1])", python=True)
def broken(numbers):  # type: ignore[no-untyped-def]
    return int(numbers.no_such_method()) if len(numbers) > 100 else int(sum(numbers))
