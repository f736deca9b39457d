"""Define the settings of judges of answers and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sluicegate.plugins import JudgedChannel
from sluicegate.plugins.addresses import check_address, without_login
from sluicegate.plugins.contract.disk_paths import ReadFile
from sluicegate.plugins.settings import Count, Positive
from sluicegate.safety.detection.settings import WEIGHTS, GuardForm

ServiceForm = Literal["moderations", GuardForm]
NEVER = 2.0
"""A score limit that no score reaches."""


@dataclass(frozen=True, slots=True)
class CategoryLimits:
    """Limits of one category, in place of the rail's."""

    escalate: Positive | None = None
    """Score from which a person is asked; none = the rail's limit."""
    block: Positive | None = None
    """Score from which the answer is stopped; none = the rail's limit."""


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """Settings of every judge of answers."""

    escalate: Positive = NEVER
    """Score from which a person is asked; above 1 = never."""
    block: Positive = 0.9
    """Score from which the answer is stopped."""
    categories: Mapping[str, CategoryLimits] = field(default_factory=dict)
    """Other limits by category."""
    channels: tuple[JudgedChannel, ...] = ("content", "reasoning", "tool_arguments")
    """Parts of an answer that are judged."""
    time_budget_s: Positive = 10.0
    """For one judgement."""

    def __post_init__(self) -> None:
        if "tool_name" in self.channels:
            raise ValueError("channels: names of tools are not judged; leave 'tool_name' to rails that match")


@dataclass(frozen=True, slots=True)
class JudgingSettings(ScoringSettings):
    """Settings of judges of sentences."""

    unit_chars: Count = 120
    """A unit ends with the first sentence after so many characters."""
    longest_unit: Count = 500
    """Maximum characters of a unit, and so of the text that is held."""

    def __post_init__(self) -> None:
        ScoringSettings.__post_init__(self)
        if self.unit_chars >= self.longest_unit:
            raise ValueError(
                f"unit_chars = {self.unit_chars} must be below longest_unit = {self.longest_unit}; a unit is held whole"
            )


@dataclass(frozen=True, slots=True)
class AnswerHarmSettings(JudgingSettings):
    """Settings of `harm` in `moderate`."""

    block: Positive = 0.95
    unit_chars: Count = 150
    longest_unit: Count = 600
    time_budget_s: Positive = 1.0
    window_chars: int = 1_200
    """Characters before a unit that are read with it."""
    weights: ReadFile = str(WEIGHTS)
    """A file of your own, from `training.detector.train`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGuardSettings(JudgingSettings):
    """Settings of `guard` in `moderate`: a guard model served by this gateway."""

    model: str
    """The name of a served model."""
    form: GuardForm
    """Whose prompt and labels the guard was trained with."""
    block: Positive = 0.5
    unit_chars: Count = 200
    longest_unit: Count = 800
    policy: str = ""
    """Text in place of the guard's own."""
    context_chars: Count = 8_000
    """Of the messages that led to the answer, the newest so many characters."""
    max_new_tokens: Count = 48
    """Of one judgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGuardSettings(ScoringSettings):
    """Settings of `token-guard`: a served guard with heads on tokens."""

    model: str
    """The name of a served guard."""
    in_a_row: Count = 1
    """Tokens one after another that must reach a limit; until then they are held."""
    judge_question: bool = True
    """The guard's heads for questions judge the conversation before the answer leaves, as category `question/...`."""
    context_chars: Count = 8_000
    """Of the messages that led to the answer, the newest so many characters."""


@dataclass(frozen=True, slots=True)
class AnswerProbeSettings(JudgingSettings):
    """Settings of `probe`: probes on the states of the answering model, listed under `probes` of its entry in
    `models`."""

    block: Positive = 0.9
    unit_chars: Count = 120
    longest_unit: Count = 600
    time_budget_s: Positive = 1.0
    labels: tuple[str, ...] = ()
    """Of the probes that count; none named = all that the model has."""
    token_block: Positive = 0.99
    """For a token: the mean of the last `token_window`. Above 1 = only sentences stop an answer."""
    token_window: Count = 16
    """Tokens whose scores are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardServiceSettings(JudgingSettings):
    """Settings of `guard-service`: a guard at a remote address."""

    url: str
    """Up to `/v1`, where `chat/completions` or `moderations` follows."""
    form: ServiceForm
    """`moderations`: that API; else whose prompt and labels the guard was trained with."""
    model: str = ""
    """Its name at that address."""
    key_variable: str = ""
    """Name of the environment variable with the key; empty = none is sent."""
    policy: str = ""
    """With `chat_model`: text in place of the form's own."""
    block: Positive = 0.5
    unit_chars: Count = 200
    longest_unit: Count = 800
    time_budget_s: Positive = 5.0
    context_chars: Count = 8_000
    """Of the messages that led to the answer, the newest so many characters."""
    window_chars: Count = 2_000
    """With `moderations`: characters before a unit that are scored with it."""
    max_new_tokens: Count = 48
    """Of one judgement."""
    max_connections: Count = 100
    """To that address."""

    def __post_init__(self) -> None:
        JudgingSettings.__post_init__(self)
        try:
            check_address("url", self.url)
        except ValueError as error:
            raise ValueError(f"url must be like https://guard.example.com/v1; {error}") from error
        if any(mark in self.url for mark in "@?#"):
            shown = without_login(self.url)
            raise ValueError(f"url must be like https://guard.example.com/v1, without a password, found {shown!r}")
        if self.form != "moderations" and not self.model:
            raise ValueError("model names the guard at that address; only form = 'moderations' can do without")
        if self.policy and self.form != "chat_model":
            raise ValueError(f"policy is what form = 'chat_model' is told; a {self.form} at an address has its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeSettings(JudgingSettings):
    """Settings of `cascade`: a cheap judge, and a guard asked on its alarm. Limits apply to the guard's scores."""

    first: Literal["probe", "harm"] = "probe"
    """The cheap judge."""
    rings: Positive
    """The score of the first judge from which the guard is asked."""
    guard: AnswerGuardSettings | None = None
    """A guard that this gateway serves, or"""
    service: GuardServiceSettings | None = None
    """one behind an address."""
    labels: tuple[str, ...] = ()
    """Of the probes that count, where `first` is `probe`; none named = all that the model has."""
    block: Positive = 0.5
    unit_chars: Count = 200
    longest_unit: Count = 800

    def __post_init__(self) -> None:
        JudgingSettings.__post_init__(self)
        if (self.guard is None) == (self.service is None):
            raise ValueError("a cascade asks one guard: give [guard] or [service], with the settings of that stage")
        if self.rings > 1.0:
            raise ValueError(f"rings = {self.rings:g}: no score is above 1, so the guard would never be asked")
