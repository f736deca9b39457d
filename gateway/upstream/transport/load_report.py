"""Read how busy a server says it is from its Prometheus page.

Not covered: other forms than Prometheus text. A number that is missing, negative, infinite or none is not known; what
is not known counts as nothing beside our own requests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate.gateway.upstream.dialects import MetricNames

MOST_BYTES = 4 * 1024 * 1024
"""Of a page; vLLM's with many adapters has some hundred kB."""
MOST_REQUESTS = 1e6
"""What is above is no number of requests."""
_LINE = re.compile(rb"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^\n]*\})?[ \t]+([^ \t\r\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """None: not known. `usage`: the fullest KV cache, from 0 to 1."""

    running: float | None = None
    waiting: float | None = None
    usage: float | None = None

    @property
    def requests(self) -> float | None:
        if self.running is None and self.waiting is None:
            return None
        return (self.running or 0.0) + (self.waiting or 0.0)


def read_report(page: bytes, names: MetricNames) -> LoadReport:
    """Add up requests over all label sets (engines, adapters); of usage, take the most."""
    wanted = {name.encode() for name in (*names.running, *names.waiting, *names.usage)}
    found: dict[str, list[float]] = {}
    for name, value in _LINE.findall(page[:MOST_BYTES]):
        if name in wanted and (number := _number(value)) is not None:
            found.setdefault(name.decode(), []).append(number)
    running = [sum(numbers) for numbers in _first(found, names.running)]
    waiting = [sum(numbers) for numbers in _first(found, names.waiting)]
    usage = [max(numbers) for numbers in _first(found, names.usage)]
    return LoadReport(_count(running), _count(waiting), min(1.0, usage[0]) if usage else None)


def _first(found: dict[str, list[float]], names: Sequence[str]) -> Iterator[list[float]]:
    """Yield the numbers of the first of `names` that is there, or nothing."""
    yield from ([found[name] for name in names if name in found][:1])


def _count(found: list[float]) -> float | None:
    return found[0] if found and found[0] <= MOST_REQUESTS else None


def _number(text: bytes) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
