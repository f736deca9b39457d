"""The door of detection: stages `injection`, `harm`, `classifier` and `guard` of slot `screen`."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike
from sluicegate.plugins.settings import add_stage, later
from sluicegate.safety.detection.settings import ClassifierSettings, DetectorSettings, GuardSettings

CONSTRUCTION = "sluicegate.safety.detection.construction"


def register(registry: RegistryLike) -> None:
    add_stage(registry, "screen", "injection", DetectorSettings, later(CONSTRUCTION, "injection"))
    add_stage(registry, "screen", "harm", DetectorSettings, later(CONSTRUCTION, "harm"))
    add_stage(registry, "screen", "classifier", ClassifierSettings, later(CONSTRUCTION, "classifier"))
    add_stage(registry, "screen", "guard", GuardSettings, later(CONSTRUCTION, "guard"))
