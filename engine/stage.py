"""Register the engine with the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.checkpoints.folders import check_encoder_folder, check_folders
from sluicegate.engine.encoders.settings import EncoderSettings
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins import Generator, RegistryLike


def register(registry: RegistryLike) -> None:
    registry.add("generate", "engine", make_engine)
    registry.add("generate", "encoders", make_encoders)


def make_engine(settings: Mapping[str, Any]) -> Generator:
    """Make the engine. Settings are the fields of `EngineSettings`; models are loaded when the stage is started."""
    own = EngineSettings.of(settings)
    check_folders(own.models)
    from sluicegate.engine.engine import Engine  # torch takes two seconds to import: only those who serve need it

    return Engine(own)


def make_encoders(settings: Mapping[str, Any]) -> Generator:
    """Make the encoders. Settings are the fields of `EncoderSettings`; models are loaded when the stage is started."""
    own = EncoderSettings.of(settings)
    for model in own.models:
        check_encoder_folder(model.path)
    from sluicegate.engine.encoders.encoders import Encoders

    return Encoders(own)
