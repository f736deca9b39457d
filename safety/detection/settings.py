"""Define the settings of detection and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sluicegate.plugins import Role
from sluicegate.plugins.contract.disk_paths import ReadFile
from sluicegate.plugins.settings import Count, Positive

GuardForm = Literal["llama_guard", "qwen3_guard", "shield_gemma", "granite_guardian", "chat_model"]
WEIGHTS = Path(__file__).parent / "weights.npz"
"""Of the detector that comes with the package."""


@dataclass(frozen=True, slots=True)
class ThresholdSettings:
    """Scores from 0 to 1 from which a person is asked, or the request refused; above 1 = never. `document_`: for
    untrusted text."""

    escalate: Positive | None = None
    """From which a person is asked about a message; none = the judge's own."""
    block: Positive | None = None
    """From which a message is refused; none = the judge's own."""
    document_escalate: Positive | None = None
    """From which a person is asked about untrusted text."""
    document_block: Positive | None = None
    """From which untrusted text is refused."""


@dataclass(frozen=True, slots=True)
class DetectionSettings(ThresholdSettings):
    """What every rail with a judge has."""

    beside_escalate: Positive | None = None
    """For tools and schemas."""
    beside_block: Positive | None = None
    """For tools and schemas."""
    models: Mapping[str, ThresholdSettings] = field(default_factory=dict)
    """Thresholds by name of the model asked for."""
    roles: tuple[Role, ...] | None = None
    """Whose messages are judged; none = all that are not the operator's."""
    document_names: tuple[str, ...] = ("document",)
    """Names of messages that hold documents, which are judged as untrusted text."""
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    """Tags around documents in messages."""
    shadow: bool = False
    """Decide and tell, but do nothing about it."""
    time_budget_s: Positive | None = None
    """For each 50,000 characters of a request; none = the judge's own."""
    max_chars: Count = 1_000_000
    """Of all texts of a request; a longer one is refused, or not judged with `fail_open`."""
    fail_open: bool = False
    """Let requests through that could not be judged."""


@dataclass(frozen=True, slots=True)
class DetectorSettings(DetectionSettings):
    """Of `injection` and `harm`."""

    weights: ReadFile = str(WEIGHTS)
    """A file of your own, from `training.detector.train`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierSettings(DetectionSettings):
    model: str
    """A folder or hub name."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Label to reported name."""
    window_tokens: Count = 512
    """That the model reads at a time; longer texts are cut into overlapping windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings(DetectionSettings):
    model: str
    """A folder or hub name."""
    form: GuardForm
    """Whose prompt and labels the guard was trained with."""
    policy: str = ""
    """Text in place of the guard's own."""
