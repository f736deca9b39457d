"""A fair queue: tenants take turns, so that a tenant's item waits behind its own and one item of each other tenant.

Used by pools of threads, which start the item that `next` returns and report its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Line(Generic[T]):
    """One tenant's waiting items, and the number of its running ones."""

    waiting: deque[T] = field(default_factory=deque)
    running: int = 0


class FairQueue(Generic[T]):
    """Items by tenant. At most `places` run at a time, at most `share` of one tenant. Used from one event loop."""

    def __init__(self, places: int, share: int) -> None:
        self.running = 0
        """Items that have a place."""
        self._places = places
        self._share = share
        self._lines: dict[str, _Line[T]] = {}
        self._turns: deque[str] = deque()
        """Tenants with waiting items, each once; the first is next."""

    def __len__(self) -> int:
        """Count the pieces that wait."""
        return sum(len(line.waiting) for line in self._lines.values())

    def __iter__(self) -> Iterator[T]:
        """Yield the pieces that wait, by tenant."""
        for line in self._lines.values():
            yield from line.waiting

    def waiting(self, tenant: str) -> int:
        line = self._lines.get(tenant)
        return 0 if line is None else len(line.waiting)

    def add(self, tenant: str, piece: T) -> None:
        line = self._lines.setdefault(tenant, _Line())
        if not line.waiting:
            self._turns.append(tenant)
        line.waiting.append(piece)

    def next(self) -> tuple[str, T] | None:
        """Take the next item that may run and give it a place; skip tenants that already run `share` items. None where
        no item may run."""
        for _ in range(len(self._turns)):
            if self.running >= self._places:
                return None
            tenant = self._turns.popleft()
            line = self._lines[tenant]
            piece = line.waiting.popleft() if line.running < self._share else None
            if line.waiting:
                self._turns.append(tenant)
            if piece is not None:
                line.running += 1
                self.running += 1
                return tenant, piece
        return None

    def ended(self, tenant: str) -> None:
        """Report the end of an item that `next` returned."""
        self._lines[tenant].running -= 1
        self.running -= 1
        self._forget(tenant)

    def withdraw(self, tenant: str, piece: T) -> bool:
        """Remove a waiting item; return False where it does not wait."""
        line = self._lines.get(tenant)
        if line is None or piece not in line.waiting:
            return False
        line.waiting.remove(piece)
        if not line.waiting:
            self._turns.remove(tenant)
        self._forget(tenant)
        return True

    def _forget(self, tenant: str) -> None:
        line = self._lines[tenant]
        if not line.waiting and not line.running:
            del self._lines[tenant]
