"""Find those of many sets of names that may hold a given name, without asking each."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.grammar.schema.strings import StringSet


class SetsByName:
    """Sets of names, each known by its place among them. Most of a negation's list one name each."""

    def __init__(self, sets: Iterable[StringSet]) -> None:
        self._listed: dict[str, list[int]] = {}
        self._general: list[int] = []
        for place, parts in enumerate(sets):
            if any(part.words is None for part in parts):
                self._general.append(place)
                continue
            for name in {name for part in parts for name in part.words or ()}:
                self._listed.setdefault(name, []).append(place)

    def about(self, name: str) -> list[int]:
        """Return the places, sorted, of those that list `name` or are not lists."""
        return sorted([*self._general, *self._listed.get(name, ())])
