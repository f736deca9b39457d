"""Generate reproducible random numbers: each depends on the sequence's seed and the token's position alone."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """Mix 64 bits by the finaliser of splitmix64, a bijection."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def seed_of_choice(seed: int, index: int) -> int:
    """Return the seed of the `index`-th choice of a request."""
    return mix(mix(seed & _MASK) ^ index)


def uniform(seed: int, position: int) -> float:
    """Return a number in [0, 1) with 53 random bits."""
    return (mix(mixed_seed(seed) ^ mix(position)) >> 11) / (1 << 53)


def mixed_seed(seed: int) -> int:
    """Return the mixed seed from which all numbers of a sequence are computed."""
    return mix(seed & _MASK)
