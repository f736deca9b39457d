"""What one request says of the version that it was drawn for: figures from 0, as it should be, to 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.settings import OnlineChecks
from sluicegate.gateway.telemetry.tries import INVALID
from sluicegate.plugins import Answer, ConfigurationError

LEFT = "cancelled"
"""The client disconnected: how long it waited still says something about a version that hangs."""


@dataclass(frozen=True, slots=True)
class Observation:
    """`version` was drawn with probability `share`, whichever model answered in the end. `seconds`: how long it took,
    which `latency` is made of. `counts`: the request itself ended, which counts towards a hold."""

    route: str
    version: str
    share: float
    values: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    counts: bool = True
    by: str = ""
    """For feedback, a short digest of the caller; several callers may share one."""

    def to_json(self) -> str:
        kept = asdict(self)
        if not self.by:
            del kept["by"]  # releases that do not know it still read the rest
        return json.dumps(kept)

    @classmethod
    def from_json(cls, text: str) -> Observation:
        """Read an observation from JSON. Raises `ValueError` or `TypeError`."""
        return cls(**json.loads(text))


class Pattern(Protocol):
    """As RE2's."""

    def search(self, text: str) -> object: ...


class AnswerChecks:
    """`OnlineChecks`, compiled. Raises `ConfigurationError` for a pattern that is none."""

    def __init__(self, settings: OnlineChecks, route: str) -> None:
        self._settings = settings
        self._needed = [_compiled(pattern, route) for pattern in settings.must_match]
        self._banned = [_compiled(pattern, route) for pattern in settings.must_not_match]

    def __bool__(self) -> bool:
        return self._settings != OnlineChecks()

    def failing(self, text: str) -> float:
        """Return the share of the checks that `text` fails, or 0 where there are none."""
        told = self._settings
        found = [pattern.search(text) is None for pattern in self._needed]
        found += [pattern.search(text) is not None for pattern in self._banned]
        found += [len(text) < told.min_chars] if told.min_chars else []
        found += [len(text) > told.max_chars] if told.max_chars else []
        return sum(found) / len(found) if found else 0.0


def observed(exchange: Exchange, checks: AnswerChecks) -> Observation | None:
    """Return what is observed of a request that has ended. Return None where no version was drawn for it, or an answer
    of the cache left.

    Any error after the draw counts, a caller's mistake too: callers make as many of them with either version, unless
    one of them takes less."""
    draw = exchange.draw
    if draw is None or exchange.cached is not None:
        return None
    if exchange.error == LEFT:
        return Observation(draw.route, draw.version, draw.share, seconds=exchange.duration_s)
    if exchange.error is not None or exchange.failed:
        return Observation(draw.route, draw.version, draw.share, {"failures": 1.0})
    values = {"failures": 0.0, "safety": float(_withheld(exchange))}
    if exchange.request.constraint is not None or exchange.request.callable_tools:
        values["validity"] = float(_broke(exchange) or any(map(_is_cut, exchange.answers)))
    whole = [answer for answer in exchange.answers if answer.refusal is None]
    if checks and whole:
        values["checks"] = sum(checks.failing(text_of(answer)) for answer in whole) / len(whole)
    return Observation(draw.route, draw.version, draw.share, values, exchange.duration_s)


def text_of(answer: Answer) -> str:
    """Return the text of an answer that a check or a judge reads."""
    calls = "".join(f"\n[calls {call.name} with {call.arguments}]" for call in answer.tool_calls)
    return answer.text + calls


def _withheld(exchange: Exchange) -> bool:
    """Return whether a rail changed, stopped or held back any of the answer."""
    return exchange.review is not None or (exchange.moderation is not None and exchange.moderation.altered)


def _broke(exchange: Exchange) -> bool:
    """Return whether an answer broke what was asked, here or at another server, even if a better one left in its
    place."""
    return exchange.broken or any(one.outcome == INVALID for one in exchange.tries)


def _is_cut(answer: Answer) -> bool:
    """Return whether an answer that has a form did not come to its end by itself."""
    return answer.finish_reason == "length" or bool(answer.closed)


def _compiled(pattern: str, route: str) -> Pattern:
    import re2

    try:
        found: Pattern = re2.compile(pattern)
    except re2.error as error:
        raise ConfigurationError(
            f"[routing.models.{route}.rollout.checks] {pattern!r} is no regular expression: {error}"
        ) from error
    return found
