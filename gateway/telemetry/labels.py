"""Label values with a bound: what callers, plug-ins or models name must not make a metric grow without end."""

from __future__ import annotations

from collections import defaultdict

OTHER = "other"


class Labels:
    """The first `limit` values of each label keep their names; all later ones are counted together as `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, set[str]] = defaultdict(set)

    def of(self, label: str, value: str) -> str:
        known = self._known[label]
        if value in known:
            return value
        if len(known) >= self._limit:
            return OTHER
        known.add(value)
        return value
