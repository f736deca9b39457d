"""Notice retrievers and rerankers that fail again and again: requests that need documents fail with them."""

from __future__ import annotations

from collections.abc import Sequence

from sluicegate.plugins import Trouble

FAILURES = 3
"""In a row, after which a part is reported: one may be the question's."""


class RetrievalHealth:
    """Used on the event loop."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[int, str]] = {}

    def succeeded(self, name: str) -> None:
        """Note that a part did its work: what failed before is over."""
        self._failed.pop(name, None)

    def failed(self, name: str, cause: str) -> None:
        """Note that a part did not do its work. `cause`: in words for operators."""
        self._failed[name] = (self._failed.get(name, (0, ""))[0] + 1, cause)

    def troubles(self) -> Sequence[Trouble]:
        """Report parts that failed several times in a row, until they do their work again."""
        return [
            Trouble(f"{name} failed {count} times in a row ({cause}); what needs documents fails with it")
            for name, (count, cause) in self._failed.items()
            if count >= FAILURES
        ]
