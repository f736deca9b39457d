"""Order the sequences that wait by start-time fair queueing.

A sequence's tag is its tenant's turn, plus an offset for its priority. A sequence costs its tenant a turn, and one more
for every full step that its prompt will take. Tenants take turns, an interactive request passes a batch request, and
since turns only grow, every waiting sequence is reached in the end.
"""

from __future__ import annotations

from heapq import heappop, heappush

from sluicegate.engine.sequences.sequence import Sequence, SequenceState

PRIORITY_TURNS = 16
"""Turns of its tenant by which one unit of priority delays a sequence."""
_MOST_TENANTS = 1024


class ServiceQueue:
    """The waiting sequences, by their keys in the service order. Whoever changes the state of one calls `push` or
    `left`."""

    __slots__ = ("_arrivals", "_heap", "_next", "_turn", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        """Number of waiting sequences."""
        self._heap: list[tuple[tuple[int, int], Sequence]] = []
        self._arrivals = 0
        self._turn = 0
        self._next: dict[str, int] = {}
        """Tenant -> turn number of its next sequence."""

    @property
    def behind(self) -> int:
        """Count the waiting sequences of batch priority, which every interactive request passes. From any thread."""
        waiting = SequenceState.WAITING
        return sum(each.priority > 0 and each.state is waiting for _, each in tuple(self._heap))

    def assign_key(self, sequence: Sequence, cost: int) -> None:
        """Assign a new sequence its key in the service order; it costs its tenant `cost` turns."""
        self._arrivals += 1
        turn = self._next_turn(sequence.tenant, cost)
        sequence.key = (turn + PRIORITY_TURNS * sequence.priority, self._arrivals)

    def push(self, sequence: Sequence) -> None:
        sequence.state = SequenceState.WAITING
        heappush(self._heap, (sequence.key, sequence))
        self.waiting += 1

    def left(self) -> None:
        """Count out a sequence that stopped waiting without being served; its entry is dropped later."""
        self.waiting -= 1
        if self.waiting == 0:
            self._heap.clear()

    def head(self) -> Sequence | None:
        """Return the next sequence to serve; None if none waits."""
        while self._heap and self._heap[0][1].state is not SequenceState.WAITING:
            heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def pop(self) -> None:
        """Remove the head: its turn has come."""
        _, sequence = heappop(self._heap)
        self.waiting -= 1
        self._turn = max(self._turn, sequence.key[0] - PRIORITY_TURNS * sequence.priority)

    def _next_turn(self, tenant: str, cost: int) -> int:
        if len(self._next) > _MOST_TENANTS:  # tenants whose turn has passed start afresh anyway
            self._next = {name: turn for name, turn in self._next.items() if turn > self._turn}
        turn = max(self._turn, self._next.get(tenant, 0))
        self._next[tenant] = turn + cost
        return turn
