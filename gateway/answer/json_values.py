"""JSON values: compare two, and list the leaves of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 12.50 is 12.5, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values without further values in them, each with its JSON pointer (RFC 6901)."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    parts = list(inner)
    if not parts:
        yield path, value
    for key, part in parts:
        yield from leaves(part, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
