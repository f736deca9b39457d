"""Serve decoder-only models of `transformers` from a paged KV cache with continuous batching: tokens in, tokens out."""

from sluicegate.engine.checkpoints.progress import LoadProgress
from sluicegate.engine.engine import Engine
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.model.loading import load_model
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.engine.text.detokenizer import Detokenizer
from sluicegate.engine.text.prompt import RESERVED_VARIABLES, render_chat, schema_sketch
from sluicegate.engine.text.stopping import StopChecker

__all__ = [
    "RESERVED_VARIABLES",
    "BlockPool",
    "Detokenizer",
    "Engine",
    "EngineSettings",
    "LiveGeneration",
    "LoadProgress",
    "LoadedModel",
    "ModelSettings",
    "StopChecker",
    "load_model",
    "render_chat",
    "schema_sketch",
]
