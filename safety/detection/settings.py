"""What an operator may set of detection, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sluicegate.plugins import Role
from sluicegate.plugins.settings import Count, Positive

GuardForm = Literal["llama_guard", "qwen3_guard", "shield_gemma", "granite_guardian"]
WEIGHTS = Path(__file__).parent / "weights.npz"
"""Of the detector that comes with the package."""


@dataclass(frozen=True, slots=True)
class ThresholdSettings:
    """Scores from 0 to 1 from which a person is asked, or the request refused; above 1 = never. `document_`: for
    untrusted text."""

    escalate: Positive | None = None
    block: Positive | None = None
    document_escalate: Positive | None = None
    document_block: Positive | None = None


@dataclass(frozen=True, slots=True)
class DetectionSettings(ThresholdSettings):
    """What every rail with a judge has."""

    beside_escalate: Positive | None = None
    """For tools and schemas."""
    beside_block: Positive | None = None
    models: Mapping[str, ThresholdSettings] = field(default_factory=dict)
    """Thresholds by name of the model asked for."""
    roles: tuple[Role, ...] | None = None
    document_names: tuple[str, ...] = ("document",)
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    shadow: bool = False
    time_budget_s: Positive | None = None
    max_chars: Count = 1_000_000
    fail_open: bool = False


@dataclass(frozen=True, slots=True)
class DetectorSettings(DetectionSettings):
    """Of `injection` and `harm`."""

    weights: str = str(WEIGHTS)
    """A file of your own, from `training.detector.train`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierSettings(DetectionSettings):
    model: str
    """A folder or hub name."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Label to reported name."""
    window_tokens: Count = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings(DetectionSettings):
    model: str
    form: GuardForm
    policy: str = ""
    """Text in place of the guard's own."""
