"""Label values with a bound: what callers, plug-ins or models name must not make a metric grow without end."""

from __future__ import annotations

OTHER = "other"


class Labels(dict[str, str]):
    """The values of one label: the first `limit` keep their names, all later ones are counted together as `other`. A
    dictionary, since a request asks it some twenty times: a value that is known costs no call."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, value: str) -> str:
        if len(self) >= self._limit:
            return OTHER
        self[value] = value
        return value
