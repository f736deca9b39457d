"""Register the engine with the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.engine import Engine
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins import RegistryLike


def register(registry: RegistryLike) -> None:
    registry.add("generate", "engine", make_engine)


def make_engine(settings: Mapping[str, Any]) -> Engine:
    """Settings are the fields of `EngineSettings`; models are loaded when the stage is started."""
    return Engine(EngineSettings.of(settings))
