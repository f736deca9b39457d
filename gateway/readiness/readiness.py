"""Collect the troubles of all parts, and decide whether the gateway should still get requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluicegate.gateway.telemetry import semconv
from sluicegate.plugins import Trouble

log = logging.getLogger("sluicegate")
State = Literal["ready", "degraded", "not ready"]
Source = Callable[[], Sequence[Trouble]]


NOT_READY = "not ready: "


@dataclass(frozen=True, slots=True)
class Readiness:
    """`headline`: the state, and for `not ready` the reason. `troubles` by part."""

    state: State
    headline: str
    troubles: Mapping[str, Sequence[Trouble]]

    @property
    def serves(self) -> bool:
        """Return whether a balancer should send requests here."""
        return self.state != "not ready"

    def as_text(self) -> str:
        """Return the headline, and a line for each trouble that it does not name."""
        lines = [f"{part}: {one.reason}" for part, found in self.troubles.items() for one in found]
        others = [line for line in dict.fromkeys(lines) if self.headline != NOT_READY + line]
        return "\n".join((self.headline, *others))

    def as_json(self) -> dict[str, Any]:
        parts = [
            {"part": part, "reason": one.reason, "refuses": one.refuses}
            for part, found in self.troubles.items()
            for one in found
        ]
        return {"state": self.state, "reason": self.headline, "troubles": parts}


class TroubleList:
    """Troubles of all parts of a gateway that report any. Used on the event loop."""

    def __init__(self) -> None:
        self._fixed: dict[str, Source] = {}
        self._more: list[Callable[[], Iterable[tuple[str, Source]]]] = []

    def watch(self, part: str, source: Source) -> None:
        """Include the troubles that `source` reports for `part`."""
        self._fixed[part] = source

    def watch_all(self, sources: Callable[[], Iterable[tuple[str, Source]]]) -> None:
        """Include parts that come and go: `sources` yields the current (part, source) pairs."""
        self._more.append(sources)

    def levels(self) -> dict[str, Sequence[Trouble]]:
        """Return the troubles of every part; none for those without trouble."""
        found = {**self._fixed, **{part: source for more in self._more for part, source in more()}}
        return {part: _safely(part, source) for part, source in found.items()}

    def assess(self, *, stopping: str, starting: str) -> Readiness:
        """Return the readiness. `stopping`, `starting`: why no request should come, whatever the parts report; empty =
        none."""
        troubles = {part: found for part, found in self.levels().items() if found}
        refusing = [(part, one) for part, found in troubles.items() for one in found if one.refuses]
        if stopping or starting:
            return Readiness("not ready", stopping or starting, troubles)
        if refusing:
            part, first = refusing[0]
            return Readiness("not ready", f"{NOT_READY}{part}: {first.reason}", troubles)
        state: State = "degraded" if troubles else "ready"
        return Readiness(state, state, troubles)


class TroubleMetrics(Collector):
    """`sluicegate_ready`, and `sluicegate_trouble` of every part: 0 well, 1 degraded, 2 refuses requests."""

    def __init__(self, troubles: TroubleList, readiness: Callable[[], Readiness]) -> None:
        self._troubles = troubles
        self._readiness = readiness

    def collect(self) -> Iterable[Metric]:
        ready = GaugeMetricFamily(
            semconv.METRIC_READY, "1 while /readyz answers 200.", value=float(self._readiness().serves)
        )
        levels = GaugeMetricFamily(
            semconv.METRIC_TROUBLE, "0 well, 1 does not work, 2 keeps requests from being served.", labels=("part",)
        )
        for part, troubles in self._troubles.levels().items():
            levels.add_metric((part,), float(max((1 + one.refuses for one in troubles), default=0)))
        return ready, levels


def _safely(part: str, source: Source) -> Sequence[Trouble]:
    """Return the troubles of a part. One that cannot report its state is a trouble itself, and hides no other's."""
    try:
        found = tuple(source())
        if not all(isinstance(one, Trouble) for one in found):
            raise TypeError(f"expected troubles, found {found!r}")
        return found
    except Exception:
        log.exception("part %s cannot say what does not work", part)
        return (Trouble("it cannot say how it is; the log says why"),)
