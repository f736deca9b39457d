"""Reproducible randomness: the number a sequence draws at a position depends on its seed and the position alone."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """The finaliser of splitmix64: a bijection of 64-bit integers that spreads every bit over all others."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def seed_of_choice(seed: int, index: int) -> int:
    """The seed of the `index`-th choice of a request."""
    return mix(mix(seed & _MASK) ^ index)


def uniform(seed: int, position: int) -> float:
    """In [0, 1), 53 bits."""
    return (mix(mixed_seed(seed) ^ mix(position)) >> 11) / (1 << 53)


def mixed_seed(seed: int) -> int:
    """What all numbers of a sequence have in common, in 64 bits."""
    return mix(seed & _MASK)
