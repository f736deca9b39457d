"""What an operator may set of judges of answers, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.plugins import Channel
from sluicegate.plugins.settings import Count, Positive
from sluicegate.safety.detection.settings import WEIGHTS

NEVER = 2.0
"""As a limit of scores."""


@dataclass(frozen=True, slots=True)
class CategoryLimits:
    """Limits of one category, in place of the rail's."""

    escalate: Positive | None = None
    block: Positive | None = None


@dataclass(frozen=True, slots=True)
class JudgingSettings:
    """What every judge of answers has."""

    escalate: Positive = NEVER
    block: Positive = 0.9
    categories: Mapping[str, CategoryLimits] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ("content", "reasoning", "tool_arguments")
    unit_chars: Count = 120
    """A unit ends with the first sentence that makes it so long."""
    longest_unit: Count = 500
    time_budget_s: Positive = 10.0
    """For one judgement."""

    def __post_init__(self) -> None:
        if self.unit_chars >= self.longest_unit:
            raise ValueError(
                f"unit_chars = {self.unit_chars} must be below longest_unit = {self.longest_unit}; a unit is held whole"
            )
        if "tool_name" in self.channels:
            raise ValueError("channels: names of tools are not judged; leave 'tool_name' to rails that match")


@dataclass(frozen=True, slots=True)
class AnswerHarmSettings(JudgingSettings):
    """Of `harm` in `moderate`."""

    block: Positive = 0.95
    time_budget_s: Positive = 1.0
    window_chars: int = 1_200
    """Characters before a unit that are read with it."""
    weights: str = str(WEIGHTS)
