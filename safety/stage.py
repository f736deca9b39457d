"""Register this package's stages of the slots `screen` and `moderate`."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike
from sluicegate.plugins.settings import add_stage, later
from sluicegate.safety.detection import stage as detection
from sluicegate.safety.judging import stage as judging
from sluicegate.safety.settings import ProvenanceSettings, PseudonymSettings

CONSTRUCTION = "sluicegate.safety.construction"
RULES = ("blocklist", "patterns", "pii", "secrets")


def register(registry: RegistryLike) -> None:
    for name in RULES:
        registry.add("moderate", name, later(CONSTRUCTION, "moderate", name))
        registry.add("screen", name, later(CONSTRUCTION, "screen", name))
    add_stage(registry, "screen", "pseudonyms", PseudonymSettings, later(CONSTRUCTION, "pseudonyms"))
    add_stage(registry, "moderate", "provenance", ProvenanceSettings, later(CONSTRUCTION, "provenance"))
    detection.register(registry)
    judging.register(registry)
