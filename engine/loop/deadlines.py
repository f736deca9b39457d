"""Find requests whose deadline has passed."""

from __future__ import annotations

from math import inf

from sluicegate.engine.sequences.delivery import LiveGeneration


class Deadlines:
    """Deadlines of generations, on the monotonic clock. `due` is cheap until the earliest one passes."""

    def __init__(self) -> None:
        self._at: dict[LiveGeneration, float] = {}
        self._next = inf

    def add(self, generation: LiveGeneration, at: float) -> None:
        self._at[generation] = at
        self._next = min(self._next, at)

    def remove(self, generation: LiveGeneration) -> None:
        self._at.pop(generation, None)

    def due(self, now: float) -> list[LiveGeneration]:
        """Return the generations whose deadline has passed, and remove them."""
        if now < self._next:
            return []
        found = [generation for generation, at in self._at.items() if at <= now]
        for generation in found:
            del self._at[generation]
        self._next = min(self._at.values(), default=inf)
        return found
