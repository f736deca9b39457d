"""Build the input rails of detection from their settings."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sluicegate.plugins import Role
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection import classifier as weights
from sluicegate.safety.detection.detector import Detector
from sluicegate.safety.detection.guards import guard_format
from sluicegate.safety.detection.judges import ClassifierJudge, GuardJudge
from sluicegate.safety.detection.screen import DetectionScreen, HarmJudge, InjectionJudge, JudgePolicy, Thresholds
from sluicegate.safety.detection.settings import (
    ClassifierSettings,
    DetectionSettings,
    DetectorSettings,
    GuardSettings,
    ThresholdSettings,
)

_MODEL_BUDGET_S = 10.0


def injection(own: DetectorSettings) -> DetectionScreen:
    judge = InjectionJudge(detector(Path(own.weights)))
    return DetectionScreen("injection", judge, policy("screen.injection", own, ("user", "tool")))


def harm(own: DetectorSettings) -> DetectionScreen:
    return DetectionScreen("harm", HarmJudge(detector(Path(own.weights))), policy("screen.harm", own, ("user",)))


def classifier(own: ClassifierSettings) -> DetectionScreen:
    judge = ClassifierJudge(own.model, own.categories, window=own.window_tokens)
    return DetectionScreen("classifier", judge, _patient("screen.classifier", own))


def guard(own: GuardSettings) -> DetectionScreen:
    judge = GuardJudge(own.model, guard_format(own.form), policy=own.policy)
    return DetectionScreen("guard", judge, _patient("screen.guard", own))


def _patient(stage: str, own: DetectionSettings) -> JudgePolicy:
    """Make the policy of a judge that runs a model, which may take longer than a dot product."""
    return policy(stage, own, ("user", "tool"), _MODEL_BUDGET_S)


def detector(path: Path) -> Detector:
    """Return the detector of a weights file, cached for all stages; a changed file is read again."""
    found = path.stat() if path.exists() else None
    return _detector(path, (found.st_mtime_ns, found.st_ino, found.st_size) if found is not None else ())


@lru_cache(4)
def _detector(path: Path, state: tuple[int, ...]) -> Detector:
    return Detector(weights.load(path))


def policy(
    stage: str, own: DetectionSettings, roles: tuple[Role, ...], budget_s: float = JudgePolicy().time_budget_s
) -> JudgePolicy:
    """Make the policy of a judge. `roles` and `budget_s` hold where the settings leave them out. Raises
    `ConfigurationError`."""
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
    """Return the thresholds for the user's words, and those for documents."""
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
