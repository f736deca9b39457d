"""The door of detection: stages `injection`, `harm`, `classifier` and `guard` of slot `screen`, and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from sluicegate.plugins import RegistryLike, Role
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.settings import Count, Positive, add_stage
from sluicegate.safety.detection import classifier
from sluicegate.safety.detection.detector import Detector
from sluicegate.safety.detection.guards import GUARDS
from sluicegate.safety.detection.judges import ClassifierJudge, GuardJudge
from sluicegate.safety.detection.screen import DetectionScreen, HarmJudge, InjectionJudge, JudgePolicy, Thresholds

_MODEL_BUDGET_S = 10.0


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
    document_tags: tuple[str, ...] = JudgePolicy().document_tags
    shadow: bool = False
    time_budget_s: Positive | None = None
    max_chars: Count = JudgePolicy().max_chars
    fail_open: bool = False


@dataclass(frozen=True, slots=True)
class DetectorSettings(DetectionSettings):
    """Of `injection` and `harm`."""

    weights: str = str(classifier.WEIGHTS)
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
    form: Literal["llama_guard", "qwen3_guard", "shield_gemma"]
    policy: str = ""
    """Text in place of the guard's own."""


def register(registry: RegistryLike) -> None:
    add_stage(registry, "screen", "injection", DetectorSettings, _injection)
    add_stage(registry, "screen", "harm", DetectorSettings, _harm)
    add_stage(registry, "screen", "classifier", ClassifierSettings, _classifier)
    add_stage(registry, "screen", "guard", GuardSettings, _guard)


def _injection(own: DetectorSettings) -> DetectionScreen:
    judge = InjectionJudge(_detector(Path(own.weights)))
    return DetectionScreen("injection", judge, policy("screen.injection", own, ("user", "tool")))


def _harm(own: DetectorSettings) -> DetectionScreen:
    return DetectionScreen("harm", HarmJudge(_detector(Path(own.weights))), policy("screen.harm", own, ("user",)))


def _classifier(own: ClassifierSettings) -> DetectionScreen:
    judge = ClassifierJudge(own.model, own.categories, window=own.window_tokens)
    return DetectionScreen("classifier", judge, _patient("screen.classifier", own))


def _guard(own: GuardSettings) -> DetectionScreen:
    judge = GuardJudge(own.model, GUARDS[own.form], policy=own.policy)
    return DetectionScreen("guard", judge, _patient("screen.guard", own))


def _patient(stage: str, own: DetectionSettings) -> JudgePolicy:
    """A model may take longer than a dot product."""
    return policy(stage, own, ("user", "tool"), _MODEL_BUDGET_S)


@cache
def _detector(path: Path) -> Detector:
    """One copy in memory, whatever the number of stages; it never changes."""
    return Detector(classifier.load(path))


def policy(
    stage: str, own: DetectionSettings, roles: tuple[Role, ...], budget_s: float = JudgePolicy().time_budget_s
) -> JudgePolicy:
    """`roles` and `budget_s` hold where the settings leave them out. Raises `ConfigurationError`."""
    where = f"stages.{stage}"
    pair = _pair(where, own, (Thresholds(), Thresholds()))
    return JudgePolicy(
        user=pair[0],
        document=pair[1],
        beside=_thresholds(where, "beside_", own.beside_escalate, own.beside_block, JudgePolicy().beside),
        models={model: _pair(f"{where}.models.{model}", one, pair) for model, one in own.models.items()},
        roles=frozenset(roles if own.roles is None else own.roles),
        document_names=frozenset(own.document_names),
        document_tags=own.document_tags,
        shadow=own.shadow,
        time_budget_s=own.time_budget_s or budget_s,
        max_chars=own.max_chars,
        fail_open=own.fail_open,
    )


def _pair(where: str, own: ThresholdSettings, default: tuple[Thresholds, Thresholds]) -> tuple[Thresholds, Thresholds]:
    """For the user's words, and for documents."""
    return (
        _thresholds(where, "", own.escalate, own.block, default[0]),
        _thresholds(where, "document_", own.document_escalate, own.document_block, default[1]),
    )


def _thresholds(
    where: str, prefix: str, escalate: float | None, block: float | None, default: Thresholds
) -> Thresholds:
    found = Thresholds(escalate or default.escalate, block or default.block)
    if found.escalate > found.block:
        raise ConfigurationError(
            f"[{where}] {prefix}escalate = {found.escalate:g} is above {prefix}block = {found.block:g}; "
            "what is blocked cannot be escalated as well, so lower it"
        )
    return found
