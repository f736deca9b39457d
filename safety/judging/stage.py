"""Register the stages of slot `moderate` that judge answers."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike
from sluicegate.plugins.settings import add_stage, later
from sluicegate.safety.judging.settings import (
    AnswerGuardSettings,
    AnswerHarmSettings,
    AnswerProbeSettings,
    CascadeSettings,
    GuardServiceSettings,
    TokenGuardSettings,
)

CONSTRUCTION = "sluicegate.safety.judging.construction"


def register(registry: RegistryLike) -> None:
    add_stage(registry, "moderate", "harm", AnswerHarmSettings, later(CONSTRUCTION, "harm"))
    add_stage(registry, "moderate", "guard", AnswerGuardSettings, later(CONSTRUCTION, "guard"))
    add_stage(registry, "moderate", "token-guard", TokenGuardSettings, later(CONSTRUCTION, "token_guard"))
    add_stage(registry, "moderate", "guard-service", GuardServiceSettings, later(CONSTRUCTION, "guard_service"))
    add_stage(registry, "moderate", "probe", AnswerProbeSettings, later(CONSTRUCTION, "probe"))
    add_stage(registry, "moderate", "cascade", CascadeSettings, later(CONSTRUCTION, "cascade"))
