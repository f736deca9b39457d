"""Find stop strings in a stream, releasing no text that is, or may become, part of one."""

from __future__ import annotations

from collections.abc import Sequence

from sluicegate.plugins import Sampling


class StopChecker:
    """Same as cutting the whole text before the stop string that is complete first, but incremental.

    "Complete first", not "begins first": only that does not depend on how the text was cut into tokens. Of two that end
    at the same place the longer one counts. With `included` the cut is behind the stop string.
    """

    def __init__(self, stops: Sequence[str], *, included: bool = False) -> None:
        self._included = included
        self._stops = tuple(stop for stop in stops if stop)
        self.is_idle = not self._stops
        """Whether there is nothing to look for, so that text passes through unchanged."""
        self._held = ""
        self.found = ""
        """The stop string that was complete first; '' = none yet."""

    def feed(self, text: str) -> tuple[str, bool]:
        """Return (text that can be released, whether a stop string was found); after True nothing more may be fed."""
        if not self._stops:
            return text, False
        self._held += text
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            end, begin = min(found)
            self.found = self._held[begin:end]
            return self._release(end if self._included else begin), True
        return self._release(len(self._held) - self._open_tail()), False

    def close(self) -> str:
        """Return the held text, at the end of the stream."""
        return self._release(len(self._held))

    def _release(self, count: int) -> str:
        ready, self._held = self._held[:count], self._held[count:]
        return ready

    def _open_tail(self) -> int:
        """Return the length of the longest suffix of the held text that is a prefix of some stop string."""
        return max(self._overlap(stop) for stop in self._stops)

    def _overlap(self, stop: str) -> int:
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(stop[:n])), 0)


def stop_checker(asked: Sampling) -> StopChecker:
    return StopChecker(asked.stop, included=asked.include_stop_str_in_output)
