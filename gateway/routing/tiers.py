"""Slot `route`, stage `tiers`: a public name stands for several models, and each request gets the one that suits it.

    rules, in order   the first one whose every condition holds decides
    classifier        else the tier whose examples the question is nearest to, if it is clearly nearer
    default           else this one

Not covered: whether a tier's model can answer the question. Rules and examples are the operator's guess at that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sluicegate.cache.semantic.embedder import HashedNgrams
from sluicegate.gateway.routing.by_name import ByName
from sluicegate.plugins import Caller, Request, ServedModel, read_settings, wrong_value

PATTERN_READS = 20_000
"""Most characters of the last message that a rule's pattern is matched against."""


@dataclass(frozen=True, slots=True)
class TierRule:
    """Conditions that are given must all hold."""

    to: str
    """The model that answers."""
    min_chars: int | None = None
    """Fewest characters of all messages together."""
    max_chars: int | None = None
    """Most characters of all messages together."""
    matches: str | None = None
    """A regular expression (RE2) found in the last message."""
    structured: bool | None = None
    """Whether the request has a schema or a grammar."""
    tools: bool | None = None
    """Whether it has tools that may be called."""
    metadata: Mapping[str, str] | None = None
    """Entries that its metadata must have."""


@dataclass(frozen=True, slots=True)
class TierSettings:
    default: str
    """The model for requests that no rule and no example decides."""
    names: tuple[str, ...] = ("auto",)
    """Public names that are routed here; all other names are left alone."""
    rules: tuple[TierRule, ...] = ()
    """The first rule whose conditions all hold decides."""
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Example questions by tier."""
    margin: float = 0.05
    """How much nearer (in cosine) the nearest tier must be than the next."""

    def __post_init__(self) -> None:
        if self.examples and (len(self.examples) < 2 or not all(self.examples.values())):
            raise ValueError("examples need at least two tiers, each with at least one question")


def tiers(table: Mapping[str, Any]) -> Tiers:
    """Make the stage of its table. Raises `ConfigurationError`."""
    return Tiers(read_settings(TierSettings, table, "stages.route.tiers"))


class Tiers:
    def __init__(self, settings: TierSettings) -> None:
        """Read the rules and examples. Raises `ConfigurationError` for a rule whose pattern is invalid."""
        self._names = frozenset(settings.names)
        self._default = settings.default
        self._rules = [(rule, _compiled(rule)) for rule in settings.rules]
        self._examples = Examples(settings.examples, settings.margin) if settings.examples else None
        self._by_name = ByName()

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        """Return the model of the request's tier. Raises `NotFound` where it is not served to this key."""
        if request.model not in self._names:
            return await self._by_name.route(request, caller, models)
        if caller.models is not None and request.model in caller.models:
            caller = replace(caller, models=None)  # who may ask the name may have its tiers
        return self._by_name.check(self._tier(request), caller, models)

    def decides(self, name: str) -> bool:
        """Return whether `name` may come to stand for another model here."""
        return name in self._names

    def _tier(self, request: Request) -> str:
        for rule, pattern in self._rules:
            if _holds(rule, pattern, request):
                return rule.to
        near = self._examples.nearest(_question(request)) if self._examples is not None else None
        return near or self._default


class Examples:
    """A nearest-centroid classifier over hashed n-grams: one dot product for each tier."""

    def __init__(self, examples: Mapping[str, Sequence[str]], margin: float) -> None:
        self._embedder = HashedNgrams()
        self._tiers = list(examples)
        sums = [np.sum([self._embedder.vector(t) for t in texts], axis=0) for texts in examples.values()]
        self._centroids = np.stack([s / (np.linalg.norm(s) or 1.0) for s in sums])  # [tiers, dim] float32
        self._margin = margin

    def nearest(self, text: str) -> str | None:
        """Return the tier nearest to `text`; None where no tier is clearly nearer than the next."""
        scores = self._centroids @ self._embedder.vector(text[:PATTERN_READS])
        first, second = np.argsort(scores)[::-1][:2]
        return self._tiers[first] if scores[first] - scores[second] >= self._margin else None


def _holds(rule: TierRule, pattern: Any, request: Request) -> bool:
    chars = sum(len(message.content) for message in request.messages)
    if rule.min_chars is not None and chars < rule.min_chars:
        return False
    if rule.max_chars is not None and chars > rule.max_chars:
        return False
    if rule.structured is not None and rule.structured != (request.constraint is not None):
        return False
    if rule.tools is not None and rule.tools != bool(request.callable_tools):
        return False
    if rule.metadata and any(request.metadata.get(name) != value for name, value in rule.metadata.items()):
        return False
    return pattern is None or pattern.search(_question(request)[:PATTERN_READS]) is not None


def _question(request: Request) -> str:
    return request.messages[-1].content if request.messages else ""


def _compiled(rule: TierRule) -> Any:
    if rule.matches is None:
        return None
    import re2

    try:
        return re2.compile(rule.matches)
    except re2.error as error:
        raise wrong_value("stages.route.tiers", "matches", f"a regular expression ({error})", rule.matches) from error
